// Finds a failure in the body of a 2xx answer.

import { listingStatuses } from "../models/records.ts";
import { isObject, type Properties, payloadNames, plainName, toNumber } from "./json.ts";

type Property = readonly [name: string, value: unknown];
type Tells = (value: unknown) => boolean;

/** The objects whose properties may report a failure. */
const places = [
  /** An answer of which no part is the record or list. Only what leaves no doubt is a failure. */
  "unclear",
  /** An answer that shows no record. */
  "answer",
  /** The payload, or an answer that shows a record. A small number is no failure there. */
  "payload",
  /** The record. Its status, and numbers such as a count of failed deliveries, say nothing about the request. */
  "record",
  /** The answer around an empty list. An outage must not look like an account without listings. */
  "emptyList",
] as const;
type Place = (typeof places)[number];

const never = () => false;

// The platform documents no error bodies, so a successful answer may report a failure in any of the usual ways. Every
// name stands here in lower case and without separators, because APIs write `errorCode`, `error_code` and `ErrorCode`.
const successes = "successful succeeded issuccess issuccessful ok isok";
const errors =
  "errormessage errormessages errormsg errorlist err exception fault failed failure failures iserror haserror haserrors";
const facts = "errorcode errcode errno errortext errordescription errordetails errorinfo";
const codes = "code status statuscode httpstatus httpcode resultcode responsecode message";
const messages = "messages msg detail reason statusmessage statustext";

/** Which values of a name report a failure, in each of the {@link places}. */
const table: readonly (readonly [names: string, ...inPlaces: readonly Tells[]])[] = [
  ["success", isFalse, isNo, isNo, isFalse, isNo],
  [successes, never, isNo, isNo, isFalse, isNo],
  ["error errors", isSet, isSet, isSet, isSetText, isSet],
  [errors, never, isSet, isSet, isSetText, isSet],
  [facts, never, isBad, isBad, isBad, isBad],
  [codes, never, isBadCode, isBadStatus, never, isDoubtful],
  [messages, never, never, never, never, isDoubtful],
  ["result outcome", never, isBadStatus, isBadStatus, isBadWord, isDoubtful],
  ["state", never, isBadStatus, isBadStatus, never, isDoubtful],
  ["meta metadata header info", never, never, never, never, isDoubtfulWithin],
];

const rules = new Map(
  table.flatMap(([names, ...inPlaces]) => names.split(" ").map((name) => [name, inPlaces])),
);
const payloads = new Set(payloadNames.map(plainName));

/** Returns the property of an object that reports a failure, if there is one. */
export function failureIn(body: unknown, place: Place): Property | undefined {
  if (!isObject(body)) return undefined;
  const index = places.indexOf(place);
  return Object.entries(body).find(([name, value]) => rules.get(plainName(name))?.[index]?.(value));
}

/**
 * Returns the property of the answer to a write that reports a failure. Looks also into the payload, as in
 * `{ data: { error: "…" } }`.
 *
 * @param record - the record that the answer shows, if it shows one
 */
export function failureOfWrite(body: unknown, record?: unknown): Property | undefined {
  const place = record === undefined ? "answer" : body === record ? "record" : "payload";
  return failureIn(body, place) ?? failureInPayload(body, record);
}

/** Returns the property of an answer whose value, the payload, reports a failure. */
function failureInPayload(holder: unknown, record?: unknown, levels = 2): Property | undefined {
  if (!isObject(holder) || levels === 0) return undefined;
  for (const [name, value] of Object.entries(holder)) {
    if (!payloads.has(plainName(name))) continue;
    const found =
      failureIn(value, value === record ? "record" : "payload") ??
      failureInPayload(value, record, levels - 1);
    if (found) return [name, Object.fromEntries([found])];
  }
  return undefined;
}

/**
 * Returns the property beside an empty list that reports a failure. Any text that does not clearly report success counts
 * as a failure.
 *
 * @param path - the path of the list in the body
 */
export function failureBesideEmptyList(
  body: unknown,
  path: readonly (string | number)[],
): Property | undefined {
  let holder = body;
  for (const key of path) {
    const found = failureIn(holder, "emptyList");
    if (found) return found;
    holder = (holder as Properties)[key];
  }
  return failureInPayload(body);
}

