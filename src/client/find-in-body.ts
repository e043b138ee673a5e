// Finds the record or the list in the body of an answer, because the platform does not document where its bodies have them.

import { bookingStatuses, listingStatuses } from "../models/records.ts";
import { knownStatus } from "../models/statuses.ts";
import { isObject, type Properties, payloadNames, toNumber } from "./json.ts";
import { failureBesideEmptyList, failureIn } from "./told-failures.ts";

/** A part of a body, and the property names and indexes that lead to the part. */
export interface Part<T = unknown> {
  readonly value: T;
  readonly path: readonly (string | number)[];
}

/** A part of a body that may be the record or the list. */
export interface Found<T = unknown> extends Part<T> {
  /** Other parts that may be the record or the list just as well, and that differ. */
  readonly alternatives: readonly Part[];
}

const listNames = ["listings", "data", "items", "results"];

/** The names of the older part of a pair, such as `before` and `after`. Such a part is never the record or list. */
const olderNames = /^(before|old|previous|prior)/i;

/** How many levels deep a record, configuration or list may be nested in other objects. */
const maxWrappers = 2;

/**
 * Finds the record in a body: the body itself, or an object nested up to two levels deep.
 *
 * @param required - the fields that a record must have. The first field identifies the record
 * @param isAsked - whether an object has the requested identity. Default: every object has it
 * @returns the part with all required fields. If no part has all of them, returns the most similar part, so that an
 *   error can name its path
 */
export function findRecord(
  body: unknown,
  required: readonly [string, ...string[]],
  isAsked: (value: unknown) => boolean = () => true,
): Found & { readonly whole: boolean } {
  const [identity] = required;
  // A booking has a listing's id and a status, too.
  const isRecord = ({ value }: Part) =>
    hasFields(value, required) && (identity === "bookingCode" || !hasFields(value, ["bookingCode"]));
  // The usual form. The search for others takes longer than the rest of a read.
  if (
    isRecord({ value: body, path: [] }) &&
    payloadNames.every((name) => !Object.hasOwn(body as object, name))
  )
    return { value: body, path: [], whole: true, alternatives: [] };
  let similar: Part | undefined;
  let level: Part[] = [{ value: body, path: [] }];
  for (let wrappers = 0; wrappers <= maxWrappers; wrappers++) {
    level = level.map(onlyElement);
    const whole = level.filter(isRecord);
    const asked = whole.filter(({ value }) => isAsked(value));
    const [part, ...others] = asked.length > 0 ? asked : whole;
    if (part) {
      const alternatives = [...others, ...echoes(part, required).filter(isRecord)].filter(({ value }) =>
        differ(value, part.value),
      );
      return { ...part, whole: true, alternatives: [...alternatives, ...statusBeside(body, part)] };
    }
    similar ??= level.find(({ value }) => hasFields(value, [identity]));
    level = level.flatMap((part) => below(part, payloadNames));
  }
  return { ...(similar ?? onlyElement({ value: body, path: [] })), whole: false, alternatives: [] };
}

/** By kind of record: the fields that every record has. The first field identifies the record. */
export const requiredFields = {
  booking: ["bookingCode", "status"],
  listing: ["listingId", "status"],
} as const;

/** Makes a function that says whether an object has the requested identity. Letter case and outer white space do not matter. */
export function isAskedBy(identity: string, asked: string | number): (value: unknown) => boolean {
  return (value) => comparable((value as Properties)[identity]) === comparable(asked);
}

/**
 * Returns the record in a body that the client has read, as the platform sent it: the part of which the model made a
 * booking or listing.
 *
 * @returns `undefined` if `body` is no body
 */
export function sentRecord(
  kind: keyof typeof requiredFields,
  body: unknown,
  asked: string | number,
): object | undefined {
  const required = requiredFields[kind];
  const { value } = findRecord(body, required, isAskedBy(required[0], asked));
  return isObject(value) ? value : undefined;
}

/**
 * Returns the records in the properties of a record that have its identity, but another second field. Then the outer
 * object may be an envelope whose `status` is not the status of the record.
 */
function echoes({ value, path }: Part, [identity, second = ""]: readonly [string, ...string[]]): Part[] {
  const outer = value as Properties;
  return payloadNames
    .filter((name) => hasFields(outer[name], [identity, second]))
    .map((name) => ({ value: outer[name] as Properties, path: [...path, name] }))
    .filter(({ value }) => comparable(value[identity]) === comparable(outer[identity]))
    .filter(({ value }) => differ(value[second], outer[second]));
}

const statuses: readonly string[] = [...bookingStatuses, ...listingStatuses];

/** Returns the word for a status, whatever its spelling. Returns `undefined` for any other value. */
function wordOf(status: unknown): string | undefined {
  const word = typeof status === "string" ? knownStatus("listing", knownStatus("booking", status)) : "";
  return statuses.includes(word) ? word : undefined;
}

/**
 * Returns the status words beside a nested record that differ from the record's own status. The status of a booking that
 * holds a listing is not beside the listing.
 */
function statusBeside(body: unknown, { value, path }: Part): Part[] {
  const { status } = value as Properties;
  let outer = body as Properties;
  const beside: Part[] = [];
  for (const [depth, key] of path.entries()) {
    const word = typeof status === "string" ? wordOf(outer.status) : undefined;
    if (word !== undefined && word !== (wordOf(status) ?? status) && !hasFields(outer, ["bookingCode"]))
      beside.push({ value: outer.status, path: [...path.slice(0, depth), "status"] });
    outer = outer[key] as Properties;
  }
  return beside;
}

