import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { expect, onTestFinished, test, vi } from "vitest";
import { statements } from "../../../src/stores/postgres/postgres-statements.ts";
import { CLAIM, DONE, eventOf, RETRY } from "../event.ts";
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
    const hold = (record: string) =>
      client.query(`SELECT FROM ${schema}.records WHERE record = $1 FOR UPDATE`, [record]);
    /** Resolves when a call of the store waits for a lock. */
    const waits = (call: string) =>
      vi.waitFor(async () => {
        const sql = "SELECT FROM pg_stat_activity WHERE query LIKE $1 AND wait_event_type = 'Lock'";
        expect((await schemas.pool.query(sql, [`%${schema}".${call}(%`])).rowCount).toBe(1);
      }, 20_000);
    return { schema, store, client, hold, waits };
  }

  test("claim skips the record", async () => {
    const { store, hold } = await beside();
    await store.add(eventOf("booking:A"));
    await store.add(eventOf("booking:B"));
    await hold("booking:A");
    expect(await store.claim(CLAIM)).toMatchObject([{ ref: "booking:B" }]);
  });

  test("renew extends other records' leases at once, and the record's lease after the lock ends", async () => {
    const { store, client, hold, waits } = await beside();
    for (const name of ["A", "B"]) await store.add(eventOf(`booking:${name}`));
    const claims = await store.claim({ limit: 2, leaseDuration: 1500 });
    await hold("booking:A");
    // The record is locked, so the store reports that it did not renew the claim.
    expect(await store.renew(claims, 1500)).toMatchObject([{ ref: "booking:B" }]);
    const renewed = store.renew(claims, 60_000);
    await waits("renew_leases");
    await client.query("COMMIT");
    expect(await renewed).toEqual(claims);
    expect(await store.claim(CLAIM)).toEqual([]);
    expect(await store.settle(claims[0]!, DONE)).toBe(true);
  });

  test("settle records other records' outcomes at once, and the record's outcome after the lock ends", async () => {
    const { store, client, hold, waits } = await beside();
    for (const name of ["A", "B", "C"]) await store.add(eventOf(`booking:${name}`));
    const claims = await store.claim(CLAIM);
    await hold("booking:A");
    const [own, ...others] = claims.map((claim) => store.settle(claim, DONE));
    expect(await Promise.all(others)).toEqual([true, true]);
    await waits("settle_events");
    expect(await store.counts()).toMatchObject({ processing: 1, done: 2 });
    await client.query("COMMIT");
    expect(await own).toBe(true);
  });

  test("a replay that waited for the lock skips an event that was claimed in the meantime", async () => {
    const { schema, store, client, waits } = await beside();
    const event = eventOf("booking:A");
    await store.add(event);
    const [first] = await store.claim(CLAIM);
    await store.settle(first!, RETRY);
    // The next transaction gets a later now().
    await client.query("COMMIT");
    await client.query("BEGIN");
    const { rows } = await client.query(statements(schema).claim, [
      randomUUID(),
      1,
      60_000,
      "oldest",
      null,
      null,
      0,
    ]);
    expect(rows).toMatchObject([{ id: event.eventId }]);
    const replayed = store.replay({ eventId: event.eventId });
    await waits("change_events");
    await client.query("COMMIT");
    expect(await replayed).toBe(0);
    expect(await store.claim(CLAIM)).toEqual([]);
    expect(await store.get(event.eventId)).toMatchObject({ state: "processing", attempts: 2 });
  });

  test("adds to the record wait on one connection, and leave the other connections free", async () => {
    const { schema, store, client, hold } = await beside();
    await store.add(eventOf("booking:A"));
    await hold("booking:A");
    const added: Promise<string>[] = [];
    for (let round = 0; round < 12; round++) {
      added.push(store.add(eventOf("booking:A")));
      await sleep(30);
    }
    expect(await store.add(eventOf("booking:B"))).toBe("added");
    const sql = "SELECT FROM pg_stat_activity WHERE query LIKE $1 AND wait_event_type = 'Lock'";
    expect((await schemas.pool.query(sql, [`%${schema}"%`])).rowCount).toBe(1);
    expect(await store.claim(CLAIM)).toMatchObject([{ ref: "booking:B" }]);
    await client.query("COMMIT");
    expect(new Set(await Promise.all(added))).toEqual(new Set(["added"]));
    expect(await store.counts()).toMatchObject({ pending: 13, processing: 1 });
  });

  test("close waits for adds that were called before it", async () => {
    const { store, client, hold, waits } = await beside();
    await store.add(eventOf("booking:A"));
    await hold("booking:A");
    const first = store.add(eventOf("booking:A"));
    await waits("add_events");
    // The store has not sent this call yet.
    const second = store.add(eventOf("booking:A"));
    await sleep(20);
    const closed = store.close();
    await client.query("COMMIT");
    expect(await Promise.all([first, second])).toEqual(["added", "added"]);
    await closed;
    await expect(store.add(eventOf("booking:A"))).rejects.toThrow("closed");
  });

  /** Runs a statement that must not wait for a lock, and rolls it back. */
  async function isFree(text: string, values: readonly unknown[]): Promise<boolean> {
    const client = await schemas.pool.connect();
    try {
      await client.query("BEGIN; SET LOCAL lock_timeout = '200ms'");
      return await client.query(text, [...values]).then(
        () => true,
        () => false,
      );
    } finally {
      await client.query("ROLLBACK");
      client.release();
    }
  }

  // Calls that take locks in the same order cannot deadlock.
  test("a group of adds that waits for a record holds no lock on a later record", async () => {
    const { schema, store, client, hold, waits } = await beside();
    const names = [..."HGFEDCBA"].map((name) => `booking:${name}`);
    for (const name of names) await store.add(eventOf(name));
    await hold("booking:A");
    const added = Promise.all(names.map((name) => store.add(eventOf(name))));
    await waits("add_events");
    for (const name of names.slice(0, -1)) {
      const sql = `SELECT FROM ${schema}.records WHERE record = $1 FOR UPDATE`;
      expect(await isFree(sql, [name]), name).toBe(true);
    }
    await client.query("COMMIT");
    expect(new Set(await added)).toEqual(new Set(["added"]));
  });

  test("a group of adds that waits for an id holds no lock on a later id", async () => {
    const { schema, store, client, waits } = await beside();
    const ids = [..."87654321"].map((digit) => randomUUID().replace(/^./, digit));
    await store.with(client).add(eventOf(null, ids.at(-1)));
    const added = Promise.all(ids.map((id) => store.add(eventOf(null, id))));
    await waits("add_events");
    for (const id of ids.slice(0, -1)) {
      const values = [[id], ["booking:A"], ["webhook"], [null], [""], ["{}"], [null], [null], "100ms", false];
      expect(await isFree(statements(schema).add, values), id).toBe(true);
    }
    await client.query("COMMIT");
    expect(await added).toEqual([...Array(7).fill("added"), "duplicate"]);
  });
});

describePostgres("concurrent calls of settle", () => {
  const schemas = createSchemas();

  test("share a statement, and each call gets its own answer", async () => {
    const pool = new pg.Pool({ connectionString: url, max: 4 });
    const sent: string[] = [];
    pool.on("connect", (client) => {
      const { query } = client;
      client.query = ((...args: [{ text?: string }]) => {
        sent.push(args[0]?.text ?? String(args[0]));
        return Reflect.apply(query, client, args);
      }) as typeof query;
    });
    const store = schemas.store({ pool });
    for (let n = 0; n < 40; n++) await store.add(eventOf(`booking:${n}`));
    const claims = await store.claim(CLAIM);
    const stale = claims.map((claim, n) => (n % 4 === 0 ? { ...claim, lease: "another" } : claim));
    sent.length = 0;
    const settled = await Promise.all(stale.map((claim, n) => store.settle(claim, n % 2 ? DONE : RETRY)));
    expect(settled).toEqual(claims.map((_, n) => n % 4 !== 0));
    expect(sent.filter((text) => text.includes("settle_events")).length).toBeLessThanOrEqual(2);
    expect(await store.counts()).toMatchObject({ processing: 10, done: 20, retrying: 10 });
    await store.close();
    await pool.end();
  });
});
