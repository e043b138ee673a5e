import { createInterface } from "node:readline";
import type { Invocation, Option } from "./command.ts";
import { exitCodes, UsageError } from "./exit-code.ts";

export const yesOption: Readonly<Record<string, Option>> = {
  yes: { type: "boolean", short: "y", help: "do not ask; required where stdin is not a terminal" },
};

/**
 * Asks on a terminal before something that cannot be taken back.
 *
 * @param question - without the question mark
 * @returns the exit code where the user says no; `undefined` for yes
 * @throws UsageError without `--yes` where stdin is not a terminal
 */
export async function refusedBy(
  { io, out, flag }: Invocation,
  question: string,
): Promise<number | undefined> {
  if (flag("yes")) return undefined;
  if (io.stdin.isTTY !== true)
    throw new UsageError(`stdin is not a terminal, so nobody can be asked: ${question}? Add --yes`);
  io.stderr.write(`${question}? [y/N] `);
  const lines = createInterface({ input: io.stdin });
  try {
    for await (const answer of lines) {
      if (/^\s*y(es)?\s*$/i.test(answer)) return undefined;
      break;
    }
  } finally {
    lines.close();
  }
  io.signal.throwIfAborted();
  out.note("nothing was changed");
  return exitCodes.failed;
}