function differ(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) !== JSON.stringify(other);
}

/**
 * Finds the list in a body: an array of objects, nested up to two levels deep.
 *
 * @param identity - the field that identifies a row
 */
export function findList(body: unknown, identity: string): Found<readonly unknown[]> | undefined {
  const root: Part = { value: body, path: [] };
  if (isList(root)) return { ...root, alternatives: [] };
  const outer = below(root, listNames);
  const lists = [...outer, ...outer.flatMap((part) => below(part, listNames))].filter(isList);
  const named = listNames
    .flatMap((name) => lists.filter((part) => part.path.at(-1) === name))
    .find((part) => part.value.length === 0 || hasObjects(part));
  const withRows = lists.filter(({ value }) => value.some((row) => hasFields(row, [identity])));
  const [first, ...alternatives] = new Set([...(named ? [named] : []), ...withRows]);
  const found = first ?? lists.find(hasObjects) ?? onlyEmpty(lists);
  return found && { ...found, alternatives };
}

/** Whether a body has the status 404 or 410 in its `code` or `status`. */
export function saysNotFound(body: unknown, required: readonly [string, ...string[]]): boolean {
  if (!isObject(body)) return false;
  const gone = (value: unknown): boolean => [404, 410].includes(toNumber(value));
  // In a record, ignore `code`, which may be a field of the record. A record's `status` is a word, never 404 or 410.
  return gone(body.status) || (gone(body.code) && !hasFields(body, required));
}

/**
 * Whether a successful answer says that there is no record: `null`, `{}` or `{ success: true }`, or an object that
 * holds one of these. Gives `false` for an object that reports a failure: an outage must not look like a missing
 * record.
 *
 * @param required - the fields of a record. An object with any of these fields, except `status`, gives `false`
 */
export function saysNone(body: unknown, required: readonly string[], wrappers = maxWrappers): boolean {
  if (body === null || body === undefined) return true;
  if (!isObject(body) || required.some((field) => field !== "status" && Object.hasOwn(body, field)))
    return false;
  const names = Object.keys(body);
  if (names.length === 0) return true;
  if (wrappers === 0 || failureIn(body, "answer") || isObject(body.error) || isObject(body.errors))
    return false;
  const named = names.filter((name) => payloadNames.includes(name));
  // Without a known payload name, every property whose value is not `true` counts as payload.
  const payload = named.length > 0 ? named : names.filter((name) => body[name] !== true);
  if (payload.length === 0) return names.length === 1 && body.success === true;
  return payload.every((name) => saysNone(body[name], required, wrappers - 1));
}

/** The names of a list, and of what APIs put beside one, such as a number of rows. */
const [ofList, besideList] = [
  new RegExp(`^(bookings|${[...payloadNames, ...listNames].join("|")})$`),
  /^_?(total|count|num|pag|per|size|limit|skip|offset|next|prev|first|last|has|cursor|link|meta|success|ok$|status|code|message|msg|error)/i,
] as const;

/**
 * Whether a successful answer to the read of a record is an empty list, alone or beside its number of rows and the like. Gives
 * `false` if the answer reports a failure, because an outage must not look like a missing record.
 */
export function isEmptyList(body: unknown, identity: string): boolean {
  // Most answers are the record itself. To look for lists in it would allocate a tenth of what a read does.
  if (hasFields(body, [identity])) return false;
  const list = findList(body, identity);
  if (!list || list.value.length > 0 || failureBesideEmptyList(body, list.path)) return false;
  let holder = body as Properties;
  return list.path.every((key) => {
    const others = Object.keys(holder).filter((name) => name !== key);
    holder = holder[key] as Properties;
    return ofList.test(String(key)) && others.every((name) => besideList.test(name));
  });
}

/** Unwraps an array with a single element. Returns any other part unchanged. */
function onlyElement(part: Part): Part {
  const { value, path } = part;
  return Array.isArray(value) && value.length === 1 ? { value: value[0], path: [...path, 0] } : part;
}

/** Returns the properties of an object. The properties in `names` come first. */
function below({ value, path }: Part, names: readonly string[]): Part[] {
  if (!isObject(value)) return [];
  const sorted = [
    ...names.filter((name) => Object.hasOwn(value, name)),
    ...Object.keys(value).filter((key) => !names.includes(key) && !olderNames.test(key)),
  ];
  return sorted.map((key) => ({ value: value[key], path: [...path, key] }));
}

function hasFields(value: unknown, fields: readonly string[]): boolean {
  return isObject(value) && fields.every((field) => Object.hasOwn(value, field));
}

function isList(part: Part): part is Part<readonly unknown[]> {
  return Array.isArray(part.value);
}

function hasObjects({ value }: Part<readonly unknown[]>): boolean {
  return value.some(isObject);
}

/** Accepts an empty array only if there is no other array: a wrong choice would make all listings look deleted. */
function onlyEmpty(lists: readonly Part<readonly unknown[]>[]): Part<readonly unknown[]> | undefined {
  const [only, second] = lists;
  if (!only || second || only.value.length > 0) return undefined;
  return /error|warning|message|issue/i.test(String(only.path.at(-1))) ? undefined : only;
}

/** Returns an id or code as text that can be compared. Letter case and outer white space do not matter. */
function comparable(identity: unknown): string | undefined {
  const isText = typeof identity === "string" || typeof identity === "number";
  return isText ? String(identity).trim().toLowerCase() : undefined;
}
