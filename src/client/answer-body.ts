import type { Issue } from "../errors.ts";
import type { Log } from "../logger.ts";
import { type StandardResult, type StandardSchema, toIssues } from "../models/standard-schema.ts";
import type { Answer, Reader } from "./http.ts";

/** A kind of record that the platform has, and how to recognize one. */
export interface Model<T> {
  readonly name: string;
  readonly schema: StandardSchema<T>;
  /** The fields that every record has, its identity first. */
  readonly required: readonly [string, ...string[]];
  /** The names of the fields that have a type which the model does not expect. */
  readonly unexpected: (record: T) => readonly string[];
}

/** One page of a list. */
export interface Page<T> {
  readonly answer: Answer;
  /** The rows that validate. */
  readonly rows: T[];
  /** The issues of the other rows. */
  readonly issues: readonly Issue[];
  /** The number of the other rows. */
  readonly invalid: number;
  /** The number of rows in the answer. It includes rows that were not read, because there were too many issues. */
  readonly length: number;
}

/** The reader stops after this many issues, because the issues of millions of invalid rows would take gigabytes. */
const maxIssues = 1_000;

/** Readers that share a log, and warn once of each unexpected field. */
export class Readers {
  readonly #log: Log;
  readonly #warned = new Set<string>();

  constructor(log: Log) {
    this.#log = log;
  }

  /**
   * Reads the record that was asked for.
   *
   * @param asked - its identity: a code, compared without outer white space and in any letter case, or an id
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
          { path: [...part.path, identity], message: "is not the one that was asked for" },
        ]);
      return record;
    };
  }

  /** Reads the one record of its kind; `undefined` where the answer says that there is none. */
  recordOrNone<T>(model: Model<T>): Reader<T | undefined> {
    return async (answer) => {
      const { value } = answer.body;
      const none = answer.missing || saysNotFound(value, model.required) || saysNone(value, model.required);
      return none ? undefined : this.#validated(model, findRecord(value, model.required), answer);
    };
  }

  /** Reads the record that the answer to a write may show; `undefined` where it shows none. */
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

  /** Reads one page of a list. Rejects where the answer holds no list. */
  page<T>(model: Model<T>): Reader<Page<T>> {
    return async (answer) => {
      const { value: body } = answer.body;
      const list = findList(body);
      // An empty list in a failed answer would make all listings look gone.
      if (!list?.value.length && saysFailed(body)) throw answer.failed();
      if (!list) throw answer.invalid([{ path: [], message: "holds no list" }]);
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
        `the platform sent ${key} with an unexpected type of value. The value is passed on unchanged.`,
      );
    }
    return record;
  }
}

/** Gives the parsed JSON of an answer; `undefined` where the answer has none. */
export const rawJson: Reader<unknown> = (answer) => {
  if (answer.missing) return undefined;
  if (answer.body.truncated) throw answer.invalid([]);
  return answer.body.kind === "json" ? answer.body.value : undefined;
};

/** Validates the parsed JSON of an answer with a schema, and gives the output. */
export function parseWith<T>(schema: StandardSchema<T>): Reader<T> {
  return async (answer) => {
    const result = await validate(schema, { value: await rawJson(answer), path: [] }, answer);
    // A retried DELETE may find its record gone. The schema need not allow for an answer without a body.
    if ("issues" in result && answer.missing) return undefined as T;
    if ("issues" in result) throw answer.invalid(result.issues);
    return result.value;
  };
}

/** Validates a part of a body. The path of each issue is the one from the body's root. */
async function validate<T>(
  schema: StandardSchema<T>,
  { value, path }: Part,
  answer: Answer,
): Promise<{ readonly value: T } | { readonly issues: readonly Issue[] }> {
  let result: StandardResult<T>;
  try {
    result = await schema["~standard"].validate(value);
  } catch (cause) {
    throw answer.invalid([{ path, message: "the schema threw an error; see cause" }], { cause });
  }
  if (!result.issues) return result;
  return { issues: toIssues(result.issues).map((issue) => ({ ...issue, path: [...path, ...issue.path] })) };
}

function comparable(identity: unknown): string | undefined {
  const isText = typeof identity === "string" || typeof identity === "number";
  return isText ? String(identity).trim().toLowerCase() : undefined;
}

/** A part of a body, and the property names and indexes that lead to it. */
export interface Part<T = unknown> {
  readonly value: T;
  readonly path: readonly (string | number)[];
}

type Properties = Readonly<Record<string, unknown>>;

// The platform's bodies are not documented. These are the usual names of the property that holds the payload.
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

/** How many objects may stand around a record, configuration or list. */
const maxWrappers = 2;

