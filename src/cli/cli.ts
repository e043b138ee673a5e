import { parseArgs } from "node:util";
import { AuthenticationError, NotFoundError, PermissionDeniedError } from "../client/client-errors.ts";
import { InvalidArgumentError } from "../errors.ts";
import { nearest } from "../option-names.ts";
import { version } from "../version.ts";
import {
  type Command,
  exitCodeOf,
  exitCodes,
  type Named,
  type Options,
  optionsOf,
  UsageError,
} from "./command.ts";
import { commands } from "./commands.ts";
import { helpOf, helpOfAll } from "./help.ts";
import { type Io, Output } from "./output.ts";

/** Runs one command line, and resolves to the exit code. Never rejects. */
export async function run(args: readonly string[], io: Io): Promise<number> {
  const out = new Output(io, args.includes("--json"));
  const platform: Platform = {};
  try {
    return await runCommand(args, io, out, platform);
  } catch (error) {
    if (io.signal.aborted) return exitCodes.interrupted;
    const { name, status } = Object(error) as { readonly name?: string; readonly status?: number };
    out.error(describe(error, platform), { name, status });
    return exitCodeOf(error);
  }
}

/** The client's base URL, for error messages. */
interface Platform {
  url?: string | undefined;
}

const asksForHelp = (arg: string): boolean => arg === "--help" || arg === "-h";

async function runCommand(args: readonly string[], io: Io, out: Output, platform: Platform): Promise<number> {
  // `--json` may stand before the command: `stayhook --json listings`.
  const [first, ...others] = args[0] === "--json" && args.length > 1 ? [...args.slice(1), "--json"] : args;
  if (first === undefined) {
    out.note(helpOfAll(out));
    return exitCodes.usage;
  }
  if (first === "--version" || first === "-v" || first === "version") {
    out.result({ version }, () => version);
    return exitCodes.done;
  }
  const line = first === "help" ? [...others, "--help"] : [first, ...others];
  if (asksForHelp(line[0]!)) {
    out.line(helpOfAll(out));
    return exitCodes.done;
  }
  const { command, path, rest } = await find(line);
  if (rest.some(asksForHelp)) {
    out.line(helpOf(command, path, out));
    return exitCodes.done;
  }
  if (command.run === undefined) {
    const [unknown] = rest;
    if (unknown !== undefined) throw unknownCommand(unknown, command.commands ?? [], path);
    out.note(helpOf(command, path, out));
    return exitCodes.usage;
  }
  const { values, positionals } = parse(command, path, rest);
  const code = await command.run({
    io,
    out,
    positionals,
    text: (name) => values[name] as string | undefined,
    texts: (name) => (values[name] as readonly string[] | undefined) ?? [],
    flag: (name) => values[name] === true,
    client: async (tokens) => {
      const { "base-url": baseUrl = io.env.STAYHOOK_BASE_URL } = values as { readonly "base-url"?: string };
      const { clientOf } = await import("./platform-client.ts");
      const client = clientOf(baseUrl, io, out, tokens);
      platform.url = baseUrl?.replace(/\/+$/, "");
      return client;
    },
    describe: (error) => describe(error, platform),
  });
  return code ?? exitCodes.done;
}

/** Finds the command by the names in the arguments, and imports its module. @throws UsageError */
async function find([first = "", ...rest]: readonly string[]) {
  const entry = commands.find(({ name }) => name === first);
  if (!entry) throw unknownCommand(first, commands, []);
  const command = { ...entry, ...(await entry.load()) };
  const { commands: below = [] } = command;
  // Options may stand before the name of the subcommand. The value of such an option is not the name.
  const { tokens } = tokensOf(rest, Object.assign({}, ...below.map(optionsOf)));
  for (const token of tokens) {
    const found = token.kind === "positional" && below.find(({ name }) => name === token.value);
    if (found) return { command: found, path: [first, found.name], rest: rest.toSpliced(token.index, 1) };
  }
  return { command, path: [first], rest };
}

/** The names that users of other tools try. */
const otherNames: Readonly<Record<string, string>> = {
  list: "ls",
  ls: "events ls",
  show: "get",
  get: "show",
};

