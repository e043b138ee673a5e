import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createSlots } from "../../../src/async.ts";
import { storeContract } from "../../../src/stores/contract/index.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { createSchemas, describePostgres, url } from "./support.ts";

/** Starts the case now, not when the test runner gets to it. */
function started(run: () => Promise<void>): () => Promise<void> {
  const running = new Promise<void>((resolve, reject) => {
    beforeAll(() => void run().then(resolve, reject));
  });
  running.catch(() => {});
  return () => running;
}

describePostgres("the contract of a store", () => {
  const schemas = createSchemas();
  // All stores share one pool, because a server allows about a hundred connections.
  const pool = new pg.Pool({ connectionString: url, max: 8 });
  afterAll(() => pool.end());
  const schemaOf = new Map<unknown, string>();
  const open = (schema: string) => {
    const store = schemas.store({ pool, schema });
    schemaOf.set(store, schema);
    return store;
  };
  const cases = storeContract(() => open(schemas.name()), {
    unit: 500,
    async reopen(store) {
      await store.close();
      return open(schemaOf.get(store) as string);
    },
    another: (store) => open(schemaOf.get(store) as string),
  });

  test("it includes the cases for shared stores", () => {
    expect(cases.length).toBeGreaterThan(100);
  });
  test("a record without a snapshot leaves no row when its last event has ended", async () => {
    const schema = schemas.name();
    const store = open(schema);
    await store.add(eventOf(null));
    await store.add(eventOf("booking:A"));
    const claims = await store.claim(CLAIM);
    const records = async () => (await pool.query(`SELECT ref FROM ${schema}.records`)).rowCount;
    expect(await records()).toBe(2);
    for (const claim of claims) await store.settle(claim, { ...DONE, record: undefined });
    expect(await records()).toBe(0);
    await store.close();
  });
  test("add creates a record's row again after somebody has deleted it", async () => {
    const schema = schemas.name();
    const store = open(schema);
    await store.learn("booking:A", { status: "Confirmed", fields: {} });
    await pool.query(`DELETE FROM ${schema}.records`);
    expect(await store.add(eventOf("booking:A"))).toBe("added");
    expect(await store.claim(CLAIM)).toHaveLength(1);
    await store.close();
  });
  // Run more cases at once than the test runner does, because they wait most of the time.
  const slots = createSlots(12);
  for (const { name, run } of cases)
    test.concurrent(
      name,
      { timeout: 120_000 },
      started(() => slots.run(run)),
    );
});
