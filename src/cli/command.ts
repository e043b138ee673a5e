// The types that every command is made of.

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
import type { Io, Output, Row } from "./output.ts";

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

/** The name of a command, and its description in one line. */
export interface Named {
  readonly name: string;
  readonly summary: string;
}

/** A command, or a group of commands. */
export interface Command {
  /** The arguments after the name, such as `<code>`. */
  readonly takes?: string;
  /** The smallest and the largest number of arguments. Default `[0, 0]`. */
  readonly arguments?: readonly [least: number, most: number];
  /** Further paragraphs of the command's help. The help breaks their lines at the terminal's width. */
  readonly description?: string;
  /** A further table of the command's help. */
  readonly table?: { readonly title: string; readonly rows: readonly Row[] };
  readonly examples: readonly string[];
  readonly options?: Options;
  /** Whether the command calls the platform. Such a command takes `--base-url` and needs the access token. */
  readonly asksPlatform?: boolean;
  readonly commands?: readonly Subcommand[];
  /** Resolves to the exit code; `undefined` stands for 0. */
  readonly run?: (invocation: Invocation) => Promise<number | undefined>;
}

/** A command of a group, such as `ls` in `stayhook events ls`. */
export type Subcommand = Command & Named;

/** A command in the list of `stayhook --help`. `load` imports the command's module, so that the list stays fast. */
export interface Entry extends Named {
  load(): Promise<Command>;
}

/** The options of a command, with the common options. */
export function optionsOf({ options, asksPlatform }: Command): Options {
  return {
    ...options,
    ...(asksPlatform && {
      "base-url": { value: "<url>", help: "the platform's URL; default: STAYHOOK_BASE_URL" },
    }),
    json: { help: "print JSON" },
    help: { short: "h", help: "print this help" },
  };
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
  /**
   * Makes the client from `--base-url` and the environment.
   *
   * @param tokens - the tokens of accounts, in place of the token of the environment
   * @throws UsageError (rejects) naming each missing setting
   */
  client(tokens?: ReadonlyMap<string, string>): Promise<StayhookClient>;
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

/** Rejects with a `MissingError` if the platform has no such booking. `then` says what does not happen. */
export async function ofBooking<T>(code: string, reading: Promise<T>, then = ""): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
    throw new MissingError(`There is no booking ${code}${then}.`);
  }
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
