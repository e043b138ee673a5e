// Finds a failure in the body of a 2xx answer.

import { listingStatuses } from "../models/records.ts";
import { isObject, type Properties, payloadNames, plainName, toNumber } from "./json.ts";

// The platform documents no error bodies, so a successful answer may report a failure in any of the usual ways. Every
// name stands here in lower case and without separators, because APIs write `errorCode`, `error_code` and `ErrorCode`.

type Property = readonly [name: string, value: unknown];
type Tells = (property: Property) => boolean;

const successes = new Set(["success", "successful", "succeeded", "issuccess", "issuccessful", "ok", "isok"]);
const errors = new Set(
  "error errors errormessage errormessages errormsg errorlist err exception fault failed failure failures iserror haserror haserrors".split(
    " ",
  ),
);
/** Codes and texts of an error, which may also say that there is none. */
const errorFacts = new Set(
  "errorcode errcode errno errortext errordescription errordetails errorinfo".split(" "),
);
const codes = new Set([
  "code",
  "status",
  "statuscode",
  "httpstatus",
  "httpcode",
  "resultcode",
  "responsecode",
]);
const results = new Set(["result", "outcome", "state"]);
const messages = new Set(["message", "messages", "msg", "detail", "reason", "statusmessage", "statustext"]);
const payloads = new Set(payloadNames.map(plainName));
const metas = new Set(["meta", "metadata", "header", "info"]);

/** Returns the top-level property of a successful answer that reports a failure, if there is one. */
export function failureIn(body: unknown, tells: Tells): Property | undefined {
  return isObject(body) ? Object.entries(body).find(tells) : undefined;
}

/** Whether a property reports a failure in a way that leaves no doubt: `success: false`, or an `error`. */
export function tellsClearly([name, value]: Property): boolean {
  const plain = plainName(name);
  return plain === "success" ? isFalse(value) : (plain === "error" || plain === "errors") && isSet(value);
}

/** Whether a property may report a failure. Knows the names and values that APIs usually use for failures. */
export function tellsFailure([name, value]: Property): boolean {
  const plain = plainName(name);
  if (codes.has(plain) || plain === "message")
    return typeof value === "object" ? value !== null : saysFailure(value, (code) => !isGoodCode(code));
  return tellsInPayload([name, value]);
}

/** Like {@link tellsFailure}, for an object that may be the payload, in which a small number is no failure. */
function tellsInPayload([name, value]: Property): boolean {
  const plain = plainName(name);
  if (successes.has(plain)) return isFalse(value) || saysFailure(value, (code) => code === 0 || code >= 400);
  if (errors.has(plain)) return isSet(value);
  if (errorFacts.has(plain)) return isSet(value) && !saysGood(value);
  return (
    (codes.has(plain) || results.has(plain) || plain === "message") &&
    saysFailure(value, (code) => code >= 400 && code <= 599)
  );
}

/**
 * Like {@link tellsFailure}, for the record that an answer shows. Its status, and numbers such as a count of failed
 * deliveries, say nothing about the request.
 */
function tellsInRecord([name, value]: Property): boolean {
  const plain = plainName(name);
  if (successes.has(plain)) return isFalse(value);
  if (errorFacts.has(plain)) return isSet(value) && !saysGood(value);
  if (errors.has(plain)) {
    const parts = typeof value === "object" && value !== null ? Object.values(value) : [value];
    return parts.some((part) => typeof part !== "number" && isSet(part) && !saysGood(part));
  }
  return (plain === "result" || plain === "outcome") && saysFailure(value, () => false);
}

/**
 * Returns the property of the answer to a write that reports a failure. Looks also into the payload, as in
 * `{ data: { error: "…" } }`.
 *
 * @param record - the record that the answer shows, if it shows one
 */
export function failureOfWrite(body: unknown, record?: unknown): Property | undefined {
  // A small number beside a record is no failure.
  const tells = record === undefined ? tellsFailure : body === record ? tellsInRecord : tellsInPayload;
  return failureIn(body, tells) ?? failureInPayload(body, record);
}

/** Returns the property of an answer whose value, the payload, reports a failure. */
function failureInPayload(holder: unknown, record?: unknown, levels = 2): Property | undefined {
  if (!isObject(holder) || levels === 0) return undefined;
  for (const [name, value] of Object.entries(holder)) {
    if (!payloads.has(plainName(name))) continue;
    const tells = value === record ? tellsInRecord : tellsInPayload;
    const found = failureIn(value, tells) ?? failureInPayload(value, record, levels - 1);
    if (found) return [name, Object.fromEntries([found])];
  }
  return undefined;
}

/**
 * Returns the property beside an empty list that reports a failure. Any text that does not clearly report success counts
 * as a failure: an outage must not look like an account without listings.
 *
 * @param path - the path of the list in the body
 */
export function failureBesideEmptyList(
  body: unknown,
  path: readonly (string | number)[],
): Property | undefined {
  let holder = body;
  for (const key of path) {
    const found = failureIn(holder, tellsDoubt);
    if (found) return found;
    holder = (holder as Properties)[key];
  }
  return failureInPayload(body);
}

function tellsDoubt([name, value]: Property): boolean {
  const plain = plainName(name);
  const isMessage = messages.has(plain);
  if (!isMessage && !metas.has(plain) && !codes.has(plain) && !results.has(plain))
    return tellsFailure([name, value]);
  // The value is the list itself, or an object that holds the list.
  if (results.has(plain) && typeof value === "object") return false;
  if (Array.isArray(value)) return value.some((each) => tellsDoubt([name, each]));
  if (isObject(value)) return Object.entries(value).some(tellsDoubt);
  return value === false || (!metas.has(plain) && typeof value !== "boolean" && !saysGood(value));
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
