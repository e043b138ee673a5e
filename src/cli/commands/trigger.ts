import { parseUrl } from "../../client/urls.ts";
import { bookingStatuses, listingStatuses } from "../../models/records.ts";
import { nearest } from "../../option-names.ts";
import { type Command, exitCodes, type Invocation, MissingError, UsageError } from "../command.ts";
import { addTopic, targetOf, toOption } from "../url-options.ts";

/** The part of a URL that is safe to print. The path and the query may hold a secret. */
export const originOf = (url: string): string => new URL(url).origin;

/** The longest time that the platform waits for an answer, ms. */
export const REPLY_TIME = 30_000;

/** An endpoint's answer. */
export interface Posted {
  /** The HTTP status. It is `undefined` if no answer came. */
  readonly status: number | undefined;
  /** The reason why no answer came. It is `undefined` if an answer came. */
  readonly error: string | undefined;
  /** The time that the request took, ms. */
  readonly duration: number;
  /** The kind of a redirect, in words. It is `undefined` if the answer is no redirect. */
  readonly redirect?: string | undefined;
}

/**
 * Sends a body as the platform does: as JSON, without following redirects, and with a timeout of 30 s. Rejects only
 * if `signal` aborts.
 */
export async function post(
  url: string,
  body: string | undefined,
  signal: AbortSignal,
  method = "POST",
): Promise<Posted> {
  const began = performance.now();
  const since = () => Math.round(performance.now() - began);
  try {
    const response = await fetch(url, {
      method,
      redirect: "manual",
      signal: AbortSignal.any([signal, AbortSignal.timeout(REPLY_TIME)]),
      ...(body === undefined ? {} : { body, headers: { "content-type": "application/json" } }),
    });
    await response.body?.cancel();
    const { status, headers } = response;
    const redirect = redirectOf(url, status, headers.get("location"));
    return { status, error: undefined, duration: since(), redirect };
  } catch (error) {
    signal.throwIfAborted();
    return { status: undefined, error: reasonOf(error), duration: since() };
  }
}

/** Says where a redirect leads. Omits path and query, because they may hold a secret. */
function redirectOf(from: string, status: number, location: string | null): string | undefined {
  if (status < 300 || status > 399 || location === null) return undefined;
  const [{ origin, pathname }, to] = [new URL(from), URL.canParse(location, from) && new URL(location, from)];
  if (!to) return "a redirect to an invalid URL";
  if (to.origin !== origin) return `a redirect to ${to.origin}`;
  if (to.pathname === `${pathname}/`) return "a redirect that adds a slash to the end of the path";
  if (`${to.pathname}/` === pathname) return "a redirect that removes the slash at the end of the path";
  return "a redirect to another path or query";
}

/** Returns a short reason. Omits the URL, because the URL may hold a secret. */
function reasonOf(error: unknown): string {
  if (error instanceof Error && error.name === "TimeoutError")
    return `no answer within ${REPLY_TIME / 1000} s`;
  const { cause } = Object(error) as { readonly cause?: Error & { readonly code?: unknown } };
  if (typeof cause?.code === "string") return cause.code;
  return cause instanceof Error ? cause.message : "no connection";
}

/** The topic and reference of the notification to send. */
interface Wanted {
  readonly topic: "bookings" | "listings" | "messages";
  readonly bookingCode: string | null;
  readonly listingId: number | null;
}

const statuses: Readonly<Record<string, readonly string[]>> = {
  booking: bookingStatuses,
  listing: listingStatuses,
};

/** Makes a code or id with eight random digits. A record with this code or id probably does not exist. */
const madeUp = (prefix: string): string =>
  `${prefix}${String(crypto.getRandomValues(new Uint32Array(1))[0])
    .padStart(8, "0")
    .slice(-8)}`;

function helpWith(what: string): string {
  const [kind = "", status] = what.split(".");
  const nearKind = nearest(kind, ["booking", "listing", "message"]);
  const nearStatus = status && nearest(status, [...(statuses[nearKind ?? ""] ?? []), "unknown"]);
  const near = status === undefined ? nearKind : nearStatus && `${nearKind}.${nearStatus}`;
  const help = "The first argument must be booking, listing, message, or an event such as booking.Confirmed";
  return `${help}, not ${JSON.stringify(what)}.${near ? ` Did you mean ${near}?` : ""}`;
}

