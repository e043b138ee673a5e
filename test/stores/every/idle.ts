/** A process that uses a store, subscribes to it, and closes nothing. */
import { eventOf } from "../event.ts";
import { openPlace } from "./open-place.ts";
import type { WorkerPlace } from "./stores.ts";

const { place }: { readonly place: WorkerPlace } = JSON.parse(process.argv[2]!);
const { store } = await openPlace(place);
store.subscribe?.(() => {});
await store.add(eventOf());
// Hold the process open until the subscription exists.
await new Promise((resolve) => setTimeout(resolve, 300));
process.disconnect?.();
