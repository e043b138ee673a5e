import { randomUUID } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { statements } from "../../../src/stores/postgres/postgres-statements.ts";
import { DONE } from "../event.ts";
import { createSchemas, describePostgres, url } from "./support.ts";

/** Maximum number of 8 kB pages that a call may read. The tables and their indexes have thousands of pages. */
const MOST_PAGES = 500;
const UNKNOWN = "00000000-0000-4000-8000-ffffffffffff";

/** The content of the tables when a session makes its plans. PostgreSQL keeps the plans until the next ANALYZE. */
const madeWith = ["no events", "done events"] as const;

describePostgres.each(madeWith)(
  "with 10,000 waiting events of one record and many old events, plans made with %s",
  (made) => {
    const schemas = createSchemas();
    const schema = schemas.name();
    const sql = statements(schema);
    const client = new pg.Client({ connectionString: url });

    beforeAll(async () => {
      const store = schemas.store({ schema });
      await store.migrate();
      await store.close();
      await client.connect();
      const fill = (count: number, state: string, record: string, ended: string, lane = "NULL") => `
      INSERT INTO ${schema}.events (seq, id, record, state, lane, ready_at, due_at, received_at, ended_at, source, "timestamp", notification, reason)
      SELECT nextval('${schema}.event_seq'), '${state}-' || n, ${record}, '${state}', ${lane}, ${ended === "NULL" ? "now() - interval '1 hour'" : "NULL"},
        now(), now(), ${ended}, 'webhook', '', repeat('x', 200), 'callback'
      FROM generate_series(1, ${count}) n;`;
      const done = `
      ${fill(20_000, "done", "'booking:' || n", "now() - n * interval '1 minute'")}
      INSERT INTO ${schema}.refs SELECT 'booking:' || n FROM generate_series(1, 20000) n;
      INSERT INTO ${schema}.records (record, version, snapshot, sequence, seen_at)
        SELECT 'booking:' || n, 0, '{"status":"Confirmed","fields":{}}', 1, now() - n * interval '1 minute' FROM generate_series(1, 20000) n;`;
      if (made === "done events") await client.query(done);
      await client.query(`ANALYZE ${schema}.events, ${schema}.records, ${schema}.refs, ${schema}.meta`);
      for (let round = 0; round < 8; round++)
        for (const [, text, values] of calls) await planOf(text, values);
      // Also make the plans for a claim that finds an event. Otherwise PostgreSQL would make them later.
      await client.query(sql.add, add);
      for (let round = 0; round < 8; round++) {
        const { rows } = await client.query(sql.claim, claim(1, round % 2 === 0 ? UNKNOWN : null));
        await client.query(sql.settle, settle("released", rows[0].lease));
      }
      // Do not use TRUNCATE: PostgreSQL would make new plans.
      await client.query(`
      DELETE FROM ${schema}.events WHERE id = '${UNKNOWN}';
      DELETE FROM ${schema}.records WHERE record = 'booking:hot';
      ${made === "no events" ? done : ""}
      ${fill(3_000, "parked", "'booking:' || n", "now() - n * interval '1 minute'")}
      ${fill(3_000, "retrying", "'booking:' || n", "NULL", "1")}
      ${fill(10_000, "pending", "'booking:hot'", "NULL", "0")}
      INSERT INTO ${schema}.records (record, version, pending_seq)
        SELECT 'booking:hot', 0, min(seq) FROM ${schema}.events WHERE state = 'pending';
      UPDATE ${schema}.records r SET (retry_at, retry_seq) =
        (SELECT ready_at, seq FROM ${schema}.events e WHERE e.record = r.record AND lane = 1 ORDER BY ready_at, seq LIMIT 1)
        WHERE record IN (SELECT record FROM ${schema}.events WHERE state = 'retrying');`);
    });
    afterAll(() => client.end());

    interface Plan {
      readonly "Node Type": string;
      readonly "Relation Name"?: string;
      readonly "Shared Hit Blocks": number;
      readonly "Shared Read Blocks": number;
      readonly "Shared Dirtied Blocks": number;
      readonly Plans?: readonly Plan[];
    }

    /** Returns the plan of a call, including the statements in its function. Rolls the call back. */
    async function planOf(text: string, values: readonly unknown[]): Promise<Plan> {
      await client.query("BEGIN");
      const explained = await client.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`, [...values]);
      await client.query("ROLLBACK");
      return explained.rows[0]["QUERY PLAN"][0].Plan;
    }

    function scanned(plan: Plan): string[] {
      // The meta table has few rows, so PostgreSQL may scan it.
      const isScan = plan["Node Type"] === "Seq Scan" && plan["Relation Name"] !== "meta";
      const here = isScan ? [plan["Relation Name"] ?? "?"] : [];
      return [...here, ...(plan.Plans ?? []).flatMap(scanned)];
    }

    const add = [[UNKNOWN], ["booking:hot"], ["webhook"], [null], [""], ["{}"], [null], [null], "5s", false];
    const claim = (limit: number, only: string | null = null, order = "oldest") => {
      return [randomUUID(), limit, 30_000, order, only, null, 0];
    };
    const settle = (state: string, lease: string) => {
      const [snapshot, entry] = ['{"status":"Confirmed","fields":{}}', '{"duration":1}'];
      const ids = [UNKNOWN, "booking:hot", lease, state, null];
      const values = [...ids, snapshot, true, 1000, true, "callback", entry, false];
      return [...values.map((value) => [value]), "5s"];
    };
    const none = Array(8).fill(null);
    const by = (index: number, value: string) => none.with(index, value);
    const calls: readonly (readonly [string, string, readonly unknown[]])[] = [
      ["add", sql.add, add],
      ["claim", sql.claim, claim(5)],
      ["claim, newest first", sql.claim, claim(5, null, "newest")],
      ["claim, retries first", sql.claim, claim(5, null, "retries")],
      ["claim by id", sql.claim, claim(1, UNKNOWN)],
      ["claim by the id of a done event", sql.claim, claim(1, "done-7")],
      ["renew", sql.renew, [[UNKNOWN], ["booking:hot"], [UNKNOWN], 30_000, null]],
      ["settle", sql.settle, settle("retrying", UNKNOWN)],
      ["state of a lease", sql.stateOfLease, [UNKNOWN, UNKNOWN]],
      ["give back", sql.giveBack, [[UNKNOWN]]],
      ["replay by id", sql.change, ["replay", ["done", "parked", "retrying"], ...by(0, UNKNOWN), null, 500]],
      [
        "replay of a record's",
        sql.change,
        ["replay", ["done", "parked", "retrying"], ...by(1, "booking:7"), null, 500],
      ],
      [
        "replay of five parked",
        sql.change,
        ["replay", ["done", "parked", "retrying"], ...by(2, "parked"), null, 5],
      ],
      [
        "discard of five pending",
        sql.change,
        ["discard", ["pending", "retrying", "parked"], ...by(2, "pending"), null, 5],
      ],
      ["erase", sql.erase, ["booking:7"]],
      ["learn", sql.learn, ["booking:7", "{}"]],
      ["learn of an unknown one", sql.learn, ["booking:unknown", "{}"]],
      ["prune of nothing", sql.prune, ["done", null, 1e12, 200]],
      ["prune of ten", sql.prune, ["done", null, 60_000, 10]],
      ["prune of ten parked", sql.prune, ["parked", null, 60_000, 10]],
      ["prune for a reason", sql.prune, ["parked", "not-found", 60_000, 200]],
      ["prune of records", sql.pruneRecords, [60_000, 10]],
      ["nextDue", sql.nextDue, [0]],
      ["oldestWaiting", sql.oldestWaiting, []],
      ["newestReceived", sql.newestReceived, [""]],
      ["get", sql.get, [UNKNOWN]],
      ["list", sql.list, [...none, null, 10]],
      ["list of parked ones", sql.list, [...by(2, "parked"), null, 10]],
      ["list of pending ones", sql.list, [...by(2, "pending"), null, 10]],
      ["list of a record's", sql.list, [...by(1, "booking:7"), null, 10]],
      ["recordOf", sql.recordOf, ["booking:7"]],
      ["records", sql.records, ["booking:7", 10]],
      ["getMeta", sql.getMeta, ["key"]],
      ["setMeta", sql.setMeta, ["key", "value", null]],
    ];

    for (const [when, prepare] of [
      ["before ANALYZE", "SELECT 1"],
      ["after ANALYZE", `ANALYZE ${schema}.events, ${schema}.records, ${schema}.refs, ${schema}.meta`],
    ] as const) {
      test(`${when}, no call reads more than a few pages`, { timeout: 60_000 }, async () => {
        await client.query(prepare);
        const pages: Record<string, number> = {};
        for (const [name, text, values] of calls) {
          // The first call also reads the functions from the catalog, so do not count it.
          await planOf(text, values);
          const plan = await planOf(text, values);
          expect(scanned(plan), `${name} reads all of a table`).toEqual([]);
          pages[name] = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"];
        }
        if (process.env.STAYHOOK_PAGES) console.log(pages);
        for (const [name, count] of Object.entries(pages)) expect(count, name).toBeLessThan(MOST_PAGES);
      });
    }

    test("claim reads only a few pages for a record with many events", {
      timeout: 60_000,
    }, async () => {
      const store = schemas.store({ schema });
      let most = 0;
      for (let round = 0; round < 30; round++) {
        const [held] = await store.claim({ limit: 1, leaseDuration: 60_000 });
        expect(held?.ref).toBe("booking:hot");
        await store.settle(held!, DONE);
        const plan = await planOf(sql.claim, claim(1));
        most = Math.max(most, plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]);
      }
      expect(most).toBeLessThan(MOST_PAGES);
      // The count is right even if PostgreSQL's statistics are outdated.
      await client.query(`DELETE FROM ${schema}.events WHERE id IN ('done-1', 'done-2', 'done-3')`);
      await client.query(
        `DELETE FROM ${schema}.events WHERE state = 'done' AND seq IN (SELECT seq FROM ${schema}.events WHERE state = 'done' ORDER BY seq LIMIT 100)`,
      );
      expect(await store.counts()).toMatchObject({ done: 20_000 + 30 - 103, pending: 10_000 - 30 });
      await store.close();
    });
  },
);
