import { parseDuration } from "../../reconcile/options.ts";
import { type Change, changedFrom, failureReasons } from "../../stores/event-states.ts";
import type { EventFilter, EventStore, StoredEvent } from "../../stores/event-store.ts";
import type { Command, Invocation } from "../command.ts";
import { MissingError, UsageError } from "../exit-code.ts";
import { storeOptions, withStore } from "../open-store.ts";
import { choiceOf, confirm, yesOption } from "../options.ts";
import { checkRef, eventColumns, filterOf, filterOptions, findEvent, listAll } from "../select-events.ts";

/** How often the progress is updated, ms. */
const PROGRESS_INTERVAL = 500;
/** Events that one call of the store deletes. */
const PURGE_BATCH = 1000;

const plural = (count: number, state = ""): string =>
  [count, state, count === 1 ? "event" : "events"].filter((word) => word !== "").join(" ");

interface ChangeText {
  readonly name: Change;
  readonly summary: string;
  readonly description: string;
  /** The name of the number in the JSON. */
  readonly counted: string;
  readonly say: (count: number) => string;
}

/** Makes a command that replays or discards events by their ids or by a filter. */
function changeCommand({ name, summary, description, counted, say }: ChangeText): Command {
  const states = changedFrom[name];
  const { state, ...filters } = filterOptions(states);
  return {
    name,
    summary,
    description: `${description}\nTakes ids, or a filter, or --all for all parked events. A filter takes parked events, unless --state says otherwise.`,
    takes: "<eventId> ...",
    arguments: [0, 1000],
    examples: [
      `stayhook events ${name} 6f1f7a1e-9a40-4d43-8f0a-0a3f4d1f2b11 --store events.db`,
      `stayhook events ${name} --reason not-found --since 2d --dry-run --store events.db`,
      `stayhook events ${name} --all --yes --store events.db`,
    ],
    options: {
      all: { type: "boolean", help: "all parked events, or all that match the filter" },
      ...filters,
      state: { ...state!, help: `${state!.help}; default: parked` },
      "dry-run": { type: "boolean", help: "say how many events and which, and change nothing" },
      ...yesOption,
      ...storeOptions,
    },
    run: async (invocation) => {
      const { out, flag, positionals } = invocation;
      const filter = filterOf(invocation, states);
      if ((flag("all") || filter !== undefined) === positionals.length > 0)
        throw new UsageError("Give ids of events, or a filter, or --all.");
      const selected: EventFilter = { state: "parked", ...filter };
      return withStore(invocation, async (store) => {
        if (flag("dry-run")) {
          const events = (await findAll(store, positionals)).filter((event) => states.includes(event.state));
          if (positionals.length === 0)
            for await (const event of listAll(store, selected)) events.push(event);
          const shown = plural(events.length, positionals.length > 0 ? "" : selected.state);
          out.result({ dryRun: true, count: events.length, events }, () =>
            [`Would ${name} ${shown}`, out.table(events, eventColumns)].join("\n").trim(),
          );
          return undefined;
        }
        const changed =
          positionals.length > 0
            ? await changeSome(store, name, positionals)
            : await changeMatching(invocation, store, name, selected);
        out.result({ [counted]: changed }, () => say(changed));
        return undefined;
      });
    },
  };
}

/** @throws MissingError if one of the events does not exist */
async function findAll(store: EventStore<unknown>, eventIds: readonly string[]): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for (const eventId of eventIds) events.push(await findEvent(store, eventId));
  return events;
}

async function changeSome(
  store: EventStore<unknown>,
  name: Change,
  eventIds: readonly string[],
): Promise<number> {
  // Check all ids first, so that a mistyped id changes nothing.
  await findAll(store, eventIds);
  let changed = 0;
  for (const eventId of eventIds) {
    const count = await store[name]({ eventId: eventId.toLowerCase() });
    changed += count;
    if (count === 0 && (await findEvent(store, eventId)).state === "processing")
      throw new Error(`Event ${eventId} is being processed now. Try again later.`);
  }
  return changed;
}

