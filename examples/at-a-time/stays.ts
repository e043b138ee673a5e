// What happens at a time: a mail before arrival, a door that opens and closes, a cleaning, and a decision before the
// platform's deadline. docs/guides/at-a-time.md explains this file. Copy it into your app.
import { type Booking, createWebhookHandler, localTime, type StayhookClient, stay } from "stayhook";
import type { EventStore } from "stayhook/store";

/** The parts of your app. A timer may run its callback again after a crash, so each call must bear a repetition. */
export interface Services {
  zoneOf(listingId: unknown): string;
  mail(booking: Booking, text: string): Promise<unknown>;
  openDoor(booking: Booking): Promise<unknown>;
  closeDoor(booking: Booking): Promise<unknown>;
  clean(booking: Booking): Promise<unknown>;
  decline(booking: Booking): Promise<unknown>;
}

const HOUR = 60 * 60_000;

export function createStays(client: StayhookClient, store: EventStore, services: Services) {
  return createWebhookHandler({
    client,
    store,
    verify: false, // see docs/security.md
    on: {
      "booking.Confirmed": ({ booking, timers }) => {
        const { checkIn, checkOut } = stay(booking);
        const zone = services.zoneOf(booking.listingId);
        timers.clear("decide"); // the request is decided
        timers.set("arrival-mail", localTime(checkIn, "09:00", zone, { days: -2 }));
        timers.set("door-opens", localTime(checkIn, "15:00", zone));
        timers.set("door-closes", localTime(checkOut, "11:00", zone));
        timers.set("cleaning", localTime(checkOut, "11:00", zone));
      },
      "booking.Cancelled": async ({ booking, timers }) => {
        timers.clear();
        await services.closeDoor(booking); // the guest may have arrived already
      },
      "booking.Declined": ({ timers }) => timers.clear(),

      "booking.timer.arrival-mail": ({ booking }) => services.mail(booking, "See you in two days"),
      "booking.timer.door-opens": ({ booking }) => services.openDoor(booking),
      "booking.timer.door-closes": ({ booking }) => services.closeDoor(booking),
      "booking.timer.cleaning": ({ booking }) => services.clean(booking),

      "booking.Request": ({ decideBy, receivedAt, timers }) => {
        const deadline = decideBy ?? new Date(receivedAt.getTime() + 24 * HOUR);
        timers.set("decide", new Date(deadline.getTime() - HOUR));
      },
      "booking.timer.decide": async ({ booking, status }) => {
        if (status === "Request") await services.decline(booking);
      },
    },
  });
}
