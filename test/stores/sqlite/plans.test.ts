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
  .filter(([name]) => name !== "counts" && name !== "tableExists")
  .map(([name, sql]) => [name, planOf(sql)] as const);

test.each(plans)("%s scans no table", (_, plan) => {
  for (const step of plan) {
    // A plan may scan and sort the few rows of a subquery.
    expect(step).not.toMatch(
      /^SCAN (?!CONSTANT ROW|\d+-ROW VALUES|\(subquery|free$|first$|next$|waiting$|wanted$|blocks$|old$|mine$)/,
    );
  }
});

test.each([
  ["claimable", "stayhook_records_due (due_at<?)"],
  ["firstDue", "stayhook_events_due (ref=? AND due_at"],
  ["firstDueAt", "stayhook_events_due (ref=?"],
  ["openEvents", "stayhook_events_due (ref=?"],
  ["parkedEvents", "stayhook_events_parked_of (ref=?)"],
  ["oldDone", "stayhook_events_done (source=? AND done_at<?)"],
  ["doneTimers", "stayhook_events_done (source=? AND done_at>? AND done_at<?)"],
  ["oldParked", "stayhook_events_parked (done_at<?)"],
  ["oldSnapshots", "stayhook_records_seen (seen_at<?)"],
  ["endedEvents", "stayhook_events_record (<expr>=? AND <expr>=?)"],
  ["oldestWaiting", "stayhook_events_waiting (state=?"],
  ["oldestWaiting", "stayhook_events_scheduled (due_at<?)"],
  ["scheduledDue", "stayhook_events_scheduled (due_at<?)"],
  ["lastReceived", "stayhook_events_received"],
] as const)("%s uses the index %s", (name, index) => {
  expect(planOf(statements[name]).join("\n")).toContain(index);
});

test.each([
  [{ state: "parked" }, "stayhook_events_waiting (state=?"],
  [{ ref: "booking:A" }, "stayhook_events_record (<expr>=? AND <expr>=?)"],
  [{ eventId: "00000000-0000-4000-8000-000000000000" }, "(id=?)"],
  [{ reason: "denied" }, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
] as const)("a list of %j uses the index %s", async (filter, index) => {
  const prepare = db.prepare.bind(db);
  let listed = "";
  db.prepare = (sql) => {
    if (sql.includes("seq DESC LIMIT ?")) listed = sql;
    return prepare(sql);
  };
  await store.list({ ...filter, limit: 10 });
  db.prepare = prepare;
  const plan = planOf(listed);
  expect(plan.join("\n")).toContain(index);
  expect(plan.join("\n")).not.toMatch(/^SCAN stayhook_events/m);
});

test("`only` finds the few records of an account by their keys, and the many of another one by their due time", async () => {
  const prepare = db.prepare.bind(db);
  const searches = async (only: string) => {
    const found: string[] = [];
    db.prepare = (sql) => {
      if (/stayhook_records WHERE.*ORDER BY/s.test(sql)) found.push(sql);
      return prepare(sql);
    };
    await store.claim({ limit: 1, leaseDuration: 1000, only: [only] });
    await store.nextDue({ only: [only] });
    db.prepare = prepare;
    return found.map((sql) => planOf(sql).join("\n")).join("\n");
  };
  db.exec(`WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2000)
    INSERT INTO stayhook_records (ref, due_at) SELECT CASE WHEN n > 1000 THEN 'many/' ELSE 'few/' END || n, 1e12 FROM n`);
  db.exec("INSERT INTO stayhook_records (ref, due_at) VALUES ('many/', 1e12)");
  const few = await searches("few/");
  expect(few).toContain("PRIMARY KEY (ref>? AND ref<?)");
  expect(few).not.toContain("stayhook_records_due");
  expect(await searches("many/")).toContain("stayhook_records_due (due_at<?)");
});

test.each(["claimable", "firstDue", "firstDueAt", "sliceEnd", "lastReceived", "oldDone"] as const)(
  "%s needs no sort",
  (name) => {
    expect(planOf(statements[name]).join("\n")).not.toContain("TEMP B-TREE");
  },
);
