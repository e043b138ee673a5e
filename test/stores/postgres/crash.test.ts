import { join } from "node:path";
import { testCrashes } from "../crash-check.ts";
import { createSchemas, describePostgres, url } from "./support.ts";

describePostgres("workers whose callbacks write to the user's tables", () => {
  const schemas = createSchemas();

  testCrashes({
    worker: join(import.meta.dirname, "worker.ts"),
    killedAt: ["in the writes", "before the end of the event", "before the commit", "after the commit"],
    frozenAt: ["in the callback", "in the writes", "before the commit"],
    async create() {
      const schema = schemas.name();
      const store = schemas.store({ schema });
      await store.migrate();
      for (const table of ["handled", "begun"])
        await schemas.pool.query(`CREATE TABLE ${schema}.${table} (event text)`);
      return {
        place: { url, schema },
        store,
        async rows(table) {
          const { rows } = await schemas.pool.query(`SELECT event FROM ${schema}.${table}`);
          return rows.map(({ event }) => event as string);
        },
        close: () => store.close(),
      };
    },
  });
});
