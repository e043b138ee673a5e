import { createTestEvent } from "stayhook/testing";
import { expect, test, vi } from "vitest";
import { onCancelled, onConfirmed } from "../subscriber.ts";

test("a confirmed booking blocks its nights", async () => {
  const calendar = { set: vi.fn(), delete: vi.fn() };
  const booking = { bookingCode: "HX3K9", listingId: 7, checkIn: "2027-05-01", checkOut: "2027-05-04" };
  await onConfirmed(calendar)(createTestEvent("booking.Confirmed", { booking }));
  expect(calendar.set).toHaveBeenCalledExactlyOnceWith("HX3K9", 7, "2027-05-01", "2027-05-04");
});

test("a booking without a change blocks nothing again", async () => {
  const calendar = { set: vi.fn(), delete: vi.fn() };
  const booking = { listingId: 7, checkIn: "2027-05-01", checkOut: "2027-05-04" };
  const previous = { status: "Confirmed", ...booking };
  await onConfirmed(calendar)(createTestEvent("booking.Confirmed", { booking, previous }));
  expect(calendar.set).not.toHaveBeenCalled();
});

test("a cancelled booking leaves the calendar", async () => {
  const calendar = { set: vi.fn(), delete: vi.fn() };
  const booking = { bookingCode: "HX3K9" };
  await onCancelled(calendar)(createTestEvent("booking.Cancelled", { booking }));
  expect(calendar.delete).toHaveBeenCalledExactlyOnceWith("HX3K9");
});
