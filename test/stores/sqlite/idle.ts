/** A process that uses a store, subscribes to it, and closes nothing. */
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { eventOf } from "../event.ts";

const { file }: { file: string } = JSON.parse(process.argv[2]!);
const store = sqliteStore(file);
store.subscribe?.(() => {});
await store.add(eventOf());
