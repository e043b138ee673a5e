import type { Issue } from "../errors.ts";
import type { Logger } from "../logger.ts";
import type { StandardSchema } from "../models/standard-schema.ts";
import type { Answer } from "./http.ts";
import { pagingHint } from "./paging.ts";
import { findList, findRecord, isNothing } from "./unwrap.ts";
import { validate } from "./validate.ts";

/** Makes the data of an answer, or throws what its `invalid` gives. */
export type Reader<T> = (answer: Answer) => T | Promise<T>;

/** A record that the platform has, and how to know one. */
export interface Model<T> {
  readonly name: string;
  readonly schema: StandardSchema<T>;
  /** The fields that make it one, its identity first. */
  readonly required: readonly [string, ...string[]];
  /** Names of the fields that are of a kind that the model does not foresee. */
  readonly surprises: (record: T) => readonly string[];
}

/** Issues after which a list is read no further: of millions of rows that are none, all would take gigabytes. */
const ENOUGH = 1_000;

/** Readers that share a logger, and warn once of each surprise. */
export class Readers {
  readonly #logger: Logger;
  readonly #warned = new Set<string>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** The record that an answer must hold. */
  record<T>(model: Model<T>): Reader<T> {
    return async (answer) => {
      const result = await validate(model.schema, findRecord(answer.body.value, model.required), answer);
      if ("issues" in result) throw answer.invalid(result.issues);
      return this.#checked(result.value, model);
    };
  }

  /** The record that an answer may hold; `undefined` where it says that there is none. */
  recordOrNone<T>(model: Model<T>): Reader<T | undefined> {
    const record = this.record(model);
    return (answer) => (answer.missing || isNothing(answer.body.value) ? undefined : record(answer));
  }

  /** The record, where an answer happens to hold one; `undefined` for anything else. */
  recordIfShown<T>(model: Model<T>): Reader<T | undefined> {
    return async (answer) => {
      const result = await validate(model.schema, findRecord(answer.body.value, model.required), answer);
      return "issues" in result ? undefined : this.#checked(result.value, model);
    };
  }

  /** All rows of a list, or an error: a row must not go missing unseen. */
  list<T>(model: Model<T>): Reader<T[]> {
    return async (answer) => {
      const list = findList(answer.body.value);
      if (!list) throw answer.invalid([{ path: [], message: "holds no list" }]);
      const rows: T[] = [];
      const issues: Issue[] = [];
      for (const [index, value] of list.value.entries()) {
        const result = await validate(model.schema, { value, path: [...list.path, index] }, answer);
        if ("issues" in result) issues.push(...result.issues);
        else rows.push(this.#checked(result.value, model));
        if (issues.length >= ENOUGH) break;
      }
      if (issues.length > 0) throw answer.invalid(issues);
      const hint = pagingHint(answer.body.value, answer.response.headers, rows.length);
      if (hint !== undefined)
        this.#logger.warn(
          `stayhook: the list of ${model.name}s may have further pages, which are not read: see ${hint}`,
        );
      return rows;
    };
  }

  #checked<T>(record: T, { name, surprises }: Model<T>): T {
    for (const field of surprises(record)) {
      const key = `${name}.${field}`;
      if (this.#warned.has(key)) continue;
      this.#warned.add(key);
      this.#logger.warn(
        `stayhook: ${key} came as a kind of value that is not foreseen; it is passed on as it came`,
      );
    }
    return record;
  }
}

/** The parsed JSON as it came; `undefined` where it is none. */
export const asItCame: Reader<unknown> = (answer) => {
  if (answer.missing) return undefined;
  if (answer.body.truncated) throw answer.invalid([]);
  return answer.body.kind === "json" ? answer.body.value : undefined;
};

/** What a schema makes of the body. */
export function by<T>(schema: StandardSchema<T>): Reader<T> {
  return async (answer) => {
    const result = await validate(schema, { value: await asItCame(answer), path: [] }, answer);
    // What a DELETE finds gone has been deleted, whatever the schema makes of no body.
    if ("issues" in result && answer.missing) return undefined as T;
    if ("issues" in result) throw answer.invalid(result.issues);
    return result.value;
  };
}
