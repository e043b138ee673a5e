import { fromText, toText } from "../sql/sql-rows.ts";

/** The answer of the script `snapshots`: refs, and the snapshot and the ledger of each. */
export type KeptPage = readonly [
  refs: readonly string[],
  snapshots: readonly (string | null)[],
  ledgers: readonly (string | null)[],
];

/**
 * Reads records in the order of their refs, until `limit` of them have what is asked for.
 *
 * @param toKept - returns what is asked for, or `undefined` if the record does not have it
 */
export async function keptAfter<T>(
  page: (input: object) => Promise<KeptPage>,
  after: string | undefined,
  limit: number,
  toKept: (ref: string, snapshot: string | null, ledger: string | null) => T | undefined,
): Promise<T[]> {
  const found: T[] = [];
  for (let last = after === undefined ? undefined : toText(after); ; ) {
    const asked = limit - found.length;
    const [refs, snapshots, ledgers] = await page({ after: last, limit: asked });
    for (const [index, ref] of refs.entries()) {
      const kept = toKept(fromText(ref), snapshots[index]!, ledgers[index]!);
      if (kept !== undefined) found.push(kept);
    }
    if (refs.length < asked || found.length === limit) return found;
    last = refs.at(-1);
  }
}