/** @throws UsageError if the platform sends no such notification */
function wantedOf({ positionals: [what = "", id], text }: Invocation): Wanted {
  const [, kind = "", separator, rest] = /^(\w+)(?:([.:])(.*))?$/s.exec(what) ?? [];
  const afterColon = separator === ":" ? rest : undefined;
  const isMessage = kind === "message" || kind === "messages";
  for (const other of ["booking", "listing"])
    if (other !== kind && !(isMessage && other === "booking") && text(other) !== undefined)
      throw new UsageError(`--${other} works only with "trigger ${other}".`);
  if (kind === "unknown" && id !== undefined)
    throw new UsageError("An unknown event has no code or id. Remove the second argument.");
  if (isMessage || kind === "unknown")
    return { topic: "messages", bookingCode: text("booking") ?? afterColon ?? id ?? null, listingId: null };
  const statusesOfKind = statuses[kind];
  if (!statusesOfKind || (separator === "." && ![...statusesOfKind, "unknown"].includes(rest ?? "")))
    throw new UsageError(helpWith(what));
  const given = text(kind) ?? afterColon ?? id;
  if (kind === "booking") return { topic: "bookings", bookingCode: given || madeUp("TEST"), listingId: null };
  if (given && !/^\d{1,15}$/.test(given)) throw new UsageError("A listing's id must be an integer.");
  return { topic: "listings", bookingCode: null, listingId: Number(given || madeUp("999")) };
}

async function endpointOf(invocation: Invocation, topic: Wanted["topic"]): Promise<string> {
  const to = await targetOf(invocation);
  if (to !== undefined) return addTopic(to, topic);
  const config = await (await invocation.client()).webhookConfig.get({ signal: invocation.io.signal });
  const url = config?.endpoints[topic];
  if (typeof url === "string" && parseUrl(url)) return url;
  throw new MissingError(
    `The account's webhook configuration has no URL for ${topic}. Give a URL with --to or STAYHOOK_TARGET.`,
  );
}

export const trigger: Command = {
  takes: "<what> [<code or id>]",
  arguments: [1, 2],
  description: `<what> is booking, listing or message, or an event such as booking.Confirmed. A notification does not name the
event's type, so booking.Confirmed sends the same notification as booking. Without a code or id, the command invents
the code or id of a record that does not exist. A message may have the code of its booking. The exit code is 0 if the endpoint answers 200.`,
  examples: ["stayhook trigger booking HX3K9 --to - < url.txt", "stayhook trigger listing.Published 5717008"],
  asksPlatform: true,
  options: {
    ...toOption(
      "send to this endpoint instead of the configured endpoint; adds topic=<topic> to the URL",
      "STAYHOOK_TARGET",
    ),
    booking: { value: "<code>", help: "the code of the booking, also of a message" },
    listing: { value: "<id>", help: "the id of the listing" },
    "event-id": {
      value: "<uuid>",
      help: "the event id; to send a duplicate, give the id of an earlier notification; default: a new id",
    },
    timestamp: { value: "<time>", help: "the time of the event in ISO 8601; default: now" },
  },
  run: async (invocation) => {
    const { out, io, text } = invocation;
    const { topic, bookingCode, listingId } = wantedOf(invocation);
    const eventId = text("event-id") ?? crypto.randomUUID();
    const timestamp = text("timestamp") ?? new Date().toISOString();
    const notification = { eventId, timestamp, bookingCode, listingId };
    const url = await endpointOf(invocation, topic);
    const to = originOf(url);
    const answer = await post(url, JSON.stringify(notification), io.signal);
    const { status = null, error = null, duration } = answer;
    out.result(
      { to, notification, status, error, duration },
      () => `${eventId} -> ${to}: ${out.answer(answer)} in ${duration} ms`,
    );
    if (status === 200) return exitCodes.done;
    return status === null ? exitCodes.unreachable : exitCodes.failed;
  },
};
