import type { Issue } from "../errors.ts";
import type { Log } from "../logger.ts";
import { type StandardResult, type StandardSchema, toIssues } from "../models/standard-schema.ts";
import type { Answer, Reader } from "./http.ts";

/** A kind of record of the platform, such as a booking. */
export interface Model<T> {
  readonly name: string;
  readonly schema: StandardSchema<T>;
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
    return async (answer) => {
      const { value } = answer.body;
      if (saysNotFound(value, model.required) || saysNone(value, model.required)) throw answer.notFound();
      const part = findRecord(value, model.required);
      const record = await this.#validated(model, part, answer);
      if (comparable((record as Record<string, unknown>)[identity]) !== comparable(asked))
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
      if (!part.whole && saysFailed(value)) throw answer.failed();
      const result = await validate(model.schema, part, answer);
      return "issues" in result ? undefined : this.#warnOfUnexpected(result.value, model);
    };
  }

  /** Reads one page of a list. Rejects if the answer holds no list. */
  page<T>(model: Model<T>): Reader<Page<T>> {
    return async (answer) => {
      const { value: body } = answer.body;
      const list = findList(body);
      // If the answer reports a failure, do not accept an empty list: all listings would look deleted.
      if (!list?.value.length && saysFailed(body)) throw answer.failed();
      if (!list) throw answer.invalid([{ path: [], message: "the body has no list" }]);
      const rows: T[] = [];
      const issues: Issue[] = [];
      let read = 0;
      for (const value of list.value) {
        const result = await validate(model.schema, { value, path: [...list.path, read++] }, answer);
        if ("issues" in result) issues.push(...result.issues);
        else rows.push(this.#warnOfUnexpected(result.value, model));
        if (issues.length >= maxIssues) break;
      }
      return { answer, rows, issues, invalid: read - rows.length, length: list.value.length };
    };
  }

  async #validated<T>(model: Model<T>, part: Part & { readonly whole: boolean }, answer: Answer): Promise<T> {
    if (!part.whole && saysFailed(answer.body.value)) throw answer.failed();
    const result = await validate(model.schema, part, answer);
    if ("issues" in result) throw answer.invalid(result.issues);
    return this.#warnOfUnexpected(result.value, model);
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
  if (answer.body.truncated) throw answer.invalid([]);
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

// The platform does not document its bodies. APIs usually give one of these names to the property with the payload.
const payloadNames = [
  "data",
  "booking",
  "listing",
  "config",
  "webhookConfig",
  "webhook",
  "configuration",
  "result",
  "response",
  "payload",
  "record",
  "item",
];
const listNames = ["listings", "data", "items", "results"];

/** How many levels deep a record, configuration or list may be nested in other objects. */
const maxWrappers = 2;

/**
 * Finds the record in a body: the body itself, or an object nested up to two levels deep.
 *
 * @param required - the fields that a record must have. The first field identifies the record
 * @returns the part with all required fields. If no part has all of them, returns the most similar part, so that an
 *   error can name its path
 */
export function findRecord(
  body: unknown,
  required: readonly [string, ...string[]],
): Part & { whole: boolean } {
  // Check the usual form first, because the search for other forms is slow.
  if (hasFields(body, required)) return { value: body, path: [], whole: true };
  const parts = [...partsOf(body)];
  const having = (fields: readonly string[]) => parts.find(({ value }) => hasFields(value, fields));
  const whole = having(required);
  return { ...(whole ?? having([required[0]]) ?? (parts[0] as Part)), whole: whole !== undefined };
}

/** Finds the list in a body: an array of objects, nested up to two levels deep. */
export function findList(body: unknown): Part<readonly unknown[]> | undefined {
  const root: Part = { value: body, path: [] };
  if (isList(root)) return root;
  const outer = below(root, listNames);
  const lists = [...outer, ...outer.flatMap((part) => below(part, listNames))].filter(isList);
  for (const name of listNames) {
    const named = lists.find(
      (part) => part.path.at(-1) === name && (part.value.length === 0 || hasObjects(part)),
    );
    if (named) return named;
  }
  const others = lists.filter(hasObjects);
  const ofListings = others.find(({ value }) => value.some((row) => isObject(row) && "listingId" in row));
  return ofListings ?? others[0] ?? onlyEmpty(lists);
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
  if (wrappers === 0 || Object.entries(body).some(tellsFailure)) return false;
  const known = names.filter((name) => payloadNames.includes(name));
  // Without a known payload name, every property whose value is not `true` counts as payload.
  const payload = known.length > 0 ? known : names.filter((name) => body[name] !== true);
  if (payload.length === 0) return names.length === 1 && body.success === true;
  return payload.every((name) => saysNone(body[name], required, wrappers - 1));
}

/** Whether a successful answer reports a failure in the top-level properties of its body. */
export function saysFailed(body: unknown): boolean {
  if (!isObject(body)) return false;
  const { success, error, errors } = body;
  return isFalse(success) || isSet(error) || isSet(errors);
}

export function isObject(value: unknown): value is Properties {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Converts a number or a text. Gives NaN for any other value, because the conversion of an object may throw. */
export function toNumber(value: unknown): number {
  return typeof value === "number" || typeof value === "string" ? Number(value) : Number.NaN;
}

/** Whether a property reports a failure. Knows the names and values that APIs usually use for failures. */
function tellsFailure([name, value]: readonly [string, unknown]): boolean {
  if (name === "error" || name === "errors") return isSet(value) || isObject(value);
  if (name === "success" && isFalse(value)) return true;
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

/** Yields the body, and then the parts of the body that may be the record, the outer parts first. */
function* partsOf(body: unknown): Generator<Part> {
  let level: Part[] = [{ value: body, path: [] }];
  for (let wrappers = 0; wrappers <= maxWrappers; wrappers++) {
    level = level.map(onlyElement);
    yield* level;
    level = level.flatMap((part) => below(part, payloadNames));
  }
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
    ...Object.keys(value).filter((key) => !names.includes(key)),
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
