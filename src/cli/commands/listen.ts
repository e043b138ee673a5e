import { accountOf, splitKey } from "../../account.ts";
import type { StoredEvent } from "../../stores/stored-event.ts";
import { filterOf } from "../arguments.ts";
import { type Command, UsageError } from "../command.ts";
import { followEvents } from "../follow-events.ts";
import { storeOptions, withStore } from "../open-store.ts";
import { printable } from "../output.ts";
import { filterIn } from "../refs-in-accounts.ts";
import { addAccount, addTopic, targetOf, toOption } from "../url-options.ts";
import { originOf, post } from "./trigger.ts";

export const listen: Command = {
  description: `Reads new notifications from the store of the deployed app, and posts each of them to the local endpoint, as the platform
does. If the store knows the topic, adds topic=<topic> to the URL, and account=<id> for an event of an account. Prints a line for each answer of the endpoint, until
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
    account: { value: "<id>", help: "only notifications of this account" },
    ref: { value: "<ref>", help: "only this record: booking:<code> or listing:<id>, or only the code or id" },
    ...storeOptions,
  },
  run: async (invocation) => {
    const { io, out } = invocation;
    const to = await targetOf(invocation);
    if (to === undefined)
      throw new UsageError("Give the URL of the local endpoint with --to or STAYHOOK_TARGET.");
    const given = filterOf(invocation) ?? {};
    await withStore(
      invocation,
      async (store) => {
        if (!out.json) out.note(`Forwarding new notifications to ${originOf(to)}. Press Ctrl-C to stop.`);
        const { account, ref, receivedAfter: since } = await filterIn(store, given);
        for await (const { event, isNew } of followEvents(store, invocation, { account, ref }, { since })) {
          if (!isNew || !isOwnNotification(event)) continue;
          const sentAt = new Date();
          const answer = await post(
            addAccount(addTopic(to, event.topic), accountOf(event)),
            event.notification,
            io.signal,
          ).catch(() => {});
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
  return String(eventId).trim().toLowerCase() === splitKey(event.eventId).rest;
}
