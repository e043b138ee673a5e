// What a person may do to events, described once: the console and the command line show a plan, ask, and carry it out.

import { inAccount } from "../account.ts";
import { onIn } from "../stays/things.ts";
import { eachEvent } from "../stores/each-event.ts";
import type { EventFilter } from "../stores/event-filter.ts";
import {
  type Change,
  choosableStates,
  type EventOrigin,
  type EventState,
  eventOrigins,
  statesOf,
} from "../stores/event-states.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { ErasedAccount } from "../stores/store-options.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import { eraseAccount } from "../webhooks/erase-account.ts";
import type { OperatedObservation } from "../webhooks/observability.ts";
import { placesOf, touchedBy } from "./causes.ts";
import { countEvents, countEventsAbout, forEach } from "./event-pages.ts";
import { countOf, eventsOf } from "./flash.ts";
import { type Found, isNarrowed, type Selection, search } from "./selection.ts";

type Store = EventStore<unknown>;

/** What was changed, and how many events. */
export type Operation = Omit<OperatedObservation, "kind" | "user" | "account">;

/** A change that a person asks for. */
export interface Plan {
  /** Reads what the change would do, before it is made. */
  describe(): Promise<Description>;
  /** The events that would change. A deletion has none. */
  events(): AsyncIterable<StoredEvent> | Iterable<StoredEvent>;
  /**
   * Makes the change.
   *
   * @param tell - called for each operation, also before an error
   * @returns the number of changed events
   */
  run(tell: (operation: Operation) => void): Promise<number>;
}

/** What a change would do. */
export interface Description {
  /** What would be done, such as `Replay 3 parked events`. With a question mark, it is the question. */
  readonly question: string;
  /** How many events would change. */
  readonly total: number;
  /** What else a person should know, each a line. */
  readonly notes: readonly string[];
  /** Those of the notes that name what a deletion leaves on. */
  readonly leftOn?: readonly string[] | undefined;
  /** The events that would run before their time. */
  readonly early: readonly StoredEvent[];
  /** The newest event, if all have one cause. */
  readonly cause?: StoredEvent | undefined;
  /** How many of the events were discarded. */
  readonly discarded: number;
}

/** An event that a person chose, and the state in which it was shown, if the page said so. */
export type Chosen = Pick<StoredEvent, "eventId"> & { readonly state?: EventState | undefined };

/** Counting stops at `COUNT_LIMIT` events of one state, or after `COUNT_TIMEOUT` ms. */
const COUNT_LIMIT = 10_000;
const COUNT_TIMEOUT = 5000;
const countLimit = () => ({ events: COUNT_LIMIT, endsAt: performance.now() + COUNT_TIMEOUT });
/** The order in which states are counted. Parked events come first, because counting may stop early. */
const countOrder: readonly EventState[] = ["parked", "retrying", "scheduled", "pending", "done"];

const verbs = { replay: "Replay", discard: "Discard" } as const;
const RUN_NOW_HINT =
  "Your app runs their callbacks at once, as if their time had come. They do not run again at their time.";
const DISCARD_HINT =
  "The callbacks of discarded events do not run. You can replay a discarded event until the store deletes it.";

/** Whether a replay would run this event before its time. */
const isToCome = ({ state, dueAt }: StoredEvent): boolean =>
  state === "scheduled" && dueAt !== null && dueAt.getTime() > Date.now();

/** Whether the change would change this event. A replay changes no event that is due already. */
function wouldChange(change: Change, { eventId, state, dueAt }: StoredEvent): boolean {
  const isDue = state === "pending" && (dueAt === null || dueAt.getTime() <= Date.now());
  return statesOf(change, { eventId }).includes(state) && !(change === "replay" && isDue);
}

/** Names scheduled events. They have not been tried yet, so the words speak of no attempts. */
const scheduledWords = (count: number, areTimers: boolean): string =>
  countOf(count, areTimers ? "timer" : "scheduled event");
const runNowWords = (count: number, areTimers: boolean): string =>
  `Run ${scheduledWords(count, areTimers)} now, before ${count === 1 ? "its" : "their"} time`;

/** The plan for single events. Leaves out those that are in another state than was shown. */
export async function planOfChosen(store: Store, change: Change, chosen: readonly Chosen[]): Promise<Plan> {
  const read = await forEach(chosen, async ({ eventId, state }) => {
    const event = await store.get(eventId);
    return event && (state ?? event.state) === event.state && wouldChange(change, event) ? event : undefined;
  });
  const events = read.filter((event) => event !== undefined);
  const early = change === "replay" ? events.filter(isToCome) : [];
  return {
    describe: async () => ({
      question: questionOfChosen(change, early, events.length),
      total: events.length,
      notes: early.length > 0 ? [RUN_NOW_HINT] : [],
      early,
      discarded: 0,
    }),
    events: () => events,
    run: (tell) =>
      changeEach(store, change, events, (event) => {
        const { eventId, ref } = event;
        tell({ action: early.includes(event) ? "run now" : change, eventId, ref, count: 1 });
      }),
  };
}

