import type { RequestListener } from "node:http";
import { answerWith } from "../adapters/exchange.ts";
import { fetchHandler } from "../adapters/handlers.ts";
import { createSite, type Site, type View, type Visit } from "../console/site.ts";
import { StayhookError } from "../errors.ts";
import type { Log } from "../logger.ts";
import type { SandboxDeliveryOptions, SandboxFault } from "./options.ts";
import { eventView, type PageSource, platformView } from "./page-view.ts";
import type { Sandbox } from "./sandbox.ts";
import { refuse, type SandboxBooking, type SandboxListing } from "./sandbox-records.ts";

/** Makes the sandbox's web page: records, deliveries and faults, with buttons that change them. */
export function createPage(
  source: PageSource,
  { needsToken, log }: { readonly needsToken: boolean; readonly log: Log },
): RequestListener {
  const { sandbox } = source;
  const site: Site = {
    name: "Stayhook sandbox",
    live: { every: 300, unfocused: true },
    view: async (visit) => viewOf(source, visit),
    act: async (form, visit) => {
      try {
        return viewOf(source, visit, { tone: "good", text: await act(sandbox, form) });
      } catch (error) {
        if (!(error instanceof StayhookError)) throw error;
        return { ...viewOf(source, visit, { tone: "bad", text: error.message }), status: 400 };
      }
    },
  };
  const { fetch } = createSite(site, { authorize: () => true, log });
  const guarded = fetchHandler(async (request) =>
    needsToken && !hasToken(request, sandbox.accessToken) ? unauthorized() : fetch(request),
  );
  return (request, response) => void answerWith(guarded, request, response, {});
}

function viewOf(source: PageSource, visit: Visit, notice?: Parameters<typeof platformView>[2]): View {
  const eventId = visit.query.get("event");
  return eventId === null ? platformView(source, visit, notice) : eventView(source, eventId, visit, notice);
}

/** Accepts the token as a bearer token, or as the password of Basic authentication, which browsers send. */
function hasToken(request: Request, token: string): boolean {
  const [, scheme = "", value = ""] = /^(\S+) +(\S+)$/.exec(request.headers.get("authorization") ?? "") ?? [];
  if (scheme.toLowerCase() === "bearer") return value === token;
  const password = Buffer.from(value, "base64")
    .toString("latin1")
    .replace(/^[^:]*:/, "");
  return scheme.toLowerCase() === "basic" && password === token;
}

const unauthorized = (): Response =>
  new Response("Give the sandbox's access token as the password, or as a bearer token.\n", {
    status: 401,
    headers: {
      "www-authenticate": 'Basic realm="Stayhook sandbox"',
      "content-type": "text/plain; charset=utf-8",
    },
  });

type Act = (sandbox: Sandbox, form: URLSearchParams) => Promise<string>;

const booking = ({ bookingCode, status }: SandboxBooking) => `Booking ${bookingCode} is ${status}.`;
const listing = ({ listingId, status }: SandboxListing) => `Listing ${listingId} is ${status}.`;
const codeOf = (form: URLSearchParams): string => form.get("booking") ?? "";
const idOf = (form: URLSearchParams): number => Number(form.get("listing"));

