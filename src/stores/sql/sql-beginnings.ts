// The options `except` and `only` of a claim as a condition on `stayhook_records.ref`.

import { encodeUtf8 } from "../../utf8.ts";
import type { Restriction } from "../beginnings.ts";
import { prepared, type SqlDialect, type SqlSteps, type SqlValue, select } from "./driver.ts";
import { ESCAPE, escapedStart, NO_REF, number, toText } from "./sql-rows.ts";

/** The length of an `IN` list is a multiple of this number, so that the database sees few different statements. */
const STEP = 50;
const ASCII = /^\p{ASCII}*$/u;
/** No character follows this one, so that no text is the end of its range. */
const LAST = "\u{10ffff}";

/** Up to this number of beginnings, `only` is a range of keys for each. */
const RANGES = 8;
/** Up to this number of records in these ranges, a search reads them all, and none of other accounts. */
const FEW = 1000;

/** A condition that begins with ` AND `, or an empty text, and its parameters. */
export interface Condition {
  readonly and: string;
  readonly params: readonly SqlValue[];
  /** How the search compares and sorts the due time. The database uses no index for an expression. */
  readonly due: "due_at" | "(due_at + 0)";
}

type Part = Omit<Condition, "due">;
type Dialect = Pick<SqlDialect, "placeholder" | "jsonTexts">;

const NONE: Condition = { and: "", params: [], due: "due_at" };

/**
 * Finds out how to search for the records that a claim takes. Records of one account may be due behind thousands of others,
 * and then its few keys are the shorter way.
 *
 * @param from - the due time below which only records with a lease can be taken, because a claim with the same `except` has
 * found no other ones
 */
export function* searchingFor(
  dialect: Dialect,
  { except, only }: Restriction,
  from = 0,
): SqlSteps<Condition> {
  if (except === undefined && only === undefined) return NONE;
  const ranges = only && hasRanges(only) ? within(formsOf(only)) : undefined;
  const isIn = ranges ?? (only && part(dialect, only));
  // To compare numbers first costs a fraction of a comparison with `except`.
  const isNew = from > 0 ? { and: "(due_at >= ? OR lease_end IS NOT NULL)", params: [from] } : undefined;
  const parts = [isNew, except && outOf(dialect, except), isIn].filter((each) => each !== undefined);
  return {
    and: parts.map(({ and }) => ` AND ${and}`).join(""),
    params: parts.flatMap(({ params }) => params),
    due: ranges && (yield* areFew(dialect, ranges)) ? "(due_at + 0)" : "due_at",
  };
}

function hasRanges(only: readonly string[]): boolean {
  return only.length > 0 && only.length <= RANGES && !only.some((text) => text.endsWith(LAST));
}

function* areFew(dialect: Dialect, { and, params }: Part): SqlSteps<boolean> {
  const query = `
    SELECT count(*) AS records FROM (SELECT 1 AS one FROM stayhook_records WHERE ${and} LIMIT ${FEW + 1}) AS found`;
  const [row] = yield* select(prepared(dialect, query), ...params);
  return number(row!.records) <= FEW;
}

/** The last condition of each dialect. A queue claims several times a second, mostly with the same thousand beginnings. */
const lastOut = new WeakMap<Dialect, { readonly except: readonly string[]; readonly condition: Part }>();

function outOf(dialect: Dialect, except: readonly string[]): Part {
  const last = lastOut.get(dialect);
  if (last?.except.length === except.length && last.except.every((text, n) => text === except[n]))
    return last.condition;
  const { and, params } = part(dialect, except);
  const condition = { and: `NOT ${and}`, params };
  lastOut.set(dialect, { except, condition });
  return condition;
}

/** Returns how stored keys begin that have one of these beginnings: with or without a record, as they are and escaped. */
function formsOf(beginnings: readonly string[]): string[] {
  const plain = beginnings.filter((text) => toText(text) === text);
  return [...plain, ...beginnings.map(escapedStart)].flatMap((text) => [text, NO_REF + text]);
}

function within(forms: readonly string[]): Part {
  const and = `(${forms.map(() => "ref >= ? AND ref < ?").join(" OR ")})`;
  return { and, params: forms.flatMap((text) => [text, after(text)]) };
}

/** Returns the first text that follows all texts with this beginning. */
function after(text: string): string {
  const points = [...text];
  const last = points.pop()!.codePointAt(0)! + 1;
  // A surrogate is no character of its own.
  return points.join("") + String.fromCodePoint(last === 0xd800 ? 0xe000 : last);
}

/**
 * A stored key begins with a marker if it is escaped, or if the event has no record. Few keys do, and a range tells them
 * apart, so that all others are compared with the plain beginnings alone.
 */
function part(dialect: Dialect, beginnings: readonly string[]): Part {
  const forms = formsOf(beginnings);
  const unmarked = begins(
    dialect,
    forms.filter((text) => !text.startsWith(ESCAPE)),
  );
  const marked = begins(
    dialect,
    forms.filter((text) => text.startsWith(ESCAPE)),
  );
  return {
    and: `(${unmarked.and} OR ref >= ? AND ref < ? AND (${marked.and}))`,
    params: [...unmarked.params, ESCAPE, after(ESCAPE), ...marked.params],
  };
}

/**
 * Compares the beginning of a key with all texts of one length at once, by a set of the database. `substr` and `length` count
 * characters or bytes, so the texts of a group have both in common.
 */
function begins({ jsonTexts }: Dialect, texts: readonly string[]): Part {
  const groups = Map.groupBy(texts, lengthsOf);
  const terms: string[] = [];
  const params: SqlValue[] = [];
  for (const group of groups.values()) {
    const list = Array.from(
      { length: Math.ceil(group.length / STEP) * STEP },
      (_, n) => group[n] ?? group[0]!,
    );
    terms.push(`substr(ref, 1, length(?)) IN (${jsonTexts ?? list.map(() => "?").join(", ")})`);
    params.push(group[0]!, ...(jsonTexts === undefined ? list : [JSON.stringify(group)]));
  }
  return { and: terms.join(" OR ") || "1 = 0", params };
}

function lengthsOf(text: string): string {
  // Almost all keys are ASCII, and these calls take long for thousands of texts.
  const { length } = text;
  return ASCII.test(text) ? `${length}` : `${[...text].length} ${encodeUtf8(text).length}`;
}
