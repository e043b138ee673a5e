import pg from "pg";
import { postgresStore } from "../../../src/stores/postgres/index.ts";
import { createWorker } from "../crash-worker.ts";

const { place, point, handleAll } = createWorker<{ readonly url: string; readonly schema: string }>();
const { url, schema } = place;

const pool = new pg.Pool({ connectionString: url, allowExitOnIdle: true, max: 4 });
pool.on("connect", (client) => {
  const query = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>;
  Object.assign(client, {
    query: async (...args: unknown[]) => {
      const [first] = args;
      const text = typeof first === "string" ? first : (first as { readonly text: string }).text;
      if (/FROM \S+\.settle_events/.test(text)) await point("before the end of the event");
      if (text === "COMMIT") await point("before the commit");
      const result = await query(...args);
      if (text === "COMMIT") await point("after the commit");
      return result;
    },
  });
});

await handleAll(postgresStore({ pool, schema }), {
  begin: (eventId) => pool.query(`INSERT INTO ${schema}.begun VALUES ($1)`, [eventId]),
  handle: (tx, eventId) => tx.query(`INSERT INTO ${schema}.handled VALUES ($1)`, [eventId]),
});
await pool.end();
process.disconnect?.();
