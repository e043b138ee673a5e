import {
  type Booking,
  createWebhookHandler,
  memoryStore,
  type Observation,
  type Stay,
  type StayhookClient,
  sharedSecret,
  type WebhookEvent,
} from "stayhook";
import { type Account, shortId } from "./account.ts";
import type { Calendar } from "./calendar.ts";

/** The README's subscriber, with a calendar, a callback that fails once, and an account of all that happens. */
export function createSubscriber(
  client: StayhookClient,
  secret: string,
  calendar: Calendar,
  account: Account,
) {
  const counted = { events: 0, duplicates: 0, callbacks: 0, retries: 0 };
  let failed = false;

  const webhooks = createWebhookHandler({
    client,
    store: memoryStore(),
    verify: sharedSecret({ query: "key", secret }),
    backoff: () => 500, // ms: nobody waits 5 s here
    observe,
    on: {
      "booking.Request": (event) =>
        ran(event, `${describe(event.booking)}: decide by ${event.decideBy.toISOString()}`),
      "booking.Confirmed": (event) => {
        ran(event, describe(event.booking));
        if (!failed) {
          failed = true;
          throw new Error("the calendar does not answer");
        }
        const stay = calendar.block(event.booking);
        if (stay) account.line("calendar", `blocked ${nights(stay)}`);
      },
      "booking.Declined": (event) => ran(event, describe(event.booking)),
      "booking.Cancelled": (event) => {
        ran(event, describe(event.booking));
        const stay = calendar.release(event.booking);
        if (stay) account.line("calendar", `released ${nights(stay)}`);
      },
      "listing.Published": (event) =>
        ran(event, `${event.listing.listingName} (${event.listing.listingId}) is live`),
      fallback: (event) => ran(event, "nothing to do"),
    },
  });

  function ran(event: WebhookEvent, text: string): void {
    counted.callbacks++;
    const again = event.attempt > 1 ? `, attempt ${event.attempt}` : "";
    account.line("callback", `${shortId(event.eventId)} ${event.type}${again}: ${text}`);
  }

  function observe(observed: Observation): void {
    if (observed.kind === "received") {
      counted.events++;
      account.line("arrived", `${shortId(observed.eventId)} ${observed.ref}`);
    } else if (observed.kind === "duplicate") {
      counted.duplicates++;
      account.line("duplicate", `${shortId(observed.eventId)} ${observed.ref}`);
    } else if (observed.kind === "failed") {
      counted.retries++;
      const { eventId, type, error, retryIn } = observed;
      account.line(
        "failed",
        `${shortId(eventId)} ${type}: ${(error as Error).message}; again in ${retryIn} ms`,
      );
    }
  }

  return { webhooks, counted };
}

// Fields beyond those that the platform's document names are kept as they came.
const describe = ({ bookingCode, guest, status }: Booking): string => `${bookingCode} of ${guest}, ${status}`;

const nights = ({ checkIn, checkOut, nights }: Stay): string =>
  `${nights} ${nights === 1 ? "night" : "nights"}, ${checkIn} to ${checkOut}`;
