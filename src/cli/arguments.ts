import { StayhookError } from "../errors.ts";
import { parseDuration } from "../reconcile/options.ts";
import { type Invocation, type Options, UsageError } from "./command.ts";
import { linesOf } from "./lines.ts";

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
  least = Number.MIN_SAFE_INTEGER,
  most = Number.MAX_SAFE_INTEGER,
): number | undefined {
  const given = text(name);
  if (given === undefined) return undefined;
  const number = Number(given);
  if (given.trim() !== "" && Number.isInteger(number) && number >= least && number <= most) return number;
  const range = most < Number.MAX_SAFE_INTEGER ? ` from ${least} to ${most}` : `, ${least} or more`;
  throw new UsageError(`--${name} must be an integer${least > Number.MIN_SAFE_INTEGER ? range : ""}.`);
}

/** Reads an option that must be a time, or an age such as `2h`. @throws UsageError */
export function timeOf({ text }: Invocation, name: string): Date | undefined {
  const given = text(name);
  if (given === undefined) return undefined;
  const age = parseDuration(given);
  if (age !== undefined) return new Date(Date.now() - age);
  // Accept only full dates, because `new Date("2")` is February 2001.
  const time = new Date(/^\d{4}-\d\d-\d\d/.test(given) ? given : Number.NaN);
  if (Number.isNaN(time.getTime()))
    throw new UsageError(`--${name} must be an age such as 2h, or a time such as 2026-11-21T12:00:00Z.`);
  return time;
}

/** Checks a reference to a record. @param name - the option or argument that the error names. @throws UsageError */
export function checkRef(ref: string, name: string): string {
  if (!/^(booking|listing):./.test(ref))
    throw new UsageError(`${name} must be booking:<code> or listing:<id>, such as booking:HX3K9.`);
  return ref.trim();
}

/** Reads `--ref`. @throws UsageError */
export function refOf({ text }: Invocation): string | undefined {
  const ref = text("ref");
  return ref === undefined ? undefined : checkRef(ref, "--ref");
}

export const yesOption: Options = {
  yes: { short: "y", help: "do not ask for confirmation; required if stdin is not a terminal" },
};

/**
 * Asks the user on the terminal to confirm a change. With `--yes`, does not ask.
 *
 * @param question - the question without its question mark
 * @throws UsageError if stdin is not a terminal and `--yes` is absent; StayhookError if the user says no
 */
export async function confirm({ io, flag }: Invocation, question: string): Promise<void> {
  if (flag("yes")) return;
  if (io.stdin.isTTY !== true)
    throw new UsageError(`${question}? Add --yes to confirm, because stdin is not a terminal.`);
  io.stderr.write(`${question}? [y/N] `);
  for await (const answer of linesOf(io)) {
    if (/^\s*y(es)?\s*$/i.test(answer)) return;
    break;
  }
  io.signal.throwIfAborted();
  throw new StayhookError("Nothing was changed.");
}
