import { randomUUID } from "node:crypto";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { statements } from "../../../src/stores/postgres/postgres-statements.ts";
import { DONE, eventOf } from "../event.ts";
import { createSchemas, describePostgres, url } from "./support.ts";

const EVENTS = 1000;

describePostgres("a record with many events, during a long transaction", () => {
  const schemas = createSchemas();

  test("later events read about as many pages as early events", { timeout: 120_000 }, async () => {
    const schema = schemas.name();
    const store = schemas.store({ schema });
    await store.migrate();
    const [holder, looker] = [new pg.Client(url), new pg.Client(url)];
    await Promise.all([holder.connect(), looker.connect()]);
    onTestFinished(async () => void (await Promise.all([holder.end(), looker.end(), store.close()])));
    // This transaction stops PostgreSQL from removing dead rows.
    await holder.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");

    const sql = statements(schema);
    const pagesOf = async (text: string, values: readonly unknown[]): Promise<number> => {
      await looker.query("BEGIN");
      const { rows } = await looker.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`, [...values]);
      await looker.query("ROLLBACK");
      const { "Shared Hit Blocks": hit, "Shared Read Blocks": read } = rows[0]["QUERY PLAN"][0].Plan;
      return hit + read;
    };
    /** Returns how many 8 kB pages a claim, a settle and an add read. */
    const cost = async (since: number): Promise<number> => {
      const claim = [randomUUID(), 1, 60_000, "oldest", null, null, since];
      const add = [["x"], ["booking:hot"], ["webhook"], [null], [""], ["{}"], [null], [null], "5s", false];
      // The first call of a session also reads the catalog, so do not count it.
      await pagesOf(sql.claim, claim);
      await pagesOf(sql.add, add);
      return (await pagesOf(sql.claim, claim)) + (await pagesOf(sql.add, add));
    };
    const handle = async (count: number): Promise<number> => {
      let last = 0;
      for (let index = 0; index < count; index++) {
        const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000 });
        last = Number(await arrival(claim!.eventId));
        expect(await store.settle(claim!, DONE)).toBe(true);
      }
      return last;
    };
    const arrival = async (eventId: string) =>
      (await looker.query(sql.arrivalOf, [eventId])).rows[0].seq as string;

    await Promise.all(Array.from({ length: EVENTS + 30 }, () => store.add(eventOf("booking:hot"))));
    const early = await cost((await handle(20)) - 256);
    const late = await cost((await handle(EVENTS)) - 256);
    expect(late).toBeLessThan(early * 1.6);
  });
});
