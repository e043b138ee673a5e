import { DatabaseSync } from "node:sqlite";
import { afterAll, test } from "vitest";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { checkAgainstModel } from "../model-check.ts";

const db = new DatabaseSync(":memory:");
afterAll(() => db.close());

/** One database for all walks, emptied: making one takes longer than walking. */
function emptyStore() {
  const store = sqliteStore(db);
  db.exec("DELETE FROM stayhook_events; DELETE FROM stayhook_locks; DELETE FROM stayhook_statuses");
  return store;
}

test("the store does what a plain list of all events does", async () => {
  const max = Number.POSITIVE_INFINITY;
  await checkAgainstModel({ create: emptyStore, max, sameTime: "first added", numRuns: 300 });
}, 60_000);
