// A terminal on which a person types commands while the command prints lines.

import { clearScreenDown, createInterface, cursorTo, type Interface, moveCursor } from "node:readline";
import { linesOf } from "./lines.ts";
import type { Io, Sink } from "./output.ts";

/** Where a shell reads its commands, and prints. */
export interface Terminal {
  /** The streams to print to. A half-typed line stays whole below the printed text. */
  readonly io: Io;
  /** The typed lines. When the caller's loop ends, closes stdin. */
  lines(): AsyncIterable<string>;
}

const PROMPT = "> ";

/** Without a terminal, or on one that cannot move its cursor, there is no prompt, and nothing is drawn again. */
export function terminalOf(io: Io): Terminal {
  const { stdin, stdout, stderr, env } = io;
  const isTerminal = stdin.isTTY && stdout.isTTY && env.TERM !== "dumb";
  if (!isTerminal) return { io, lines: () => linesOf(io) };
  let typing: Interface | undefined;
  const write = (sink: Sink, text: string): boolean => {
    if (typing === undefined) return sink.write(text);
    // The typed line may take several rows.
    moveCursor(stdout, 0, -typing.getCursorPos().rows);
    cursorTo(stdout, 0);
    clearScreenDown(stdout);
    sink.write(text);
    // The line is drawn in a new place, so readline must not go up to where the line began before.
    Object.assign(typing, { prevRows: 0 });
    typing.prompt(true);
    return true;
  };
  const wrapped = (sink: Sink): Sink =>
    Object.create(sink, { write: { value: (text: string) => write(sink, text) } }) as Sink;
  return {
    io: { ...io, stdout: wrapped(stdout), stderr: stderr.isTTY ? wrapped(stderr) : stderr },
    async *lines() {
      const lines = createInterface({
        input: stdin,
        output: stdout,
        prompt: PROMPT,
        terminal: true,
        signal: io.signal,
      });
      // In a terminal that readline reads, Ctrl-C is a key.
      lines.on("SIGINT", () => {
        stdout.write("\n");
        process.kill(process.pid, "SIGINT");
      });
      typing = lines;
      lines.prompt();
      try {
        for await (const line of lines) {
          yield line;
          lines.prompt();
        }
      } finally {
        typing = undefined;
        lines.close();
      }
    },
  };
}