function unknownCommand(name: string, list: readonly Named[], path: readonly string[]): UsageError {
  const see = `See ${["stayhook", ...path, "--help"].join(" ")}.`;
  if (name === "-V") return new UsageError(`There is no option -V. Did you mean -v or --version? ${see}`);
  if (name.startsWith("-")) return new UsageError(`The command must come before its options. ${see}`);
  const names = list.map((command) => command.name);
  const other = Object.hasOwn(otherNames, name) ? otherNames[name] : undefined;
  const near = other && names.includes(other.split(" ")[0]!) ? other : nearest(name, names);
  // Repeat the given name in the error only if the name is a plain word, because any other text may be a secret.
  const shown = /^[a-z][a-z-]{0,19}$/i.test(name) ? `command ${name}` : "such command";
  const hint = near === undefined ? "" : ` Did you mean "${["stayhook", ...path, near].join(" ")}"?`;
  return new UsageError(`There is no ${shown}.${hint} ${see}`);
}

/** Matches the options that users may guess for the access token. None of these options exists. */
const secretOption =
  /^--?(stayhook[-_]?)?(access[-_]?)?(token|api[-_]?key|key|secret|password|auth(orization)?|bearer)\b/i;

/** Reads a command's arguments. No error repeats a value, because the value may be a secret. @throws UsageError */
function parse(command: Command, path: readonly string[], args: readonly string[]) {
  const options = optionsOf(command);
  const { values, positionals, tokens } = tokensOf(args, options);
  const problems = tokens.map((token) => token.kind === "option" && problemWith(token, options));
  const [least, most] = command.arguments ?? [0, 0];
  const problem =
    (args.some((arg) => secretOption.test(arg)) &&
      "The access token cannot be given as an option, because other users of this machine can read options. Set STAYHOOK_ACCESS_TOKEN.") ||
    problems.find(Boolean) ||
    (positionals.length < least && `The argument ${command.takes?.split(" ")[0]} is missing.`) ||
    (positionals.length > most && "There are too many arguments.");
  if (problem) throw new UsageError(`${problem} See stayhook ${path.join(" ")} --help.`);
  return { values, positionals };
}

function tokensOf(args: readonly string[], options: Options) {
  const types = Object.entries(options).map(([name, { value, short, multiple = false }]) => [
    name,
    { type: value === undefined ? "boolean" : "string", multiple, ...(short && { short }) },
  ]);
  // With `strict: true`, the errors of `parseArgs` would show values, which may be secrets.
  return parseArgs({ args: [...args], options: Object.fromEntries(types), strict: false, tokens: true });
}

/** An option as the user typed it. */
interface GivenOption {
  readonly name: string;
  readonly rawName: string;
  readonly value?: string | undefined;
  /** Whether the value is in the same argument as the name: `--to=URL`. */
  readonly inlineValue?: boolean | undefined;
}

function problemWith({ name, rawName, value, inlineValue }: GivenOption, options: Options) {
  if (!Object.hasOwn(options, name)) {
    const near = rawName.startsWith("--") ? nearest(name, Object.keys(options)) : undefined;
    return `There is no option ${rawName}.${near === undefined ? "" : ` Did you mean --${near}?`}`;
  }
  const takesValue = options[name]!.value !== undefined;
  if (!takesValue && value !== undefined) return `${rawName} takes no value.`;
  // In `--to --json`, the value is missing. In `--to -`, the value is `-`, which means stdin.
  const isMissing = value === undefined || (!inlineValue && /^-./s.test(value));
  return takesValue && isMissing ? `${rawName} requires a value.` : undefined;
}

/** Returns an error's message, with the platform's URL and the setting to check. */
function describe(error: unknown, { url }: Platform): string {
  if (!(error instanceof Error)) return String(error);
  const message = (error.message || error.name)
    .replace("Is baseUrl right?", "Is STAYHOOK_BASE_URL right?")
    // The client's messages have only the path. Add the platform's URL before the path.
    .replace(/^([A-Z]+) \//, url === undefined ? "$&" : `$1 ${url}/`);
  // Remove a period at the end, because the code below appends text.
  const open = message.replace(/\.$/, "");
  if (error instanceof AuthenticationError || error instanceof PermissionDeniedError)
    return `${open}. Check STAYHOOK_ACCESS_TOKEN.`;
  if (error instanceof NotFoundError)
    return `${open}. Is the base URL right? Check STAYHOOK_BASE_URL or --base-url.`;
  if (error instanceof InvalidArgumentError && error.issues.some(({ path }) => path[0] === "baseUrl"))
    return `${open}. Set STAYHOOK_BASE_URL or --base-url.`;
  return message;
}
