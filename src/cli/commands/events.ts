import { setTimeout as sleep } from "node:timers/promises";
import { accountOf } from "../../account.ts";
import { countEvents, eachEvent } from "../../console/event-pages.ts";
import { duration } from "../../console/html.ts";
import { inKnownCase } from "../../console/known-ref.ts";
import { type Counted, MOST_FOLLOWED, ReplayOutcome, SILENCE } from "../../console/replay-outcome.ts";
import {
  areTimers,
  isToCome,
  matchesOnlyTimers,
  runNowWords,
  scheduledWords,
} from "../../console/scheduled-words.ts";
import { describeChanges, newestFirst, type Step, timelineOf } from "../../console/timeline.ts";
import { parseDuration } from "../../duration.ts";
import { splitFrames } from "../../error-text.ts";
import { eventTypes } from "../../models/event-types.ts";
import type { EventFilter } from "../../stores/event-filter.ts";
import {
  type Change,
  choosableStates,
  type EventState,
  eventOrigins,
  eventReasons,
  eventStates,
  failureReasons,
} from "../../stores/event-states.ts";
import type { EventStore } from "../../stores/event-store.ts";
import type { StoredEvent } from "../../stores/stored-event.ts";
import { eraseAccount } from "../../webhooks/erase-account.ts";
import { storedId } from "../../webhooks/stored-id.ts";
import { knownType } from "../../webhooks/timers.ts";
import { adoptInto } from "../adopt.ts";
import {
  accountGiven,
  checkRef,
  choiceOf,
  confirm,
  filterIn,
  filterOf,
  integerOf,
  yesOption,
} from "../arguments.ts";
import {
  type Command,
  exitCodes,
  type Invocation,
  MissingError,
  type Options,
  type Subcommand,
  UsageError,
} from "../command.ts";
import { findEvent, shortIds } from "../event-ids.ts";
import { followEvents } from "../follow-events.ts";
import { storeOptions, withStore } from "../open-store.ts";
import { ago, type Column, type Output, plural, type Style } from "../output.ts";

type Store = EventStore<unknown>;

const stateStyles: Readonly<Record<EventState, Style>> = {
  scheduled: "cyan",
  pending: "yellow",
  processing: "cyan",
  retrying: "yellow",
  done: "green",
  parked: "red",
};

/** @param events - the rows of the table, whose short ids must differ */
function eventColumns(events: readonly StoredEvent[]): readonly Column<StoredEvent>[] {
  const short = shortIds(events);
  const state = { style: ({ state }: StoredEvent) => stateStyles[state] };
  return [
    [
      "EVENT",
      ({ eventId }) => eventId,
      { text: ({ eventId }) => short.get(eventId) ?? eventId, isWhole: true },
    ],
    ["STATE", ({ state }) => state, { ...state, isWhole: true }],
    ["TYPE", knownType],
    // The ref of an event begins with its account. An event without a record shows its account here.
    ["RECORD", (event) => event.ref ?? accountOf(event)],
    ["TRIES", ({ attempts }) => attempts, { isMinor: true }],
    [
      "RECEIVED",
      ({ receivedAt }) => receivedAt,
      { text: ({ receivedAt }) => ago(receivedAt), isWhole: true },
    ],
    ["REASON", ({ reason }) => reason],
    ["DUE", dueAtOf, { text: (event) => ago(dueAtOf(event)), isWhole: true }],
    ["ERROR", errorOf, { isBelow: true, text: (event) => errorOf(event)?.replace(/\s+/g, " ") ?? null }],
  ];
}

/** The last error without its frames, which `show` prints. */
function errorOf({ history }: StoredEvent): string | undefined {
  const error = history.at(-1)?.error;
  return error === undefined ? undefined : splitFrames(error).text;
}

/** The due time of a processing event is the end of its lease. */
const dueAtOf = ({ state, dueAt }: StoredEvent): Date | null => (state === "processing" ? null : dueAt);