async function changeMatching(
  invocation: Invocation,
  store: EventStore<unknown>,
  name: Change,
  filter: EventFilter,
): Promise<number> {
  const { out } = invocation;
  const { state = "parked", ...others } = filter;
  let total = 0;
  if (Object.keys(others).length === 0) total = (await store.counts())[state];
  else for await (const _event of listAll(store, filter)) total += 1;
  if (total === 0 && invocation.io.stdin.isTTY) return 0;
  const verb = name === "replay" ? "Replay" : "Discard";
  await confirm(invocation, `${verb} ${plural(total, state)}`);
  let wipe = out.progress(`0 of ${plural(total)}`);
  let ended = false;
  const { [state]: before } = await store.counts();
  const progress = setInterval(async () => {
    const { [state]: left } = await store.counts().catch(() => ({ [state]: before }));
    // A count that arrives after the end must not print: nothing would clear the line.
    if (!ended) wipe = out.progress(`${Math.min(total, Math.max(0, before - left!))} of ${plural(total)}`);
  }, PROGRESS_INTERVAL);
  try {
    return await store[name](filter);
  } finally {
    ended = true;
    clearInterval(progress);
    wipe();
  }
}

export const replay = changeCommand({
  name: "replay",
  summary: "have the app handle events again",
  description: "Takes done, parked and retrying events. The processes of the app handle them.",
  counted: "replayed",
  say: (count) => `${plural(count)} will be handled again`,
});

export const discard = changeCommand({
  name: "discard",
  summary: "end events without handling them",
  description:
    "Takes pending, retrying and parked events. A discarded event is done: a repeated delivery of it is ignored.",
  counted: "discarded",
  say: (count) => `${plural(count)} discarded`,
});

export const purge: Command = {
  name: "purge",
  summary: "delete done or parked events",
  description:
    "The store forgets the ids, so a repeated delivery of a deleted event is handled as a new event.",
  examples: ["stayhook events purge --state parked --older-than 30d --yes --store events.db"],
  options: {
    state: { type: "string", value: "<state>", help: "done or parked; default: done" },
    reason: { type: "string", value: "<reason>", help: failureReasons.join(", ") },
    "older-than": {
      type: "string",
      value: "<age>",
      help: "how long the events have been in this state: 24h, 30m, 0; default: 7d",
    },
    ...yesOption,
    ...storeOptions,
  },
  run: async (invocation) => {
    const { out, text } = invocation;
    const olderThan = text("older-than") ?? "7d";
    const age = olderThan === "0" ? 0 : parseDuration(olderThan);
    if (age === undefined) throw new UsageError("--older-than must be an age such as 24h, 30m or 0.");
    const state = choiceOf(invocation, "state", ["done", "parked"] as const) ?? "done";
    const reason = choiceOf(invocation, "reason", failureReasons);
    const purged = await withStore(invocation, async (store) => {
      const because = reason === undefined ? "" : ` with reason ${reason}`;
      await confirm(
        invocation,
        `Delete all events that have been ${state}${because} for ${olderThan} or longer`,
      );
      let total = 0;
      for (let count = PURGE_BATCH; count === PURGE_BATCH; total += count)
        count = await store.prune({ state, reason, age, limit: PURGE_BATCH });
      return total;
    });
    out.result({ purged }, () => `${plural(purged)} deleted`);
  },
};

export const erase: Command = {
  name: "erase",
  summary: "delete all data about one booking or listing",
  description: `Deletes the record's events in all states, with their notifications and attempts, and its snapshot. Fails while
one of its events is being processed.`,
  takes: "<ref>",
  arguments: [1, 1],
  examples: ["stayhook events erase booking:HX3K9 --store events.db"],
  options: { ...yesOption, ...storeOptions },
  run: async (invocation) => {
    const { out, positionals } = invocation;
    const ref = checkRef(positionals[0] ?? "", "<ref>");
    const erased = await withStore(invocation, async (store) => {
      let known = 0;
      for await (const _event of listAll(store, { ref })) known += 1;
      if (known === 0 && (await store.recordOf(ref)) === undefined)
        throw new MissingError(`The store has no data about ${ref}.`);
      await confirm(invocation, `Delete ${plural(known)} and the snapshot of ${ref}`);
      return store.erase(ref);
    });
    out.result({ erased }, () => `${plural(erased)} deleted, and the snapshot of ${ref}`);
  },
};
