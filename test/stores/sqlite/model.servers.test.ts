import { DatabaseSync } from "node:sqlite";
import { afterAll, test } from "vitest";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { checkAgainstModel } from "../model-check.ts";

const db = new DatabaseSync(":memory:");
afterAll(() => db.close());

/** Empties the one database that all runs share, because making one takes longer than a run. */
function emptyStore() {
  const store = sqliteStore(db);
  db.exec("DELETE FROM stayhook_events; DELETE FROM stayhook_records");
  db.exec("DELETE FROM stayhook_meta WHERE name <> 'schema'");
  return store;
}

test("the store gives the same results as the model", async () => {
  await checkAgainstModel({ create: emptyStore, numRuns: Number(process.env.STAYHOOK_MODEL_RUNS ?? 300) });
});
