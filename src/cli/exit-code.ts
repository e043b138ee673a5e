import {
  APIError,
  AuthenticationError,
  ConnectionError,
  InternalServerError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
} from "../client/errors.ts";
import { InvalidArgumentError, StayhookError } from "../errors.ts";

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

export const describedExitCodes: readonly (readonly [number, string])[] = [
  [exitCodes.done, "done"],
  [exitCodes.failed, "the command or a check of doctor failed"],
  [exitCodes.usage, "wrong usage: an unknown command or option, an invalid value, or a missing setting"],
  [exitCodes.refused, "the platform refused the access token (401, 403)"],
  [exitCodes.notFound, "there is no such booking, event, store or configuration"],
  [exitCodes.unreachable, "the platform is out of reach or cannot answer now (429, 5xx)"],
  [exitCodes.interrupted, "interrupted by Ctrl-C"],
];

/** The command line is wrong. The message says how to use it. */
export class UsageError extends StayhookError {
  constructor(message: string) {
    super(message);
    this.name = "UsageError";
  }
}

/** The named booking, event, store or configuration does not exist. */
export class MissingError extends StayhookError {
  constructor(message: string) {
    super(message);
    this.name = "MissingError";
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
