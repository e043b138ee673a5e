import { setTimeout as sleep } from "node:timers/promises";
import { StayhookClient } from "../../src/client/client.ts";
import type { EventStore } from "../../src/stores/event-store.ts";
import { createWebhookHandler } from "../../src/webhooks/handler.ts";

/** Where a worker can be told to stand still. */
export type Point =
  | "in the callback"
  | "in the writes"
  | "before the end of the event"
  | "before the commit"
  | "after the commit";

export interface WorkerOptions<Place> {
  /** How the worker finds its database. */
  readonly place: Place;
  /** Where the process waits, the second time that it gets there. */
  readonly standAt?: Point;
  /** How far its clock is ahead of the machine's, ms. */
  readonly ahead: number;
  readonly leaseDuration: number;
}

/** The user's own writes. */
interface Tables<Tx> {
  begin(eventId: string): Promise<unknown>;
  handle(tx: Tx, eventId: string): Promise<unknown>;
}

/**
 * A process that handles all due events with callbacks that write to tables of the user's. At a point that it is told, it
 * says so and waits, so that a test can kill or freeze it there. It ends when nothing is left to do.
 */
export function createWorker<Place>() {
  const { place, standAt, ahead, leaseDuration }: WorkerOptions<Place> = JSON.parse(process.argv[2]!);
  const now = Date.now;
  Date.now = () => now() + ahead;

  let passed = 0;
  async function point(name: Point): Promise<void> {
    if (name !== standAt) return;
    passed += 1;
    if (passed !== 2) return;
    await new Promise<void>((resolve) => process.send?.(name, () => resolve()));
    // Long enough to be killed or frozen in. A frozen process goes on when it is woken.
    await sleep(500);
  }

  async function handleAll<Tx>(store: EventStore<Tx>, { begin, handle }: Tables<Tx>): Promise<void> {
    const webhooks = createWebhookHandler({
      client: new StayhookClient({
        baseUrl: "https://platform.test",
        accessToken: "token",
        fetch: async (path) =>
          Response.json({ bookingCode: new URL(path).pathname.split("/").at(-1), status: "Confirmed" }),
      }),
      store: store as EventStore<{ readonly tx: Tx }>,
      verify: () => true,
      leaseDuration,
      concurrency: 3,
      recheckAfter: false,
      backoff: () => 100,
      logger: ({ level, message }) => {
        if (level === "error") console.error(message);
      },
      on: {
        async fallback(event) {
          const { eventId } = event;
          await begin(eventId);
          event.atomically(async (tx) => {
            await handle(tx as Tx, eventId);
            await point("in the writes");
          });
          await point("in the callback");
        },
      },
    });
    webhooks.start();
    for (const until = now() + 60_000; now() < until; await sleep(50)) {
      const { pending, processing, retrying } = await store.counts();
      if (pending + processing + retrying === 0) break;
    }
    await webhooks.close();
    await store.close();
  }

  return { place, standAt, point, handleAll };
}
