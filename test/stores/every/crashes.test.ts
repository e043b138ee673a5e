import { join } from "node:path";
import { testCrashes } from "../crash-check.ts";
import type { Point } from "../crash-worker.ts";
import { describeEvery, type Kind } from "./stores.ts";

const SERVERS: readonly Point[] = [
  "in the callback",
  "in the writes",
  "before the commit",
  "after the commit",
];
const POINTS: Partial<
  Record<Kind["name"], { readonly killedAt: readonly Point[]; frozenAt: readonly Point[] }>
> = {
  // The writes of SQLite are synchronous: a process that is frozen in them holds the database's write lock.
  SQLite: {
    killedAt: ["in the callback", "before the commit", "after the commit"],
    frozenAt: ["in the callback"],
  },
  PostgreSQL: { killedAt: SERVERS, frozenAt: ["in the callback", "in the writes", "before the commit"] },
  MySQL: { killedAt: SERVERS, frozenAt: ["in the callback"] },
};

describeEvery(
  ({ name }) => name in POINTS,
  (kind) => {
    testCrashes({
      worker: join(import.meta.dirname, "worker.ts"),
      ...POINTS[kind.name]!,
      async create() {
        const place = await kind.create();
        for (const table of ["handled", "begun"])
          await place.sql(`CREATE TABLE ${table} (event VARCHAR(36))`);
        const store = place.open();
        return {
          place: place.place,
          store,
          rows: async (table) =>
            (await place.sql(`SELECT event FROM ${table}`)).map(({ event }) => String(event)),
          close: () => store.close(),
        };
      },
    });
  },
);
