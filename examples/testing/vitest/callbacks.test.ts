import { createTestEvent } from "stayhook/testing";
import { expect, test, vi } from "vitest";
import { onCancelled, onConfirmed } from "../subscriber.ts";

test("a confirmed booking blocks its nights", async () => {
  const calendar = { block: vi.fn(), release: vi.fn() };
  const booking = { listingId: 7, checkIn: "2027-05-01", checkOut: "2027-05-04" };
  await onConfirmed(calendar)(createTestEvent("booking.Confirmed", { booking }));
  expect(calendar.block).toHaveBeenCalledExactlyOnceWith(7, "2027-05-01", "2027-05-04");
});

test("a booking that was already confirmed blocks nothing", async () => {
  const calendar = { block: vi.fn(), release: vi.fn() };
  await onConfirmed(calendar)(createTestEvent("booking.Confirmed", { previous: { status: "Confirmed" } }));
  expect(calendar.block).not.toHaveBeenCalled();
});

test.each(["Confirmed", "Request", undefined])("a cancellation after %s", async (status) => {
  const calendar = { block: vi.fn(), release: vi.fn() };
  await onCancelled(calendar)(
    createTestEvent("booking.Cancelled", { previous: status === undefined ? undefined : { status } }),
  );
  expect(calendar.release).toHaveBeenCalledTimes(status === "Confirmed" ? 1 : 0);
});
