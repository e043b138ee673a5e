// The subscriber of the latency benchmark, in its own process: `node latency-server.ts <store> <base URL>`.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { createWebhookHandler, StayhookClient, type WebhookHandler } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { answerCalls } from "./calls.ts";
import { type OpenStore, openStore, type StoreName } from "./open-store.ts";

/** How long the callbacks may take after the last request, ms. */
const PATIENCE = 30_000;

const [name, baseUrl = ""] = process.argv.slice(2);
/** When the callback of a booking was called, epoch ms. All processes share the clock. */
const calledAt = new Map<string, number>();
let opened: OpenStore | undefined;
let webhooks: WebhookHandler | undefined;

const functions = {
  async open(): Promise<string> {
    opened = await openStore(name as StoreName);
    webhooks = createWebhookHandler({
      ...{
        client: new StayhookClient({ baseUrl, accessToken: "token" }),
        store: opened.store,
        verify: false,
      },
      on: {
        "booking.Confirmed": ({ booking }) => {
          calledAt.set(booking.bookingCode, performance.timeOrigin + performance.now());
        },
      },
      logger: ({ level, message }) => level === "error" && console.error(message),
    });
    const server = createServer(toNodeHandler(webhooks)).listen(0, "127.0.0.1");
    await once(server, "listening");
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`;
  },
  /** Waits for the callbacks of `count` bookings, and returns when each was called. */
  async callbacks(prefix: string, count: number): Promise<number[]> {
    const codes = Array.from({ length: count }, (_, index) => `${prefix}${index}`);
    const end = performance.now() + PATIENCE;
    while (!codes.every((code) => calledAt.has(code))) {
      if (performance.now() > end) throw new Error(`${name}: a callback did not run within ${PATIENCE} ms`);
      await sleep(20);
    }
    return codes.map((code) => calledAt.get(code)!);
  },
};
export type LatencyFunctions = typeof functions;
answerCalls(functions, async () => {
  await webhooks?.close();
  await opened?.close();
});