/** Whether a value, or a part of it, is no clear report of success. */
function isDoubtful(value: unknown): boolean {
  const isUnclear = () => value === false || (typeof value !== "boolean" && !saysGood(value));
  return inParts(value, isDoubtful) ?? isUnclear();
}

/** Like {@link isDoubtful}, but a text says nothing by itself. */
function isDoubtfulWithin(value: unknown): boolean {
  return inParts(value, isDoubtfulWithin) ?? value === false;
}

function inParts(value: unknown, isDoubtfulPart: Tells): boolean | undefined {
  if (Array.isArray(value)) return value.some(isDoubtfulPart);
  return isObject(value) ? failureIn(value, "emptyList") !== undefined : undefined;
}

/** Whether a value says that the request did not succeed, as `success: 0` does. */
function isNo(value: unknown): boolean {
  return isFalse(value) || saysFailure(value, (code) => code === 0 || code >= 400);
}

function isBadCode(value: unknown): boolean {
  return typeof value === "object" ? value !== null : saysFailure(value, (code) => !isGoodCode(code));
}

function isBadStatus(value: unknown): boolean {
  return saysFailure(value, (code) => code >= 400 && code <= 599);
}

function isBadWord(value: unknown): boolean {
  return saysFailure(value, never);
}

/** Whether a code or text of an error is there, and does not say that there is none. */
function isBad(value: unknown): boolean {
  return isSet(value) && !saysGood(value);
}

/** Whether an `error` of a record holds more than numbers, such as a count of failed deliveries. */
function isSetText(value: unknown): boolean {
  const parts = typeof value === "object" && value !== null ? Object.values(value) : [value];
  return parts.some((part) => typeof part !== "number" && isBad(part));
}

/** Whether a value is `false`, a code of a failure, or a text that begins like a failure. */
function saysFailure(value: unknown, isFailure: (code: number) => boolean): boolean {
  if (value === "" || typeof value === "boolean") return value === false;
  if (typeof value === "object" || value === undefined) return false;
  const number = toNumber(value);
  if (!Number.isNaN(number)) return isFailure(number);
  return /^\s*(err|fail|exception|reject|refused|denied|forbidden|unauthori|unavailable|invalid)/i.test(
    String(value),
  );
}

const thing =
  "listings?|results?|records?|items?|data|content|rows?|entries|matches|rentals?|properties|errors?";
const goodWords = new RegExp(
  [
    "\\b(ok|okay|success(ful(ly)?)?|succeeded|done|completed?|retrieved|fetched|accepted)\\b",
    `^(none|nothing|empty|found|0|no (\\w+ )?(${thing}))\\b`,
    `^(all|active|true|null|${listingStatuses.join("|")})$`,
  ].join("|"),
  "i",
);
const badWords =
  /\b(not|un\w+|fail\w*|denied|refused|rejected|forbidden|invalid|expired|time ?out|timed out|limit\w*|exceeded|maintenance|again|later|partial\w*|in\w*complete)\b/i;

/** Whether a code or text clearly reports success. */
function saysGood(value: unknown): boolean {
  if (value === null || value === undefined || value === "") return true;
  const number = toNumber(value);
  if (!Number.isNaN(number)) return isGoodCode(number);
  // `NO_ERROR` and `S_OK` are words, too.
  const words = String(value)
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim();
  if (badWords.test(words) || /\berr/i.test(words.replace(/^no errors?\b/i, ""))) return false;
  return goodWords.test(words);
}

/** Whether an `error` property holds an error: not a success code, and not an empty value such as `null` or `{}`. */
function isSet(value: unknown): boolean {
  if (typeof value === "object" && value !== null) return Object.keys(value).length > 0;
  return Boolean(value) && !isFalse(value) && !isGoodCode(toNumber(value));
}

function isFalse(value: unknown): boolean {
  return value === false || (typeof value === "string" && value.trim().toLowerCase() === "false");
}

function isGoodCode(number: number): boolean {
  return number === 0 || (number >= 200 && number <= 299);
}
