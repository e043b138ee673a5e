// What a user can do to the sandbox: the buttons of its page, and the commands of its shell.

import { duration } from "../console/html.ts";
import { StayhookError } from "../errors.ts";
import { toRange } from "./checks.ts";
import type { SandboxFault } from "./faults.ts";
import type { SandboxDeliveryOptions } from "./options.ts";
import type { Sandbox, SandboxAccount } from "./sandbox.ts";
import { bookingMoves, checkStay, type SandboxBooking } from "./sandbox-bookings.ts";
import { listingMoves, type SandboxListing } from "./sandbox-listings.ts";
import { forEachVerb } from "./sandbox-records.ts";

/** What a verb did. */
export interface Outcome {
  /** One sentence or more for the user. */
  readonly text: string;
  /** The records that the verb made or changed. */
  readonly records?: readonly (SandboxBooking | SandboxListing)[];
}

/** An action on the sandbox: a button of its page, and a command of its shell. */
export interface Verb {
  /** What the user types after the verb, such as `<code>`. The shell does not offer a verb without `usage`. */
  readonly usage?: string;
  readonly help: string;
  /** The fields that typed words fill, in this order. The last field takes the rest of the line. */
  readonly words?: readonly string[];
  /** Whether the typed rest of the line is a list of `<field>=<value>`. */
  readonly takesPairs?: boolean;
  /** @param fields - the fields of the form, or the typed words. No value is empty, unless the user typed `<field>=` */
  run(target: Target, fields: URLSearchParams): Promise<Outcome>;
}

/** What a verb acts on: a sandbox, and one of its accounts. */
export interface Target {
  readonly sandbox: Sandbox;
  /** Without accounts, the sandbox itself. */
  readonly account: SandboxAccount;
}

/** Returns the target of a verb in this account. The first account is the default. */
export function targetOf(sandbox: Sandbox, given: string | undefined): Target {
  const id = given ?? sandbox.accounts[0];
  return { sandbox, account: id === undefined ? sandbox : sandbox.account(id) };
}

const bookingOutcome = (booking: SandboxBooking): Outcome => ({
  text: `Booking ${booking.bookingCode} is ${booking.status}.`,
  records: [booking],
});
const listingOutcome = (listing: SandboxListing): Outcome => ({
  text: `Listing ${listing.listingId} is ${listing.status}.`,
  records: [listing],
});
const codeOf = (fields: URLSearchParams): string => fields.get("booking") ?? "";
const idOf = (fields: URLSearchParams): number => Number(fields.get("listing"));

/** The verbs, in the order of the shell's help. */
export const verbs: Readonly<Record<string, Verb>> = {
  request: {
    usage: "[code]",
    help: "a guest requests a booking",
    words: ["bookingCode"],
    run: ({ account }, fields) => book(account, fields, "request"),
  },
  book: {
    usage: "[code]",
    help: "a guest books by Instant Book",
    words: ["bookingCode"],
    run: ({ account }, fields) => book(account, fields, "instantBook"),
  },
  ...forEachVerb(
    bookingMoves,
    (verb, { help }): Verb => ({
      usage: "<code>",
      help,
      words: ["booking"],
      run: async ({ account: { bookings } }, fields) => bookingOutcome(await bookings[verb](codeOf(fields))),
    }),
  ),
  alter: {
    usage: "<code> <field>=<value> ...",
    help: "change a booking: alter HX3K9 checkIn=2026-07-03",
    words: ["booking"],
    takesPairs: true,
    run: async ({ account: { bookings } }, fields) => {
      const changes = recordFields(fields);
      checkStay({ ...bookings.get(codeOf(fields)), ...changes });
      const booking = await bookings.alter(codeOf(fields), changes);
      const { bookingCode, checkIn, checkOut } = booking;
      const text = `Booking ${bookingCode} now has check-in ${checkIn} and check-out ${checkOut}.`;
      return { text, records: [booking] };
    },
  },
  submit: {
    usage: "[name]",
    help: "submit a new listing for review",
    words: ["listingName"],
    run: async ({ account: { listings } }, fields) =>
      listingOutcome(await listings.submit(recordFields(fields))),
  },
  ...forEachVerb(
    listingMoves,
    (verb, { help }): Verb => ({
      usage: "<id>",
      help,
      words: ["listing"],
      run: async ({ account: { listings } }, fields) => listingOutcome(await listings[verb](idOf(fields))),
    }),
  ),
  redeliver: {
    usage: "[eventId]",
    help: "deliver a notification again; default: the last notification",
    words: ["event"],
    run: async ({ sandbox, account }, fields) => {
      const last = account.deliveries.findLast(({ eventId }) => eventId !== undefined)?.eventId;
      const eventId = fields.get("event") ?? last;
      if (eventId === undefined)
        throw new StayhookError("The sandbox has not delivered any notification yet.");
      await begun(sandbox.redeliver(eventId));
      return { text: `The sandbox is sending event ${eventId} again.` };
    },
  },
  send: {
    usage: "<json>",
    help: "send any notification or text to the configured endpoint",
    words: ["text"],
    run: async ({ account }, fields) => {
      await begun(account.send(parsed(fields.get("text") ?? "")));
      return { text: "The sandbox is sending the notification." };
    },
  },
  duplicate: {
    usage: "",
    help: "deliver each later notification twice, or once again",
    run: async ({ sandbox: { delivery } }) => {
      const duplicates = (delivery.current.duplicates ?? 0) > 0 ? 0 : 1;
      delivery.set({ duplicates });
      return {
        text: `The sandbox will send each later notification ${duplicates === 0 ? "once" : "twice"}.`,
      };
    },
  },
  drop: {
    usage: "",
    help: "lose all later notifications, or send them again",
    run: async ({ sandbox: { delivery } }) => {
      const drop = (delivery.current.drop ?? 0) > 0 ? 0 : 1;
      delivery.set({ drop });
      return { text: `The sandbox will ${drop === 0 ? "send" : "drop"} all later notifications.` };
    },
  },
  deliver: {
    help: "set all delivery options",
    run: async ({ sandbox: { delivery } }, fields) => {
      delivery.set(deliveryOptions(fields));
      return { text: "The new delivery options will apply to all later notifications." };
    },
  },
  normal: {
    help: "reset all delivery options",
    run: async ({ sandbox: { delivery } }) => {
      delivery.set(deliveryOptions(new URLSearchParams()));
      return { text: "The sandbox will deliver each later notification once, without delay." };
    },
  },
  advance: {
    usage: "<minutes>",
    help: "move the sandbox's clock ahead",
    words: ["minutes"],
    run: async ({ sandbox }, fields) => {
      const minutes = Number(fields.get("minutes"));
      await begun(sandbox.advance(minutes * 60_000));
      return { text: `The sandbox's clock has moved ahead by ${minutes} min.` };
    },
  },
  fault: {
    usage: "<status> [route]",
    help: "answer requests with a status: fault 503 GET /v2/listings",
    words: ["status", "route"],
    run: async ({ account: { faults } }, fields) => {
      const fault = faultOf(fields);
      faults.set([...faults.list(), fault]);
      return { text: `From now on, ${describeScope(fault)} will get this fault: ${describeFault(fault)}.` };
    },
  },
  "end-fault": {
    help: "end one fault",
    run: async ({ account: { faults } }, fields) => {
      const index = Number(fields.get("fault"));
      faults.set(faults.list().filter((_, at) => at !== index));
      return { text: "The fault was removed from the API." };
    },
  },
  heal: {
    usage: "",
    help: "end all faults",
    run: async ({ account: { faults } }) => {
      const count = faults.list().length;
      faults.clear();
      if (count === 0) return { text: "There was no fault to end." };
      return {
        text: `${count === 1 ? "One fault" : `${count} faults`} ended. The API answers every request again.`,
      };
    },
  },
};

