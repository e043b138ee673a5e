import { setTimeout as sleep } from "node:timers/promises";
import { errorText } from "../../errors.ts";
import type { EventFilter } from "../../stores/event-filter.ts";
import type { EventStore } from "../../stores/event-store.ts";
import type { StoredEvent } from "../../stores/stored-event.ts";
import { filterOf } from "../arguments.ts";
import { type Command, type Invocation, UsageError } from "../command.ts";
import { storeOptions, withStore } from "../open-store.ts";
import { printable } from "../output.ts";
import { addTopic, targetOf, toOption } from "../url-options.ts";
import { originOf, post } from "./trigger.ts";

export const listen: Command = {
  description: `Reads new notifications from the store of the deployed app, and posts each of them to the local endpoint, as the platform
does. If the store knows the topic, adds topic=<topic> to the URL. Prints a line for each answer of the endpoint, until
Ctrl-C. Never writes to the store, and does not retry a failed request.`,
  examples: [
    "stayhook listen --to http://127.0.0.1:3000/hooks",
    "stayhook listen --since 2h --ref booking:HX3K9 --to - < url.txt",
  ],
  options: {
    ...toOption("the local endpoint", "STAYHOOK_TARGET"),
    since: {
      value: "<time>",
      help: "forward notifications since this time: 2h (2 hours ago) or 2026-11-21T12:00:00Z; default: now",
    },
    ref: { value: "<ref>", help: "only this record: booking:<code> or listing:<id>, or only the code or id" },
    ...storeOptions,
  },
  run: async (invocation) => {
    const { io, out } = invocation;
    const to = await targetOf(invocation);
    if (to === undefined)
      throw new UsageError("Give the URL of the local endpoint with --to or STAYHOOK_TARGET.");
    const { ref, receivedAfter: since } = filterOf(invocation) ?? {};
    await withStore(
      invocation,
      async (store) => {
        if (!out.json) out.note(`Forwarding new notifications to ${originOf(to)}. Press Ctrl-C to stop.`);
        for await (const { event, isNew } of followEvents(store, invocation, { ref }, since)) {
          if (!isNew || !isOwnNotification(event)) continue;
          const sentAt = new Date();
          const answer = await post(addTopic(to, event.topic), event.notification, io.signal).catch(() => {});
          if (!answer) return;
          const { eventId, ref, topic } = event;
          const { status = null, error = null, duration } = answer;
          const origin = originOf(to);
          out.item({ eventId, ref, topic, sentAt, to: origin, status, error, duration }, () => {
            const which = `${out.clock(sentAt)} ${eventId} ${printable(ref)}`;
            return `${which} -> ${origin}: ${out.answer(answer)} in ${duration} ms`;
          });
        }
      },
      { handlesSignal: true },
    );
  },
};

/**
 * Whether the event has a notification of its own. An event of the reconciler has no notification. A follow-up event
 * has a copy of the first event's notification. `listen` does not forward the copy, because the local app makes its
 * own follow-up event.
 */
function isOwnNotification(event: StoredEvent): event is StoredEvent & { readonly notification: string } {
  if (event.notification === null) return false;
  const { eventId } = Object(JSON.parse(event.notification)) as { readonly eventId?: unknown };
  return String(eventId).trim().toLowerCase() === event.eventId;
}

/** The time between two reads of the store, ms. */
const POLL_INTERVAL = 500;
/** The number of newest events that each read gets. One event is not enough: a late commit may add an older event. */
const WATCHED = 200;
/** The largest number of event ids to remember. A command that runs for weeks would otherwise fill its memory. */
const REMEMBERED = 100_000;

/**
 * Yields each new event, the oldest first. When the state of one of the 200 newest events changes, yields the event
 * again. Throws if the first read of the store fails. If a later read fails, warns and tries again. Returns when the
 * signal aborts.
 *
 * @param since - yields events from this time on; default: only events that arrive after the call
 */
export async function* followEvents(
  store: EventStore<unknown>,
  { out, io: { signal } }: Invocation,
  filter: Pick<EventFilter, "account" | "ref" | "source">,
  since: Date | undefined,
): AsyncGenerator<{ readonly event: StoredEvent; readonly isNew: boolean }> {
  const known = new Map<string, string>();
  const version = ({ state, attempts }: StoredEvent) => `${state} ${attempts}`;
  const [newest] = since ? [] : await store.list({ ...filter, limit: 1 });
  const receivedAfter = since ?? newest?.receivedAt;
  const look = async () => {
    const changed: { event: StoredEvent; isNew: boolean }[] = [];
    let after: string | undefined;
    do {
      const page = await store.list({ ...filter, receivedAfter, after, limit: WATCHED });
      const found = page.map((event) => ({ event, isNew: !known.has(event.eventId) }));
      changed.push(...found.filter(({ event }) => known.get(event.eventId) !== version(event)));
      after = page.length === WATCHED && found.some(({ isNew }) => isNew) ? page.at(-1)?.eventId : undefined;
    } while (after !== undefined && !signal.aborted);
    changed.reverse();
    for (const { event } of changed) known.set(event.eventId, version(event));
    for (const eventId of known.keys()) {
      if (known.size <= REMEMBERED) break;
      known.delete(eventId);
    }
    return changed;
  };
  const before = await look();
  if (since) yield* before;
  let failing = false;
  for (;;) {
    await sleep(POLL_INTERVAL, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    try {
      yield* await look();
      failing = false;
    } catch (error) {
      if (!failing) out.warn(`The store could not be read: ${errorText(error)}. Trying again.`);
      failing = true;
    }
  }
}
