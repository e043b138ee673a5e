import { parseUrl, withTopic } from "../../client/urls.ts";
import { isTopic } from "../../models/records.ts";
import type { StoredEvent } from "../../stores/event-store.ts";
import type { Command } from "../command.ts";
import { originOf, post, toOf, toOption } from "../endpoints.ts";
import { UsageError } from "../exit-code.ts";
import { storeOptions, withStore } from "../open-store.ts";
import { timeOf } from "../options.ts";
import { printable } from "../output.ts";
import { checkRef, followEvents } from "../select-events.ts";

export const listen: Command = {
  name: "listen",
  summary: "forward notifications that a deployed endpoint records to a local endpoint",
  description: `Reads new notifications from the store of the deployed app, and posts each to the URL as the platform does. If the store
knows the topic, the URL gets topic=<topic>. Prints a line for each answer, until Ctrl-C. Never writes to the store, and
does not retry.`,
  examples: [
    "stayhook listen --to http://127.0.0.1:3000/hooks",
    "stayhook listen --since 2h --ref booking:HX3K9 --to - < url.txt",
  ],
  options: {
    ...toOption("the local endpoint"),
    since: {
      type: "string",
      value: "<time>",
      help: "begin 2h ago, or at 2026-11-21T12:00:00Z; default: now",
    },
    ref: { type: "string", value: "<ref>", help: "only this record: booking:<code> or listing:<id>" },
    ...storeOptions,
  },
  run: async (invocation) => {
    const { io, out, text } = invocation;
    const to = await toOf(invocation);
    if (to === undefined) throw new UsageError("Name the local endpoint with --to or STAYHOOK_TO.");
    if (!parseUrl(to)) throw new UsageError("--to must be an http or https URL.");
    const given = text("ref");
    const ref = given === undefined ? undefined : checkRef(given, "--ref");
    const since = timeOf(invocation, "since");
    await withStore(
      invocation,
      async (store) => {
        const following = { since, signal: io.signal, warn: (message: string) => out.warn(message) };
        if (!out.json) out.note(`Forwarding new notifications to ${originOf(to)}. Press Ctrl-C to stop.`);
        for await (const { event, isNew } of followEvents(store, { ref }, following)) {
          if (!isNew || !isOwnNotification(event)) continue;
          const sentAt = new Date();
          const answer = await post(urlFor(to, event.topic), event.notification, io.signal).catch(() => {});
          if (!answer) return;
          const { eventId, topic } = event;
          const { status = null, error = null, duration } = answer;
          out.item(
            { eventId, ref: event.ref, topic, sentAt, to: originOf(to), status, error, duration },
            () => {
              const shown = out.style(status === 200 ? "green" : "red", printable(status ?? error));
              const time = out.style("dim", sentAt.toISOString().slice(11, 23));
              return `${time} ${eventId} ${printable(event.ref)} -> ${originOf(to)}: ${shown} in ${duration} ms`;
            },
          );
        }
      },
      { handlesSignal: true },
    );
  },
};

/**
 * Whether the event has a notification of its own. An event of the reconciler has none. A follow-up event has a copy of
 * the first event's notification, and the local app makes its own follow-up.
 */
function isOwnNotification(event: StoredEvent): event is StoredEvent & { readonly notification: string } {
  if (event.notification === null) return false;
  const { eventId } = Object(JSON.parse(event.notification)) as { readonly eventId?: unknown };
  return String(eventId).trim().toLowerCase() === event.eventId;
}

/** The URL with the topic in its query, unless it names a topic already. */
function urlFor(to: string, topic: string | null): string {
  const isMissing = topic !== null && isTopic(topic) && !new URL(to).searchParams.has("topic");
  return isMissing ? withTopic(to, topic) : to;
}
