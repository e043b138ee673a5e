// What a pass does with records that the platform no longer returns, and with events whose record could not be read.
import { memoryStore, type WebhookEvent } from "stayhook";
import { createReconciler, type ReconcileObservation, type ReconcilerOptions } from "stayhook/reconcile";
import type { EventStore } from "stayhook/store";
import { expect, onTestFinished, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { clientOf, handlerOf, notificationOf } from "../webhooks/support.ts";

const nextMonth = new Date(Date.now() + 30 * 86_400_000).toISOString().slice(0, 10);
const stayed = { listingId: 7, checkIn: nextMonth, checkOut: nextMonth };

/** A handler that knows bookings, with a reconciler beside it. `hidden` answers instead of the platform while it is set. */
async function hostWith(
  bookings: number,
  options: Parameters<typeof handlerOf>[0] & { readonly reconciler?: ReconcilerOptions } = {},
) {
  const { reconciler: given, ...handlerOptions } = options;
  const told: WebhookEvent[] = [];
  const observed: ReconcileObservation[] = [];
  const gate: { hidden?: ((url: string) => Response) | undefined } = {};
  const handler = handlerOf({
    on: { fallback: (event) => void told.push(event) },
    store: memoryStore(),
    recheckAfter: false,
    backoff: () => 5,
    clientOf: ({ fetch }) =>
      clientOf({ fetch: async (url, init) => gate.hidden?.(url) ?? (await fetch(url, init)) }),
    ...handlerOptions,
  });
  const { platform, webhooks, store, deliver } = handler;
  const reconciler = createReconciler(webhooks, {
    rate: 10_000,
    ...given,
    observe: (event) => void observed.push(event),
  });
  onTestFinished(async () => {
    await reconciler.close();
    await webhooks.close({ timeout: 0 });
  });
  platform.answer("config", { status: 200, body: { isActive: true, endpoints: {} } });
  platform.answer("listings", { status: 200, body: [{ listingId: 7, status: "Published" }] });
  platform.listing(7, "Published");
  const codes = Array.from({ length: bookings }, (_, n) => `A${n + 1}`);
  for (const code of codes) {
    platform.booking(code, "Confirmed", stayed);
    await deliver(notificationOf({ bookingCode: code }));
  }
  await webhooks.drain();
  await eventually(async () => expect((await store.counts()).done).toBe(bookings));
  told.length = platform.reads.length = 0;
  const gone = () => observed.filter(({ kind }) => kind === "gone");
  return { ...handler, told, observed, gone, gate, reconciler, codes };
}

async function park(store: EventStore, eventId: string): Promise<void> {
  const [claim] = await store.claim({ limit: 1, leaseDuration: 10_000, eventId });
  await store.settle(claim!, { state: "parked", reason: "not-found", entry: { duration: 1 } });
}

test("a known booking that is gone is observed, and its callback runs once, until it is back", async () => {
  const { platform, reconciler, gone, told } = await hostWith(3);
  platform.answer("A2", { status: 404 });
  expect(await reconciler.run()).toMatchObject({ changed: 1, failed: 0 });
  expect(gone()).toEqual([{ kind: "gone", ref: "booking:A2", previousStatus: "Confirmed" }]);
  await eventually(() => expect(told).toMatchObject([{ type: "booking.gone", source: "reconcile" }]));
  for (const _ of [1, 2]) expect(await reconciler.run()).toMatchObject({ changed: 0, failed: 0 });
  expect(gone()).toHaveLength(1);
  platform.booking("A2", "Confirmed", stayed);
  expect(await reconciler.run()).toMatchObject({ changed: 1 });
  await eventually(() => expect(told.at(-1)).toMatchObject({ type: "booking.Confirmed", changed: true }));
  platform.answer("A2", { status: 410 });
  expect(await reconciler.run()).toMatchObject({ changed: 1 });
  await eventually(() => expect(told.at(-1)).toMatchObject({ type: "booking.gone" }));
});

test("a listing that the list lacks is read itself", async () => {
  const { platform, reconciler, gone, told } = await hostWith(1);
  const rows = (...ids: number[]) =>
    platform.answer("listings", {
      status: 200,
      body: ids.map((listingId) => ({ listingId, status: "Published" })),
    });
  for (const id of [8, 9]) platform.listing(id, "Published");
  rows(7, 8, 9, 8);
  expect(await reconciler.run()).toMatchObject({ checked: 4, changed: 0 });
  rows(7, 9);
  expect(await reconciler.run()).toMatchObject({ checked: 4, changed: 0, failed: 0 });
  expect(gone()).toEqual([]);
  platform.answer("8", { status: 404 });
  expect(await reconciler.run()).toMatchObject({ checked: 3, changed: 1, failed: 0 });
  expect(gone()).toEqual([{ kind: "gone", ref: "listing:8", previousStatus: "Published" }]);
  await eventually(() =>
    expect(told.at(-1)).toMatchObject({ type: "listing.gone", listing: { listingId: 8 } }),
  );
  // It is gone, so that passes no longer read it.
  platform.reads.length = 0;
  expect(await reconciler.run()).toMatchObject({ checked: 3, changed: 0, failed: 0 });
  expect(platform.reads).not.toContain("8");
  rows(7, 8, 9);
  platform.listing(8, "Hidden");
  expect(await reconciler.run()).toMatchObject({ changed: 1 });
  await eventually(() => expect(told.at(-1)).toMatchObject({ type: "listing.Hidden" }));
});

test.each([
  [200, "404"],
  [2, "404"],
  [1, "404"],
  [200, "null"],
  [2, "null"],
])(
  "if the platform hides all records of a host with %i bookings (%s), none is gone",
  async (count, answer) => {
    const { reconciler, gone, told, gate, webhooks, observed, store } = await hostWith(count);
    await reconciler.run();
    gate.hidden = () => (answer === "404" ? Response.json({}, { status: 404 }) : Response.json(null));
    expect(await reconciler.run()).toMatchObject({ changed: 0, incomplete: "unreachable" });
    expect(await webhooks.health()).toMatchObject({ state: "paused" });
    expect(gone()).toEqual([]);
    gate.hidden = undefined;
    await eventually(async () => {
      await webhooks.drain();
      expect(await store.counts()).toMatchObject({ pending: 0, retrying: 0, parked: 0 });
    });
    const report = await reconciler.run();
    expect(report).toMatchObject({ changed: 0, failed: 0 });
    expect(report).not.toHaveProperty("incomplete");
    expect(told.map(({ type }) => type)).toEqual([]);
    expect(observed.filter(({ kind }) => kind === "missed")).toEqual([]);
  },
  60_000,
);

test.each([403, 404, 422])(
  "an event that was parked by %i is replayed by the next pass, once",
  async (status) => {
    const { platform, deliver, reconciler, told, store, webhooks } = await hostWith(1);
    platform.answer("NEW", { status });
    await deliver(notificationOf({ bookingCode: "NEW" }));
    await eventually(async () => {
      await webhooks.drain();
      expect((await store.counts()).parked).toBe(1);
    });
    platform.reads.length = 0;
    await reconciler.run();
    await eventually(async () => {
      await webhooks.drain();
      expect((await store.counts()).parked).toBe(1);
    });
    expect(platform.reads.filter((read) => read === "NEW")).toHaveLength(5);
    platform.booking("NEW", "Confirmed", stayed);
    await reconciler.run();
    await eventually(() => expect(told).toMatchObject([{ type: "booking.Confirmed", ref: "booking:NEW" }]));
  },
);

test("of the events whose record was not found, a pass replays the newest 100", async () => {
  const { deliver, reconciler, store } = await hostWith(1, { autoStart: false });
  for (let n = 0; n < 150; n += 1) await deliver(notificationOf({ bookingCode: `FORGED${n}` }));
  const discarded = await store.list({ state: "pending", limit: 1000 });
  for (const { eventId } of discarded) await park(store, eventId);
  expect((await store.counts()).parked).toBe(150);
  await reconciler.run();
  expect(await store.counts()).toMatchObject({ parked: 50, pending: 100 });
});

test("passes of a platform that allows few reads go on where the last one stopped", async () => {
  const { platform, reconciler, codes, told } = await hostWith(30, {
    reconciler: { concurrency: 1, every: 1 },
  });
  const read = new Set<string>();
  let left = 0;
  for (const code of codes)
    platform.answer(code, () => {
      if (left-- <= 0) return { status: 429, headers: { "retry-after": "3600" } };
      read.add(code);
      return { status: 200, body: { bookingCode: code, status: "Confirmed", ...stayed } };
    });
  for (let day = 0; day < 3; day += 1) {
    left = 12;
    // The platform allows reads again the next day.
    const { incomplete } = await reconciler.run();
    expect(incomplete).toBe(day < 2 ? "unreachable" : undefined);
  }
  expect(read.size).toBe(30);
  expect(told).toEqual([]);
});

test("a pass reads at most `rate` records a second", async () => {
  const { reconciler } = await hostWith(15, { reconciler: { rate: 10, concurrency: 20 } });
  const { duration } = await reconciler.run();
  expect(duration).toBeGreaterThan(900);
  expect(duration).toBeLessThan(4000);
});

test("a pass lets waiting events go first", async () => {
  const { platform, reconciler, deliver, webhooks } = await hostWith(5, { concurrency: 1 });
  const slow = (bookingCode: string) => platform.booking(bookingCode, "Confirmed", stayed);
  for (let n = 0; n < 20; n += 1) {
    slow(`N${n}`);
    await deliver(notificationOf({ bookingCode: `N${n}` }));
  }
  platform.reads.length = 0;
  await reconciler.run();
  await webhooks.drain();
  const reads = platform.reads.filter((read) => /^[AN]\d/.test(read));
  const before = reads.slice(
    0,
    reads.findIndex((read) => read.startsWith("A")),
  );
  expect(before.filter((read) => read.startsWith("N")).length).toBeGreaterThanOrEqual(15);
});
