// The subscriber under test. It keeps a calendar with one stay for each booking code, so a moved stay replaces the old one.
import { type BookingEvent, createWebhookHandler, type StayhookClient, sharedSecret } from "stayhook";
import type { EventStore } from "stayhook/store";

export interface Calendar {
  set(bookingCode: string, listingId: unknown, from: string, to: string): Promise<void>;
  delete(bookingCode: string): Promise<void>;
}

export const onConfirmed = (calendar: Calendar) => async (event: BookingEvent<"Confirmed">) => {
  if (!event.changed) return;
  const { to } = event.stayChange;
  if (to) await calendar.set(to.bookingCode, to.listingId, to.checkIn, to.checkOut);
};

export const onCancelled = (calendar: Calendar) => async (event: BookingEvent<"Cancelled" | "gone">) => {
  await calendar.delete(event.booking.bookingCode);
};

export function createSubscriber(client: StayhookClient, store: EventStore, calendar: Calendar) {
  return createWebhookHandler({
    client,
    store,
    verify: sharedSecret({ query: "key", secret: "s3cret-of-a-test" }),
    on: {
      "booking.Confirmed": onConfirmed(calendar),
      "booking.Cancelled": onCancelled(calendar),
      "booking.gone": onCancelled(calendar),
    },
    autoStart: false, // the tests call drain()
  });
}

/** A calendar in memory. `blocked` has one stay for each booking code. */
export function memoryCalendar() {
  const blocked = new Map<string, string>();
  const calendar: Calendar = {
    set: async (bookingCode, listingId, from, to) =>
      void blocked.set(bookingCode, `${listingId}: ${from} to ${to}`),
    delete: async (bookingCode) => void blocked.delete(bookingCode),
  };
  return { calendar, blocked };
}
