import { randomUUID } from "node:crypto";
import { expect, test, vi } from "vitest";
import type { EventStore } from "../../src/stores/event-store.ts";
import type { Point, WorkerOptions } from "./crash-worker.ts";
import { startProcess } from "./processes.ts";

/** An empty store for a test. Its tables `begun` and `handled` are for the callbacks. */
export interface CrashPlace {
  /** The argument that a worker needs to open the store. */
  readonly place: object;
  readonly store: EventStore<unknown>;
  /** Returns the events in a table. */
  rows(table: "begun" | "handled"): Promise<string[]>;
  close(): Promise<void>;
}

export interface CrashCheck {
  /** The file of the worker, which calls `createWorker` of crash-worker.ts. */
  readonly worker: string;
  readonly killedAt: readonly Point[];
  readonly frozenAt: readonly Point[];
  create(): Promise<CrashPlace>;
}

// Long enough for renewals on a busy machine: each renewal may take a sixth of the lease.
const LEASE = 4000;
const EVENTS = 6;

/**
 * Kills and freezes a worker at each point. Another worker then takes over. Each event's writes must exist exactly
 * once.
 */
export function testCrashes({ worker, killedAt, frozenAt, create }: CrashCheck): void {
  const start = (place: object, ahead: number, standAt?: Point, dies = false) => {
    const options: WorkerOptions<object> = {
      place,
      leaseDuration: LEASE,
      ahead,
      // A worker that freezes in a callback must run one event at a time. Otherwise it may also freeze in a transaction
      // of another event. The server ends such a transaction only after a minute.
      concurrency: standAt === "in the callback" ? 1 : 3,
      ...(standAt && { standAt, dies }),
    };
    return startProcess(worker, options);
  };

  async function withEvents() {
    const crashPlace = await create();
    const ids = Array.from({ length: EVENTS }, () => randomUUID()).sort();
    for (const [index, eventId] of ids.entries()) {
      await crashPlace.store.add({
        eventId,
        ref: `booking:HM${index % 3}`,
        source: "webhook",
        topic: null,
        timestamp: "2026-05-01T12:00:00.000Z",
        notification: JSON.stringify({ eventId }),
      });
    }
    const rows = async (table: "begun" | "handled") => (await crashPlace.rows(table)).sort();
    const expectOnce = async () => {
      expect(await rows("handled")).toEqual(ids);
      expect(await crashPlace.store.counts()).toMatchObject({ done: EVENTS, parked: 0 });
    };
    return { ...crashPlace, rows, expectOnce };
  }

  test.concurrent.each(killedAt)(
    "a worker killed %s: each event's writes exist exactly once",
    { timeout: 120_000 },
    async (standAt) => {
      const { place, store, rows, expectOnce, close } = await withEvents();
      const first = start(place, 0, standAt, true);
      expect(await first.ended).toMatchObject({ signal: "SIGKILL", errors: "" });
      const done = (await store.list({ state: "done", limit: 100 })).map(({ eventId }) => eventId);
      // The second worker's clock is ten minutes ahead. The result must be the same.
      const second = start(place, 600_000);
      expect(await second.ended).toEqual({ code: 0, signal: null, errors: "" });
      await expectOnce();
      const begun = await rows("begun");
      for (const eventId of done) expect(begun.filter((event) => event === eventId)).toHaveLength(1);
      await close();
    },
  );

  test.concurrent.each(frozenAt)(
    "a worker frozen %s until its lease has ended: each event's writes exist exactly once",
    { timeout: 120_000 },
    async (standAt) => {
      const { place, rows, expectOnce, close } = await withEvents();
      const first = start(place, 0, standAt);
      await first.said();
      first.child.kill("SIGSTOP");
      // The frozen worker may hold a transaction. The server ends it, so the second worker can handle all events.
      const second = start(place, -600_000);
      await vi.waitFor(async () => expect((await rows("handled")).length).toBeGreaterThanOrEqual(EVENTS), {
        timeout: 60_000,
        interval: 200,
      });
      first.child.kill("SIGCONT");
      for (const { ended } of [second, first]) {
        const { code, signal, errors } = await ended;
        expect([code, signal], errors).toEqual([0, null]);
      }
      await expectOnce();
      await close();
    },
  );
}
