import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { createWebhookHandler, memoryStore } from "stayhook";
import { createConsole } from "stayhook/console";
import { toNodeHandler } from "stayhook/node";
import type { EventStore } from "stayhook/store";
import { onTestFinished } from "vitest";
import { serve } from "../support/serve.ts";
import { clientOf, platformOf } from "../webhooks/support.ts";

/** Gives an error a stack with one frame, which is the same on each machine. */
const thrownAt = <E extends Error>(error: E, frame: string): E =>
  Object.assign(error, { stack: `${error.name}: ${error.message}\n    at ${frame}` });

/**
 * Serves a console after an incident: 90 events of three accounts are parked, for four causes.
 *
 * - The calendar is down: 46 events of 40 bookings in all accounts. It works after `mendCalendar`.
 * - A bug of the app: 24 events of bookings without an email. The next release mends it.
 * - The token of account b7 is not allowed to read bookings: 12 events.
 * - The platform answers without a status: 8 events.
 */
export async function incident(store: EventStore<never> = memoryStore() as EventStore<never>) {
  const platform = platformOf();
  const isDown = { calendar: true };
  const webhooks = createWebhookHandler({
    client: clientOf(platform, { accessToken: () => "secret-token", maxRetries: 0 }),
    store,
    accountFrom: { query: "account" },
    verify: false,
    autoStart: false,
    recheckAfter: false,
    logger: { debug() {}, info() {}, warn() {}, error() {} },
    maxAttempts: 1,
    backoff: () => 1,
    on: {
      "booking.Cancelled": ({ booking }) => {
        if (!isDown.calendar) return;
        const cause = new Error("connect ECONNREFUSED 10.0.0.7:5432");
        const error = new Error(`The calendar of ${booking.bookingCode} was not updated`, { cause });
        throw thrownAt(error, "updateCalendar (/srv/app/calendar.js:18:11)");
      },
      "booking.Confirmed": ({ booking }) => {
        if (!booking.bookingCode.startsWith("MAIL")) return;
        const error = new TypeError("Cannot read properties of undefined (reading 'email')");
        throw thrownAt(error, "welcome (/srv/app/mail.js:41:27)");
      },
      fallback: () => {},
    },
  });
  const accounts = ["a17", "b7", "c3"];
  const receive = async (account: string, bookingCode: string) => {
    const eventId = randomUUID();
    const body = JSON.stringify({ eventId, timestamp: "2026-11-22T09:00:00Z", listingId: null, bookingCode });
    const { status } = await webhooks.receive({
      method: "POST",
      url: `/?account=${account}`,
      headers: {},
      body,
    });
    if (status !== 200) throw new Error(`The notification was answered ${status}`);
    return `${account}/${eventId}`;
  };
  const stay = { checkIn: "2026-12-01", checkOut: "2026-12-05", listingId: 5717008 };
  for (let n = 0; n < 46; n++) {
    platform.booking(`CAL${n % 40}`, "Cancelled", stay);
    await receive(accounts[(n % 40) % 3]!, `CAL${n % 40}`);
  }
  for (let n = 0; n < 24; n++) {
    platform.booking(`MAIL${n}`, "Confirmed", stay);
    await receive(accounts[n % 3]!, `MAIL${n}`);
  }
  for (let n = 0; n < 12; n++) {
    platform.answer(`DENY${n}`, { status: 403, body: { message: "not for Ann Lee" } });
    await receive("b7", `DENY${n}`);
    await webhooks.drain();
    // Other bookings of the account can be read, so the fault is the booking's.
    for (let more = 0; more < 5; more++) {
      platform.booking(`FINE${n}-${more}`, "Confirmed", stay);
      await receive("b7", `FINE${n}-${more}`);
    }
    await webhooks.drain();
  }
  for (let n = 0; n < 8; n++) {
    platform.answer(`ODD${n}`, { status: 200, body: { bookingCode: `ODD${n}` } });
    await receive("c3", `ODD${n}`);
  }
  // A drain does not wait for events that are due soon, such as those behind a read that was refused.
  for (let n = 0; n < 100 && (await store.counts()).parked < 90; n++) {
    await webhooks.drain();
    await sleep(50);
  }
  const inbox = createConsole(webhooks, { authorize: () => true });
  onTestFinished(async () => {
    await webhooks.close();
    await store.close();
  });
  return {
    store,
    webhooks,
    platform,
    inbox,
    receive,
    url: await serve(toNodeHandler(inbox)),
    mendCalendar: () => {
      isDown.calendar = false;
    },
  };
}
