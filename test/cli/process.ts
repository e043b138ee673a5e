import { spawn } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { onTestFinished } from "vitest";
import { eventually, PATIENCE } from "../support/eventually.ts";
import { plain } from "./support.ts";

const main = join(import.meta.dirname, "../../src/cli/main.ts");

/** A run of the command line in a process of its own. Its stdin stays open until the process ends. */
export interface RunningProcess {
  /** The exit code. It is `undefined` if the process still runs after `PATIENCE`. */
  readonly ended: Promise<number | undefined>;
  /** Everything that the process has written to stdout and stderr. */
  output(): string;
  /** Writes to stdin, as a person types: `"quit\n"`, or {@link ctrlC}. */
  type(text: string): void;
  /** Resolves when the output contains the text. */
  says(text: string | RegExp): Promise<void>;
}

export const ctrlC = "\u0003";

/**
 * Starts the command line as a process.
 *
 * @param options.columns - runs the process in a terminal (a pty) of this width. Without it, stdin is a pipe
 */
export function spawned(
  args: readonly string[],
  {
    env = {},
    columns,
    cwd,
  }: {
    readonly env?: Readonly<Record<string, string>>;
    readonly columns?: number;
    readonly cwd?: string;
  } = {},
): RunningProcess {
  const command = [process.execPath, main, ...args];
  const words = command.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ");
  const [file = "", ...rest] =
    columns === undefined ? command : ["script", "-qefc", `stty cols ${columns}; exec ${words}`, "/dev/null"];
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const child = spawn(file, rest, {
    env: { PATH, NODE_COMPILE_CACHE, TERM: "dumb", ...env },
    stdio: "pipe",
    cwd,
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      output += chunk;
    });
  const ended = new Promise<number | undefined>((resolve) => {
    child.once("close", (code) => resolve(code ?? undefined));
  });
  return {
    get ended() {
      return Promise.race([ended, sleep(PATIENCE, undefined, { ref: false })]);
    },
    output: () => plain(output).replaceAll("\r\n", "\n"),
    type: (text) => void child.stdin.write(text),
    says: (text) =>
      eventually(() => {
        const isThere = typeof text === "string" ? output.includes(text) : text.test(output);
        if (!isThere) throw new Error(`The output does not have ${text}: ${output}`);
      }),
  };
}