function filterOptions(takenStates = eventStates) {
  const time = "2h (2 hours ago) or 2026-11-21T12:00:00Z";
  return {
    account: { value: "<id>", help: "only events of this account" },
    ref: { value: "<ref>", help: "the record: booking:<code> or listing:<id>, or only the code or id" },
    type: { value: "<type>", choices: eventTypes, help: "the event's type, such as booking.Confirmed" },
    reason: {
      value: "<reason>",
      choices: eventReasons,
      help: `the event's reason: ${eventReasons.join(", ")}`,
    },
    state: { value: "<state>", choices: takenStates, help: `the event's state: ${takenStates.join(", ")}` },
    source: {
      value: "<source>",
      choices: eventOrigins,
      help: `the event's source: ${eventOrigins.join(", ")}`,
    },
    since: { value: "<time>", help: `only events received at or after this time: ${time}` },
    until: { value: "<time>", help: `only events received before this time: ${time}` },
  } satisfies Options;
}

const ls: Subcommand = {
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

const show: Subcommand = {
  name: "show",
  summary: "show one event with its timeline: arrival, attempts, next retry",
  takes: "<eventId>",
  arguments: [1, 1],
  description: "The store keeps the last 10 attempts of an event.",
  examples: ["stayhook events show 6f1f7a1e-9a40-4d43-8f0a-0a3f4d1f2b11 --store events.db"],
  options: storeOptions,
  run: async (invocation) => {
    const { out, positionals } = invocation;
    await withStore(invocation, async (store) => {
      const event = await findEvent(store, positionals[0] ?? "");
      const record = event.ref === null ? undefined : await store.snapshotOf(event.ref);
      const { status: lastStatus = null, fields: lastFields = null } = record?.snapshot ?? {};
      out.result({ ...event, lastStatus, lastFields }, () => {
        const { history, receivedAt, dueAt, doneAt, attempts, ...fields } = event;
        return out.fields([
          ...Object.entries({ ...fields, type: knownType(event) }),
          ["last status of the record", lastStatus],
          ["last fields of the record", lastFields],
          ...(out.isTerminal ? foldedLinesOf(event) : linesOf(event)),
        ]);
      });
    });
  },
};

/** One line for each step in the life of an event. A parked event has none at its end: its last attempt says so. */
const linesOf = (event: StoredEvent): Line[] =>
  timelineOf(event)
    .map((step) => lineOf(event, step))
    .filter((line) => line !== undefined);

/** The lines for a terminal: the newest first, equal errors once, and each line of an error in a line of its own. */
const foldedLinesOf = (event: StoredEvent): Line[] =>
  newestFirst(timelineOf(event)).flatMap((step) => {
    const line = lineOf(event, step);
    if (line === undefined || step.step !== "attempt") return line === undefined ? [] : [line];
    const { entry, same = [] } = step;
    const [name] = line;
    const { text, frames } = splitFrames(entry.error ?? "");
    const [first = "", ...others] = text.split(/\s*\n\s*/);
    const error = entry.error === undefined ? {} : { error: first };
    const before =
      same.length === 0
        ? []
        : [
            `the same error in ${plural(same.length, "earlier attempt")}, the first ${same.at(-1)!.at.toISOString()}`,
          ];
    const below = [...others, ...frames, ...before].map((more): Line => ["", more]);
    return [[name, describeAttempt({ ...entry, ...error }, duration(entry.duration))], ...below];
  });

type Line = readonly [name: string, text: unknown];

function lineOf(event: StoredEvent, step: Step): Line | undefined {
  const due = (at: Date | null) => (at === null ? "now" : `${at.toISOString()}, ${describeWait(at)}`);
  switch (step.step) {
    case "received":
      return ["received", `${step.at.toISOString()} by ${event.source}`];
    case "attempt":
      return [step.number === undefined ? "attempt" : `attempt ${step.number}`, describeAttempt(step.entry)];
    case "scheduled":
      return ["scheduled for", due(step.at)];
    case "pending":
      return ["next attempt", due(step.at)];
    case "retrying":
      return ["next retry", due(step.at)];
    case "processing":
      return ["lease ends", due(step.at)];
    case "done":
    case "discarded":
      return [step.step, step.at];
    default:
      return undefined;
  }
}

function describeAttempt(entry: StoredEvent["history"][number], took = `${entry.duration} ms`): string {
  const { at, outcome, reason, worker, error, changes } = entry;
  const ended = reason === undefined ? outcome : `${outcome} (${reason})`;
  const by = worker === undefined ? "" : ` by ${worker}`;
  const more = error === undefined ? changes && describeChanges(changes) : inOneLine(error);
  return `${at.toISOString()}${by}, took ${took}: ${ended}${more === undefined ? "" : `: ${more}`}`;
}

/** An error with its frames behind it. */
function inOneLine(error: string): string {
  const { text, frames } = splitFrames(error);
  return [text, ...frames].join(" ");
}

function describeWait(until: Date): string {
  const seconds = Math.ceil((until.getTime() - Date.now()) / 1000);
  if (seconds <= 0) return "as soon as a process of the app is free";
  if (seconds < 120) return `in ${seconds} s`;
  const hours = seconds / 3600;
  if (hours < 3) return `in ${Math.round(seconds / 60)} min`;
  return hours < 72 ? `in ${Math.round(hours)} h` : `in ${Math.round(hours / 24)} days`;
}

const counts: Subcommand = {
  name: "counts",
  summary: "count the events in each state",
  examples: ["stayhook events counts --store events.db --json"],
  options: storeOptions,
  run: async (invocation) => {
    await withStore(invocation, async (store) => {
      const counted = await store.counts();
      const waiting = await store.oldestWaiting();
      const oldestWaiting = waiting === undefined ? null : Math.round(waiting / 1000);
      invocation.out.result({ ...counted, oldestWaiting }, () =>
        invocation.out.fields([
          ...eventStates.map((state) => [state, counted[state]] as const),
          ["age of the oldest waiting event", ageOf(invocation.out, oldestWaiting)],
        ]),
      );
    });
  },
};

function ageOf(out: Output, seconds: number | null): string | null {
  if (seconds === null) return null;
  return out.isTerminal ? duration(seconds * 1000) : `${seconds} s`;
}

/** The number of events that one call of the store deletes. */
const PRUNE_BATCH = 1000;

const eventsOf = (count: number, state = ""): string => plural(count, state ? `${state} event` : "event");

/**
 * Makes a command that replays or discards events by their ids or by a filter.
 *
 * @param say - the words to print after the number of changed events
 */
function changeCommand(name: Change, summary: string, description: string, say: string): Subcommand {
  const states = choosableStates(name, { state: "scheduled" });
  const { state, ...filters } = filterOptions(states);
  return {
    name,
    summary,
    description: `${description}\nGive ids of events, or a filter, or --all for all parked events. A filter selects only parked events, unless --state names another state.`,
    takes: "<eventId> ...",
    arguments: [0, 1000],
    examples: [
      `stayhook events ${name} 6f1f7a1e-9a40-4d43-8f0a-0a3f4d1f2b11 --store events.db`,
      `stayhook events ${name} --reason not-found --since 2d --dry-run --store events.db`,
      `stayhook events ${name} --all --yes --store events.db`,
    ],
    options: {
      all: { help: "select all parked events; a filter works without --all" },
      ...filters,
      state: { ...state, help: `${state.help}; default: parked` },
      "dry-run": { help: "list the events that would change, and change nothing" },
      ...(name === "replay" && waitOption),
      ...yesOption,
      ...storeOptions,
    },
    run: async (invocation) => {
      const { out, flag, positionals: eventIds } = invocation;
      const filter = filterOf(invocation, states);
      const hasIds = eventIds.length > 0;
      if ((flag("all") || filter !== undefined) === hasIds)
        throw new UsageError(
          "Give ids of events, or a filter, or --all. Ids cannot be combined with a filter or --all.",
        );
      return withStore(invocation, async (store) => {
        const selected = { ...(await filterIn(store, filter ?? {})), state: filter?.state ?? "parked" };
        // Find all events first. If one id is unknown, the command then changes nothing.
        const found: StoredEvent[] = [];
        for (const eventId of eventIds) found.push(await findEvent(store, eventId));
        if (flag("dry-run")) {
          const events = found.filter((event) => states.includes(event.state));
          if (!hasIds) for await (const event of eachEvent(store, selected)) events.push(event);
          const shown = eventsOf(events.length, hasIds ? "" : selected.state);
          out.result({ dryRun: true, count: events.length, events }, () =>
            [`Would ${name} ${shown}`, out.table(events, eventColumns(events))].join("\n").trim(),
          );
          return undefined;
        }
        await confirmRunNow(invocation, name, found);
        const waitsFor =
          name === "replay" && flag("wait") ? await followed(store, found, selected) : undefined;
        const changed = hasIds
          ? await changeSome(store, name, found)
          : await changeMatching(invocation, store, name, selected);
        if (waitsFor) return waitForOutcome(invocation, waitsFor, changed);
        out.result({ [`${name}ed`]: changed }, () => `${eventsOf(changed)} ${say}`);
        return undefined;
      });
    },
  };
}

const waitOption = {
  wait: { help: "wait until each event is done or has failed again; exit with 1 if one has failed" },
};

/**
 * The events whose outcome `--wait` tells, as they are before the replay.
 *
 * @throws UsageError if they are too many
 */
async function followed(
  store: Store,
  found: readonly StoredEvent[],
  filter: EventFilter,
): Promise<ReplayOutcome> {
  const events = [...found];
  if (found.length === 0)
    for await (const event of eachEvent(store, filter)) {
      if (events.push(event) > MOST_FOLLOWED)
        throw new UsageError(
          `--wait takes at most ${MOST_FOLLOWED} events. Give a filter that selects fewer.`,
        );
    }
  return new ReplayOutcome(store, events);
}

/** The time between two looks at the events of a replay, ms. */
const LOOK_INTERVAL = 500;

/** Waits for the events of a replay. Returns the exit code, which is 1 unless all of them are done. */
async function waitForOutcome(
  { out, io: { signal } }: Invocation,
  outcome: ReplayOutcome,
  replayed: number,
): Promise<number> {
  const said = ({ done, failed, waiting }: Counted) =>
    `${replayed} replayed: ${done} done, ${failed} failed again, ${waiting} waiting`;
  let counted = await outcome.look();
  while (counted.waiting > 0 && outcome.silentFor < SILENCE) {
    const wipe = out.progress(said(counted));
    await sleep(LOOK_INTERVAL, undefined, { signal }).finally(wipe);
    counted = await outcome.look();
  }
  if (counted.waiting > 0)
    out.warn(
      "No process has claimed anything for 3 minutes. Does the app run, and does it reach the platform?",
    );
  out.result({ replayed, ...counted }, () => said(counted));
  return counted.failed + counted.waiting > 0 ? 1 : 0;
}

/** Asks before scheduled events among these run early. Their callbacks cannot be taken back. */
async function confirmRunNow(
  invocation: Invocation,
  name: Change,
  events: readonly StoredEvent[],
): Promise<void> {
  const toCome = events.filter(isToCome);
  if (name === "discard" || toCome.length === 0) return;
  await confirm(invocation, runNowWords(toCome.length, areTimers(toCome)));
}

async function changeSome(store: Store, name: Change, events: readonly StoredEvent[]): Promise<number> {
  let changed = 0;
  for (const { eventId } of events) {
    const count = await store[name]({ eventId });
    changed += count;
    if (count === 0 && (await findEvent(store, eventId)).state === "processing")
      throw new Error(`Event ${eventId} is being processed now. Try again later.`);
  }
  return changed;
}

async function changeMatching(
  invocation: Invocation,
  store: Store,
  name: Change,
  filter: EventFilter & Pick<StoredEvent, "state">,
): Promise<number> {
  const { out, io } = invocation;
  const { state } = filter;
  const { [state]: before } = await store.counts();
  const { total } = await countEvents(store, filter);
  if (total === 0 && io.stdin.isTTY) return 0;
  await confirm(invocation, await questionOf(store, name, filter, total));
  let wipe = out.progress(`0 of ${eventsOf(total)}`);
  let ended = false;
  const progress = setInterval(async () => {
    const { [state]: left } = await store.counts().catch(() => ({ [state]: before }));
    // After the change has ended, print no count, because nothing would clear the line of the count.
    if (!ended) wipe = out.progress(`${Math.min(total, Math.max(0, before - left!))} of ${eventsOf(total)}`);
  }, 500);
  try {
    return await store[name](filter);
  } finally {
    ended = true;
    clearInterval(progress);
    wipe();
  }
}

async function questionOf(
  store: Store,
  name: Change,
  filter: EventFilter & Pick<StoredEvent, "state">,
  total: number,
): Promise<string> {
  if (filter.state !== "scheduled")
    return `${name === "replay" ? "Replay" : "Discard"} ${eventsOf(total, filter.state)}`;
  const onlyTimers = await matchesOnlyTimers(store, filter);
  return name === "replay"
    ? runNowWords(total, onlyTimers)
    : `Cancel ${scheduledWords(total, onlyTimers)}, so that ${total === 1 ? "it does" : "they do"} not run`;
}

const replay = changeCommand(
  "replay",
  "let the app handle events again",
  "Replays done, parked and retrying events. The running app then handles the events again.",
  "will be handled again",
);

const discard = changeCommand(
  "discard",
  "end events without handling them",
  "Discards pending, retrying and parked events. A discarded event counts as done. The app ignores repeated deliveries of a discarded event.",
  "discarded",
);

/** The states of events that `prune` deletes. */
const prunable = ["done", "parked"] as const;

const prune: Subcommand = {
  name: "prune",
  summary: "delete done or parked events",
  description: "If the platform delivers a deleted event again, the app handles the event as a new event.",
  examples: ["stayhook events prune --state parked --older-than 30d --yes --store events.db"],
  options: {
    state: {
      value: "<state>",
      choices: prunable,
      help: "the state of the events: done or parked; default: done",
    },
    reason: {
      value: "<reason>",
      choices: failureReasons,
      help: `only events whose last attempt failed for this reason: ${failureReasons.join(", ")}`,
    },
    "older-than": {
      value: "<age>",
      help: "only events that became done or parked at least this long ago: 24h, 30m or 0; default: 7d",
    },
    ...yesOption,
    ...storeOptions,
  },
  run: async (invocation) => {
    const { out, text } = invocation;
    const olderThan = text("older-than") ?? "7d";
    const age = olderThan === "0" ? 0 : parseDuration(olderThan);
    if (age === undefined) throw new UsageError("--older-than must be an age such as 24h, 30m or 0.");
    const state = choiceOf(invocation, "state", prunable) ?? "done";
    const reason = choiceOf(invocation, "reason", failureReasons);
    const pruned = await withStore(invocation, async (store) => {
      const because = reason === undefined ? "" : ` and have the reason ${reason}`;
      const which = `all events that have been ${state} for ${olderThan} or longer${because}`;
      await confirm(invocation, `Delete ${which}`);
      let total = 0;
      for (let count = PRUNE_BATCH; count === PRUNE_BATCH; total += count)
        count = await store.prune({ state, reason, age, limit: PRUNE_BATCH });
      return total;
    });
    out.result({ pruned }, () => `${eventsOf(pruned)} deleted`);
  },
};

const erase: Subcommand = {
  name: "erase",
  summary: "delete all data about one booking or listing, or about one account",
  description: `Deletes the snapshot and all events of the booking or listing, with the notifications and attempts of the events.
Fails while the app handles an event of the booking or listing.\n\nWith --account, deletes the snapshots, events and timers of all
records of the account, and the place of its reconciler, but no record that the app is handling: call the command again for
these.`,
  takes: "<ref>",
  arguments: [0, 1],
  examples: [
    "stayhook events erase booking:HX3K9 --store events.db",
    "stayhook events erase --account a17 --store events.db",
  ],
  options: { account: { value: "<id>", help: "erase this account" }, ...yesOption, ...storeOptions },
  run: async (invocation) => {
    const { positionals } = invocation;
    const account = accountGiven(invocation);
    if ((account === undefined) === (positionals.length === 0))
      throw new UsageError("Give <ref>, or --account <id>.");
    return account === undefined ? eraseRecord(invocation) : eraseOf(invocation, account);
  },
};

/** The same command under a name of its own. */
export const topLevelErase: Command = {
  ...erase,
  examples: erase.examples.map((example) => example.replace("events ", "")),
};

async function eraseRecord(invocation: Invocation): Promise<undefined> {
  const { out, positionals } = invocation;
  const given = checkRef(positionals[0] ?? "", "<ref>");
  const { ref, erased } = await withStore(invocation, async (store) => {
    const ref = await inKnownCase(store, given);
    const { total: known } = await countEvents(store, { ref });
    if (known === 0 && (await store.snapshotOf(ref)) === undefined)
      throw new MissingError(`The store has no data about ${ref}.`);
    await confirm(invocation, `Delete ${eventsOf(known)} and the snapshot of ${ref}`);
    return { ref, erased: await store.erase(ref) };
  });
  out.result({ erased }, () => `${eventsOf(erased)} and the snapshot of ${ref} deleted`);
}

async function eraseOf(invocation: Invocation, account: string): Promise<number> {
  const { out } = invocation;
  const erased = await withStore(invocation, async (store) => {
    const { total } = await countEvents(store, { account });
    await confirm(invocation, `Delete ${eventsOf(total)} and all snapshots of account ${account}`);
    return eraseAccount(store, account);
  });
  const { events, snapshots, processing } = erased;
  const rest = processing > 0 ? `. ${eventsOf(processing)} left, which the app is handling: call again` : "";
  out.result(
    erased,
    () => `${eventsOf(events)} and ${plural(snapshots, "snapshot")} of account ${account} deleted${rest}`,
  );
  return processing > 0 ? exitCodes.failed : exitCodes.done;
}

const adopt: Subcommand = {
  name: "adopt",
  summary: "give what has no account to an account",
  description: `Use it when an app for one account begins to serve many: gives all events, timers and snapshots without an account, and the
place of the reconciler, to the account. Stop the processes of the old app first; those of the new one, with accountFrom, may run.
If the command was interrupted, run it again.`,
  examples: ["stayhook events adopt --account a17 --store events.db"],
  options: {
    account: { value: "<id>", help: "the account that gets the events; required" },
    yes: { short: "y", help: "do not ask for confirmation on a terminal" },
    ...storeOptions,
  },
  run: async (invocation) => {
    const { io, out } = invocation;
    const account = accountGiven(invocation);
    if (account === undefined) throw new UsageError("Give the account: --account a17.");
    const adopted = await withStore(invocation, async (store) => {
      // Nothing is deleted, so a script need not confirm.
      if (io.stdin.isTTY === true)
        await confirm(invocation, `Give all events and snapshots without an account to account ${account}`);
      const wipe = out.progress("adopting");
      return adoptInto(store, account).finally(wipe);
    });
    const { events, snapshots, processing } = adopted;
    const rest =
      processing > 0 ? `. ${plural(processing, "record")} left, which a process is handling: call again` : "";
    out.result(
      adopted,
      () => `Account ${account} has got ${eventsOf(events)} and ${plural(snapshots, "snapshot")}${rest}`,
    );
    return processing > 0 ? exitCodes.failed : exitCodes.done;
  },
};

export const events: Command = {
  examples: ["stayhook events ls --store events.db --state parked"],
  commands: [ls, show, replay, discard, prune, erase, adopt, counts],
};
