import { DatabaseSync } from "node:sqlite";
import { test } from "vitest";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { compareWithMemory } from "../differential.ts";
test("x", async () => {
  const db = new DatabaseSync(":memory:");
  const store = sqliteStore(db);
  try { await compareWithMemory(store, 757148674, 100, () => {
    const bad = db.prepare("SELECT e.ref, e.seq, e.state, e.due_at AS edue, e.source, r.* FROM stayhook_events e LEFT JOIN stayhook_records r ON r.ref=e.ref WHERE e.due_at IS NOT NULL AND (r.due_at IS NULL OR (r.due_at > e.due_at AND r.lease_end IS NULL))").all();
    if (bad.length) throw new Error(JSON.stringify(bad));
  }); } catch (e) { console.log((e as Error).message.split("\n").slice(-6).join("\n").slice(0, 3000), String((e as Error).cause).slice(0,1500)); console.log(db.prepare("select ref,due_at,lease_end from stayhook_records").all(), db.prepare("select seq,ref,state,due_at from stayhook_events where due_at is not null").all()) }
}, 60000);
