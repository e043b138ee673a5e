// Runs a sample of the table of every order, and the lines that have found a fault. `npm run soak -- orders` runs all.
import { describe, expect, test } from "vitest";
import { seedOf } from "../../system/random.ts";
import { nameOf, pairs, runTable, sampleOf, shown } from "./orders.ts";

const seed = seedOf("every order");

/** Each of these lines failed on an earlier version, on at least one of the databases. */
const FAILED = [
  "settle done | replay what is parked (the last event is leased)",
  "settle done | replay what is parked (the lease has ended)",
  "settle done | restore (the lease has ended)",
  "settle done | settle done with writes (leased)",
  "claim | remove the timers (the lease has ended)",
  "add in place of an ended event | prune (free)",
  "add in place of an ended event | prune (nothing waits)",
  "remove the timers | replay what is parked (nothing waits)",
  "replay what is parked | replay what is parked (free)",
  "replay what is parked | discard (free)",
  "claim whose answer is lost | claim that arrives late (free)",
];

describe.each([
  { name: "PostgreSQL", sample: 20 },
  { name: "MariaDB", sample: 10 },
  { name: "Redis", sample: 50 },
  { name: "SQLite", sample: 100 },
] as const)("$name", ({ name, sample }) => {
  test(`two calls give what some order of the whole calls gives, in every order of their statements`, async ({
    skip,
  }) => {
    const all = pairs(name);
    const known = all.filter((line) => FAILED.includes(nameOf(line)));
    const lines = [...new Set([...known, ...sampleOf(all, sample, seed)])];
    const bounds = { switches: 1, orders: 10_000 };
    const table = await runTable(name, lines, { source: process.cwd(), workers: 2, bounds });
    if (table === undefined) return skip(`${name} does not run`);
    console.log(`${name}: ${table.lines} lines, ${table.orders} orders`);
    expect(table.failures.map((failure) => shown(failure, name))).toEqual([]);
    expect(table.orders).toBeGreaterThan(lines.length);
  });
});
