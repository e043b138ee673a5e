import { ACCOUNT_RULE, inAccount, isAccount, splitKey } from "../account.ts";
import { parseDuration } from "../duration.ts";
import { eventTypes } from "../models/event-types.ts";
import type { EventFilter } from "../stores/event-filter.ts";
import { eventOrigins, eventReasons, eventStates } from "../stores/event-states.ts";

// The rules of a filter, for the command line and the console.

/** The fields of a filter, in the order in which the console writes them into a URL. */
export const filterFields = [
  "state",
  "account",
  "ref",
  "type",
  "reason",
  "source",
  "receivedAfter",
  "receivedBefore",
] as const;
export type FilterField = (typeof filterFields)[number];

const timerType = /^(booking|listing)\.timer\.[a-z0-9-]{1,64}$/;

/** A text that cannot be part of a filter. The message does not name the field. */
export interface FilterProblem {
  readonly field: FilterField;
  readonly message: string;
}

/**
 * Reads a filter from texts. Empty texts count as missing.
 *
 * @param read - returns the text of a field
 * @returns the filter without the fields that are missing, and the problem of each wrong text. Do not use the filter
 * if there is a problem: it would select too many events
 */
export function readFilter(
  read: (field: FilterField) => string | null | undefined,
  states: readonly string[] = eventStates,
): { readonly filter: EventFilter; readonly problems: readonly FilterProblem[] } {
  const problems: FilterProblem[] = [];
  const entries = filterFields.flatMap((field) => {
    const text = read(field)?.trim() ?? "";
    if (text === "") return [];
    const value = readers[field](text, states);
    if (typeof value === "object" && "message" in value) problems.push({ field, message: value.message });
    return [[field, value]];
  });
  const filter: EventFilter = Object.fromEntries(entries);
  const { account, ref } = filter;
  // A code belongs to the account of the filter, unless the text names the account itself.
  const isWithin = account === undefined || ref === undefined || splitKey(ref).account !== undefined;
  return { filter: isWithin ? filter : { ...filter, ref: inAccount(account, ref) }, problems };
}

type Reader = (text: string, states: readonly string[]) => string | Date | { readonly message: string };

const choice = (text: string, choices: readonly string[], more = "") =>
  choices.includes(text) ? text : { message: `must be one of ${choices.join(", ")}${more}` };

const readers: Readonly<Record<FilterField, Reader>> = {
  state: choice,
  account: (text) => (isAccount(text) ? text : { message: `must be the id of an account: ${ACCOUNT_RULE}` }),
  ref: readRef,
  type: (text) =>
    timerType.test(text) ? text : choice(text, eventTypes, ", or a timer such as booking.timer.door-code"),
  reason: (text) => choice(text, eventReasons),
  source: (text) => choice(text, eventOrigins),
  receivedAfter: readTime,
  receivedBefore: readTime,
};

/** What {@link isRef} allows, in words. */
export const REF_RULE = "booking:<code>, listing:<id>, or message:<code> for the messages about a booking";

/** Whether the text is a ref, perhaps behind an account and a slash. */
export function isRef(text: string): boolean {
  return /^(booking|listing|message):./.test(splitKey(text).rest);
}

/** Makes a ref from a text without a prefix: a number is a listing's id, and any other text is a booking's code. */
function readRef(text: string) {
  if (isRef(text)) return text;
  if (text.includes(":"))
    return {
      message: `must be ${REF_RULE}, such as booking:HX3K9, or only the code or id`,
    };
  return `${/^\d+$/.test(text) ? "listing" : "booking"}:${text}`;
}

/** Reads an age such as `2h`, or a time. A time without a zone is UTC, because a browser's field sends no zone. */
function readTime(text: string) {
  const age = parseDuration(text);
  if (age !== undefined) return new Date(Date.now() - age);
  // Accept only full dates, because `new Date("2")` is February 2001.
  const match = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?$/.exec(text);
  const time = new Date(match ? (match[1] && !match[4] ? `${text}Z` : text) : Number.NaN);
  if (!Number.isNaN(time.getTime())) return time;
  return { message: "must be an age such as 2h, or a time such as 2026-11-21T12:00:00Z" };
}
