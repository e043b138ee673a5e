import { splitKey } from "../../../account.ts";
import { inKnownCase } from "../../../console/find-refs.ts";
import type { EventFilter } from "../../../stores/event-filter.ts";
import type { EventStore } from "../../../stores/event-store.ts";
import type { ListOptions } from "../../../stores/store-options.ts";
import type { StoredEvent } from "../../../stores/stored-event.ts";
import { storedId } from "../../../webhooks/own-ids.ts";
import { filterOf, integerOf } from "../../arguments.ts";
import { type Invocation, type Subcommand, UsageError } from "../../command.ts";
import { followEvents } from "../../follow-events.ts";
import { storeOptions, withStore } from "../../open-store.ts";
import { refsInAccounts } from "../../refs-in-accounts.ts";
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
    const events = await withStore(invocation, (store) => listed(store, { ...filter, limit, after }));
    out.result(events, () => out.table(events, eventColumns(events)));
  },
};

/** Lists the events of a filter. A ref without an account means the record in all accounts. */
async function listed(store: Store, options: ListOptions): Promise<StoredEvent[]> {
  const { ref, limit } = options;
  if (ref === undefined) return store.list(options);
  const refs =
    splitKey(ref).account === undefined ? await refsInAccounts(store, ref) : [await inKnownCase(store, ref)];
  const lists = await Promise.all(refs.map((each) => store.list({ ...options, ref: each })));
  return lists
    .flat()
    .sort((one, other) => other.receivedAt.getTime() - one.receivedAt.getTime())
    .slice(0, limit);
}

async function follow(invocation: Invocation, filter: EventFilter): Promise<undefined> {
  const { receivedAfter: since, account, source, ref } = filter;
  // Do not let the store filter by `type`, `reason` and `state`. These fields change during processing, so the store
  // could skip an event.
  const matches = (event: StoredEvent) =>
    (["type", "reason", "state"] as const).every((name) => [undefined, event[name]].includes(filter[name])) &&
    (ref === undefined || means(ref, event.ref));
  const print = async (store: Store) => {
    // The store compares a ref with its account and in the case of its code. Let it do so where it can.
    const exact =
      ref !== undefined && splitKey(ref).account !== undefined ? await inKnownCase(store, ref) : undefined;
    const asked = { account, ref: exact, source };
    for await (const { event } of followEvents(store, invocation, asked, { since, watchesAll: true }))
      if (matches(event)) invocation.out.row(event, eventColumns([event]));
  };
  await withStore(invocation, print, { handlesSignal: true });
}

/** Whether a given ref means the ref of an event: in any case of its code, and without an account in any account. */
function means(given: string, ref: string | null): boolean {
  if (ref === null) return false;
  const named = splitKey(given).account === undefined ? splitKey(ref).rest : ref;
  return named.toLowerCase() === given.toLowerCase();
}
