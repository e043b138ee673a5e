// The options `except` and `only` of a claim as a condition on `stayhook_records.ref`.

import { encodeUtf8 } from "../../utf8.ts";
import type { Restriction } from "../beginnings.ts";
import type { SqlDialect, SqlValue } from "./driver.ts";
import { ESCAPE, escapedStart, NO_REF, toText } from "./sql-rows.ts";

/** The length of an `IN` list is a multiple of this number, so that the database sees few different statements. */
const STEP = 50;
const ASCII = /^\p{ASCII}*$/u;
/** No character follows this one, so that no text is the end of its range. */
const LAST = "\u{10ffff}";

/** Up to this number of beginnings, `only` is a range for each, by which the database finds the records of an account. */
const RANGES = 8;

/** A condition that begins with ` AND `, or an empty text, and its parameters. */
export interface Condition {
  readonly and: string;
  readonly params: readonly SqlValue[];
}

const NONE: Condition = { and: "", params: [] };

/** Returns the condition that a claim takes a record. Its text depends on the number of different lengths only. */
export function conditionOf(dialect: SqlDialect, { except, only }: Restriction): Condition {
  if (except === undefined && only === undefined) return NONE;
  const hasRanges = only && only.length <= RANGES && !only.some((text) => text.endsWith(LAST));
  const isIn = only && (hasRanges ? within(formsOf(only)) : part(dialect, only));
  const isOut = except && part(dialect, except);
  const parts = [isOut && { ...isOut, and: `NOT ${isOut.and}` }, isIn].filter((each) => each !== undefined);
  return {
    and: parts.map(({ and }) => ` AND ${and}`).join(""),
    params: parts.flatMap(({ params }) => params),
  };
}

/** Returns how stored keys begin that have one of these beginnings: with or without a record, as they are and escaped. */
function formsOf(beginnings: readonly string[]): string[] {
  const plain = beginnings.filter((text) => toText(text) === text);
  return [...plain, ...beginnings.map(escapedStart)].flatMap((text) => [text, NO_REF + text]);
}

function within(forms: readonly string[]): Condition {
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
function part(dialect: SqlDialect, beginnings: readonly string[]): Condition {
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
function begins({ jsonTexts }: SqlDialect, texts: readonly string[]): Condition {
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
