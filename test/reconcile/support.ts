import { randomUUID } from "node:crypto";
import { join } from "node:path";
import {
  createWebhookHandler,
  memoryStore,
  StayhookClient,
  type WebhookEvent,
  type WebhookHandlerOptions,
} from "stayhook";
import { createReconciler, type ReconcileObservation, type ReconcilerOptions } from "stayhook/reconcile";
import { sqliteStore } from "stayhook/sqlite";
import type { EventStore } from "stayhook/store";
import { createSandbox, type Sandbox, type SandboxOptions } from "stayhook/testing";
import { onTestFinished, vi } from "vitest";
import type { PassState } from "../../src/reconcile/state.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

/** Opens the same data again. Each call acts as another machine, or as a machine that has restarted. */
export type OpenStore = () => EventStore<never>;

/** The stores to test. `test/stores/every/reconcile.test.ts` plays a pass on the others. */
export const stores: Readonly<Record<string, () => OpenStore>> = {
  memory: () => {
    const store = memoryStore();
    return () => store;
  },
  sqlite: () => {
    const directory = temporaryFolder();
    return () => closed(sqliteStore(join(directory, "events.db")));
  },
};

function closed(store: { close(): Promise<void> }): EventStore<never> {
  onTestFinished(() => store.close());
  return store as EventStore<never>;
}

export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const sandbox = createSandbox({ seed: 7, ...options });
  onTestFinished(() => sandbox.close());
  await sandbox.listen();
  return sandbox;
}

/** The parts of a callback's event that tests need. */
export interface Told {
  readonly type: string;
  readonly status: string | undefined;
  readonly previousStatus: string | undefined;
  readonly changed: boolean;
  readonly source: string;
  readonly record: string | number | undefined;
}

interface MachineOptions {
  readonly handler?: Partial<WebhookHandlerOptions>;
  readonly reconciler?: Partial<ReconcilerOptions>;
  /** Called for each event before the event is logged. */
  readonly callback?: (event: WebhookEvent) => unknown;
}

/**
 * Makes one machine of the subscriber: client, handler and reconciler. It keeps the events of callbacks and of
 * `observe`.
 */
export function machineOf(
  platform: { readonly url: string; readonly accessToken: string },
  store: EventStore<never>,
  { handler, reconciler: more, callback }: MachineOptions = {},
) {
  const told: Told[] = [];
  const events: WebhookEvent[] = [];
  const observed: ReconcileObservation[] = [];
  const logged: string[] = [];
  const log = (message: string) => void logged.push(message);
  const logger = { debug: log, info: log, warn: log, error: log };
  const client = new StayhookClient({ baseUrl: platform.url, accessToken: platform.accessToken });
  const webhooks = createWebhookHandler({
    client,
    verify: false,
    store,
    on: {
      fallback: async (event) => {
        await callback?.(event);
        events.push(event);
        told.push(shown(event));
      },
    },
    logger,
    backoff: () => 5,
    ...handler,
  });
  const reconciler = createReconciler(webhooks, {
    observe: (event) => void observed.push(event),
    ...more,
  });
  onTestFinished(async () => {
    await reconciler.close();
    await webhooks.close({ timeout: 0 });
  });
  /** Delivers a notification of a booking or a listing, as the platform does. */
  const notify = (about: { bookingCode?: string; listingId?: number }) =>
    webhooks.receive({
      method: "POST",
      url: "/",
      headers: {},
      body: {
        eventId: randomUUID(),
        timestamp: new Date().toISOString(),
        bookingCode: about.bookingCode ?? null,
        listingId: about.listingId ?? null,
      },
    });
  const observations = <K extends ReconcileObservation["kind"]>(kind: K) =>
    observed.filter((event): event is Extract<ReconcileObservation, { kind: K }> => event.kind === kind);
  return { client, webhooks, reconciler, store, told, events, observed, observations, logged, notify };
}

/** Starts a sandbox, and makes a machine with a memory store for it. */
export async function scene(options: MachineOptions = {}, sandboxOptions: SandboxOptions = {}) {
  const sandbox = await startSandbox(sandboxOptions);
  return { sandbox, ...machineOf(sandbox, stores.memory!()(), options) };
}

/** Makes the clock stand at a time until the test ends. */
export function stopClock(now = Date.now()) {
  const spy = vi.spyOn(Date, "now").mockReturnValue(now);
  onTestFinished(() => spy.mockRestore());
  return (time: number) => void spy.mockReturnValue(time);
}

function shown(event: WebhookEvent): Told {
  const { type, source, status, previous, changed = false } = event;
  const booking = "booking" in event ? event.booking.bookingCode : undefined;
  const listing = "listing" in event ? event.listing.listingId : undefined;
  return {
    type,
    source,
    status,
    previousStatus: previous?.status,
    changed,
    record: booking ?? listing,
  };
}

/** Returns a function that lists the reads of records since its last call. */
export function readsOf(sandbox: Sandbox) {
  let seen = 0;
  return () => {
    const paths = sandbox.requests.map(({ path }) => path);
    const since = paths.slice(seen);
    seen = paths.length;
    return since.filter((path) => path !== "/v2/webhooks/config");
  };
}

/** Returns the `PassState` in the store. All passes share it. */
export async function stateIn(store: EventStore<never>): Promise<PassState | undefined> {
  const kept = await store.getMeta("stayhook:reconciler");
  return kept && (JSON.parse(kept.value) as PassState);
}

export async function statusesIn(store: EventStore<never>): Promise<Record<string, string>> {
  const statuses: Record<string, string> = {};
  for await (const { ref, snapshot } of store.snapshots()) statuses[ref] = snapshot.status;
  return statuses;
}

/** Returns the status of each record on the sandbox, keyed by its ref, such as `booking:HX3K9`. */
export function statusesAt({ bookings, listings }: Sandbox): Record<string, string> {
  return Object.fromEntries([
    ...bookings.list().map(({ bookingCode, status }) => [`booking:${bookingCode}`, status]),
    ...listings.list().map(({ listingId, status }) => [`listing:${listingId}`, status]),
  ]);
}
