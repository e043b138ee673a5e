// The options `except` and `only` of a claim as a condition on `stayhook_records.ref`.

import { encodeUtf8 } from "../../utf8.ts";
import type { Restriction } from "../beginnings.ts";
import type { SqlDialect, SqlValue } from "./driver.ts";
import { ESCAPE, escapedStart, NO_REF, toText } from "./sql-rows.ts";

/** The length of an `IN` list is a multiple of this number, so that the database sees few different statements. */
const STEP = 50;

/** A condition that begins with ` AND `, or an empty text, and its parameters. */
export interface Condition {
  readonly and: string;
  readonly params: readonly SqlValue[];
}

const NONE: Condition = { and: "", params: [] };

/** Returns the condition that a claim takes a record. Its text depends on the number of different lengths only. */
export function conditionOf(dialect: SqlDialect, { except, only }: Restriction): Condition {
  if (except === undefined && only === undefined) return NONE;
  const parts = [except && part(dialect, "NOT ", except), only && part(dialect, "", only)].filter(
    (each) => each !== undefined,
  );
  return { and: parts.map(({ and }) => and).join(""), params: parts.flatMap(({ params }) => params) };
}

/**
 * A stored key begins with a marker if it is escaped, or if the event has no record. Few keys do, and a range tells them
 * apart, so that all others are compared with the plain beginnings alone.
 */
function part(dialect: SqlDialect, not: string, beginnings: readonly string[]): Condition {
  const plain = beginnings.filter((text) => toText(text) === text);
  const escaped = beginnings.map(escapedStart);
  const marked = begins(dialect, [...[...plain, ...escaped].map((text) => NO_REF + text), ...escaped]);
  const unmarked = begins(dialect, plain);
  return {
    and: ` AND ${not}(${unmarked.and} OR ref >= ? AND ref < ? AND (${marked.and}))`,
    params: [...unmarked.params, ESCAPE, String.fromCharCode(ESCAPE.charCodeAt(0) + 1), ...marked.params],
  };
}

/**
 * Compares the beginning of a key with all texts of one length at once, by a set of the database. `substr` and `length` count
 * characters or bytes, so the texts of a group have both in common.
 */
function begins({ jsonTexts }: SqlDialect, texts: readonly string[]): Condition {
  const groups = Map.groupBy(texts, (text) => `${[...text].length} ${encodeUtf8(text).length}`);
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
