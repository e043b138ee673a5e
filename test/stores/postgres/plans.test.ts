import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { statements } from "../../../src/stores/postgres/statements.ts";
import { createSchemas, describePostgres, url } from "./support.ts";

/** Pages of 8 kB that a call may look at; the tables and their indexes have thousands. */
const MOST_PAGES = 500;
const UNKNOWN = "00000000-0000-4000-8000-ffffffffffff";

/** What the tables held when a session made its plans, which it keeps until PostgreSQL looks at the tables again. */
const madeWith = ["nothing", "what is done"] as const;

describePostgres.each(madeWith)(
  "many kept, ten thousand waiting for one record, plans made with %s",
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
      const fill = (count: number, state: string, record: string, ended: string, extra = "") => `
      INSERT INTO ${schema}.events (seq, id, record, state, ready_at, due_at, received_at, ended_at, source, "timestamp", notification, reason)
      SELECT nextval('${schema}.event_seq'), '${state}-' || n, ${record}, '${state}', ${ended === "NULL" ? "now() - interval '1 hour'" : "NULL"},
        now(), now(), ${ended}, 'webhook', '', repeat('x', 200), ${extra === "" ? "NULL" : `'${extra}'`}
      FROM generate_series(1, ${count}) n;`;
      const done = `
      ${fill(20_000, "done", "'booking:' || n", "now() - n * interval '1 minute'")}
      INSERT INTO ${schema}.records (record, status, sequence, seen_at)
        SELECT 'booking:' || n, 'Confirmed', 1, now() - n * interval '1 minute' FROM generate_series(1, 20000) n;`;
      if (made === "what is done") await client.query(done);
      await client.query(`ANALYZE ${schema}.events, ${schema}.records`);
      for (let round = 0; round < 8; round++)
        for (const [, text, values] of calls) await planOf(text, values);
      // Of one event, too, or the plan for its claim would be a later one's.
      await client.query(sql.add, [
        [UNKNOWN],
        ["booking:hot"],
        ["webhook"],
        [null],
        [""],
        ["{}"],
        "5s",
        false,
      ]);
      for (let round = 0; round < 8; round++) {
        const { rows } = await client.query(sql.claim, [1, 30_000, false, round % 2 === 0 ? UNKNOWN : null]);
        await client.query(sql.settle, [
          UNKNOWN,
          "booking:hot",
          rows[0].lease,
          "released",
          null,
          null,
          0,
          true,
          null,
          null,
          false,
        ]);
      }
      // Not TRUNCATE, after which the plans would be made anew.
      await client.query(`
      DELETE FROM ${schema}.events WHERE id = '${UNKNOWN}';
      DELETE FROM ${schema}.records WHERE record = 'booking:hot';
      ${made === "nothing" ? done : ""}
      ${fill(3_000, "parked", "'booking:' || n", "now() - n * interval '1 minute'", "callback")}
      ${fill(3_000, "retrying", "'booking:' || n", "NULL", "callback")}
      ${fill(10_000, "pending", "'booking:hot'", "NULL")}
      INSERT INTO ${schema}.records (record) VALUES ('booking:hot');
      UPDATE ${schema}.records r SET (pending_due, pending_seq) =
        (SELECT ready_at, seq FROM ${schema}.events e WHERE e.record = r.record AND state = 'pending' ORDER BY ready_at, seq LIMIT 1)
        WHERE record = 'booking:hot';
      UPDATE ${schema}.records r SET (retry_due, retry_seq) =
        (SELECT ready_at, seq FROM ${schema}.events e WHERE e.record = r.record AND state = 'retrying' ORDER BY ready_at, seq LIMIT 1)
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

    /** How PostgreSQL goes about a call, all that its function does included; undone afterwards. */
    async function planOf(text: string, values: readonly unknown[]): Promise<Plan> {
      await client.query("BEGIN");
      const explained = await client.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`, [...values]);
      await client.query("ROLLBACK");
      return explained.rows[0]["QUERY PLAN"][0].Plan;
    }

    function scanned(plan: Plan): string[] {
      const here = plan["Node Type"] === "Seq Scan" ? [plan["Relation Name"] ?? "?"] : [];
      return [...here, ...(plan.Plans ?? []).flatMap(scanned)];
    }

    const settle = ["retrying", null, null, 1000, true, "callback", "", true];
    const calls: readonly (readonly [string, string, readonly unknown[]])[] = [
      ["add", sql.add, [[UNKNOWN], ["booking:hot"], ["webhook"], [null], [""], ["{}"], "5s", false]],
      ["claim", sql.claim, [5, 30_000, false, null]],
      ["claim, retries first", sql.claim, [5, 30_000, true, null]],
      ["claim by id", sql.claim, [1, 30_000, false, UNKNOWN]],
      ["claim by the id of what is done", sql.claim, [1, 30_000, false, "done-7"]],
      ["renew", sql.renew, [[UNKNOWN], ["booking:hot"], [UNKNOWN], 30_000, null]],
      ["settle", sql.settle, [UNKNOWN, "booking:hot", UNKNOWN, ...settle]],
      ["state of a lease", sql.stateOfLease, [UNKNOWN, UNKNOWN]],
      ["replay", sql.replay, [UNKNOWN]],
      ["replay of five that are parked", sql.replayParked, [0, 5, "callback", null]],
      ["prune of nothing", sql.prune, ["done", null, 1e12, 200]],
      ["prune of ten", sql.prune, ["done", null, 60_000, 10]],
      ["prune of ten parked", sql.prune, ["parked", null, 60_000, 10]],
      ["prune for a reason", sql.prune, ["parked", "not-found", 60_000, 200]],
      ["prune of records", sql.pruneRecords, [60_000, 10]],
      ["nextDue", sql.nextDue, []],
      ["oldestWaiting", sql.oldestWaiting, []],
      ["get", sql.get, [UNKNOWN]],
      ["list", sql.list(undefined), [null, 10]],
      ["list of what is parked", sql.list("parked"), [null, 10]],
      ["list of what is pending", sql.list("pending"), [null, 10]],
      ["statusOf", sql.statusOf, ["booking:7"]],
      ["statuses", sql.statusesAfter, ["booking:7", 10]],
    ];

    for (const [when, prepare] of [
      ["before PostgreSQL has looked at the tables", "SELECT 1"],
      ["once it has", `ANALYZE ${schema}.events, ${schema}.records`],
    ] as const) {
      test(`${when}, no call looks at more than a few pages`, { timeout: 60_000 }, async () => {
        await client.query(prepare);
        const pages: Record<string, number> = {};
        for (const [name, text, values] of calls) {
          // The first time its functions are read from the catalogue.
          await planOf(text, values);
          const plan = await planOf(text, values);
          expect(scanned(plan), `${name} reads all of a table`).toEqual([]);
          pages[name] = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"];
        }
        if (process.env.STAYHOOK_PAGES) console.log(pages);
        for (const [name, count] of Object.entries(pages)) expect(count, name).toBeLessThan(MOST_PAGES);
      });
    }

    test("a hot record's events can be claimed and ended as quickly as any", {
      timeout: 60_000,
    }, async () => {
      const store = schemas.store({ schema });
      let most = 0;
      for (let round = 0; round < 30; round++) {
        const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000 });
        expect(claim?.ref).toBe("booking:hot");
        await store.settle(claim!, { state: "done", type: "booking.Confirmed", status: "Confirmed" });
        const plan = await planOf(sql.claim, [1, 30_000, false, null]);
        most = Math.max(most, plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]);
      }
      expect(most).toBeLessThan(MOST_PAGES);
      // Counted, whatever PostgreSQL's statistics still say.
      await client.query(`DELETE FROM ${schema}.events WHERE id IN ('done-1', 'done-2', 'done-3')`);
      await client.query(
        `DELETE FROM ${schema}.events WHERE state = 'done' AND seq IN (SELECT seq FROM ${schema}.events WHERE state = 'done' ORDER BY seq LIMIT 100)`,
      );
      expect(await store.counts()).toMatchObject({ done: 20_000 + 30 - 103, pending: 10_000 - 30 });
      await store.close();
    });
  },
);
