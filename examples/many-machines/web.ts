// A receiver. It records notifications and answers them, and runs no callback. You can start any number of them.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { toNodeHandler } from "stayhook/node";
import { store, webhooks } from "./handler.ts";

const server = createServer(toNodeHandler(webhooks));
const { HOST = "127.0.0.1", PORT = "3000" } = process.env;
server.listen(Number(PORT), HOST, () =>
  console.log(`listening on port ${(server.address() as AddressInfo).port} of ${HOST}`),
);

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, stop);

async function stop() {
  server.close();
  await webhooks.close();
  await store.close();
  process.exit(); // a callback that ignores its signal may hold a timer
}
