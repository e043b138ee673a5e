import type { EventState, EventStore, FailureReason, StoredEvent } from "../../stores/event-store.ts";
import type { Command, Invocation } from "../command.ts";
import { exitCodes, MissingError, UsageError } from "../exit-code.ts";
import { storeOptions, withStore } from "../open-store.ts";
import type { Column } from "../output.ts";

const states: readonly EventState[] = ["pending", "processing", "retrying", "done", "parked"];
const reasons: readonly FailureReason[] = [
  "callback",
  "invalid-record",
  "not-found",
  "denied",
  "unavailable",
];
/** How many are read in one go. */
const PAGE = 200;
/** ms between two looks at how far a replay has come. */
const LOOK_AGAIN = 500;

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

/** An option that is one of a list. @throws UsageError */
function choice<T extends string>({ text }: Invocation, name: string, choices: readonly T[]): T | undefined {
  const value = text(name);
  if (value === undefined) return undefined;
  const chosen = choices.find((each) => each === value);
  if (chosen === undefined) throw new UsageError(`--${name} must be one of ${choices.join(", ")}`);
  return chosen;
}

function limitOf({ text }: Invocation): number {
  const limit = Number(text("limit") ?? 20);
  if (!Number.isInteger(limit) || limit < 1) throw new UsageError("--limit must be an integer from 1 on");
  return limit;
}

async function read(
  store: EventStore<unknown>,
  options: {
    readonly state: EventState | undefined;
    readonly limit: number;
    readonly after: string | undefined;
  },
): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  let { after } = options;
  while (events.length < options.limit) {
    const limit = Math.min(PAGE, options.limit - events.length);
    const page = await store.list({ state: options.state, limit, after });
    events.push(...page);
    after = page.at(-1)?.eventId;
    if (page.length < limit) break;
  }
  return events;
}

const ls: Command = {
  name: "ls",
  summary: "list events, the newest first",
  examples: ["stayhook events ls --store events.db --state parked"],
  options: {
    state: { type: "string", value: "<state>", help: states.join(", ") },
    limit: { type: "string", value: "<n>", help: "how many; default: 20" },
    after: { type: "string", value: "<eventId>", help: "go on behind this one" },
    ...storeOptions,
  },
  run: async (invocation) => {
    const { out, text } = invocation;
    const wanted = {
      state: choice(invocation, "state", states),
      limit: limitOf(invocation),
      after: text("after")?.toLowerCase(),
    };
    const events = await withStore(invocation, (store) => read(store, wanted));
    out.result(events, () => out.table(events, columns));
    return undefined;
  },
};

const show: Command = {
  name: "show",
  summary: "show all that is known of an event",
  takes: "<eventId>",
  arguments: [1, 1],
  examples: ["stayhook events show 6f1f7a1e-9a40-4d43-8f0a-0a3f4d1f2b11 --store events.db"],
  options: storeOptions,
  run: async (invocation) => {
    const { out, positionals } = invocation;
    const [eventId = ""] = positionals;
    await withStore(invocation, async (store) => {
      const event = await find(store, eventId);
      const status = event.ref === null ? undefined : await store.statusOf(event.ref);
      const shown = { ...event, lastStatus: status?.status ?? null };
      out.result(shown, () => out.fields(Object.entries(shown)));
    });
    return undefined;
  },
};

async function replayAll(invocation: Invocation, store: EventStore<unknown>): Promise<number> {
  const { out, text } = invocation;
  const before = text("before");
  if (before !== undefined && Number.isNaN(Date.parse(before)))
    throw new UsageError("--before must be a time, such as 2026-11-21T12:00:00Z");
  const { parked: total } = await store.counts();
  let wipe = out.progress(`0 of ${total} parked events`);
  let ended = false;
  const look = setInterval(async () => {
    const { parked } = await store.counts().catch(() => ({ parked: total }));
    // Behind the end, nothing would wipe it away.
    if (ended) return;
    wipe = out.progress(`${Math.max(0, total - parked)} of ${total} parked events`);
  }, LOOK_AGAIN);
  try {
    return await store.replayParked({
      reason: choice(invocation, "reason", reasons),
      ...(before === undefined ? {} : { before: new Date(before) }),
    });
  } finally {
    ended = true;
    clearInterval(look);
    wipe();
  }
}

async function find(store: EventStore<unknown>, eventId: string): Promise<StoredEvent> {
  const event = await store.get(eventId.toLowerCase());
  if (!event) throw new MissingError(`there is no event ${eventId}`);
  return event;
}

async function replayOne(store: EventStore<unknown>, eventId: string): Promise<void> {
  if (await store.replay(eventId.toLowerCase())) return;
  await find(store, eventId);
  throw new Error(`event ${eventId} is being processed right now`);
}

const replay: Command = {
  name: "replay",
  summary: "have events handled again, by the processes of the app",
  takes: "<eventId> ...",
  arguments: [0, 1000],
  examples: [
    "stayhook events replay 6f1f7a1e-9a40-4d43-8f0a-0a3f4d1f2b11 --store events.db",
    "stayhook events replay --all --reason callback --store events.db",
  ],
  options: {
    all: { type: "boolean", help: "all that are parked" },
    reason: { type: "string", value: "<reason>", help: `with --all: ${reasons.join(", ")}` },
    before: { type: "string", value: "<time>", help: "with --all: only what was received before" },
    ...storeOptions,
  },
  run: async (invocation) => {
    const { out, flag, text, positionals } = invocation;
    const all = flag("all");
    if (all === positionals.length > 0) throw new UsageError("give ids of events, or --all");
    if (!all && (text("reason") ?? text("before")) !== undefined)
      throw new UsageError("--reason and --before go with --all");
    // Checked before the store is opened.
    choice(invocation, "reason", reasons);
    const replayed = await withStore(invocation, async (store) => {
      if (all) return replayAll(invocation, store);
      // All or none, as far as a typo goes.
      for (const eventId of positionals) await find(store, eventId);
      for (const eventId of positionals) await replayOne(store, eventId);
      return positionals.length;
    });
    out.result({ replayed }, () => `${replayed} to be handled again`);
    return exitCodes.done;
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
  summary: "look at recorded events, and have them handled again",
  examples: ["stayhook events ls --store events.db --state parked"],
  commands: [ls, show, replay, counts],
};
