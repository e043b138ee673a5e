import { DatabaseSync } from "node:sqlite";
import { afterAll, expect, test } from "vitest";
import { migrate } from "../../../src/stores/sqlite/schema.ts";
import { statementTexts } from "../../../src/stores/sqlite/statements.ts";

const db = new DatabaseSync(":memory:");
migrate(db);
afterAll(() => db.close());

/** How SQLite goes about a statement. */
function planOf(sql: string): string[] {
  const rows = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all();
  return rows.map(({ detail }) => String(detail));
}

const plans = Object.entries(statementTexts)
  .filter(([name]) => name !== "counts")
  .map(([name, sql]) => [name, planOf(sql)] as const);

test.each(plans)("%s goes through no table, and sorts nothing", (_, plan) => {
  for (const step of plan) {
    // What it scans are the row or two that a subquery gives.
    expect(step).not.toMatch(/^SCAN (?!\(subquery)|TEMP B-TREE/);
  }
});

test.each([
  ["readyPending", "stayhook_locks_pending (pending_at<?)"],
  ["readyRetries", "stayhook_locks_retries (retry_at<?)"],
  ["refresh", "stayhook_events_pending (lock=?)"],
  ["refresh", "stayhook_events_retries (lock=?)"],
  ["pruneDone", "stayhook_events_done (ended_at<?)"],
  ["pruneParked", "stayhook_events_parked (ended_at<?)"],
  ["pruneParkedFor", "stayhook_events_parked_for (reason=? AND ended_at<?)"],
  ["pruneStatuses", "stayhook_statuses_seen (seen_at<?)"],
  ["listOpen", "stayhook_events_open (state=?"],
  ["oldestWaiting", "stayhook_events_open (state=?"],
  ["parkedAfter", "stayhook_events_open (state=?"],
] as const)("%s goes by %s", (name, index) => {
  expect(planOf(statementTexts[name]).join("\n")).toContain(index);
});
