import { eventStates } from "../../stores/event-states.ts";
import type { AttemptEntry, StoredEvent } from "../../stores/event-store.ts";
import type { Command, Invocation } from "../command.ts";
import { UsageError } from "../exit-code.ts";
import { storeOptions, withStore } from "../open-store.ts";
import { integerOf } from "../options.ts";
import { eventColumns, filterOf, filterOptions, findEvent, followEvents } from "../select-events.ts";
import { discard, erase, purge, replay } from "./events-change.ts";

/** Options of `ls` that do not go with `--follow`. */
const pageOptions = ["until", "limit", "after"] as const;

const ls: Command = {
  name: "ls",
  summary: "list events, the newest first",
  examples: [
    "stayhook events ls --store events.db --ref booking:HX3K9",
    "stayhook events ls --store events.db --state parked --since 2h",
    "stayhook events ls --store events.db --follow",
  ],
  options: {
    ...filterOptions(),
    limit: { type: "string", value: "<n>", help: "how many events; default: 20" },
    after: { type: "string", value: "<eventId>", help: "continue after this event" },
    follow: { type: "boolean", help: "print new events and changes of their state until Ctrl-C" },
    ...storeOptions,
  },
  run: async (invocation) => {
    const { out, text, flag } = invocation;
    const filter = filterOf(invocation);
    const limit = integerOf(invocation, "limit", [1, Number.MAX_SAFE_INTEGER]) ?? 20;
    const page = pageOptions.find((name) => text(name) !== undefined);
    if (flag("follow")) {
      if (page) throw new UsageError(`--follow does not go with --${page}.`);
      return follow(invocation);
    }
    const after = text("after")?.toLowerCase();
    const events = await withStore(invocation, (store) => store.list({ ...filter, limit, after }));
    out.result(events, () => out.table(events, eventColumns));
  },
};

async function follow(invocation: Invocation): Promise<undefined> {
  const { io, out } = invocation;
  const filter = filterOf(invocation) ?? {};
  const { receivedAfter: since, ref, source } = filter;
  // These fields change while an event is handled, so the store cannot filter by them here.
  const matches = (event: StoredEvent) =>
    (["type", "reason", "state"] as const).every((name) => [undefined, event[name]].includes(filter[name]));
  await withStore(
    invocation,
    async (store) => {
      const following = { since, signal: io.signal, warn: (message: string) => out.warn(message) };
      for await (const { event } of followEvents(store, { ref, source }, following))
        if (matches(event)) out.row(event, eventColumns);
    },
    { handlesSignal: true },
  );
}

const show: Command = {
  name: "show",
  summary: "show one event with its timeline: receipt, attempts, next retry",
  takes: "<eventId>",
  arguments: [1, 1],
  description: "The store keeps the last 10 attempts of an event.",
  examples: ["stayhook events show 6f1f7a1e-9a40-4d43-8f0a-0a3f4d1f2b11 --store events.db"],
  options: storeOptions,
  run: async (invocation) => {
    const { out, positionals } = invocation;
    const [eventId = ""] = positionals;
    await withStore(invocation, async (store) => {
      const event = await findEvent(store, eventId);
      const record = event.ref === null ? undefined : await store.recordOf(event.ref);
      const { status: lastStatus = null, fields: lastFields = null } = record?.snapshot ?? {};
      out.result({ ...event, lastStatus, lastFields }, () => {
        const { history, receivedAt, dueAt, doneAt, lastError, attempts, ...fields } = event;
        return out.fields([
          ...Object.entries(fields),
          ["last status of the record", lastStatus],
          ["last fields of the record", lastFields],
          ...timelineOf(event),
        ]);
      });
    });
  },
};

/** One line for each step in the life of an event. */
function timelineOf({ state, source, reason, receivedAt, dueAt, doneAt, history }: StoredEvent) {
  const lines: [step: string, text: unknown][] = [["received", `${receivedAt.toISOString()} by ${source}`]];
  history.forEach((entry, index) => {
    lines.push([`attempt ${index + 1}`, describeAttempt(entry)]);
  });
  const due = dueAt === null ? "now" : `${dueAt.toISOString()}, ${describeWait(dueAt)}`;
  if (state === "pending") lines.push(["next attempt", due]);
  if (state === "retrying") lines.push(["next retry", due]);
  if (state === "processing") lines.push(["lease ends", due]);
  if (state === "done") lines.push([reason === "discarded" ? "discarded" : "done", doneAt]);
  return lines;
}

function describeAttempt({ at, outcome, reason, duration, worker, error }: AttemptEntry): string {
  const ended = reason === undefined ? outcome : `${outcome} (${reason})`;
  const by = worker === undefined ? "" : ` by ${worker}`;
  return `${at.toISOString()} ${ended} after ${duration} ms${by}${error === undefined ? "" : `: ${error}`}`;
}

function describeWait(until: Date): string {
  const seconds = Math.ceil((until.getTime() - Date.now()) / 1000);
  if (seconds <= 0) return "as soon as a process of the app is free";
  return seconds < 120 ? `in ${seconds} s` : `in ${Math.round(seconds / 60)} min`;
}

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
          ...eventStates.map((state) => [state, counted[state]] as const),
          ["oldest waiting", oldestWaiting === null ? null : `${oldestWaiting} s`],
        ]),
      );
    });
  },
};

export const events: Command = {
  name: "events",
  summary: "look at recorded events, replay them, and clean up",
  examples: ["stayhook events ls --store events.db --state parked"],
  commands: [ls, show, replay, discard, purge, erase, counts],
};
