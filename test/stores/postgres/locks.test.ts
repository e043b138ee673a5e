import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { eventually } from "../../support/eventually.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { createSchemas, describePostgres, url } from "./support.ts";

describePostgres("while another transaction holds a record", () => {
  const schemas = createSchemas();

  /** Makes a store, and a second transaction that stays open until the test ends. */
  async function beside() {
    const schema = schemas.name();
    const store = schemas.store({ schema });
    await store.migrate();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query("BEGIN");
    onTestFinished(async () => {
      await client.end();
      await store.close();
    });
    const hold = (ref: string) =>
      client.query(`SELECT FROM ${schema}.records WHERE ref = $1 FOR UPDATE`, [ref]);
    const { rows } = await client.query("SELECT pg_backend_pid() AS pid");
    /** Resolves when this number of statements wait for a lock of the second transaction. */
    const waits = (count: number) =>
      eventually(async () => {
        const sql = "SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))";
        expect((await schemas.pool.query(sql, [rows[0].pid])).rowCount).toBe(count);
      });
    return { schema, store, client, hold, waits };
  }

  test("claim skips the record", async () => {
    const { store, hold } = await beside();
    await store.add(eventOf("booking:A"));
    await store.add(eventOf("booking:B"));
    await hold("booking:A");
    expect(await store.claim(CLAIM)).toMatchObject([{ ref: "booking:B" }]);
  });

  test("claims wait while somebody changes the table, such as a newer version that adds a column", async () => {
    const { schema, store, client, waits } = await beside();
    const event = eventOf("booking:A");
    await store.add(event);
    await client.query(`ALTER TABLE ${schema}.records ADD COLUMN color text`);
    const claims = [store.claim(CLAIM), store.claim({ ...CLAIM, eventId: event.eventId })];
    await waits(2);
    // Longer than a claim waits for the lock of a record.
    await sleep(400);
    await client.query("COMMIT");
    expect((await Promise.all(claims)).flat()).toMatchObject([{ eventId: event.eventId, attempts: 1 }]);
  });

  test("renew extends other records' leases, and the record's lease after the lock ends", async () => {
    const { store, client, hold, waits } = await beside();
    for (const name of ["A", "B"]) await store.add(eventOf(`booking:${name}`));
    const claims = await store.claim({ limit: 2, leaseDuration: 1500 });
    await hold("booking:A");
    // The record is locked, so the store reports that it did not renew the claim.
    expect(await store.renew(claims, 1500)).toMatchObject([{ ref: "booking:B" }]);
    const renewed = store.renew(claims, 60_000);
    await waits(1);
    await client.query("COMMIT");
    expect(await renewed).toEqual(claims);
    expect(await store.claim(CLAIM)).toEqual([]);
    expect(await store.settle(claims[0]!, DONE)).toBe(true);
  });

  test("settle records other records' outcomes, and the record's outcome after the lock ends", async () => {
    const { store, client, hold } = await beside();
    for (const name of ["A", "B", "C"]) await store.add(eventOf(`booking:${name}`));
    const claims = await store.claim(CLAIM);
    await hold("booking:A");
    const [own, ...others] = claims.map((claim) => store.settle(claim, DONE));
    expect(await Promise.all(others)).toEqual([true, true]);
    expect(await store.counts()).toMatchObject({ processing: 1, done: 2 });
    await client.query("COMMIT");
    expect(await own).toBe(true);
  });

  test("adds to the record leave connections for other calls", async () => {
    const { store, client, hold } = await beside();
    await store.add(eventOf("booking:A"));
    await hold("booking:A");
    const added: Promise<string>[] = [];
    for (let round = 0; round < 12; round++) {
      added.push(store.add(eventOf("booking:A")));
      await sleep(30);
    }
    const start = performance.now();
    expect(await store.add(eventOf("booking:B"))).toBe("added");
    expect(await store.claim(CLAIM)).toMatchObject([{ ref: "booking:B" }]);
    expect(performance.now() - start).toBeLessThan(15_000);
    await client.query("COMMIT");
    expect(new Set(await Promise.all(added))).toEqual(new Set(["added"]));
    expect(await store.counts()).toMatchObject({ pending: 13, processing: 1 });
  });

  test("an event that arrives while settle waits for the record's lock is not left behind", async () => {
    const { schema, store, client, waits } = await beside();
    await store.add(eventOf("booking:A"));
    const [claim] = await store.claim(CLAIM);
    expect(await store.with(client).add(eventOf("booking:A"))).toBe("added");
    const settled = store.settle(claim!, DONE);
    // The statement has its snapshot, which does not show the new event.
    await waits(1);
    await client.query("COMMIT");
    expect(await settled).toBe(true);
    expect(await store.nextDue()).toBe(0);
    expect(await store.claim(CLAIM)).toHaveLength(1);
    const { rows } = await schemas.pool.query(`SELECT count(*)::int AS records FROM ${schema}.records`);
    expect(rows).toEqual([{ records: 1 }]);
  });

  test("a record without a snapshot leaves no row when its last event has ended", async () => {
    const { schema, store } = await beside();
    for (const ref of [null, "booking:A"]) await store.add(eventOf(ref));
    const records = async () => (await schemas.pool.query(`SELECT ref FROM ${schema}.records`)).rowCount;
    expect(await records()).toBe(2);
    for (const claim of await store.claim(CLAIM)) await store.settle(claim, { ...DONE, record: undefined });
    expect(await records()).toBe(0);
  });

  test("a claim does not run an event that was done when its record was leased", async () => {
    const { schema, store, client } = await beside();
    await store.add(eventOf("booking:A"));
    const [claim] = await store.claim(CLAIM);
    // The record is due again, but its only event ends in another transaction.
    await client.query(`SELECT FROM ${schema}.events FOR UPDATE`);
    expect(await store.claim(CLAIM)).toEqual([]);
    await client.query("COMMIT");
    expect(await store.settle(claim!, DONE)).toBe(true);
    await schemas.pool.query(`UPDATE ${schema}.records SET due_at = 0`);
    expect(await store.claim(CLAIM)).toEqual([]);
    expect(await store.nextDue()).toBeUndefined();
  });
});
