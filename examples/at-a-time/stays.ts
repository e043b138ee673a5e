// What happens at a time: a mail before arrival, a door that opens and closes, a cleaning, and a decision before the
// platform's deadline. docs/guides/at-a-time.md explains this file. Copy it into your app.
import {
  type BookingEvent,
  type BookingStay,
  type BookingTimerEvent,
  createWebhookHandler,
  localTime,
  type StayhookClient,
  stayChange,
} from "stayhook";
import { createReconciler } from "stayhook/reconcile";
import type { EventStore } from "stayhook/store";

/** The parts of your app. After a crash, a callback runs again, so a repeated call must do no harm. */
export interface Services {
  zoneOf(listingId: number): string;
  openDoor(stay: BookingStay): Promise<unknown>;
  closeDoor(stay: BookingStay): Promise<unknown>;
  /** @param id - if a call is repeated, it has the same id */
  mail(stay: BookingStay, text: string, id: string): Promise<unknown>;
  /** @param id - if a call is repeated, it has the same id */
  clean(stay: BookingStay, id: string): Promise<unknown>;
  decline(bookingCode: string): Promise<unknown>;
}

const HOUR = 60 * 60_000;
// A mail for a stay that is over, or a door that is right already, needs no timer.
const future = { ifPassed: "skip" } as const;

export function createStays(client: StayhookClient, store: EventStore, services: Services) {
  function timesOf({ listingId, checkIn, checkOut }: BookingStay) {
    const zone = services.zoneOf(listingId);
    return {
      mail: localTime(checkIn, "09:00", zone, { days: -2 }),
      arrival: localTime(checkIn, "15:00", zone),
      departure: localTime(checkOut, "11:00", zone),
    };
  }

  /** Sets the timers and the door of a booking, whatever has happened to it. */
  async function sync(event: BookingEvent) {
    const { to } = stayChange(event);
    event.timers.clear();
    if (to) {
      const { mail, arrival, departure } = timesOf(to);
      event.timers.set("arrival-mail", mail, future);
      event.timers.set("door-opens", arrival, future);
      event.timers.set("door-closes", departure, future);
      event.timers.set("cleaning", departure, future);
    }
    await setDoor(event);
  }

  /** Closes the door that the guest has left. Opens the door of the stay, or closes it if it is not the time. */
  async function setDoor(event: BookingEvent | BookingTimerEvent) {
    const { from, to } = stayChange(event);
    if (from && from.listingId !== to?.listingId) await services.closeDoor(from);
    if (!to) return;
    const { arrival, departure } = timesOf(to);
    const now = timeOf(event);
    if (arrival <= now && now < departure) await services.openDoor(to);
    else await services.closeDoor(to);
  }

  const webhooks = createWebhookHandler({
    client,
    store,
    verify: false, // see docs/security.md
    // The platform may send a time in place of a date. Its day is the one in the zone of the listing.
    timeZone: ({ listingId }) => (typeof listingId === "number" ? services.zoneOf(listingId) : undefined),
    on: {
      booking: sync,
      "booking.timer.door-opens": setDoor,
      "booking.timer.door-closes": setDoor,
      "booking.timer.arrival-mail": async (event) => {
        const { to } = stayChange(event);
        if (to && timesOf(to).mail <= timeOf(event))
          await services.mail(to, "See you in two days", event.eventId);
      },
      "booking.timer.cleaning": async (event) => {
        const { to } = stayChange(event);
        if (to && timesOf(to).departure <= timeOf(event)) await services.clean(to, event.eventId);
      },

      "booking.Request": async (event) => {
        await sync(event); // a request holds no stay
        event.timers.set("decide", new Date(event.decideBy.getTime() - HOUR));
      },
      "booking.timer.decide": async ({ booking, status }) => {
        if (status === "Request") await services.decline(booking.bookingCode);
      },
    },
  });
  // Finds the changes that no notification told, before their time comes.
  const reconciler = createReconciler(webhooks, { every: "1h" });
  return { webhooks, reconciler };
}

/** Returns the time now. The clock of the store, which fires the timers, may be ahead of this machine's clock. */
function timeOf({ receivedAt, timer }: BookingEvent | BookingTimerEvent): Date {
  return new Date(Math.max(Date.now(), receivedAt.getTime(), timer?.at.getTime() ?? 0));
}
