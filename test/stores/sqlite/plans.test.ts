import { DatabaseSync } from "node:sqlite";
import { afterAll, expect, test } from "vitest";
import { statementsOf } from "../../../src/stores/sql/sql-statements.ts";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { sqliteDialect } from "../../../src/stores/sqlite/sqlite-dialect.ts";

const db = new DatabaseSync(":memory:");
const store = sqliteStore(db);
const statements = statementsOf(sqliteDialect);
afterAll(() => db.close());

function planOf(sql: string): string[] {
  const rows = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all();
  return rows.map(({ detail }) => String(detail));
}

const plans = Object.entries(statements)
  .filter(([name]) => name !== "counts")
  .map(([name, sql]) => [name, planOf(sql)] as const);

test.each(plans)("%s scans no table", (_, plan) => {
  for (const step of plan) {
    // A plan may scan and sort the few rows of a subquery.
    expect(step).not.toMatch(/^SCAN (?!CONSTANT ROW|\(subquery|[a-d]$|old$|ready$|waiting$|wanted$|blocks$)/);
  }
});

test.each([
  ["claimable", "stayhook_queue_pending (pending_at=?)"],
  ["claimableNewest", "stayhook_queue_pending (pending_at=?)"],
  ["claimableAgain", "stayhook_queue_pending (pending_at>? AND pending_at<?)"],
  ["claimableRetries", "stayhook_queue_retries (retry_at<?)"],
  ["oldestDue", "stayhook_events_pending (record=? AND ready_at=?)"],
  ["oldestDue", "stayhook_events_retrying (record=? AND ready_at<?)"],
  ["oldestDue", "stayhook_events_processing (record=? AND ready_at<?)"],
  ["firstPending", "stayhook_events_pending (record=?"],
  ["firstRetry", "stayhook_events_retrying (record=?"],
  ["firstRetry", "stayhook_events_processing (record=?"],
  ["laterDue", "stayhook_events_later (ready_at>? AND ready_at<?)"],
  ["waitsAhead", "stayhook_events_waits (wait_from>?)"],
  ["queueWaitsAhead", "stayhook_queue_waits (wait_from>?)"],
  ["pruneDone", "stayhook_events_done (ended_at<?)"],
  ["pruneParked", "stayhook_events_parked (ended_at<?)"],
  ["pruneParkedFor", "stayhook_events_parked_for (reason=? AND ended_at<?)"],
  ["oldRecords", "stayhook_records_seen (seen_from<?)"],
  ["eraseEvents", "stayhook_events_record (<expr>=? AND <expr>=?)"],
  ["parkedOf", "stayhook_events_parked_of (record=?)"],
  ["oldestWaiting", "stayhook_events_open (state=?"],
] as const)("%s uses the index %s", (name, index) => {
  expect(planOf(statements[name]).join("\n")).toContain(index);
});

test.each([
  [{ state: "parked" }, "stayhook_events_open (state=?"],
  [{ ref: "booking:A" }, "stayhook_events_record (<expr>=? AND <expr>=?)"],
  [{ eventId: "00000000-0000-4000-8000-000000000000" }, "(id=? AND rowid>? AND rowid<?)"],
  [{ reason: "denied" }, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
] as const)("a list of %j uses the index %s", async (filter, index) => {
  const prepare = db.prepare.bind(db);
  let listed = "";
  db.prepare = (sql) => {
    if (sql.includes("e.seq <")) listed = sql;
    return prepare(sql);
  };
  await store.list({ ...filter, limit: 10 });
  db.prepare = prepare;
  const plan = planOf(listed);
  expect(plan.join("\n")).toContain(index);
  expect(plan.join("\n")).not.toMatch(/^SCAN e/m);
});

test.each([
  "firstPending",
  "claimable",
  "claimableNewest",
  "claimableRetries",
  "sliceEnd",
  "newestReceived",
] as const)("%s needs no sort", (name) => {
  expect(planOf(statements[name]).join("\n")).not.toContain("TEMP B-TREE");
});
