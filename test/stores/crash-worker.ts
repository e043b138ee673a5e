import { setTimeout as sleep } from "node:timers/promises";
import { StayhookClient } from "../../src/client/client.ts";
import type { EventStore } from "../../src/stores/event-store.ts";
import { createWebhookHandler } from "../../src/webhooks/handler.ts";

/** Points at which a worker can wait. */
export type Point = "in the callback" | "in the writes" | "before the commit" | "after the commit";

export interface WorkerOptions<Place> {
  /** The arguments that the worker needs to open its database. */
  readonly place: Place;
  /** The point at which the process dies or waits, when it gets there for the second time. */
  readonly standAt?: Point;
  /** Whether the process kills itself at `standAt`. Otherwise it says so and waits. */
  readonly dies?: boolean;
  /** How far the worker's clock is ahead of the machine's clock, in ms. */
  readonly ahead: number;
  readonly leaseDuration: number;
  /** How many events the worker handles at once. */
  readonly concurrency: number;
}

/** Writes to tables of the user. */
interface Tables<Tx> {
  begin(eventId: string): Promise<unknown>;
  handle(tx: Tx, eventId: string): undefined | Promise<unknown>;
}

/**
 * Runs a worker that handles all due events. Its callbacks write to tables of the user. At `standAt` it dies, or says so
 * and waits, so that a test can freeze it. It ends when no work is left.
 */
export function createWorker<Place>() {
  const { place, standAt, dies, ahead, leaseDuration, concurrency }: WorkerOptions<Place> = JSON.parse(
    process.argv[2]!,
  );
  const now = Date.now;
  Date.now = () => now() + ahead;

  let passed = 0;
  /** Synchronous where the process dies, because the writes of SQLite are synchronous. */
  function point(name: Point): void | Promise<void> {
    if (name !== standAt) return;
    passed += 1;
    if (passed !== 2) return;
    if (dies) process.kill(process.pid, "SIGKILL");
    // Long enough for the test to freeze the process, which continues when it wakes.
    return new Promise<void>((resolve) => process.send?.(name, () => resolve())).then(() => sleep(500));
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
      concurrency,
      recheckAfter: false,
      backoff: () => 100,
      logger: ({ level, message }) => {
        if (level === "error") console.error(message);
      },
      on: {
        async fallback(event) {
          const { eventId } = event;
          await begin(eventId);
          event.atomically((tx) => {
            const handling = handle(tx as Tx, eventId);
            return handling instanceof Promise ? handling.then(() => point("in the writes")) : undefined;
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