function questionOfChosen(change: Change, early: readonly StoredEvent[], total: number): string {
  const others = total - early.length;
  if (early.length === 0) return `${verbs[change]} ${eventsOf(total)}`;
  const areTimers = early.every(({ source }) => source === "timer");
  const runNow = runNowWords(early.length, areTimers);
  return others > 0 ? `${runNow}, and replay ${eventsOf(others)}` : runNow;
}

/** The plan for all events that match. */
export function planOfAll(store: Store, change: Change, selection: Selection): Plan {
  const { filter, error, cause } = selection;
  const states = choosableStates(change, filter);
  let searched: Promise<Searched> | undefined;
  const found = () => {
    searched ??= searchedOf(store, selection, states);
    return searched;
  };
  const isOne = isNarrowed(selection);
  const action = change === "replay" && filter.state === "scheduled" ? "run now" : change;
  return {
    describe: async () =>
      isOne
        ? describedFound(await found(), change, selection)
        : describedFilter(store, change, filter, states),
    events: async function* () {
      if (isOne) yield* (await found()).events;
      else for await (const event of eachEvent(store, filter)) if (states.includes(event.state)) yield event;
    },
    run: async (tell) => {
      let count = 0;
      try {
        if (isOne) await changeEach(store, change, (await found()).events, () => count++);
        else count = await store[change](filter);
      } finally {
        if (count > 0) tell({ action, filter: { ...filter, error, cause }, count });
      }
      return count;
    },
  };
}

/** The events whose errors a search has read. */
type Searched = Pick<Found, "events" | "cutAfter">;

async function searchedOf(
  store: Store,
  selection: Selection,
  states: readonly EventState[],
): Promise<Searched> {
  const { events, cutAfter } = await search(store, selection);
  return { events: events.filter(({ state }) => states.includes(state)), cutAfter };
}

function describedFound(
  { events, cutAfter }: Searched,
  change: Change,
  { filter, cause }: Selection,
): Description {
  const states = [...Map.groupBy(events, ({ state }) => state)].map(
    ([state, of]) => [state, of.length] as const,
  );
  const places = events.length > 0 ? [`These events touch ${placesOf(touchedBy(events))}.`] : [];
  const cut =
    cutAfter === undefined
      ? []
      : [`Only the newest ${number(cutAfter)} events were searched. Older ones do not change.`];
  return {
    question: `${verbs[change]} ${eventsOf(events.length, filter.state)}`,
    total: events.length,
    notes: [...places, ...linesOf(states, 0), ...cut, hintOf(change, filter, states)],
    early: [],
    cause: cause === undefined ? undefined : events[0],
    discarded: 0,
  };
}

async function describedFilter(
  store: Store,
  change: Change,
  filter: EventFilter,
  choosable: readonly EventState[],
): Promise<Description> {
  const { states, hasMore } = await countByState(store, choosable, filter);
  const discarded = change === "replay" ? await countDiscarded(store, filter) : 0;
  const total = states.reduce((sum, [, count]) => sum + count, 0);
  const all = hasMore ? `all matching events (${number(total)} or more)` : eventsOf(total, filter.state);
  return {
    question:
      filter.state === "scheduled"
        ? `${await scheduledQuestion(store, change, filter, total)}${hasMore ? " or more" : ""}`
        : `${verbs[change]} ${all}`,
    total,
    notes: [...linesOf(states, discarded), hintOf(change, filter, states)],
    early: [],
    discarded,
  };
}

async function scheduledQuestion(
  store: Store,
  change: Change,
  filter: EventFilter,
  total: number,
): Promise<string> {
  const isTimer = async (source: EventOrigin) =>
    source === "timer" ||
    (await store.list({ ...filter, state: "scheduled", source, limit: 1 })).length === 0;
  const sources = filter.source === undefined ? eventOrigins : [filter.source];
  const areTimers = (await Promise.all(sources.map(isTimer))).every(Boolean);
  return change === "replay" ? runNowWords(total, areTimers) : `Cancel ${scheduledWords(total, areTimers)}`;
}

/** The plan to delete a booking or listing with its events. */
export function planOfErase(store: Store, ref: string): Plan {
  return {
    ...deletion,
    describe: async () => {
      const { total, hasMore } = await countEventsAbout(store, ref, countLimit());
      const leftOn = onIn(await store.ledgerOf(ref)).map(
        (thing) => `${thing} is on, and the deletion does not end it.`,
      );
      return {
        ...deletion,
        leftOn,
        question: `Delete ${hasMore ? "at least " : ""}${eventsOf(total)} and the snapshot of ${ref}`,
        total,
        notes: [
          ...leftOn,
          "Notifications and history are deleted, too. You cannot undo the deletion.",
          "Copies elsewhere, such as logs and backups, stay.",
        ],
      };
    },
    run: async (tell) => {
      const count = await store.erase(ref);
      tell({ action: "erase", ref, count });
      return count;
    },
  };
}