/** Books. In a sandbox without listings, first makes one, so that the app can read the booking's listing. */
async function book(
  { bookings, listings }: SandboxAccount,
  fields: URLSearchParams,
  how: "request" | "instantBook",
): Promise<Outcome> {
  const isEmpty = !fields.has("listingId") && listings.list().length === 0;
  const made = isEmpty ? [await listings.create({ status: "Published" })] : [];
  const booking = await bookings[how](recordFields(fields));
  const { text } = bookingOutcome(booking);
  const more = made.map(
    ({ listingId, listingName }) => ` Listing ${listingId} (${listingName}) was made for it.`,
  );
  return { text: text + more.join(""), records: [...made, booking] };
}

/**
 * Waits until the work has begun, but not for the endpoint's answer, which the user sees later. Rejects if the work
 * cannot begin, for example because the event id is unknown.
 */
const begun = (work: Promise<unknown>): Promise<unknown> => Promise.race([work, Promise.resolve()]);

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Returns `undefined` for a missing field, and NaN for a text that is no number. The sandbox rejects NaN. */
function numberOf(fields: URLSearchParams, name: string): number | undefined {
  const text = fields.get(name);
  return text === null ? undefined : Number(text.trim() || Number.NaN);
}

/** Converts a field in percent to a share from 0 to 1. */
function shareOf(fields: URLSearchParams, name: string): number | undefined {
  const percent = numberOf(fields, name);
  return percent === undefined ? undefined : percent / 100;
}

/** The fields of a record. `booking` is not among them: it says which booking to change. */
function recordFields(fields: URLSearchParams): Record<string, unknown> {
  const { booking: _, ...given } = Object.fromEntries(fields);
  return "listingId" in given ? { ...given, listingId: numberOf(fields, "listingId") } : given;
}

function deliveryOptions(fields: URLSearchParams): SandboxDeliveryOptions {
  return {
    duplicates: numberOf(fields, "duplicates") ?? 0,
    drop: shareOf(fields, "drop") ?? 0,
    delay: numberOf(fields, "delay") ?? 0,
    timeout: numberOf(fields, "timeout") ?? 30_000,
    shuffle: fields.has("shuffle"),
    retry: { schedule: (fields.get("retry")?.split(/[\s,]+/) ?? []).map(Number) },
  };
}

function faultOf(fields: URLSearchParams): SandboxFault {
  return {
    route: fields.get("route") ?? undefined,
    status: numberOf(fields, "status"),
    delay: numberOf(fields, "delay"),
    rate: shareOf(fields, "rate"),
    times: numberOf(fields, "times"),
    ...(fields.has("cutOff") && { cutOff: true }),
  };
}

const joined = (...parts: readonly (string | false | undefined)[]): string =>
  parts.filter(Boolean).join(", ");

/** Says what a fault does: `503 (Retry-After 2), 3.0 s slower`. */
export function describeFault({ status, retryAfter, delay, cutOff }: SandboxFault): string {
  return joined(
    status !== undefined && `${status}${retryAfter === undefined ? "" : ` (Retry-After ${retryAfter})`}`,
    delay !== undefined && `${[...new Set(toRange(delay))].map(duration).join(" to ")} slower`,
    cutOff && "cut off",
  );
}

/** Says which requests get a fault: `GET /v2/listings, 30%, 5 times`. */
export function describeScope({ route = "all requests", rate, times }: SandboxFault): string {
  const share = rate !== undefined && `${Math.round(rate * 100)}%`;
  return joined(route, share, times !== undefined && `${times} times`);
}
