// A process of the endurance run. It receives notifications over HTTP and handles them.
import { existsSync, openSync, readdirSync, writeSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { createWebhookHandler, StayhookClient } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { openStore, type Place } from "./places.ts";

export interface WorkerOptions {
  readonly place: Place;
  /** The process writes each event's id to this file before it handles the event. */
  readonly log: string;
}

/** Messages from the parent to the process. */
export type Order = { readonly outage: boolean } | "sample" | "close";

/** Messages from the process to its parent. */
export type Report = { readonly port: number } | { readonly handled: number } | { readonly sample: Sample };

export interface Sample {
  /** Heap size after a garbage collection, in bytes. */
  readonly heap: number;
  /** Number of open files and connections. Only Linux reports it. */
  readonly files: number;
}

/** In ms. Short, so that done events are pruned during the run. */
const RETENTION = 10_000;
const OPEN_FILES = "/proc/self/fd";

const { place, log }: WorkerOptions = JSON.parse(process.argv[2]!);
const file = openSync(log, "a");
let isOut = false;
let handled = 0;

const store = openStore(place);
const webhooks = createWebhookHandler({
  client: new StayhookClient({
    baseUrl: "https://platform.example",
    accessToken: "token",
    maxRetries: 0,
    async fetch(url) {
      await sleep(1);
      if (isOut) return new Response("", { status: 503 });
      return Response.json({ bookingCode: new URL(url).pathname.split("/").at(-1), status: "Confirmed" });
    },
  }),
  store,
  verify: false,
  recheckAfter: false,
  retention: RETENTION,
  leaseDuration: 10_000,
  backoff: () => 200,
  logger: () => {},
  on: {
    async fallback({ eventId }) {
      // The system keeps the line even if the process is killed.
      writeSync(file, `${eventId}\n`);
      await sleep(1);
      handled += 1;
    },
  },
});
await webhooks.ready();
webhooks.start();

const server = createServer(toNodeHandler(webhooks)).listen(0, "127.0.0.1", () => {
  tell({ port: (server.address() as AddressInfo).port });
});
const telling = setInterval(() => tell({ handled }), 100);

process.on("message", async (order: Order) => {
  if (order === "sample") {
    globalThis.gc?.();
    const files = existsSync(OPEN_FILES) ? readdirSync(OPEN_FILES).length : 0;
    tell({ sample: { heap: process.memoryUsage().heapUsed, files } });
  } else if (order === "close") {
    clearInterval(telling);
    server.close();
    server.closeAllConnections();
    await webhooks.close();
    await store.close();
    process.disconnect();
  } else {
    isOut = order.outage;
  }
});
// Without a parent the process has no work.
process.on("disconnect", () => process.exit());

function tell(report: Report): void {
  if (process.connected) process.send?.(report);
}
