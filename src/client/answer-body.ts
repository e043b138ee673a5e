// Reads and validates the bodies of the platform's answers: a record, or a page of a list.

import type { Issue } from "../errors.ts";
import type { Log } from "../logger.ts";
import { codeOf } from "../models/records.ts";
import { type StandardResult, type StandardSchema, toIssues } from "../models/standard-schema.ts";
import type { Answer } from "./answer.ts";
import type { Reader } from "./api-promise.ts";
import {
  type Found,
  findList,
  findRecord,
  isAskedBy,
  isEmptyList,
  type Part,
  saysNone,
  saysNotFound,
} from "./find-in-body.ts";
import { failureBesideEmptyList, failureIn, failureOfWrite } from "./told-failures.ts";

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
  /** The valid rows as the platform sent them. */
  readonly sent: readonly unknown[];
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
    const isAsked = isAskedBy(identity, asked);
    return async (answer) => {
      if (answer.cutOff) throw answer.cutOff;
      const { value } = answer.body;
      const isNone = saysNone(value, model.required) || isEmptyList(value, identity);
      if (isNone || saysNotFound(value, model.required)) throw answer.notFound();
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
      const failure = failureOfWrite(value, part.whole ? part.value : undefined);
      if (failure) throw answer.failed(failure);
      if (part.alternatives.length > 0) return undefined;
      const result = await validate(model.schema, part, answer);
      return "issues" in result ? undefined : this.#warnOfUnexpected(result.value, model);
    };
  }

  /** Reads one page of a list. Rejects if the answer holds no list. */
  page<T>(model: Model<T>): Reader<Page<T>> {
    return async (answer) => {
      if (answer.cutOff) throw answer.cutOff;
      const { value: body } = answer.body;
      const list = findList(body, model.required[0]);
      // If the answer reports a failure, do not accept an empty list: all listings would look deleted.
      const failure = list
        ? list.value.length === 0 && failureBesideEmptyList(body, list.path)
        : failureIn(body, "unclear");
      if (failure) throw answer.failed(failure);
      if (!list) throw answer.invalid([{ path: [], message: "the body has no list" }]);
      if (list.alternatives.length > 0) throw answer.invalid(ambiguity("list", list));
      const rows: T[] = [];
      const sent: unknown[] = [];
      const issues: Issue[] = [];
      let read = 0;
      for (const value of list.value) {
        const result = await validate(model.schema, { value, path: [...list.path, read++] }, answer);
        if ("issues" in result) issues.push(...result.issues);
        else {
          rows.push(this.#warnOfUnexpected(result.value, model));
          sent.push(value);
        }
        if (issues.length >= maxIssues) break;
      }
      return { answer, rows, sent, issues, invalid: read - rows.length, length: list.value.length };
    };
  }

  async #validated<T>(
    model: Model<T>,
    part: Found & { readonly whole: boolean },
    answer: Answer,
  ): Promise<T> {
    const failure = part.whole ? undefined : failureIn(answer.body.value, "unclear");
    if (failure) throw answer.failed(failure);
    if (part.alternatives.length > 0) throw answer.invalid(ambiguity("record", part));
    let result = await validate(model.schema, part, answer);
    const value = "issues" in result ? withTextCode(part.value) : part.value;
    // The platform may send a code of digits as a number, which most models refuse.
    if (value !== part.value) result = await validate(model.schema, { ...part, value }, answer);
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

/** Returns a record with the digits of its numeric booking code. Returns any other value unchanged. */
function withTextCode(value: unknown): unknown {
  const { bookingCode } = Object(value) as { readonly bookingCode?: unknown };
  const code = codeOf(bookingCode);
  return code === bookingCode ? value : { ...(value as object), bookingCode: code };
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

function ambiguity(name: string, { path, alternatives }: Found): Issue[] {
  const message = `is one of ${alternatives.length + 1} parts that look like the ${name}, and they differ`;
  return [{ path }, ...alternatives].map((part) => ({ path: part.path, message }));
}
