// The calls of the table, and the states in which they begin.

import type { EventStore, Outcome } from "../../../src/stores/event-store.ts";
import type { ClaimedEvent, NewEvent, StoredEvent } from "../../../src/stores/stored-event.ts";
import { storedEvent } from "../event.ts";
import type { Loss } from "./session.ts";

const HOUR = 3_600_000;
export const REF = "booking:R";
/** The lease of a state whose lease ends during the order, ms. */
export const SHORT = 40;

/** What a call works with. */
export interface Scene {
  readonly store: EventStore<unknown>;
  /** The claim of the state, if its record is leased. */
  readonly held: ClaimedEvent | undefined;
  readonly write: ((tx: unknown) => Promise<void>) | undefined;
  /** Makes a step of its own of something that is no statement. */
  gate<T>(name: string, run: () => Promise<T>): Promise<T>;
  /** What a part of the call leaves for the next part. */
  readonly memo: { claim?: ClaimedEvent | undefined };
}

type Part = (scene: Scene) => Promise<unknown>;

export interface Call {
  readonly name: string;
  readonly run: Part;
  /** The atomic steps of the call, as the memory store takes them. Default: the call is one step. */
  readonly parts?: readonly Part[];
  /** The answer to the last statement of the first claim gets lost, or the statement reaches the server later. */
  readonly loses?: Loss;
  /** Whether the call ends the lease of the state. */
  readonly needsLease?: true;
  readonly needsWrites?: true;
  /** Whether the call may find nothing, because the other call holds the record. */
  readonly mayFindNothing?: true;
}

function eventOf(eventId: string, given: Partial<NewEvent> = {}): NewEvent {
  return {
    ...{ eventId, ref: REF, source: "webhook", topic: null, notification: "{}", traceparent: null },
    timestamp: "2026-03-01T10:00:00.000Z",
    ...given,
  };
}

function stored(eventId: string, given: Partial<StoredEvent>): StoredEvent {
  const past = new Date(Date.now() - 10_000);
  return storedEvent({ eventId, ref: REF, receivedAt: past, dueAt: past, ...given });
}

const later = () => new Date(Date.now() + HOUR);
const events = {
  /** Due now. */
  P: () => stored("P", {}),
  /** Due now, but after P. */
  Q: () => stored("Q", { dueAt: new Date(Date.now() - 9000) }),
  /** A timer, due in an hour. */
  T: () => stored("T", { source: "timer", state: "scheduled", dueAt: later() }),
  /** A parked timer. */
  K: () => stored("K", { source: "timer", state: "parked", dueAt: null, attempts: 2, reason: "callback" }),
  /** Done. */
  D: () => stored("D", { state: "done", dueAt: null, doneAt: new Date(Date.now() - 5000) }),
} as const;

export interface State {
  readonly name: string;
  readonly events: readonly (keyof typeof events)[];
  readonly hasSnapshot?: true;
  /** The duration of the lease of P, ms. */
  readonly lease?: number;
  /** Whether the lease has ended when the calls begin. */
  readonly hasEnded?: true;
  /** Which calls begin in this state. Default: all. */
  readonly only?: RegExp;
  /** Which calls one of the two must be. */
  readonly one?: RegExp;
}

const SETTLES = /settle|renew/;
export const states: readonly State[] = [
  { name: "free", events: ["P", "Q", "T", "K", "D"] },
  { name: "leased", events: ["P", "Q", "T", "K", "D"], lease: 60_000, one: SETTLES },
  { name: "the last event is leased", events: ["P", "K"], lease: 60_000, one: SETTLES },
  {
    name: "the lease has ended",
    events: ["P", "T", "K"],
    lease: 1,
    hasEnded: true,
    one: /settle|renew|claim/,
  },
  { name: "the lease ends", events: ["P", "K"], lease: SHORT, one: /expiry/ },
  {
    name: "with a snapshot",
    ...{ events: ["P", "T", "D"], hasSnapshot: true },
    only: /claim|add a new|erase|learn|restore|prune|remove|discard/,
    one: /erase|learn|restore|prune/,
  },
  {
    name: "nothing waits",
    events: ["K", "D"],
    only: /add|replay|discard|erase|learn|restore|prune|remove|claim/,
  },
];

/** Puts a store into a state. */
export async function begin(store: EventStore<unknown>, state: State): Promise<ClaimedEvent | undefined> {
  const seen = {
    ref: REF,
    sequence: 3,
    seenAt: new Date(Date.now() - 10_000),
    snapshot: snapshotOf("Request"),
  };
  await store.restore({
    events: state.events.map((name) => events[name]()),
    snapshots: state.hasSnapshot ? [seen] : [],
  });
  if (state.lease === undefined) return undefined;
  const [held] = await store.claim({ limit: 1, leaseDuration: state.lease, eventId: "P" });
  if (state.hasEnded) await new Promise((resolve) => setTimeout(resolve, 4));
  return held;
}

function snapshotOf(status: string) {
  return { status, fields: { checkIn: "2026-07-01" } };
}

