// Runs the table of every order by hand:
//
//     node test/stores/orders/main.ts [--store PostgreSQL] [--source <directory>] [--line <part of a name>]
//       [--schedule <digits>] [--triples] [--switches <number>] [--orders <number>] [--workers <number>] [--all]
import { parseArgs } from "node:util";
import { nameOf, pairs, runTable, shown, triples } from "./orders.ts";
import type { StoreName } from "./places.ts";

const { values } = parseArgs({
  options: {
    ...{ store: { type: "string" }, source: { type: "string" }, line: { type: "string" } },
    ...{ schedule: { type: "string" }, triples: { type: "boolean" } },
    ...{
      switches: { type: "string" },
      orders: { type: "string" },
      all: { type: "boolean" },
      workers: { type: "string" },
    },
  },
});
const names = (values.store?.split(",") ?? ["PostgreSQL", "MariaDB", "Redis", "SQLite"]) as StoreName[];
const bounds = { switches: Number(values.switches ?? 2), orders: Number(values.orders ?? 10_000) };

for (const name of names) {
  const start = performance.now();
  const lines = (values.triples ? triples(name) : pairs(name)).filter(
    (line) => values.line === undefined || nameOf(line).includes(values.line),
  );
  const options = { source: values.source ?? process.cwd(), workers: Number(values.workers ?? 2), bounds };
  const table = await runTable(name, lines, { ...options, schedule: values.schedule });
  if (table === undefined) continue;
  const kinds = new Map(table.failures.map((failure) => [failure.line, failure]));
  for (const failure of values.all ? table.failures : kinds.values()) console.log(shown(failure, name));
  const seconds = Math.round((performance.now() - start) / 100) / 10;
  console.log(
    `${name}: ${table.lines} lines, ${table.orders} orders in ${seconds} s, ${table.capped} lines capped, ` +
      `${table.failures.length} failures in ${kinds.size} lines`,
  );
  if (table.failures.length > 0) process.exitCode = 1;
}
