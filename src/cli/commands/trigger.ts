import { parseUrl } from "../../client/urls.ts";
import { bookingStatuses, listingStatuses } from "../../models/records.ts";
import type { Command, Invocation } from "../command.ts";
import { originOf, post, toOf, toOption } from "../endpoints.ts";
import { exitCodes, MissingError, UsageError } from "../exit-code.ts";

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

/** Makes a code or id of eight random digits, which probably does not exist. */
const madeUp = (prefix: string): string =>
  `${prefix}${String(crypto.getRandomValues(new Uint32Array(1))[0])
    .padStart(8, "0")
    .slice(-8)}`;

/** @throws UsageError if the platform sends no such notification */
function wantedOf({ positionals: [what = "", id], text }: Invocation): Wanted {
  const [, kind = "", separator, rest] = /^(\w+)(?:([.:])(.*))?$/s.exec(what) ?? [];
  for (const other of ["booking", "listing"])
    if (other !== kind && text(other) !== undefined)
      throw new UsageError(`--${other} requires ${other} as the first argument.`);
  if (kind === "message" || kind === "messages" || kind === "unknown") {
    if (id !== undefined) throw new UsageError("A message has no code or id.");
    return { topic: "messages", bookingCode: null, listingId: null };
  }
  const known = statuses[kind];
  if (!known || (separator === "." && ![...known, "unknown"].includes(rest ?? "")))
    throw new UsageError(
      "The first argument must be booking, listing, message, or an event such as booking.Confirmed.",
    );
  const given = text(kind) ?? (separator === ":" ? rest : undefined) ?? id;
  if (kind === "booking") return { topic: "bookings", bookingCode: given || madeUp("TEST"), listingId: null };
  if (given && !/^\d{1,15}$/.test(given)) throw new UsageError("A listing's id must be an integer.");
  return { topic: "listings", bookingCode: null, listingId: Number(given || madeUp("999")) };
}

async function endpointOf(invocation: Invocation, topic: Wanted["topic"]): Promise<string> {
  const to = await toOf(invocation);
  if (to !== undefined) {
    if (!parseUrl(to)) throw new UsageError("--to must be an http or https URL.");
    return to;
  }
  const config = await invocation.client().webhookConfig.get({ signal: invocation.io.signal });
  const url = config?.endpoints[topic];
  if (typeof url !== "string" || !parseUrl(url))
    throw new MissingError(
      `The account's webhook configuration has no URL for ${topic}. Give one with --to or STAYHOOK_TO.`,
    );
  return url;
}

export const trigger: Command = {
  name: "trigger",
  summary: "send one notification to an endpoint, as the platform would",
  takes: "<what> [<code or id>]",
  arguments: [1, 2],
  description: `<what> is booking, listing or message, or an event such as booking.Confirmed. A notification does not name the
kind of event. The subscriber reads the record and goes by the record's status. Without a code or id, the command
makes up a record that does not exist. Ends with 0 if the endpoint answers 200.`,
  examples: ["stayhook trigger booking HX3K9 --to - < url.txt", "stayhook trigger listing.Published 5717008"],
  asksPlatform: true,
  options: {
    ...toOption("send to this endpoint, not to the configured one"),
    booking: { type: "string", value: "<code>", help: "the code of the booking" },
    listing: { type: "string", value: "<id>", help: "the id of the listing" },
    "event-id": {
      type: "string",
      value: "<uuid>",
      help: "the id of an earlier notification, to send it again; default: a new id",
    },
    timestamp: { type: "string", value: "<time>", help: "the time of the event in ISO 8601; default: now" },
  },
  run: async (invocation) => {
    const { out, io, text } = invocation;
    const { topic, bookingCode, listingId } = wantedOf(invocation);
    const notification = {
      eventId: text("event-id") ?? crypto.randomUUID(),
      timestamp: text("timestamp") ?? new Date().toISOString(),
      bookingCode,
      listingId,
    };
    const url = await endpointOf(invocation, topic);
    const { status, error, duration } = await post(url, JSON.stringify(notification), io.signal);
    const answered = status ?? error ?? "no answer";
    out.result(
      { to: originOf(url), notification, status: status ?? null, error: error ?? null, duration },
      () => {
        const color = status === 200 ? "green" : "red";
        return `${notification.eventId} -> ${originOf(url)}: ${out.style(color, String(answered))} in ${duration} ms`;
      },
    );
    if (status === 200) return exitCodes.done;
    return status === undefined ? exitCodes.unreachable : exitCodes.failed;
  },
};
