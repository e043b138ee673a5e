// Runs in its own process with --expose-gc. It attacks its own server for a while. Then it prints two heap sizes, the
// number of connections that are still open, and the handles that are left.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { toNodeHandler } from "../../src/adapters/node.ts";
import { createWebhookHandler, memoryStore, StayhookClient } from "../../src/index.ts";
import { attacks } from "./hostile-requests.ts";
import { randomOf } from "./random.ts";
import { attack } from "./raw-socket.ts";

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const webhooks = createWebhookHandler({
  client: new StayhookClient({
    baseUrl: "https://platform.example",
    accessToken: "token",
    // Return every record that is asked for, so that events end and are pruned.
    fetch: async (url) => {
      const id = decodeURIComponent(new URL(url).pathname.split("/").at(-1) ?? "");
      return Response.json({ bookingCode: id, listingId: Number(id) || 0, status: "Confirmed" });
    },
  }),
  store: memoryStore(),
  // Do not keep the last status of each record: the heap would grow, although that is not a leak.
  snapshotRetention: 0,
  on: {},
  logger: quiet,
  replyWithin: 1_000,
});
const server = createServer(
  { headersTimeout: 300, connectionsCheckingInterval: 50 },
  toNodeHandler(webhooks),
);
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const { port } = server.address() as AddressInfo;
const random = randomOf(Number(process.argv[2]));

async function round(count: number): Promise<void> {
  const rest = attacks(random, count).values();
  const worker = async (): Promise<void> => {
    for (const one of rest) await attack(port, one.steps, { ...one, patience: 400 });
  };
  await Promise.all(Array.from({ length: 100 }, worker));
}

/** Returns the heap size after pending work has ended, such as canceled bodies and lingering connections. */
async function heap(): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, 1_300));
  for (let times = 0; times < 3; times++) globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

await round(600);
const early = await heap();
await round(600);
await round(600);
const late = await heap();

/** Repeats `look` until nothing is left, for at most 15 s. On a busy machine the last connections take time to end. */
async function settled<T>(look: () => T | Promise<T>, isNone: (left: T) => boolean): Promise<T> {
  let left = await look();
  for (let times = 0; times < 150 && !isNone(left); times++) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    left = await look();
  }
  return left;
}

const connections = await settled(
  () => new Promise<number>((resolve) => server.getConnections((_, count) => resolve(count))),
  (count) => count === 0,
);
await webhooks.close();
await new Promise((resolve) => server.close(resolve));
const handles = await settled(
  () => process.getActiveResourcesInfo().filter((name) => /Socket|Timeout|Immediate/.test(name)),
  (names) => names.length === 0,
);
process.stdout.write(JSON.stringify({ early, late, connections, handles }));