/**
 * Finds the record in a body: in the body itself, or in an object up to two wrappers deep.
 *
 * @param required - the fields that a record must have, its identity first
 * @returns a part with all required fields, else the part that comes nearest, so that the error can name its path
 */
export function findRecord(
  body: unknown,
  required: readonly [string, ...string[]],
): Part & { whole: boolean } {
  // Check the usual answer first: the search for other forms takes most of the time.
  if (hasFields(body, required)) return { value: body, path: [], whole: true };
  const parts = [...partsOf(body)];
  const having = (fields: readonly string[]) => parts.find(({ value }) => hasFields(value, fields));
  const whole = having(required);
  return { ...(whole ?? having([required[0]]) ?? (parts[0] as Part)), whole: whole !== undefined };
}

/** Finds the list in a body: an array of objects, up to two wrappers deep. */
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

/** Whether an envelope carries the status 404 or 410 in its `code` or `status`. */
export function saysNotFound(body: unknown, required: readonly [string, ...string[]]): boolean {
  if (!isObject(body)) return false;
  const gone = (value: unknown): boolean => [404, 410].includes(toNumber(value));
  // A record may have a field `code` of its own, so check for the record's fields. The `status` of a record is a word.
  return gone(body.status) || (gone(body.code) && !hasFields(body, required));
}

/**
 * Whether a successful answer says that there is no record: `null`, `{}`, an envelope of these, or `success: true`
 * alone. An envelope that tells of a failure does not: an outage must not look like "there is none".
 *
 * @param required - the fields of a record. An object that has one of them is a broken record, not an envelope.
 */
export function saysNone(body: unknown, required: readonly string[], wrappers = maxWrappers): boolean {
  if (body === null || body === undefined) return true;
  if (!isObject(body) || required.some((field) => field !== "status" && Object.hasOwn(body, field)))
    return false;
  const names = Object.keys(body);
  if (names.length === 0) return true;
  if (wrappers === 0 || Object.entries(body).some(tellsFailure)) return false;
  const known = names.filter((name) => payloadNames.includes(name));
  // A payload of an unknown name counts where nothing but `true` stands beside it.
  const payload = known.length > 0 ? known : names.filter((name) => body[name] !== true);
  if (payload.length === 0) return names.length === 1 && body.success === true;
  return payload.every((name) => saysNone(body[name], required, wrappers - 1));
}

/** Whether a successful answer reports a failure at its outermost level. */
export function saysFailed(body: unknown): boolean {
  if (!isObject(body)) return false;
  const { success, error, errors } = body;
  return isFalse(success) || isSet(error) || isSet(errors);
}

export function isObject(value: unknown): value is Properties {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A number, or the number that a text writes; NaN for anything else. Never converts an object, because that may throw. */
export function toNumber(value: unknown): number {
  return typeof value === "number" || typeof value === "string" ? Number(value) : Number.NaN;
}

/** Whether a property of an envelope tells of a failure, by the names and values that APIs use for that. */
function tellsFailure([name, value]: readonly [string, unknown]): boolean {
  if (name === "error" || name === "errors") return isSet(value) || isObject(value);
  if (name === "success" && isFalse(value)) return true;
  if (!/^(code|status|statusCode|errorCode|message|success)$/.test(name)) return false;
  if (typeof value === "object") return value !== null;
  if (value === "" || typeof value === "boolean") return value === false;
  const number = toNumber(value);
  return Number.isNaN(number) ? /^\s*(err|fail)/i.test(value as string) : !isGoodCode(number);
}

/** Whether an `error` property holds an error. `null`, `{}`, `0` and the like say that there is none. */
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

/** The body and the parts within it that may be the record, the outermost first. */
function* partsOf(body: unknown): Generator<Part> {
  let level: Part[] = [{ value: body, path: [] }];
  for (let wrappers = 0; wrappers <= maxWrappers; wrappers++) {
    level = level.map(onlyElement);
    yield* level;
    level = level.flatMap((part) => below(part, payloadNames));
  }
}

/** The only element of an array; any other part as it is. */
function onlyElement(part: Part): Part {
  const { value, path } = part;
  return Array.isArray(value) && value.length === 1 ? { value: value[0], path: [...path, 0] } : part;
}

/** The properties of a part that is an object, those of the given names first. */
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

/** An empty array under an unknown name is the list only if it is the only array. Otherwise all listings could look deleted. */
function onlyEmpty(lists: readonly Part<readonly unknown[]>[]): Part<readonly unknown[]> | undefined {
  const [only, second] = lists;
  if (!only || second || only.value.length > 0) return undefined;
  return /error|warning|message|issue/i.test(String(only.path.at(-1))) ? undefined : only;
}
