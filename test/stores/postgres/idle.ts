/** A process that uses a store, subscribes to it, gets a notification, and closes nothing. */
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { postgresStore } from "../../../src/stores/postgres/index.ts";
import { eventOf } from "./event.ts";

const { url, schema, kind }: { url: string; schema: string; kind: string } = JSON.parse(process.argv[2]!);
const pool = new pg.Pool({ connectionString: url, allowExitOnIdle: true });
const store = postgresStore({
  ...(kind === "pool" ? { pool } : { connectionString: url }),
  ...(kind === "poll" ? { wake: "poll", pollInterval: 50 } : {}),
  schema,
});
let woken = false;
store.subscribe?.(() => {
  woken = true;
});
while (!woken) await sleep(5);
await store.add(eventOf());
process.disconnect?.();
