import { ACCOUNT_RULE, isAccount } from "../account.ts";
import { type FilterField, isRef, REF_RULE, readFilter } from "../console/event-filter.ts";
import { StayhookError } from "../errors.ts";
import type { EventFilter } from "../stores/event-filter.ts";
import { eventStates } from "../stores/event-states.ts";
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

/** The option for each field of a filter. */
const filterOptions: Readonly<Record<FilterField, string>> = {
  state: "state",
  account: "account",
  ref: "ref",
  type: "type",
  reason: "reason",
  source: "source",
  receivedAfter: "since",
  receivedBefore: "until",
};

/**
 * Reads the filter from those options of {@link filterOptions} that the command has.
 *
 * @returns `undefined` if no option of the filter is given
 * @throws UsageError naming the first wrong value
 */
export function filterOf({ text }: Invocation, states = eventStates): EventFilter | undefined {
  const read = (field: FilterField) => {
    const name = filterOptions[field];
    const value = text(name);
    // Without the value of an unset variable, the filter would select all events.
    if (value?.trim() === "") throw new UsageError(`--${name} requires a value. Is its variable set?`);
    return value;
  };
  const { filter, problems } = readFilter(read, states);
  const [problem] = problems;
  if (problem) throw new UsageError(`--${filterOptions[problem.field]} ${problem.message}.`);
  return Object.keys(filter).length === 0 ? undefined : filter;
}

/** Checks a reference to a record. @param name - the option or argument that the error names. @throws UsageError */
export function checkRef(ref: string, name: string): string {
  if (!isRef(ref))
    throw new UsageError(
      `${name} must be ${REF_RULE}, such as booking:HX3K9, or a17/booking:HX3K9 with an account.`,
    );
  return ref.trim();
}

/** Reads the option `--account`. @throws UsageError */
export function accountGiven({ text }: Invocation): string | undefined {
  const account = text("account");
  if (account !== undefined && !isAccount(account))
    throw new UsageError(`--account must be the id of an account: ${ACCOUNT_RULE}.`);
  return account;
}

/** Waits until a server listens on the port of `--port`. @throws UsageError (rejects) if the port is in use */
export async function listeningOn<T>(port: number, listening: Promise<T>): Promise<T> {
  try {
    return await listening;
  } catch (error) {
    if ((error as { readonly code?: unknown }).code !== "EADDRINUSE") throw error;
    throw new UsageError(`Port ${port} is in use. Give another port with --port, or 0 for a free port.`);
  }
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
