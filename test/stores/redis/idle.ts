/** A process that uses a store, subscribes to it, and closes nothing. */
import { redisStore } from "../../../src/stores/redis/index.ts";
import { eventOf, silent } from "../event.ts";

const { url }: { readonly url: string } = JSON.parse(process.argv[2]!);
const store = redisStore({ url, logger: silent, commandTimeout: 1000 });
store.subscribe?.(() => {});
await store.add(eventOf()).catch((error: Error) => console.log(error.message));
// Hold the process open until the subscription exists.
await new Promise((resolve) => setTimeout(resolve, 200));
if (process.getActiveResourcesInfo().includes("Timeout")) console.log("a timer holds it open");
