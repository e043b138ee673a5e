// The subscriber under test. It keeps a calendar of the booked nights.
import { type BookingEvent, createWebhookHandler, type StayhookClient, sharedSecret, stay } from "stayhook";
import type { EventStore } from "stayhook/store";

export interface Calendar {
  block(listingId: unknown, from: string, to: string): Promise<void>;
  release(listingId: unknown, from: string, to: string): Promise<void>;
}

export const onConfirmed = (calendar: Calendar) => async (event: BookingEvent<"Confirmed">) => {
  if (!event.changed) return;
  const { checkIn, checkOut } = stay(event.booking);
  await calendar.block(event.booking.listingId, checkIn, checkOut);
};

export const onCancelled = (calendar: Calendar) => async (event: BookingEvent<"Cancelled">) => {
  if (event.previous?.status !== "Confirmed") return; // its nights were not blocked
  const { checkIn, checkOut } = stay(event.booking);
  await calendar.release(event.booking.listingId, checkIn, checkOut);
};

export function createSubscriber(client: StayhookClient, store: EventStore, calendar: Calendar) {
  return createWebhookHandler({
    client,
    store,
    verify: sharedSecret({ query: "key", secret: "s3cret-of-a-test" }),
    on: { "booking.Confirmed": onConfirmed(calendar), "booking.Cancelled": onCancelled(calendar) },
    autoStart: false, // the tests call drain()
  });
}

/** A calendar in memory. `blocked` has one text for each stay. */
export function memoryCalendar() {
  const blocked = new Set<string>();
  const calendar: Calendar = {
    block: async (listingId, from, to) => void blocked.add(`${listingId}: ${from} to ${to}`),
    release: async (listingId, from, to) => void blocked.delete(`${listingId}: ${from} to ${to}`),
  };
  return { calendar, blocked };
}
