// A worker. It runs callbacks and has no server. You can start any number of them.
import { store, webhooks } from "./handler.ts";

webhooks.start();
// Workers do not keep the process alive, and there is no server. So a timer must do it.
const alive = setInterval(() => {}, 60 * 60_000);

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, stop);

async function stop() {
  await webhooks.close(); // waits for the callbacks that run
  await store.close();
  clearInterval(alive);
  process.exit(); // a callback that ignores its signal may hold a timer
}
