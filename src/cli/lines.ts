import { createInterface } from "node:readline";
import type { Io } from "./output.ts";

/**
 * Reads stdin line by line. When the caller's loop ends, closes stdin: an open stdin keeps the process alive, and
 * leaving a loop over a readline interface does not close it.
 */
export async function* linesOf({
  stdin: input,
  signal,
}: Pick<Io, "stdin" | "signal">): AsyncGenerator<string> {
  const lines = createInterface({ input, signal });
  try {
    yield* lines;
  } finally {
    lines.close();
  }
}