const deletion = { notes: [], early: [], discarded: 0, events: () => [] } as const;

/** The plan to delete an account. `onEnd` gets all counts. */
export function planOfAccount(store: Store, account: string, onEnd: (erased: ErasedAccount) => void): Plan {
  return {
    ...deletion,
    describe: async () => {
      const { total } = await countEvents(store, { account });
      const question = `Delete ${eventsOf(total)} and all snapshots of account ${account}`;
      const leftOn = await onOf(store, account);
      return { ...deletion, question, total, notes: leftOn, leftOn };
    },
    run: async (tell) => {
      const erased = await eraseAccount(store, account);
      onEnd(erased);
      tell({ action: "erase", filter: { account }, count: erased.events });
      return erased.events;
    },
  };
}

/** Counts the holds of an account that are on, and names the first. */
async function onOf(store: Store, account: string): Promise<readonly string[]> {
  const range = inAccount(account, "");
  const { endsAt } = countLimit();
  let [count, first] = [0, ""];
  for await (const { ref, ledger } of store.ledgers({ after: range })) {
    if (!ref.startsWith(range) || performance.now() > endsAt) break;
    const on = onIn(ledger);
    if (count === 0 && on.length > 0) first = `${on[0]} for ${ref}`;
    count += on.length;
  }
  return count > 0
    ? [
        `${countOf(count, "thing")} of a stay, such as ${first}, ${count === 1 ? "is" : "are"} on, and the deletion does not end ${count === 1 ? "it" : "them"}.`,
      ]
    : [];
}

/** The plan to delete old events, some at once. */
export function planOfPrune(
  store: Store,
  options: Omit<Parameters<Store["prune"]>[0], "limit">,
  age: string,
): Plan {
  const { state, reason } = options;
  const because = reason === undefined ? "" : ` and have the reason ${reason}`;
  const question = `Delete all events that have been ${state} for ${age} or longer${because}`;
  return {
    ...deletion,
    describe: async () => ({ ...deletion, question, total: 1 }),
    run: async () => {
      let total = 0;
      for (let count = PRUNE_BATCH; count === PRUNE_BATCH; total += count)
        count = await store.prune({ ...options, limit: PRUNE_BATCH });
      return total;
    },
  };
}

/** The number of events that one call of the store deletes. */
const PRUNE_BATCH = 1000;

/** Changes events one by one, because a store cannot choose events by their error. Calls `changed` for each. */
async function changeEach(
  store: Store,
  change: Change,
  events: readonly StoredEvent[],
  changed: (event: StoredEvent) => void,
): Promise<number> {
  const counts = await forEach(events, async (event) => {
    const { eventId, state } = event;
    const count = await store[change]({ eventId, state });
    if (count > 0) changed(event);
    return count;
  });
  return counts.reduce((sum, count) => sum + count, 0);
}

/** How many events are in each state. */
type States = readonly (readonly [state: EventState, count: number])[];

async function countByState(
  store: Store,
  choosable: readonly EventState[],
  filter: EventFilter,
): Promise<{ readonly states: States; readonly hasMore: boolean }> {
  const limit = countLimit();
  const states: [EventState, number][] = [];
  for (const state of countOrder) {
    if (!choosable.includes(state) || (filter.state ?? state) !== state) continue;
    const { total, hasMore } = await countEvents(store, { ...filter, state }, limit);
    if (total > 0) states.push([state, total]);
    if (hasMore) return { states, hasMore };
  }
  return { states, hasMore: false };
}

/** Counts the discarded events that a replay of a filter would bring back. */
export async function countDiscarded(store: Store, filter: EventFilter): Promise<number> {
  if ((filter.state ?? "done") !== "done" || (filter.reason ?? "discarded") !== "discarded") return 0;
  return (await countEvents(store, { ...filter, state: "done", reason: "discarded" }, countLimit())).total;
}

const number = (count: number): string => count.toLocaleString("en-US");

function linesOf(states: States, discarded: number): string[] {
  return states.map(([state, count]) => {
    const ofThem = state === "done" && discarded > 0 ? `, ${number(discarded)} of them discarded` : "";
    return `${number(count)} ${state}${ofThem}`;
  });
}

function hintOf(change: Change, { state }: EventFilter, states: States): string {
  if (change === "discard") return DISCARD_HINT;
  if (state === "scheduled") return RUN_NOW_HINT;
  const again = states.some(([each]) => each === "done")
    ? " For events that are done, your callbacks run a second time."
    : "";
  return `Your app handles each replayed event again, beginning with attempt 1.${again}`;
}
