import { parseDuration } from "../../reconcile/options.ts";
import type { AttemptEntry, StoredEvent } from "../../stores/event-store.ts";
import type { Command, Invocation } from "../command.ts";
import { changeCommand, find } from "../events/change.ts";
import { choice, failures, filterOf, filterOptions, states } from "../events/filter.ts";
import { MissingError, UsageError } from "../exit-code.ts";
import { storeOptions, withStore } from "../open-store.ts";
import type { Column } from "../output.ts";

/** Events that the store deletes in one go. */
const PURGE_BATCH = 1000;

const columns: readonly Column<StoredEvent>[] = [
  ["EVENT", ({ eventId }) => eventId],
  ["STATE", ({ state }) => state],
  ["TYPE", ({ type }) => type],
  ["RECORD", ({ ref }) => ref],
  ["ATTEMPTS", ({ attempts }) => attempts],
  ["RECEIVED", ({ receivedAt }) => receivedAt],
  ["REASON", ({ reason }) => reason],
  ["ERROR", ({ lastError }) => lastError],
];

function limitOf({ text }: Invocation): number {
  const limit = Number(text("limit") ?? 20);
  if (!Number.isInteger(limit) || limit < 1) throw new UsageError("--limit must be an integer from 1 on");
  return limit;
}

const ls: Command = {
  name: "ls",
  summary: "list events, the newest first",
  examples: [
    "stayhook events ls --store events.db --state parked",
    "stayhook events ls --store events.db --ref booking:HX3K9 --since 2026-11-21T12:00:00Z",
  ],
  options: {
    ...filterOptions,
    limit: { type: "string", value: "<n>", help: "how many; default: 20" },
    after: { type: "string", value: "<eventId>", help: "go on after this event" },
    ...storeOptions,
  },
  run: async (invocation) => {
    const { out, text } = invocation;
    const after = text("after")?.toLowerCase();
    const wanted = { ...filterOf(invocation), limit: limitOf(invocation), after };
    const events = await withStore(invocation, (store) => store.list(wanted));
    out.result(events, () => out.table(events, columns));
    return undefined;
  },
};

/** One attempt in one line. */
function line({ at, outcome, reason, duration, worker, error }: AttemptEntry): string {
  const ended = reason === undefined ? outcome : `${outcome} (${reason})`;
  const by = worker === undefined ? "" : ` by ${worker}`;
  return `${at.toISOString()} ${ended} after ${duration} ms${by}${error === undefined ? "" : `: ${error}`}`;
}

const show: Command = {
  name: "show",
  summary: "show one event and its last attempts",
  takes: "<eventId>",
  arguments: [1, 1],
  examples: ["stayhook events show 6f1f7a1e-9a40-4d43-8f0a-0a3f4d1f2b11 --store events.db"],
  options: storeOptions,
  run: async (invocation) => {
    const { out, positionals } = invocation;
    const [eventId = ""] = positionals;
    await withStore(invocation, async (store) => {
      const { history, ...event } = await find(store, eventId);
      const record = event.ref === null ? undefined : await store.recordOf(event.ref);
      const lastStatus = record?.snapshot.status ?? null;
      const lastFields = record?.snapshot.fields ?? null;
      const shown = { ...event, lastStatus, lastFields };
      out.result({ ...shown, history }, () =>
        out.fields([
          ...Object.entries(shown),
          ...history.map((entry, index) => [`attempt ${index + 1}`, line(entry)] as const),
        ]),
      );
    });
    return undefined;
  },
};

const replay = changeCommand({
  name: "replay",
  summary: "have the processes of the app handle events again",
  description: `Takes done, parked and retrying events. With --all it takes those that are parked, unless --state says
otherwise.`,
  counted: "replayed",
  say: (count) => `${count} to be handled again`,
});

const discard = changeCommand({
  name: "discard",
  summary: "end events without handling them",
  description: `Takes pending, retrying and parked events. With --all it takes those that are parked, unless --state says
otherwise. A discarded event is done: a repeated delivery of it is not handled either.`,
  counted: "discarded",
  say: (count) => `${count} discarded`,
});

const purge: Command = {
  name: "purge",
  summary: "delete done or parked events",
  description: "A repeated delivery of a deleted event is handled as a new one.",
  examples: ["stayhook events purge --older-than 24h --store events.db"],
  options: {
    state: { type: "string", value: "<state>", help: "done or parked; default: done" },
    reason: { type: "string", value: "<reason>", help: failures.join(", ") },
    "older-than": {
      type: "string",
      value: "<duration>",
      help: "only events that have been done or parked for so long: 24h, 30m, 0; default: 7d",
    },
    ...storeOptions,
  },
  run: async (invocation) => {
    const { out, text } = invocation;
    const olderThan = text("older-than") ?? "7d";
    const age = olderThan === "0" ? 0 : parseDuration(olderThan);
    if (age === undefined) throw new UsageError("--older-than must be a duration such as 24h, 30m or 0");
    const state = choice(invocation, "state", ["done", "parked"] as const) ?? "done";
    const reason = choice(invocation, "reason", failures);
    const purged = await withStore(invocation, async (store) => {
      let total = 0;
      for (let count = PURGE_BATCH; count === PURGE_BATCH; total += count)
        count = await store.prune({ state, reason, age, limit: PURGE_BATCH });
      return total;
    });
    out.result({ purged }, () => `${purged} deleted`);
    return undefined;
  },
};

const erase: Command = {
  name: "erase",
  summary: "delete all events and the snapshot of one booking or listing",
  description: `Deletes its events, whatever their state, with notifications and attempts, and its snapshot. Fails while
one of its events is being processed.`,
  takes: "<ref>",
  arguments: [1, 1],
  examples: ["stayhook events erase booking:HX3K9 --store events.db"],
  options: storeOptions,
  run: async (invocation) => {
    const { out, positionals } = invocation;
    const [ref = ""] = positionals;
    if (!/^(booking|listing):./.test(ref))
      throw new UsageError("<ref> must be booking:<code> or listing:<id>");
    const erased = await withStore(invocation, async (store) => {
      const isKnown = (await store.recordOf(ref)) !== undefined;
      const count = await store.erase(ref);
      if (!isKnown && count === 0) throw new MissingError(`nothing is known of ${ref}`);
      return count;
    });
    out.result({ erased }, () => `${erased} events deleted`);
    return undefined;
  },
};

const counts: Command = {
  name: "counts",
  summary: "count the events in each state",
  examples: ["stayhook events counts --store events.db --json"],
  options: storeOptions,
  run: async (invocation) => {
    const { out } = invocation;
    await withStore(invocation, async (store) => {
      const counted = await store.counts();
      const waiting = await store.oldestWaiting();
      const oldestWaiting = waiting === undefined ? null : Math.round(waiting / 1000);
      out.result({ ...counted, oldestWaiting }, () =>
        out.fields([
          ...states.map((state) => [state, counted[state]] as const),
          ["oldest waiting", oldestWaiting === null ? null : `${oldestWaiting} s`],
        ]),
      );
    });
    return undefined;
  },
};

export const events: Command = {
  name: "events",
  summary: "look at recorded events, have them handled again, and clean up",
  examples: ["stayhook events ls --store events.db --state parked"],
  commands: [ls, show, replay, discard, purge, erase, counts],
};
