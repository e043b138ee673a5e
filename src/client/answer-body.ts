import type { Issue } from "../errors.ts";
import type { Log } from "../logger.ts";
import { rememberAsSent } from "../models/as-sent.ts";
import { bookingStatuses, listingStatuses } from "../models/records.ts";
import { type StandardResult, type StandardSchema, toIssues } from "../models/standard-schema.ts";
import type { Answer } from "./answer.ts";
import type { Reader } from "./api-promise.ts";

/** A kind of record of the platform, such as a booking. */
export interface Model<T> {
  readonly name: string;
  readonly schema: StandardSchema<T>;
  /** Whether the user's own schema makes the record. It may leave out fields that the handler compares. */
  readonly isOwn: boolean;
  /** The fields that every record has. The first field identifies the record. */
  readonly required: readonly [string, ...string[]];
  /** Returns the names of the fields whose values have an unexpected type. */
  readonly unexpected: (record: T) => readonly string[];
}

/** One page of a list. */
export interface Page<T> {
  readonly answer: Answer;
  /** The valid rows. */
  readonly rows: T[];
  /** The issues of the invalid rows. */
  readonly issues: readonly Issue[];
  /** The number of invalid rows. */
  readonly invalid: number;
  /** The number of rows in the answer, including the rows that the reader skipped after {@link maxIssues} issues. */
  readonly length: number;
}

/** The reader stops after this many issues: the issues of millions of invalid rows would fill gigabytes of memory. */
const maxIssues = 1_000;

/** Makes readers that share a log. The readers warn once about each field whose value has an unexpected type. */
export class Readers {
  readonly #log: Log;
  readonly #warned = new Set<string>();

  constructor(log: Log) {
    this.#log = log;
  }

  /**
   * Reads the requested record.
   *
   * @param asked - the requested id or code. Letter case and outer white space do not matter
   */
  record<T>(model: Model<T>, asked: string | number): Reader<T> {
    const [identity] = model.required;
    const isAsked = (value: unknown) => comparable((value as Properties)[identity]) === comparable(asked);
    return async (answer) => {
      const { value } = answer.body;
      if (saysNotFound(value, model.required) || saysNone(value, model.required)) throw answer.notFound();
      const part = findRecord(value, model.required, isAsked);
      const record = await this.#validated(model, part, answer);
      if (!isAsked(record))
        throw answer.invalid([
          { path: [...part.path, identity], message: `is not the requested ${identity}` },
        ]);
      return record;
    };
  }

  /** Reads a record, or gives `undefined` if the answer says that the record does not exist. */
  recordOrNone<T>(model: Model<T>): Reader<T | undefined> {
    return async (answer) => {
      const { value } = answer.body;
      const none = answer.missing || saysNotFound(value, model.required) || saysNone(value, model.required);
      return none ? undefined : this.#validated(model, findRecord(value, model.required), answer);
    };
  }

  /**
   * Reads the record in the answer to a request that changes the record. Gives `undefined` if the answer shows no
   * valid record.
   */
  recordIfShown<T>(model: Model<T>): Reader<T | undefined> {
    return async (answer) => {
      if (answer.missing) return undefined;
      const { value } = answer.body;
      if (saysNotFound(value, model.required)) {
        if (answer.mayBeMissing) return undefined;
        throw answer.notFound();
      }
      const part = findRecord(value, model.required);
      const failure = part.whole ? undefined : failureIn(value, tellsFailure);
      if (failure) throw answer.failed(failure);
      if (part.rivals.length > 0) return undefined;
      const result = await validate(model.schema, part, answer);
      return "issues" in result ? undefined : this.#warnOfUnexpected(result.value, model);
    };
  }

