import type { EventFilter } from "../../../stores/event-filter.ts";
import type { EventStore } from "../../../stores/event-store.ts";
import type { StoredEvent } from "../../../stores/stored-event.ts";
import { storedId } from "../../../webhooks/stored-id.ts";
import { filterIn, filterOf, integerOf } from "../../arguments.ts";
import { type Invocation, type Subcommand, UsageError } from "../../command.ts";
import { followEvents } from "../../follow-events.ts";
import { storeOptions, withStore } from "../../open-store.ts";
import { eventColumns, filterOptions } from "./columns.ts";

type Store = EventStore<unknown>;

export const ls: Subcommand = {
  name: "ls",
  summary: "list events, the newest first",
  examples: [
    "stayhook events ls --store events.db --ref booking:HX3K9",
    "stayhook events ls --store events.db --state parked --since 2h",
    "stayhook events ls --store events.db --follow",
  ],
  options: {
    ...filterOptions(),
    limit: { value: "<n>", help: "how many events to list; default: 20" },
    after: { value: "<eventId>", help: "continue the list after the event with this id" },
    follow: { help: "print each new event and each change of an event's state, until Ctrl-C" },
    ...storeOptions,
  },
  run: async (invocation) => {
    const { out, text, flag } = invocation;
    const filter = filterOf(invocation);
    const limit = integerOf(invocation, "limit", 1) ?? 20;
    if (flag("follow")) {
      const page = ["until", "limit", "after"].find((name) => text(name) !== undefined);
      if (page) throw new UsageError(`--follow cannot be combined with --${page}.`);
      return follow(invocation, filter ?? {});
    }
    const after = storedId(text("after") ?? "") || undefined;
    const events = await withStore(invocation, async (store) =>
      store.list({ ...(await filterIn(store, filter ?? {})), limit, after }),
    );
    out.result(events, () => out.table(events, eventColumns(events)));
  },
};

async function follow(invocation: Invocation, filter: EventFilter): Promise<undefined> {
  const { receivedAfter: since, account, source } = filter;
  // Do not let the store filter by `type`, `reason` and `state`. These fields change during processing, so the store
  // could skip an event.
  const matches = (event: StoredEvent) =>
    (["type", "reason", "state"] as const).every((name) => [undefined, event[name]].includes(filter[name]));
  const print = async (store: Store) => {
    const { ref } = await filterIn(store, filter);
    for await (const { event } of followEvents(
      store,
      invocation,
      { account, ref, source },
      { since, watchesAll: true },
    ))
      if (matches(event)) invocation.out.row(event, eventColumns([event]));
  };
  await withStore(invocation, print, { handlesSignal: true });
}
