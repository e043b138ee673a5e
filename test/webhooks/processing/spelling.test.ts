// A known status in another case, or with one `l`, is that status, whatever the platform writes.
import { type BookingEvent, memoryStore, type WebhookCallbacks } from "stayhook";
import { createReconciler } from "stayhook/reconcile";
import { expect, test } from "vitest";
import * as z from "zod";
import { clientOf, handlerOf, notificationOf, useFakeTime } from "../support.ts";

useFakeTime();

const nights = { checkIn: "2026-07-01", checkOut: "2026-07-04", listingId: 7 };

test.each([
  ["confirmed", "Confirmed"],
  ["CONFIRMED", "Confirmed"],
  ["cancelled", "Cancelled"],
  ["CANCELED", "Cancelled"],
  ["Canceled", "Cancelled"],
  ["declined", "Declined"],
  ["request", "Request"],
])("a booking that is %s is %s in its event, snapshot and result", async (sent, status) => {
  const seen: unknown[] = [];
  const note = ({ type, status, booking }: BookingEvent) => void seen.push([type, status, booking.status]);
  const { store, webhooks, logger, tell } = handlerOf({
    on: { booking: note },
    recheckAfter: false,
  });
  await tell("A1", sent, nights);
  expect(seen).toEqual([[`booking.${status}`, status, status]]);
  expect((await store.snapshotOf("booking:A1"))?.snapshot.status).toBe(status);
  const { type, status: processed } = await webhooks.process(notificationOf({ bookingCode: "A1" }));
  expect([type, processed]).toEqual([`booking.${status}`, status]);
  expect(logger.lines).toEqual([]);
});

test("a listing that is INREVIEW is InReview, and a listing that is canceled is unknown", async () => {
  const seen: unknown[] = [];
  const on: WebhookCallbacks = { listing: ({ type, listing }) => void seen.push([type, listing.status]) };
  const { tell } = handlerOf({ on, recheckAfter: false });
  for (const status of ["INREVIEW", "canceled"]) {
    await tell(7, status);
  }
  expect(seen).toEqual([
    ["listing.InReview", "InReview"],
    ["listing.unknown", "canceled"],
  ]);
});

test("another spelling is no change, for a notification and for a pass", async () => {
  const store = memoryStore();
  const changed: boolean[] = [];
  const on: WebhookCallbacks = { booking: (event) => void changed.push(event.changed) };
  const handler = handlerOf({ on, store, recheckAfter: false });
  for (const status of ["Confirmed", "confirmed"]) {
    await handler.tell("A1", status, { ...nights, checkOut: "2027-01-01" });
  }
  expect(changed).toEqual([true, false]);
  const observed: unknown[] = [];
  const observe = (event: { kind: string; status?: unknown }) =>
    void observed.push([event.kind, event.status]);
  const reconciler = createReconciler(handler.webhooks, { observe });
  expect(await reconciler.run()).toMatchObject({ changed: 0 });
  expect(observed).toContainEqual(["checked", "Confirmed"]);
  handler.platform.booking("A1", "canceled", { ...nights, checkOut: "2027-01-01" });
  expect(await reconciler.run()).toMatchObject({ changed: 1 });
  expect(observed).toContainEqual(["changed", "Cancelled"]);
  await reconciler.close();
});

test("the client and a model get the status as it was sent, even if the model freezes its record", async () => {
  const sent: unknown[] = [];
  const booking = z.object({ bookingCode: z.string(), status: z.string() }).transform((one) => {
    sent.push(one.status);
    return Object.freeze(one);
  });
  const makeClient: typeof clientOf = (platform) => clientOf(platform, { models: { booking } });
  const seen: unknown[] = [];
  const on: WebhookCallbacks = {
    booking: (event: BookingEvent) => void seen.push({ ...event.booking }, event.stayChange.to?.nights),
  };
  const { platform, notify } = handlerOf({ on, clientOf: makeClient, recheckAfter: false });
  platform.booking("A1", "confirmed", nights);
  expect((await makeClient(platform).bookings.get("A1")).status).toBe("confirmed");
  await notify("A1");
  expect(sent).toEqual(["confirmed", "confirmed"]);
  expect(seen).toEqual([{ bookingCode: "A1", status: "Confirmed" }, 3]);
});

test("`holds` may name a status in any spelling", async () => {
  const seen: unknown[] = [];
  const on: WebhookCallbacks = {
    booking: (event: BookingEvent) => void seen.push(event.stayChange.to?.nights),
  };
  const { tell } = handlerOf({ on, recheckAfter: false, holds: ["confirmed"] });
  await tell("A1", "confirmed", nights);
  expect(seen).toEqual([3]);
});
