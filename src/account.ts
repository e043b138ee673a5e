// Accounts, and the keys that begin with one: the ref `a17/booking:HX3K9`, and the event id `a17/<uuid>`. And the messages of
// a booking, whose ref `a17/message:HX3K9` the stores know, too.

import { InvalidArgumentError, type Issue } from "./errors.ts";

const ACCOUNT = /^[A-Za-z0-9_.-]{1,64}$/;
/** What {@link isAccount} allows, in words. */
export const ACCOUNT_RULE = "letters, digits, `_`, `.` and `-`, 1 to 64 characters";

export function isAccount(value: unknown): value is string {
  return typeof value === "string" && ACCOUNT.test(value);
}

/** @throws InvalidArgumentError if `value` is not the id of an account */
export function checkAccount(value: unknown, path: Issue["path"] = ["account"]): string {
  if (isAccount(value)) return value;
  throw new InvalidArgumentError({ path, message: `must be the id of an account: ${ACCOUNT_RULE}` });
}

/** A key of the store, in its parts. Keys without accounts begin with a word and a colon, or are UUIDs. */
export interface KeyParts {
  readonly account: string | undefined;
  readonly rest: string;
}

/** Splits a ref or an event id. A slash that belongs to a booking's code does not begin an account. */
export function splitKey(key: string): KeyParts {
  const slash = key.indexOf("/");
  const account = slash < 0 ? undefined : key.slice(0, slash);
  return isAccount(account) ? { account, rest: key.slice(slash + 1) } : { account: undefined, rest: key };
}

/** Puts the account before a ref or an event id. Without an account, the key stays as it is. */
export function inAccount(account: string | undefined, key: string): string {
  return account === undefined ? key : `${account}/${key}`;
}

/** Returns the account of an event. An event without a record belongs to the account of its id. */
export function accountOf({
  ref,
  eventId,
}: {
  readonly ref: string | null;
  readonly eventId: string;
}): string | undefined {
  return splitKey(ref ?? eventId).account;
}

const [BOOKING, MESSAGES] = ["booking:", "message:"] as const;

/** Returns the ref of the messages about a booking. It is `undefined` for a ref that is not that of a booking. */
export function messagesOf(ref: string): string | undefined {
  const { account, rest } = splitKey(ref);
  return rest.startsWith(BOOKING) ? inAccount(account, MESSAGES + rest.slice(BOOKING.length)) : undefined;
}

/** Returns the refs of all events that belong to a record: its own ref, and for a booking that of its messages. */
export function refsAbout(ref: string): readonly string[] {
  const messages = messagesOf(ref);
  return messages === undefined ? [ref] : [ref, messages];
}

/** Whether an event is a message, or names no record. It is never read, so it needs its text only until it is done. */
export function isNeverRead({ ref }: { readonly ref: string | null }): boolean {
  return ref === null || splitKey(ref).rest.startsWith(MESSAGES);
}
