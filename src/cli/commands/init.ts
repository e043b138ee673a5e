import { basename, resolve } from "node:path";
import { nearest } from "../../option-names.ts";
import { type Command, exitCodes, type Invocation, UsageError } from "../command.ts";
import { describedExamples, exampleNames, isFree, makeApp, sandboxCommandOf } from "../example-app.ts";
import { linesOf } from "../lines.ts";

export const init: Command = {
  takes: "[example] [folder]",
  arguments: [0, 2],
  description: `Copies an example into an empty folder, with a package.json, an .env.example for the sandbox, and a test. The
default example is ${exampleNames[0]}: a server with SQLite. The default folder is the current one. Without arguments, the
command asks for both, if stdin is a terminal.`,
  examples: ["stayhook init", "stayhook init express my-app", "stayhook init --list"],
  options: { list: { help: "list the examples" } },
  run: async (invocation) => {
    const { out, flag } = invocation;
    if (flag("list")) {
      const examples = describedExamples();
      out.result({ examples }, () =>
        out.isTerminal
          ? out.twoColumns(examples.map(({ name, about }) => [name, about])).join("\n")
          : examples.map(({ name, about }) => `${name}\t${about}`).join("\n"),
      );
      return exitCodes.done;
    }
    const { example, folder } = await chosen(invocation);
    const files = await makeApp(example, folder);
    out.result({ example, folder: resolve(folder), files }, () =>
      [
        `Made ${example} in ${resolve(folder)}. Next:`,
        "",
        ...nextCommands(example, folder).map((command) => `  ${command}`),
      ].join("\n"),
    );
    return exitCodes.done;
  },
};

function nextCommands(example: string, folder: string): string[] {
  const enter = resolve(folder) === resolve(".") ? "" : `cd ${shellWord(folder)} && `;
  return [`${enter}npm install`, "npm start", `${sandboxCommandOf(example)}   # in a second terminal`];
}

const shellWord = (text: string): string =>
  /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/** Reads the arguments. If there are none and stdin is a terminal, asks. @throws UsageError */
async function chosen(
  invocation: Invocation,
): Promise<{ readonly example: string; readonly folder: string }> {
  const { io, positionals } = invocation;
  const [example = exampleNames[0], folder = "."] = positionals;
  if (positionals.length === 0 && io.stdin.isTTY === true) return asked(invocation);
  return { example: checkedExample(example), folder };
}

async function asked({
  io,
  out,
}: Invocation): Promise<{ readonly example: string; readonly folder: string }> {
  const examples = describedExamples().map(({ name, about }) => [name, about] as const);
  out.note(["Examples:", ...out.twoColumns(examples)].join("\n"));
  const [name] = exampleNames;
  const place = isFree(".") ? "." : "my-app";
  const questions = [`Example [${name}]: `, `Folder [${place}]: `];
  const answers: string[] = [];
  io.stderr.write(questions[0]!);
  for await (const line of linesOf(io)) {
    answers.push(line.trim());
    const next = questions[answers.length];
    if (next === undefined) break;
    io.stderr.write(next);
  }
  io.signal.throwIfAborted();
  if (answers.length < questions.length)
    throw new UsageError("stdin ended before the answers. Nothing was made.");
  return { example: checkedExample(answers[0] || name), folder: answers[1] || place };
}

function checkedExample(given: string): string {
  // The name of a file is as good as the name of the example.
  const name = basename(given, ".ts");
  if ((exampleNames as readonly string[]).includes(name)) return name;
  const near = nearest(name, exampleNames);
  const hint = near === undefined ? "" : ` Did you mean ${near}?`;
  throw new UsageError(`There is no example ${given || '""'}.${hint} stayhook init --list shows them.`);
}
