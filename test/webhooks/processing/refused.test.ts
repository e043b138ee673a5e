// A known record that the platform refuses for good, because its listing was handed over to another account.
import type { BookingEvent } from "stayhook";
import { createReconciler } from "stayhook/reconcile";
import { expect, test, vi } from "vitest";
import { memoryStore } from "../../../src/stores/memory/index.ts";
import { type Answer, advance, HOUR, MINUTE, useFakeTime } from "../support.ts";
import { hostOf, stayed } from "./host.ts";

useFakeTime();

const DAY = 24 * HOUR;
const denied = { status: 403, body: { message: "not yours" } };

/** A host whose listing the platform shows. */
async function shown(count: number, options?: Parameters<typeof hostOf>[1]) {
  const it = await hostOf(count, options);
  it.platform.listing(7, "Published");
  return it;
}

const answers: [string, Answer][] = [
  ["403", denied],
  ["422", { status: 422 }],
  ["an error in a 200", { status: 200, body: { error: "forbidden" } }],
];

test.each(answers)("%s for giveUpAfter is gone, once, and what comes back is new", async (_, answer) => {
  const { platform, notify, gone, told, store } = await shown(2);
  platform.answer("A1", answer);
  await notify("A1");
  await advance(HOUR);
  expect(await store.list({ state: "parked", limit: 9 })).toMatchObject([{ reason: "denied" }]);
  await advance(3 * DAY - 2 * HOUR);
  expect(gone()).toEqual([]);
  await advance(2 * HOUR);
  expect(gone()).toEqual(["booking:A1"]);
  const event = told.at(-1) as BookingEvent;
  expect(event).toMatchObject({ changed: true, previous: { status: "Confirmed" }, booking: stayed });
  expect(event.stayChange).toMatchObject({ from: { listingId: 7 }, to: undefined });
  await notify("A1");
  await advance(4 * DAY);
  expect(gone()).toHaveLength(1);
  platform.booking("A1", "Confirmed", stayed);
  await notify("A1");
  expect(told.at(-1)).toMatchObject({ type: "booking.Confirmed", previous: { status: "gone" } });
  platform.answer("A1", answer);
  await notify("A1");
  await advance(2 * DAY);
  expect(gone()).toHaveLength(1);
  await advance(2 * DAY);
  expect(gone()).toHaveLength(2);
});

test("a look-up that the store never answers holds a refused event up for half a minute, not for five", async () => {
  const store = memoryStore();
  const { platform, notify } = await shown(1, { store });
  vi.spyOn(store, "snapshotOf").mockReturnValueOnce(new Promise(() => {}));
  platform.answer("A1", denied);
  await notify("A1");
  const states = async () => (await store.list({ limit: 9, ref: "booking:A1" })).map(({ state }) => state);
  expect(await states()).toContain("processing");
  await advance(30_000);
  expect(await states()).not.toContain("processing");
});

test("so does one that a booking's first request needs", async () => {
  const store = memoryStore();
  const { platform, notify } = await shown(0, { store });
  vi.spyOn(store, "list").mockReturnValueOnce(new Promise(() => {}));
  platform.booking("A1", "Request", stayed);
  await notify("A1");
  expect(await store.counts()).toMatchObject({ processing: 1 });
  await advance(30_000);
  expect(await store.counts()).toMatchObject({ processing: 0 });
});

test("a door closes although only its timer reads the booking", async () => {
  const open = new Set<string>();
  const { platform } = await shown(2, {
    on: {
      booking: (event: BookingEvent) => {
        const { to } = event.stayChange;
        if (to) {
          open.add(to.bookingCode);
          event.timers.set("door-closes", new Date("2026-12-12T11:00:00Z"));
        } else open.delete(event.booking.bookingCode);
      },
      "booking.timer.door-closes": ({ booking }) => void open.delete(booking.bookingCode),
    },
  });
  platform.answer("A1", denied);
  await advance(Date.parse("2026-12-12T12:00:00Z") - Date.now());
  expect([...open]).toEqual(["A1"]);
  await advance(3 * DAY);
  expect([...open]).toEqual([]);
});

test("passes of the reconciler suffice, however often they run", async () => {
  const { platform, gone, webhooks } = await shown(2);
  const reconciler = createReconciler(webhooks);
  platform.answer("A1", denied);
  for (let hours = 0; hours < 80; hours += 2) {
    await reconciler.run();
    await advance(2 * HOUR);
    if (hours < 70) expect(gone()).toEqual([]);
  }
  expect(gone()).toEqual(["booking:A1"]);
  await advance(MINUTE);
  expect(await reconciler.run()).toMatchObject({ failed: 0, changed: 0 });
});

test.each(["a notification", "the scheduled read", "a pass"])("%s decides at its first read", async (by) => {
  const { platform, notify, gone, webhooks, store } = await shown(2);
  platform.answer("A1", denied);
  await notify("A1");
  await advance(3 * DAY - MINUTE);
  expect(gone()).toEqual([]);
  if (by !== "the scheduled read") {
    await store.discard({ state: "scheduled" });
    await advance(MINUTE);
    if (by === "a pass") await createReconciler(webhooks).run();
    else await notify("A1");
  } else await advance(MINUTE);
  expect(gone()).toEqual(["booking:A1"]);
});

test("a refusal that ends begins anew the next time", async () => {
  const { platform, gone, notify } = await shown(2);
  platform.answer("A1", denied);
  await notify("A1");
  await advance(2 * DAY);
  platform.booking("A1", "Confirmed", stayed);
  await notify("A1");
  platform.answer("A1", denied);
  await advance(HOUR);
  await notify("A1");
  await advance(2 * DAY);
  expect(gone()).toEqual([]);
  await advance(2 * DAY);
  expect(gone()).toEqual(["booking:A1"]);
});

test.each([
  ["the only booking, if its listing is refused, too", 1, ["7"], []],
  ["the only booking, if a listing of the account is found", 1, [], ["booking:A1"]],
  ["all bookings, although listings are found", 3, [], []],
])("%s", async (_, count, alsoRefused, expected) => {
  const { platform, gone, notify } = await shown(count);
  await notify(7);
  for (let n = 1; n <= count; n += 1) platform.answer(`A${n}`, denied);
  for (const id of alsoRefused) platform.answer(id, denied);
  for (let n = 1; n <= count; n += 1) await notify(`A${n}`);
  await advance(5 * DAY);
  await notify("A1");
  await advance(HOUR);
  expect(gone()).toEqual(expected);
});

test("a booking that was never known is parked as denied, and no event remembers it", async () => {
  const { platform, notify, store, gone } = await shown(2);
  platform.answer("X1", denied);
  await notify("X1");
  await advance(5 * DAY);
  expect(gone()).toEqual([]);
  expect((await store.list({ ref: "booking:X1", limit: 9 })).map(({ source }) => source)).toEqual([
    "webhook",
  ]);
});