const CLAIM = { limit: 10, leaseDuration: 60_000 };
const entry = { duration: 1 };
const done = { state: "done", type: "booking.Confirmed", entry } as const satisfies Outcome;
const MOVED = { timestamp: "2027-01-01T00:00:00.000Z", notification: '"moved"' };

const settle = (name: string, outcome: Outcome<unknown>): Call => ({
  name: `settle ${name}`,
  needsLease: true,
  run: ({ store, held }) => store.settle(held!, outcome),
});

/** A claim whose answer gets lost, and the claim that follows. */
const claimAgain: Part = async ({ store }) => {
  const first = await store.claim(CLAIM).catch(() => undefined);
  return first ?? (await store.claim(CLAIM));
};

/** A claim that was made, then its release, then the claim that follows. */
const givenBack: readonly Part[] = [
  async ({ store, memo }) => {
    [memo.claim] = await store.claim(CLAIM);
  },
  async ({ store, memo }) => {
    if (memo.claim !== undefined) await store.settle(memo.claim, { state: "released" });
    return [];
  },
  ({ store }) => store.claim(CLAIM),
];

export const calls: readonly Call[] = [
  { name: "add a new event", run: ({ store }) => store.add(eventOf("N")) },
  { name: "add a known event", run: ({ store }) => store.add(eventOf("P")) },
  {
    name: "add in place of an ended event",
    run: ({ store }) => store.add(eventOf("K", { source: "timer" }), { replace: "ended" }),
  },
  {
    name: "add in place of a moved event",
    run: ({ store }) => store.add(eventOf("P", MOVED), { replace: "moved", dueIn: HOUR }),
  },
  { name: "add for later", run: ({ store }) => store.add(eventOf("N"), { dueIn: HOUR }) },
  { name: "claim", mayFindNothing: true, run: ({ store }) => store.claim(CLAIM) },
  { name: "claim by id", mayFindNothing: true, run: ({ store }) => store.claim({ ...CLAIM, eventId: "P" }) },
  {
    name: "claim with beginnings",
    mayFindNothing: true,
    run: ({ store }) => store.claim({ ...CLAIM, except: ["a17/", "listing:"], only: ["booking:R"] }),
  },
  {
    name: "claim whose answer is lost",
    mayFindNothing: true,
    ...{ loses: "answer", run: claimAgain, parts: givenBack },
  },
  {
    name: "claim that arrives late",
    mayFindNothing: true,
    ...{ loses: "late", run: claimAgain, parts: givenBack },
  },
  settle("done with a record", { ...done, record: { snapshot: snapshotOf("Confirmed"), changed: true } }),
  settle("done", done),
  settle("done with events", {
    ...done,
    events: [
      { event: eventOf("N") },
      { event: eventOf("T", { source: "timer", ...MOVED }), replace: "moved", dueIn: 2 * HOUR },
    ],
  }),
  settle("done with remove", { ...done, remove: "timers" }),
  {
    name: "settle done with writes",
    needsLease: true,
    needsWrites: true,
    run: ({ store, held, write }) => store.settle(held!, { ...done, writes: write ? [write] : [] }),
  },
  settle("retrying", { state: "retrying", in: HOUR, reason: "callback", entry }),
  settle("retrying uncounted", {
    state: "retrying",
    in: HOUR,
    count: "nothing",
    holdsRecord: true,
    reason: "unavailable",
    entry,
  }),
  settle("parked", { state: "parked", reason: "callback", entry }),
  settle("released", { state: "released" }),
  {
    name: "renew",
    needsLease: true,
    run: async ({ store, held }) => (await store.renew([held!], 120_000)).length,
  },
  { name: "remove the timers", run: ({ store }) => store.remove(REF, "timers") },
  { name: "remove by id", run: ({ store }) => store.remove(REF, ["P", "K"]) },
  { name: "replay what is parked", run: ({ store }) => store.replay({ state: "parked" }) },
  { name: "replay a done event", run: ({ store }) => store.replay({ eventId: "D" }) },
  { name: "discard", run: ({ store }) => store.discard({ ref: REF }) },
  {
    name: "erase",
    run: ({ store }) => store.erase(REF).catch(() => "is being processed"),
  },
  { name: "learn", run: ({ store }) => store.learn(REF, snapshotOf("Confirmed")) },
  {
    name: "restore",
    run: ({ store }) =>
      store.restore({
        // N is due before P and Q, which keep their due times through all orders of a line.
        events: [stored("N", { dueAt: new Date(Date.now() - HOUR) }), stored("P", {})],
        snapshots: [{ ref: REF, sequence: 7, seenAt: new Date(), snapshot: snapshotOf("Declined") }],
      }),
  },
  { name: "prune", run: ({ store }) => store.prune({ state: "parked", age: 0, limit: 10 }) },
  { name: "pruneSnapshots", run: ({ store }) => store.pruneSnapshots({ age: 0, limit: 10 }) },
  {
    name: "expiry of the lease",
    needsLease: true,
    run: ({ gate }) =>
      // A timer may ring a moment before its time by the clock of the store.
      gate("the lease ends", () => new Promise<void>((resolve) => setTimeout(resolve, SHORT + 5))),
  },
];
