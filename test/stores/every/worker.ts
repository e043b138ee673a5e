import { createWorker } from "../crash-worker.ts";
import { openPlace } from "./open-place.ts";
import type { WorkerPlace } from "./stores.ts";

const { place, standAt, point, handleAll } = createWorker<WorkerPlace>();
const { store, run, write, end } = await openPlace(place, standAt?.endsWith("commit") ? point : undefined);
await handleAll(store, {
  begin: (eventId) => run(`INSERT INTO begun VALUES ('${eventId}')`),
  handle: (tx, eventId) => write(tx, `INSERT INTO handled VALUES ('${eventId}')`),
});
await end();
process.disconnect?.();
