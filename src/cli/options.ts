import { createInterface } from "node:readline";
import { StayhookError } from "../errors.ts";
import { parseDuration } from "../reconcile/options.ts";
import type { Invocation, Options } from "./command.ts";
import { UsageError } from "./exit-code.ts";

/** Reads an option that must be one of `choices`. @throws UsageError */
export function choiceOf<T extends string>(
  { text }: Invocation,
  name: string,
  choices: readonly T[],
): T | undefined {
  const given = text(name);
  const chosen = choices.find((each) => each === given);
  if (given !== undefined && chosen === undefined)
    throw new UsageError(`--${name} must be one of ${choices.join(", ")}.`);
  return chosen;
}

/** Reads an option that must be an integer. @throws UsageError */
export function integerOf(
  { text }: Invocation,
  name: string,
  [least, most] = [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
): number | undefined {
  const given = text(name);
  if (given === undefined) return undefined;
  const number = Number(given);
  if (given.trim() === "" || !Number.isInteger(number) || number < least || number > most)
    throw new UsageError(
      `--${name} must be an integer${least > Number.MIN_SAFE_INTEGER ? ` from ${least}` : ""}${most < Number.MAX_SAFE_INTEGER ? ` to ${most}` : ""}.`,
    );
  return number;
}

/** Reads `2h`, `500ms` or `0`; a number without a unit is in ms. `undefined` for anything else. */
export function readDuration(text: string): number | undefined {
  return /^\d+$/.test(text) ? Number(text) : parseDuration(text);
}

/** Reads an option that must be a time, or an age such as `2h`. @throws UsageError */
export function timeOf({ text }: Invocation, name: string): Date | undefined {
  const given = text(name);
  if (given === undefined) return undefined;
  const age = parseDuration(given);
  if (age !== undefined) return new Date(Date.now() - age);
  // `new Date("2")` is February 2001.
  const time = new Date(/^\d{4}-\d\d-\d\d/.test(given) ? given : Number.NaN);
  if (Number.isNaN(time.getTime()))
    throw new UsageError(`--${name} must be an age such as 2h, or a time such as 2026-11-21T12:00:00Z.`);
  return time;
}

export const yesOption: Options = {
  yes: { type: "boolean", short: "y", help: "do not ask; required if stdin is not a terminal" },
};

/**
 * Asks on a terminal before something that cannot be undone.
 *
 * @param question - without the question mark
 * @throws UsageError without `--yes` if stdin is not a terminal; StayhookError if the user says no
 */
export async function confirm({ io, flag }: Invocation, question: string): Promise<void> {
  if (flag("yes")) return;
  if (io.stdin.isTTY !== true)
    throw new UsageError(`${question}? Stdin is not a terminal. Add --yes to confirm.`);
  io.stderr.write(`${question}? [y/N] `);
  const lines = createInterface({ input: io.stdin });
  try {
    for await (const answer of lines) {
      if (/^\s*y(es)?\s*$/i.test(answer)) return;
      break;
    }
  } finally {
    lines.close();
  }
  io.signal.throwIfAborted();
  throw new StayhookError("Nothing was changed.");
}
