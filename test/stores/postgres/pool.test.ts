import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { race } from "../every/race.ts";
import { createSchemas, describePostgres, url } from "./support.ts";

describePostgres("a small pool of the user", () => {
  const schemas = createSchemas();

  function poolOf(max: number): pg.Pool {
    const pool = new pg.Pool({ connectionString: url, max });
    onTestFinished(() => pool.end());
    return pool;
  }

  test.each([1, 2])("of %i connections is enough for several stores at once", async (max) => {
    const [pool, schema] = [poolOf(max), schemas.name()];
    const stores = [1, 2, 3].map(() => schemas.store({ pool, schema, commandTimeout: 30_000 }));
    await race(stores, 150, max);
    await Promise.all(stores.map((store) => store.close()));
  });

  test.each([1, 2])("of %i connections is enough for event.atomically", async (max) => {
    const [pool, schema] = [poolOf(max), schemas.name()];
    const store = schemas.store({ pool, schema, commandTimeout: 30_000 });
    const refs = Array.from({ length: 8 }, (_, index) => `booking:${index}`);
    await Promise.all(refs.map((ref) => store.add(eventOf(ref))));
    await pool.query(`CREATE TABLE ${schema}.nights (ref text)`);
    const ends = (await store.claim(CLAIM)).map(async (claim) => {
      const write = (client: pg.ClientBase) =>
        client.query(`INSERT INTO ${schema}.nights VALUES ('${claim.ref}')`).then(() => {});
      const [ended] = await Promise.all([
        store.settle(claim, { ...DONE, writes: [write] }),
        store.renew([claim], 60_000),
        store.add(eventOf("booking:later")),
        store.nextDue(),
      ]);
      return ended;
    });
    expect(await Promise.all(ends)).toEqual(refs.map(() => true));
    const { rows } = await pool.query(`SELECT ref FROM ${schema}.nights ORDER BY ref`);
    expect(rows.map(({ ref }) => ref)).toEqual(refs);
    await store.close();
  });

  test("whose connections all have open transactions lets store.with(client) be the first call", async () => {
    const [pool, schema] = [poolOf(2), schemas.name()];
    await schemas.store({ schema }).migrate();
    const store = schemas.store({ pool, schema, commandTimeout: 1000 });
    const clients = await Promise.all([pool.connect(), pool.connect()]);
    try {
      for (const client of clients) await client.query("BEGIN");
      const added = clients.map((client, n) => store.with(client).add(eventOf(`booking:${n}`)));
      expect(await Promise.all(added)).toEqual(["added", "added"]);
      for (const client of clients) await client.query("COMMIT");
    } finally {
      for (const client of clients) client.release();
    }
    expect(await store.counts()).toMatchObject({ pending: 2 });
    await store.close();
  });
});
