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
  /** Makes the code of this booking valid. */
  openDoor(stay: BookingStay): Promise<unknown>;
  /** Removes the code of this booking, and of no other: the next guest may be in the house already. */
  closeDoor(stay: BookingStay): Promise<unknown>;
  /** @param id - if a call is repeated, it has the same id */
  mail(stay: BookingStay, text: string, id: string): Promise<unknown>;
  /** @param id - if a call is repeated, it has the same id */
  clean(stay: BookingStay, id: string): Promise<unknown>;
  decline(bookingCode: string): Promise<unknown>;
}

const HOUR = 60 * 60_000;
// A door or a cleaning whose time has passed is not set: `leave` and `arrive` do at once what is missing.
const future = { ifPassed: "skip" } as const;

export function createStays(client: StayhookClient, store: EventStore, services: Services) {
  function timesOf({ listingId, checkIn, checkOut }: BookingStay, zone = services.zoneOf(listingId)) {
    return {
      mail: localTime(checkIn, "09:00", zone, { days: -2 }),
      arrival: localTime(checkIn, "15:00", zone),
      midnight: localTime(checkIn, "00:00", zone, { days: 1 }),
      departure: localTime(checkOut, "11:00", zone),
    };
  }

  /** Makes everything right for a booking, whatever has happened to it: first the old stay, then the new one. */
  async function sync(event: BookingEvent) {
    const { to, changed } = stayChange(event);
    try {
      await leave(event);
    } finally {
      if (!to) event.timers.clear();
      else if (knownZone(to.listingId) !== undefined) await arrive(event);
      else if (changed) {
        event.timers.clear();
        // The old stay has ended for good. This timer fails until the new house has a zone, and the log says so.
        event.timers.set("try-again", timeOf(event));
      }
    }
  }

  /** Ends the old stay if the guest leaves its house before the timers do. Asks for nothing about the new house. */
  async function leave(event: BookingEvent) {
    const { from, to, changed } = stayChange(event);
    if (!from || !changed) return;
    const now = timeOf(event);
    const zone = knownZone(from.listingId) ?? "UTC";
    const { arrival, departure } = timesOf(from, zone);
    if (now < arrival || (from.listingId === to?.listingId && isIn(timesOf(to, zone), now))) return;
    // After the departure, there is something left to do only if a timer is late.
    const late = await lateTimers(event);
    const isEarly = now < departure;
    if (isEarly || late.includes("door-closes")) await services.closeDoor(from);
    if (late.includes("door-opens")) return; // the guest has never had a code
    const day = isEarly ? dayIn(zone, event.receivedAt) : from.checkOut;
    if (isEarly || late.includes("cleaning")) await services.clean(from, cleaningId(from, day));
  }

  /** Returns the names of the booking's timers that have not fired. */
  async function lateTimers({ ref }: BookingEvent): Promise<string[]> {
    const timers = await webhooks.timers(ref).list();
    return timers.flatMap(({ name, state }) => (state === "done" ? [] : name));
  }

  /** Begins the new stay: sets its timers, and opens its door if the guest may be there now. */
  async function arrive(event: BookingEvent | BookingTimerEvent) {
    const { from, to, changed } = stayChange(event);
    if (!to) return;
    const times = timesOf(to);
    const { mail, arrival, departure, midnight } = times;
    const now = timeOf(event);
    if (changed) for (const name of ["decide", "try-again"]) event.timers.clear(name);
    event.timers.set("door-opens", arrival, future);
    event.timers.set("door-closes", departure, future);
    event.timers.set("cleaning", departure, future);
    // A guest who books late, or moves to another house after the mail, gets a mail now.
    const isNews = event.timer || from?.listingId !== to.listingId || from.checkIn !== to.checkIn;
    if (mail > now) event.timers.set("arrival-mail", mail);
    else if (isNews && now < (from ? departure : midnight)) event.timers.set("arrival-mail", now);
    if (isIn(times, now)) await services.openDoor(to);
  }

  /** Opens the door of the stay, or closes it if it is not the time. */
  async function setDoor(event: BookingTimerEvent) {
    const { from, to } = stayChange(event);
    if (from && from.listingId !== to?.listingId) await services.closeDoor(from);
    if (!to) return;
    if (isIn(timesOf(to), timeOf(event))) await services.openDoor(to);
    else await services.closeDoor(to);
  }

  /** Returns `undefined` for a house without a zone, so that the stay in another house can end all the same. */
  function knownZone(listingId: number): string | undefined {
    try {
      return services.zoneOf(listingId);
    } catch {
      return undefined;
    }
  }

  const webhooks = createWebhookHandler({
    client,
    store,
    verify: false, // see docs/security.md
    // The platform may send a time in place of a date. Its day is the one in the zone of the listing.
    timeZone: ({ listingId }) => (typeof listingId === "number" ? knownZone(listingId) : undefined),
    on: {
      booking: sync,
      "booking.timer.try-again": arrive,
      "booking.timer.door-opens": setDoor,
      "booking.timer.door-closes": setDoor,
      "booking.timer.arrival-mail": async (event) => {
        const { to } = stayChange(event);
        const now = timeOf(event);
        if (to && timesOf(to).mail <= now && now < timesOf(to).departure)
          await services.mail(to, "See you soon", event.eventId);
      },
      "booking.timer.cleaning": async (event) => {
        const { to } = stayChange(event);
        if (to && timesOf(to).departure <= timeOf(event))
          await services.clean(to, cleaningId(to, to.checkOut));
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

/** Whether the guest may be in the house. */
const isIn = ({ arrival, departure }: Record<"arrival" | "departure", Date>, now: Date) =>
  arrival <= now && now < departure;

/** Names a cleaning by booking, house and day. The same guest may leave a house, come back, and leave it again. */
const cleaningId = ({ bookingCode, listingId }: BookingStay, day: string) =>
  `clean ${listingId} after ${bookingCode} on ${day}`;

/** Returns the day in a time zone as `YYYY-MM-DD`, which is how Swedes write it. */
const dayIn = (timeZone: string, date: Date) => new Intl.DateTimeFormat("sv-SE", { timeZone }).format(date);
