// A process that runs callbacks, and listens to nobody. As many as you like.
import { store, webhooks } from "./handler.ts";

webhooks.start();
// Processing holds no process open when there is nothing to do: without a server, something else has to.
const alive = setInterval(() => {}, 60 * 60_000);

process.once("SIGTERM", async () => {
  await webhooks.close(); // waits for the callbacks that run
  await store.close();
  clearInterval(alive);
});
