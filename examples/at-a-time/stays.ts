// What exists for a stay: blocked nights, a door code, two mails and a cleaning. docs/guides/at-a-time.md explains this file.
// Copy it into your app.
import { type BookingStay, createWebhookHandler, type StayhookClient } from "stayhook";
import { createReconciler } from "stayhook/reconcile";
import { createStays, hold, once } from "stayhook/stays";
import type { EventStore } from "stayhook/store";

/** The parts of your app. A call may be repeated, with the same id, after a crash: it must then do no harm. */
export interface Services {
  /** Returns `undefined` for a house whose time zone you do not know yet. */
  zoneOf(listingId: number): string | undefined;
  block(stay: BookingStay): Promise<unknown>;
  release(stay: BookingStay): Promise<unknown>;
  /** Makes a code of this booking valid, and returns it. */
  openDoor(stay: BookingStay, until: Date, id: string): Promise<string>;
  /** Removes the code of this booking, and of no other: the next guest may be in the house already. */
  closeDoor(stay: BookingStay, id: string): Promise<unknown>;
  mail(stay: BookingStay, text: string, id: string): Promise<unknown>;
  /** @param isEarly - the guest has left before the planned time */
  clean(stay: BookingStay, id: string, isEarly: boolean): Promise<unknown>;
  decline(bookingCode: string): Promise<unknown>;
}

const HOUR = 60 * 60_000;

export function createSubscriber(client: StayhookClient, store: EventStore, services: Services) {
  const stays = createStays({
    want: ({ checkIn, checkOut }, { at }) => {
      const [arrival, departure] = [at(checkIn, "15:00"), at(checkOut, "11:00")];
      return [
        hold("nights"),
        hold("door-code", { from: arrival, until: departure }),
        once("directions", { at: at(checkIn, "09:00", { days: -2 }), until: departure }),
        once("welcome", { at: arrival, until: departure }),
        once("cleaning", { at: departure, owedFrom: arrival }),
      ];
    },
    apply: {
      nights: {
        begin: async ({ stay }) => void (await services.block(stay)),
        end: ({ stay }) => services.release(stay),
      },
      "door-code": {
        begin: ({ stay, until, id }) => services.openDoor(stay, until, id),
        end: ({ stay, id }) => services.closeDoor(stay, id),
      },
      directions: ({ stay, id }) => services.mail(stay, "How to find us", id),
      welcome: ({ stay, id, values }) => services.mail(stay, `Your code is ${values["door-code"]}`, id),
      cleaning: ({ stay, id, isEarly }) => services.clean(stay, id, isEarly),
    },
  });

  const webhooks = createWebhookHandler({
    client,
    store,
    verify: false, // see docs/security.md
    timeZone: ({ listingId }) => services.zoneOf(Number(listingId)),
    stays,
    on: {
      // A request is no stay yet, so its deadline is a timer.
      "booking.Request": (event) => event.timers.set("decide", new Date(event.decideBy.getTime() - HOUR)),
      "booking.timer.decide": async ({ booking, status }) => {
        if (status === "Request") await services.decline(booking.bookingCode);
      },
    },
  });
  // Finds the changes that no notification told, before their time comes.
  const reconciler = createReconciler(webhooks, { every: "1h" });
  return { webhooks, reconciler };
}