  /** Reads one page of a list. Rejects if the answer holds no list. */
  page<T>(model: Model<T>): Reader<Page<T>> {
    return async (answer) => {
      const { value: body } = answer.body;
      const list = findList(body, model.required[0]);
      // If the answer reports a failure, do not accept an empty list: all listings would look deleted.
      const failure = list?.value.length ? undefined : failureIn(body);
      if (failure) throw answer.failed(failure);
      if (!list) throw answer.invalid([{ path: [], message: "the body has no list" }]);
      if (list.rivals.length > 0) throw answer.invalid(rivalry("list", list));
      const rows: T[] = [];
      const issues: Issue[] = [];
      let read = 0;
      for (const value of list.value) {
        const result = await validate(model.schema, { value, path: [...list.path, read++] }, answer);
        if ("issues" in result) issues.push(...result.issues);
        else rows.push(this.#made(result.value, model, value));
        if (issues.length >= maxIssues) break;
      }
      return { answer, rows, issues, invalid: read - rows.length, length: list.value.length };
    };
  }

  async #validated<T>(
    model: Model<T>,
    part: Found & { readonly whole: boolean },
    answer: Answer,
  ): Promise<T> {
    const failure = part.whole ? undefined : failureIn(answer.body.value);
    if (failure) throw answer.failed(failure);
    if (part.rivals.length > 0) throw answer.invalid(rivalry("record", part));
    const result = await validate(model.schema, part, answer);
    if ("issues" in result) throw answer.invalid(result.issues);
    return this.#made(result.value, model, part.value);
  }

  /** @param value - the part of the answer of which the schema made the record */
  #made<T>(record: T, model: Model<T>, value: unknown): T {
    if (model.isOwn) rememberAsSent(record, value);
    return this.#warnOfUnexpected(record, model);
  }

  #warnOfUnexpected<T>(record: T, { name, unexpected }: Model<T>): T {
    for (const field of unexpected(record)) {
      const key = `${name}.${field}`;
      if (this.#warned.has(key)) continue;
      this.#warned.add(key);
      this.#log.warn(
        `the platform sent ${key} with an unexpected type. The client returns the value unchanged.`,
      );
    }
    return record;
  }
}

/** Gives the parsed JSON of an answer, or `undefined` if the answer has no JSON. */
export const rawJson: Reader<unknown> = (answer) => {
  if (answer.missing) return undefined;
  if (answer.body.kind === "cut") throw answer.invalid([]);
  return answer.body.kind === "json" ? answer.body.value : undefined;
};

/** Validates the parsed JSON of an answer with a schema, and gives the schema's output. */
export function parseWith<T>(schema: StandardSchema<T>): Reader<T> {
  return async (answer) => {
    const result = await validate(schema, { value: await rawJson(answer), path: [] }, answer);
    // Ignore the schema's issues if a retried DELETE got a 404: an earlier attempt may have deleted the record.
    if ("issues" in result && answer.missing) return undefined as T;
    if ("issues" in result) throw answer.invalid(result.issues);
    return result.value;
  };
}

/** Validates a part of a body. The path of each issue begins at the body's root. */
async function validate<T>(
  schema: StandardSchema<T>,
  { value, path }: Part,
  answer: Answer,
): Promise<{ readonly value: T } | { readonly issues: readonly Issue[] }> {
  let result: StandardResult<T>;
  try {
    result = await schema["~standard"].validate(value);
  } catch (cause) {
    throw answer.invalid([{ path, message: "the schema threw an error; see error.cause" }], { cause });
  }
  if (!result.issues) return result;
  return { issues: toIssues(result.issues).map((issue) => ({ ...issue, path: [...path, ...issue.path] })) };
}

function comparable(identity: unknown): string | undefined {
  const isText = typeof identity === "string" || typeof identity === "number";
  return isText ? String(identity).trim().toLowerCase() : undefined;
}

/** A part of a body, and the property names and indexes that lead to the part. */
export interface Part<T = unknown> {
  readonly value: T;
  readonly path: readonly (string | number)[];
}

type Properties = Readonly<Record<string, unknown>>;

/** A part of a body that may be the record or the list. */
export interface Found<T = unknown> extends Part<T> {
  /** Other parts that may be the record or the list just as well, and that differ. */
  readonly rivals: readonly Part[];
}

function rivalry(name: string, { path, rivals }: Found): Issue[] {
  const message = `is one of ${rivals.length + 1} parts that look like the ${name}, and they differ`;
  return [{ path }, ...rivals].map((part) => ({ path: part.path, message }));
}

