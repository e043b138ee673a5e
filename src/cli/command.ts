import type { StayhookClient } from "../client/client.ts";
import {
  APIError,
  AuthenticationError,
  ConnectionError,
  InternalServerError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
} from "../client/client-errors.ts";
import { InvalidArgumentError, StayhookError } from "../errors.ts";
import { parseDuration } from "../reconcile/options.ts";
import { linesOf } from "./lines.ts";
import type { Io, Output } from "./output.ts";

/** An option of a command, for the parser and for the help. */
export interface Option {
  readonly help: string;
  /** The placeholder for the value in the help, such as `<url>`. An option without a placeholder takes no value. */
  readonly value?: string;
  readonly short?: string;
  /** Whether the option may be given more than once. */
  readonly multiple?: boolean;
}

export type Options = Readonly<Record<string, Option>>;

/** A command, or a group of commands. */
export interface Command {
  readonly name: string;
  /** A description in one line. */
  readonly summary: string;
  /** The arguments after the name, such as `<code>`. */
  readonly takes?: string;
  /** The smallest and the largest number of arguments. Default `[0, 0]`. */
  readonly arguments?: readonly [least: number, most: number];
  /** Further lines of the command's help. */
  readonly description?: string;
  readonly examples: readonly string[];
  readonly options?: Options;
  /** Whether the command calls the platform. Such a command takes `--base-url` and needs the access token. */
  readonly asksPlatform?: boolean;
  readonly commands?: readonly Command[];
  /** Resolves to the exit code; `undefined` stands for 0. */
  readonly run?: (invocation: Invocation) => Promise<number | undefined>;
}

/** The input and output of one run of a command. */
export interface Invocation {
  readonly io: Io;
  readonly out: Output;
  readonly positionals: readonly string[];
  /** The value of an option; `undefined` if the option is absent. */
  text(name: string): string | undefined;
  /** The values of an option that may be given more than once. */
  texts(name: string): readonly string[];
  flag(name: string): boolean;
  /** Makes the client from `--base-url` and the environment. @throws UsageError naming each missing setting */
  client(): StayhookClient;
  /** Returns the message of an error, with the platform's URL and the setting to check. */
  describe(error: unknown): string;
}

/** The exit codes of the process. `stayhook --help` lists them. */
export const exitCodes = {
  done: 0,
  failed: 1,
  usage: 2,
  refused: 3,
  notFound: 4,
  unreachable: 5,
  interrupted: 130,
} as const;

/** The user's command line is wrong. The message says how to correct it. */
export class UsageError extends StayhookError {
  override name = "UsageError";
}

/** The booking, event, store or configuration that the user named does not exist. */
export class MissingError extends StayhookError {
  override name = "MissingError";
}

export function exitCodeOf(error: unknown): number {
  const is = (...classes: readonly (abstract new (...args: never) => unknown)[]) =>
    classes.some((each) => error instanceof each);
  if (is(UsageError, InvalidArgumentError)) return exitCodes.usage;
  if (is(AuthenticationError, PermissionDeniedError)) return exitCodes.refused;
  if (is(MissingError, NotFoundError) || (error instanceof APIError && error.status === 410))
    return exitCodes.notFound;
  return is(ConnectionError, RateLimitError, InternalServerError) ? exitCodes.unreachable : exitCodes.failed;
}

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
