import type { Issue } from "../errors.ts";
import type { Log } from "../logger.ts";
import type { StandardResult, StandardSchema } from "../models/standard-schema.ts";
import { toIssues } from "../models/standard-schema.ts";
import { findList, findRecord, type Part, saysFailed, saysNone, saysNotFound } from "./envelopes.ts";
import type { Answer } from "./http.ts";
import { pagingHint } from "./paging.ts";

/** Makes the data of an answer, or throws the error that the answer amounts to. */
export type Reader<T> = (answer: Answer) => T | Promise<T>;

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
  /** The field or header that hints at further pages. */
  readonly hint: string | undefined;
  /** Whether rows at the end were not read. */
  readonly cut: boolean;
}

/** A list is read no further after this many issues: millions of invalid rows would take gigabytes. */
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
      return "issues" in result ? undefined : this.#checked(result.value, model);
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
        else rows.push(this.#checked(result.value, model));
        if (issues.length >= maxIssues) break;
      }
      const hint = pagingHint(body, answer.response.headers, list.value.length);
      return { answer, rows, issues, invalid: read - rows.length, hint, cut: read < list.value.length };
    };
  }

  async #validated<T>(model: Model<T>, part: Part & { readonly whole: boolean }, answer: Answer): Promise<T> {
    if (!part.whole && saysFailed(answer.body.value)) throw answer.failed();
    const result = await validate(model.schema, part, answer);
    if ("issues" in result) throw answer.invalid(result.issues);
    return this.#checked(result.value, model);
  }

  #checked<T>(record: T, { name, unexpected }: Model<T>): T {
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

/** Gives the parsed JSON as a schema makes it. */
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