// The platform does not document its bodies. APIs usually give one of these names to the property with the payload.
const payloadNames =
  "data booking listing config webhookConfig webhook configuration result response payload record item".split(
    " ",
  );
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
    return { value: body, path: [], whole: true, rivals: [] };
  let similar: Part | undefined;
  let level: Part[] = [{ value: body, path: [] }];
  for (let wrappers = 0; wrappers <= maxWrappers; wrappers++) {
    level = level.map(onlyElement);
    const whole = level.filter(isRecord);
    const asked = whole.filter(({ value }) => isAsked(value));
    const [part, ...others] = asked.length > 0 ? asked : whole;
    if (part) {
      const rivals = [...others, ...echoes(part, required).filter(isRecord)].filter(({ value }) =>
        differ(value, part.value),
      );
      return { ...part, whole: true, rivals: [...rivals, ...statusBeside(body, part)] };
    }
    similar ??= level.find(({ value }) => hasFields(value, [identity]));
    level = level.flatMap((part) => below(part, payloadNames));
  }
  return { ...(similar ?? onlyElement({ value: body, path: [] })), whole: false, rivals: [] };
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

const statuses: readonly unknown[] = [...bookingStatuses, ...listingStatuses];

/**
 * Returns the status words beside a nested record that differ from the record's own status. The status of a booking that
 * holds a listing is not beside the listing.
 */
function statusBeside(body: unknown, { value, path }: Part): Part[] {
  const { status } = value as Properties;
  let outer = body as Properties;
  const beside: Part[] = [];
  for (const [depth, key] of path.entries()) {
    const isWord = typeof status === "string" && statuses.includes(outer.status);
    if (isWord && outer.status !== status && !hasFields(outer, ["bookingCode"]))
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
  if (isList(root)) return { ...root, rivals: [] };
  const outer = below(root, listNames);
  const lists = [...outer, ...outer.flatMap((part) => below(part, listNames))].filter(isList);
  const named = listNames
    .flatMap((name) => lists.filter((part) => part.path.at(-1) === name))
    .find((part) => part.value.length === 0 || hasObjects(part));
  const withRows = lists.filter(({ value }) => value.some((row) => hasFields(row, [identity])));
  const [first, ...rivals] = new Set([...(named ? [named] : []), ...withRows]);
  const found = first ?? lists.find(hasObjects) ?? onlyEmpty(lists);
  return found && { ...found, rivals };
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
  if (wrappers === 0 || failureIn(body, tellsFailure) || isObject(body.error) || isObject(body.errors))
    return false;
  const known = names.filter((name) => payloadNames.includes(name));
  // Without a known payload name, every property whose value is not `true` counts as payload.
  const payload = known.length > 0 ? known : names.filter((name) => body[name] !== true);
  if (payload.length === 0) return names.length === 1 && body.success === true;
  return payload.every((name) => saysNone(body[name], required, wrappers - 1));
}

type Property = readonly [name: string, value: unknown];

/** Returns the top-level property of a successful answer that reports a failure, if there is one. */
export function failureIn(
  body: unknown,
  tells: (property: Property) => boolean = tellsClearly,
): Property | undefined {
  return isObject(body) ? Object.entries(body).find(tells) : undefined;
}

function tellsClearly([name, value]: Property): boolean {
  return name === "success" ? isFalse(value) : (name === "error" || name === "errors") && isSet(value);
}

export function isObject(value: unknown): value is Properties {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Converts a number or a text. Gives NaN for any other value, because the conversion of an object may throw. */
export function toNumber(value: unknown): number {
  return typeof value === "number" || typeof value === "string" ? Number(value) : Number.NaN;
}

/** Whether a property may report a failure. Knows the names and values that APIs usually use for failures. */
function tellsFailure([name, value]: Property): boolean {
  if (name === "error" || name === "errors") return isSet(value);
  if ((name === "success" || name === "ok") && isFalse(value)) return true;
  if (!/^(code|status|statusCode|errorCode|message|success)$/.test(name)) return false;
  if (typeof value === "object") return value !== null;
  if (value === "" || typeof value === "boolean") return value === false;
  const number = toNumber(value);
  return Number.isNaN(number) ? /^\s*(err|fail)/i.test(value as string) : !isGoodCode(number);
}

/** Whether an `error` property holds an error: not a success code, and not an empty value such as `null` or `{}`. */
function isSet(value: unknown): boolean {
  if (typeof value === "object" && value !== null) return Object.keys(value).length > 0;
  return Boolean(value) && !isGoodCode(toNumber(value));
}

function isFalse(value: unknown): boolean {
  return value === false || value === "false";
}

function isGoodCode(number: number): boolean {
  return number === 0 || (number >= 200 && number <= 299);
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
