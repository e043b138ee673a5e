// Runs the table of every order: all pairs of calls, and all triples of a claim with two other calls.
import { pairs, runTable, sampleOf, shown, triples } from "../test/stores/orders/orders.ts";
import type { StoreName } from "../test/stores/orders/places.ts";
import type { StoreName as SoakName } from "./places.ts";
import type { Row } from "./table.ts";

const NAMES: Readonly<Record<SoakName, StoreName>> = {
  sqlite: "SQLite",
  postgres: "PostgreSQL",
  redis: "Redis",
  mysql: "MariaDB",
};

/** @param count - how many triples run on each store, chosen at random. Default: all, which takes hours */
export async function orders(stores: readonly SoakName[], count = Number.POSITIVE_INFINITY): Promise<Row[]> {
  const rows: Row[] = [];
  const seed = Math.floor(Math.random() * 2 ** 31);
  console.log(`triples: seed ${seed}`);
  for (const name of stores.map((store) => NAMES[store])) {
    for (const [what, lines] of [
      ["pairs", pairs(name)],
      ["triples", sampleOf(triples(name), count, seed)],
    ] as const) {
      const bounds = { switches: what === "pairs" ? 2 : 1, orders: 10_000 };
      const table = await runTable(name, lines, { source: process.cwd(), workers: 3, bounds });
      if (table === undefined) continue;
      for (const failure of table.failures) console.log(shown(failure, name));
      const { orders, capped, failures } = table;
      rows.push({
        cells: {
          store: name,
          calls: what,
          lines: String(table.lines),
          orders: String(orders),
          "lines not run to the end": String(capped),
          failures: String(failures.length),
        },
        failed: failures.length > 0,
      });
    }
  }
  return rows;
}