/** The actions of the page's buttons. Each returns the text to show. */
const acts: Readonly<Record<string, Act>> = {
  request: async ({ bookings }, form) => booking(await bookings.request(bookingFields(form))),
  book: async ({ bookings }, form) => booking(await bookings.instantBook(bookingFields(form))),
  approve: async ({ bookings }, form) => booking(await bookings.approve(codeOf(form))),
  decline: async ({ bookings }, form) => booking(await bookings.decline(codeOf(form))),
  cancel: async ({ bookings }, form) => booking(await bookings.cancel(codeOf(form))),
  alter: async ({ bookings }, form) => {
    const { bookingCode, checkIn, checkOut } = await bookings.alter(codeOf(form), bookingFields(form));
    return `Booking ${bookingCode} now has check-in ${checkIn} and check-out ${checkOut}.`;
  },
  submit: async ({ listings }, form) =>
    listing(await listings.submit({ listingName: textOf(form, "listingName") })),
  publish: async ({ listings }, form) => listing(await listings.publish(idOf(form))),
  hide: async ({ listings }, form) => listing(await listings.hide(idOf(form))),
  resend: async (sandbox, form) => {
    const eventId = form.get("event") ?? "";
    // Do not wait for the endpoint's answer: the page shows it later. For an unknown event id, `race` still rejects.
    await Promise.race([sandbox.redeliver(eventId), Promise.resolve()]);
    return `The sandbox is sending event ${eventId} again.`;
  },
  deliver: async (sandbox, form) => {
    sandbox.delivery.set(deliveryOptions(form));
    return "The new delivery options will apply to all later notifications.";
  },
  normal: async (sandbox) => {
    sandbox.delivery.set(deliveryOptions(new URLSearchParams()));
    return "The sandbox will deliver each later notification once, without delay.";
  },
  duplicate: async ({ delivery }) => {
    const duplicates = (delivery.current.duplicates ?? 0) > 0 ? 0 : 1;
    delivery.set({ duplicates });
    return `The sandbox will send each later notification ${duplicates === 0 ? "once" : "twice"}.`;
  },
  drop: async ({ delivery }) => {
    const drop = (delivery.current.drop ?? 0) > 0 ? 0 : 1;
    delivery.set({ drop });
    return `The sandbox will ${drop === 0 ? "send" : "drop"} all later notifications.`;
  },
  advance: async (sandbox, form) => {
    const minutes = Number(form.get("minutes"));
    // Do not wait for the answers to deliveries that become due.
    await Promise.race([sandbox.advance(minutes * 60_000), Promise.resolve()]);
    return `The sandbox's clock has moved ahead by ${minutes} min.`;
  },
  fault: async ({ faults }, form) => {
    faults.set([...faults.list(), faultOf(form)]);
    return "The fault was added to the API.";
  },
  "end-fault": async ({ faults }, form) => {
    const index = Number(form.get("fault"));
    faults.set(faults.list().filter((_, at) => at !== index));
    return "The fault was removed from the API.";
  },
  heal: async ({ faults }) => {
    faults.clear();
    return "All faults were removed from the API.";
  },
};

async function act(sandbox: Sandbox, form: URLSearchParams): Promise<string> {
  const name = form.get("do") ?? "";
  const found = Object.hasOwn(acts, name) ? acts[name] : undefined;
  return (found ?? refuse("the page has no such button. Load the page again", "do"))(sandbox, form);
}

/** Returns `undefined` for an empty field. */
const textOf = (form: URLSearchParams, name: string): string | undefined =>
  form.get(name)?.trim() || undefined;

/** Returns `undefined` for an empty field, and NaN for a text that is no number. The sandbox rejects NaN. */
function numberOf(form: URLSearchParams, name: string): number | undefined {
  const text = textOf(form, name);
  return text === undefined ? undefined : Number(text);
}

/** Converts a field in percent to a share from 0 to 1. */
function shareOf(form: URLSearchParams, name: string): number | undefined {
  const percent = numberOf(form, name);
  return percent === undefined ? undefined : percent / 100;
}

function bookingFields(form: URLSearchParams) {
  return {
    bookingCode: textOf(form, "bookingCode"),
    listingId: numberOf(form, "listingId"),
    checkIn: textOf(form, "checkIn"),
    checkOut: textOf(form, "checkOut"),
  };
}

function deliveryOptions(form: URLSearchParams): SandboxDeliveryOptions {
  return {
    duplicates: numberOf(form, "duplicates") ?? 0,
    drop: shareOf(form, "drop") ?? 0,
    delay: numberOf(form, "delay") ?? 0,
    timeout: numberOf(form, "timeout") ?? 30_000,
    shuffle: form.has("shuffle"),
    retry: { schedule: (textOf(form, "retry")?.split(/[\s,]+/) ?? []).map(Number) },
  };
}

function faultOf(form: URLSearchParams): SandboxFault {
  return {
    route: textOf(form, "route"),
    status: numberOf(form, "status"),
    delay: numberOf(form, "delay"),
    rate: shareOf(form, "rate"),
    times: numberOf(form, "times"),
    ...(form.has("cutOff") && { cutOff: true }),
  };
}
