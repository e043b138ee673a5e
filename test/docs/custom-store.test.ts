// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what is edited here is the page's own code
import { readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import type { EventStore } from "stayhook";
import { storeContract } from "stayhook/testing";
import { describe, expect, test } from "vitest";
import { extractFiles } from "./extract.ts";

type Edit = readonly [from: string, to: string];

const HELD = "AND events.lease = ${lease} AND records.lease = ${lease}";
const REPLAYED = "attempts = 0, outages = 0, first_outage_at = NULL\n      WHERE seq";

/** The table at the end of the page: each mistake, made in its store. */
const mistakes: Record<string, Edit> = {
  "`add` says `duplicate` without a look at the `ref`": [
    'known?.ref === ref ? "duplicate" : "conflict"',
    '"duplicate"',
  ],
  "a duplicate ends the record's wait, too": [
    "    return known?.ref === ref",
    "    await endWait(sql, record);\n    return known?.ref === ref",
  ],
  "the notification is kept as JSON": [
    "${topic}, ${timestamp}, ${notification},",
    "${topic}, ${timestamp}, ${notification && JSON.stringify(JSON.parse(notification))},",
  ],
  "a collation that ignores case": ["record TEXT PRIMARY KEY", "record TEXT PRIMARY KEY COLLATE NOCASE"],
  "the transactions of one connection mix": ["this.#last.then(() => this.#run(work))", "this.#run(work)"],
  "retries are claimed in the order of arrival": ["ORDER BY retry_at LIMIT 1", "ORDER BY rowid LIMIT 1"],
  "a claim by id looks at the event's time only": [
    "AND ready_at <= ${now} AND lease_end <= ${now} AND wait_end <= ${now}",
    "AND ready_at <= ${now}",
  ],
  "the token is looked for in the event's row only": [HELD, "AND events.lease = ${lease}"],
  "the token is looked for in the record's row only": [HELD, "AND records.lease = ${lease}"],
  "the token is the worker's name": ["const token = randomUUID()", 'const token = "worker 1"'],
  "`renew` forgets the record": [
    "await sql`UPDATE records SET lease_end = ${end} WHERE record = ${event.record}`;\n    await refresh(sql, event.record);",
    "",
  ],
  "`renew` believes what it is told": [
    "    if (event === undefined) continue;",
    "    if (event === undefined) { renewed.push(claim); continue; }",
  ],
  "the sequence rises with each event": ["THEN 0 ELSE 1 END", "THEN 1 ELSE 1 END"],
  "an outage counts as an attempt": ["ready_at = ${now}, attempts = attempts - 1,", "ready_at = ${now},"],
  "in an outage, the event waits and not its record": [
    "await sql`UPDATE records SET wait_end = ${now + outcome.in} WHERE record = ${record}`",
    "await sql`UPDATE events SET ready_at = ${now + outcome.in} WHERE seq = ${seq}`",
  ],
  "outages are timed from the last": ["coalesce(first_outage_at, ${now})", "${now}"],
  "a released event counts as tried": ["event.attempts === 1 && event.outages === 0;", "false;"],
  "`nextDue` forgets the ends of leases": ["UNION ALL SELECT min(retry_at) FROM records", ""],
  "pruning goes by when the event came": [
    "ended_at <= ${Date.now() - age}",
    "received_at <= ${Date.now() - age}",
  ],
  "a status is forgotten while an event of its record waits": [
    " AND pending_at IS NULL AND retry_at IS NULL\n      ORDER",
    "\n      ORDER",
  ],
  "a replay goes on counting attempts": [REPLAYED, REPLAYED.replace("attempts = 0, ", "")],
  "a settle does not wake": [
    "settle: (claim, outcome) => thenWake(",
    "settle: (claim, outcome) => db.transaction(",
  ],
  "the writes of `atomically` run after the commit": [
    "settle: (claim, outcome) => thenWake((sql) => settle(sql, claim, outcome))",
    `settle: async (claim, { writes, ...outcome }) => {
      const held = await thenWake((sql) => settle(sql, claim, outcome));
      for (const write of writes ?? []) await db.transaction(write);
      return held;
    }`,
  ],
};

const page = readFileSync(new URL("../../docs/custom-store.md", import.meta.url), "utf8");
const rows = new Map(
  page.split("\n").flatMap((line) => {
    const [, mistake, fails] = /^\| (.+) \| `(\w+: .+)` \|$/.exec(line) ?? [];
    return mistake !== undefined && fails !== undefined ? [[mistake, fails] as const] : [];
  }),
);
const code = extractFiles().get("sql-store.ts") ?? "";

describe("each mistake of the page", () => {
  test("has its row in the table, and each row its mistake", () => {
    expect([...rows.keys()].sort()).toEqual(Object.keys(mistakes).sort());
  });

  for (const [mistake, [from, to]] of Object.entries(mistakes)) {
    test.concurrent(`fails: ${mistake}`, async () => {
      expect(code.split(from).length, from).toBe(2);
      const sqlStore = await load(code.replace(from, () => to));
      const cases = storeContract(() => sqlStore(":memory:"));
      const named = (wanted: string | undefined) => cases.find(({ name }) => name === wanted);
      // A store that works, but for the mistake.
      await named("claim: a claim has all that an attempt needs")?.run();
      await expect(named(rows.get(mistake))?.run(), rows.get(mistake)).rejects.toThrow();
    });
  }
});

async function load(source: string): Promise<(path: string) => EventStore<unknown>> {
  const module = `data:text/javascript,${encodeURIComponent(stripTypeScriptTypes(source))}`;
  return (await import(/* @vite-ignore */ module)).sqlStore;
}
