// Tables of plans: facts at given times, and what may begin then. No timer and no store.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { arrived, began, ended } from "../../src/queue/facts.ts";
import { afterSeen, afterTaken, newFairness } from "../../src/queue/fairness.ts";
import { Floods } from "../../src/queue/floods.ts";
import { Gates } from "../../src/queue/gates.ts";
import {
  choicesOf,
  dueInOf,
  exceptOf,
  isHopeless,
  type Looks,
  limitedAt,
  mayReadLimited,
  needsSlot,
  nextClaimAt,
  ownTurnAt,
  plan,
  stepOf,
  type View,
} from "../../src/queue/plan.ts";
import type { QueueState } from "../../src/queue/state.ts";
import type { Lane } from "../../src/queue/work.ts";
import type { ClaimedEvent } from "../../src/stores/stored-event.ts";
import { beginningOf, laneOf } from "../../src/webhooks/refs.ts";
import { DAY, SECOND } from "./support.ts";

const T = 1_000_000;
const silent = () => {};
const error = new Error("404");

// Waits vary at random by a tenth.
beforeEach(() => void vi.spyOn(Math, "random").mockReturnValue(0.5));
afterEach(() => void vi.restoreAllMocks());

/** `a/b` is the lane of the bookings of account a, `a/l` that of its listings. */
function lane(name: string): Lane {
  const [account, kind] = name.split("/");
  return { account: account || undefined, kind: kind === "l" ? "listings" : "bookings" };
}

/**
 * Plays a script of facts. A step is `<fact> <lane>`, and `*5` repeats it: `fails`, `denied`, `waits` (a `Retry-After` of 60 s),
 * `doubts`, `answers`, `refuses`, `read` (a record of the lane was read), `tries` (a try begins), `sees` (an account is there) and `starts` (a slot is taken). `at 5` is
 * second 5, `full` takes all slots, and `polled` says that no task has to poll.
 */
function stateOf(script: string, { concurrency = 4, hasAccounts = true } = {}) {
  const gates = new Gates(silent);
  const floods = new Floods(silent);
  const slots = { running: 0, settling: 0, reserved: 0, freed: 0 };
  const looks: Looks = {
    running: new Set<string>(),
    quietUntil: new Map(),
    ...{ failedUntil: 0, pollAt: Infinity, giveUpAt: Infinity, passAt: Infinity, mayHaveArrived: false },
  };
  const view: View = { dueAt: T, version: 0, ahead: () => 0 };
  const state = {
    fairness: newFairness(concurrency, false, T),
    ...{ gates, floods, slots, laneOf, beginningOf, hasAccounts, isWoken: true, isClosed: false },
    policy: { concurrency, giveUpAfter: 3 * DAY },
    strays: () => [],
  } as unknown as QueueState;
  let now = T;
  let count = 0;
  const fail = (name: string, outage: object): void => {
    const read = gates.begin(`r${count++}`, lane(name), { now });
    gates.failed(read, { outage: { everything: false, ...outage }, error, isFirst: true }, now);
    gates.end(read);
  };
  const facts: Record<string, (name: string) => unknown> = {
    fails: (name) => fail(name, {}),
    denied: (name) => fail(name, { everything: true }),
    waits: (name) => fail(name, { everything: true, retryAfter: 60 * SECOND }),
    doubts: (name) => fail(name, { wholeKind: true }),
    answers: (name) => gates.answered(gates.begin("x", lane(name), { now }), { now }),
    refuses: (name) => floods.refused(lane(name), `r${count++}`, { error, isFirst: true, now }),
    read: (name) => floods.answered(lane(name)),
    tries: (name) => gates.begin("x", lane(name), { now }),
    fresh: (name) =>
      arrived(
        state,
        { eventId: "new", ref: `${name[0]}/${name.endsWith("l") ? "listing:1" : "booking:X"}` },
        now,
      ),
    sees: (name) => {
      state.fairness = afterSeen(state.fairness, name, now);
    },
    starts: (name) => {
      state.fairness = afterTaken(state.fairness, name);
      slots.running += 1;
    },
  };
  for (const [, name, times = 1, what = ""] of script.matchAll(/([a-z]+)(?:\*(\d+))?(?: ([^\s;]+))?/g)) {
    if (name === "at") now = T + Number(what) * SECOND;
    else if (name === "full") slots.running = concurrency;
    else if (name === "closed") state.isClosed = true;
    else if (name === "due") view.dueAt = T + Number(what) * SECOND;
    else if (name === "looked") Object.assign(looks, { [`${what}At`]: now });
    else for (let n = 0; n < Number(times); n += 1) facts[name!]!(what);
  }
  return { state, looks, view, now };
}

/** The plan in words: what is claimed, the tasks, and when to plan again, in s. */
function planned(script: string, options?: Parameters<typeof stateOf>[1]) {
  const { state, looks, view, now } = stateOf(script, options);
  const { common, tasks, wakeAt } = plan(
    state,
    looks,
    { ...view, version: view.dueAt > T ? versionNow(state) : 0 },
    now,
  );
  return {
    common: common?.limit,
    tasks: tasks.map((task) => ("gate" in task ? `${task.kind} ${task.gate.name}` : task.name)),
    wakeIn: Math.round((wakeAt - now) / 100) / 10,
  };
}
const versionNow = ({ gates, floods, fairness }: QueueState) =>
  gates.version + floods.version + fairness.version;

describe("the common claim", () => {
  test.each<[script: string, limit: number | undefined, options?: object]>([
    ["", 4],
    ["starts a", 3],
    ["full", undefined],
    ["closed", undefined],
    ["due 5", undefined],
    ["due 5; at 5", 4],
    // Another account is there, so that no account gets more than its half.
    ["sees a; sees b", 2],
    ["sees a; sees b; starts a", 1],
    ["sees a; sees b; starts*2 a", 2],
    // All that is left out has tasks. While everything is shut, nothing else is claimed.
    ["fails*5 a/b", 4],
    ["fails*4 a/b; fails b/b", undefined],
    ["fails*4 /b; fails /l", 4, { hasAccounts: false }],
    // An answer makes it claim again, although nothing was due.
    ["fails*5 a/b; due 60; answers a/b", undefined],
  ])("after %j has %j slots", (script, limit, options) =>
    expect(planned(script, options).common).toBe(limit),
  );

  test.each<[script: string, except: string[], options?: object]>([
    ["", []],
    ["fails*4 a/b", []],
    ["fails*5 a/b", ["a/booking:"]],
    ["denied a/b", ["a/booking:", "a/listing:"]],
    ["fails*5 a/b; answers a/b", []],
    ["refuses*9 a/b", []],
    ["refuses*10 a/b", ["a/booking:"]],
    ["sees a; sees b; starts*2 a", ["a/"]],
    ["fails*5 /b", ["booking:"], { hasAccounts: false }],
  ])("after %j leaves out %j", (script, except, options) => {
    const { state, now } = stateOf(script, options);
    expect(exceptOf(state, { isCommon: true }, now)).toEqual(except);
  });

  // Without a subscriber, the store is asked once a second.
  test.each<[script: string, claimed: number, dueIn: number, next: number, isWoken?: boolean]>([
    ["", 1, Infinity, Infinity],
    ["", 1, Infinity, 1, false],
    ["", 1, 0, 0],
    ["", 0, 0, 0.025],
    ["", 0, 0, 0.025, false],
    ["", 0, 5, 5],
    ["", 0, 5, 1, false],
    ["", 0, 40, 30],
    // The account that is left out is in again when no other was seen for a minute.
    ["sees a; sees b; starts*2 a", 0, Infinity, 60],
    ["sees a; sees b; starts*2 a", 0, 5, 5],
    ["sees a; sees b; starts*1 a", 0, Infinity, Infinity],
  ])(
    "after %j, a claim that got %d, and an event that is due in %d s, follows in %d s",
    (script, claimed, dueIn, next, isWoken = true) => {
      const { state, now } = stateOf(script);
      const at = nextClaimAt({ ...state, isWoken }, claimed, dueIn * SECOND, now);
      expect((at - now) / SECOND).toBe(next);
    },
  );
});

describe("the tasks", () => {
  test.each<[script: string, tasks: string[], wakeIn: number]>([
    // Nothing is wrong: the loop sleeps until it is woken.
    ["full", [], Infinity],
    ["full; fails*4 a/b", [], Infinity],
    // The first try is due after a second, more or less a tenth.
    ["due 60; fails*5 a/b; at 1.2", ["try lane a bookings"], 30],
    ["due 60; fails*5 a/b; at 1.2; tries a/b", [], 30],
    ["full; fails*5 a/b; at 1.2", [], 30],
    ["due 99; waits a/b; at 29", [], 1],
    ["due 99; waits a/b; at 59", ["check account a "], 30],
    ["due 99; waits a/b; at 60", ["try account a "], 30],
    // Half a minute after the pause began, somebody looks whether anything waits for it.
    ["due 99; waits a/b; at 30", ["check account a "], 30],
    // The account waits longer than the lane.
    ["due 99; fails*5 a/b; waits a/l; at 5", [], 25],
    // Everything has one try, and no lane behind it another one.
    ["fails*5 a/b; fails b/b; at 1.2", ["try everything  "], 30],
    ["fails*5 a/b; denied b/b; at 1.2", ["try account b ", "try lane a bookings"], 30],
    // A notification that has just arrived may be the try, one a second, but not before the end of a `Retry-After`.
    ["due 99; fails*5 a/b; at 0.5; fresh a/b", [], 0.5],
    ["due 99; fails*5 a/b; at 1; fresh a/b", ["fresh lane a bookings"], 30],
    ["due 99; waits a/b; at 1; fresh a/b", [], 29],
    ["due 99; fails*5 a/b; at 9; looked giveUp", ["try lane a bookings", "give up"], 30],
    // A limited lane is read as soon as its limit allows.
    ["due 99; refuses*10 a/b; at 0.04", [], 0.1],
    ["due 99; refuses*10 a/b; at 1", ["a bookings"], 30],
    ["full; refuses*10 a/b; at 1", [], 30],
    ["due 99; refuses*10 a/b; fails*5 a/b; at 2", ["try lane a bookings"], 30],
  ])("after %j are %j, and the next plan is in %d s", (script, tasks, wakeIn) => {
    const { common, ...rest } = planned(script);
    if (common === undefined) expect(rest).toEqual({ tasks, wakeIn });
    else expect(rest.tasks).toEqual(tasks);
  });

  test("begin once, and not after a failure of the store", () => {
    const { state, looks, view } = stateOf("fails*5 a/b");
    const tasks = () => plan(state, looks, view, T + 2 * SECOND).tasks.map(({ name }) => name);
    expect(tasks()).toEqual(["lane a bookings"]);
    const running: Looks = { ...looks, running: new Set(["lane a bookings"]) };
    expect(plan(state, running, view, T + 2 * SECOND).tasks).toEqual([]);
    looks.failedUntil = T + 3 * SECOND;
    expect(tasks()).toEqual([]);
  });

  test.each<[script: string, at: number | undefined]>([
    ["", undefined],
    ["refuses*10 a/b; at 1", 0],
    ["refuses*10 a/b; at 0.04", 0.1],
    ["refuses*10 a/b; fails*5 a/b; at 1", undefined],
    ["full; refuses*10 a/b; at 1", Infinity],
  ])("after %j let a drain read a limited lane in %j s", (script, at) => {
    const { state, looks, now } = stateOf(script);
    const time = limitedAt(state, looks, now);
    expect(time === undefined ? undefined : Math.round((time - now) / 100) / 10).toBe(at);
  });
});

describe("a try claims", () => {
  const events = (...names: string[]) =>
    names.map((name) => ({ eventId: name, ref: `${name[0]}/booking:${name}` }));

  test.each<[script: string, newest: string[], choices: object[], options?: object]>([
    // The newest events, three at most, and then the one that is due first.
    ["fails*5 a/b; at 2", ["a1", "a2"], [{ eventId: "a1" }, { eventId: "a2" }, { only: ["a/booking:"] }]],
    [
      "fails*5 a/b; at 2",
      ["a1", "a2", "a3", "a4"],
      [{ eventId: "a1" }, { eventId: "a2" }, { eventId: "a3" }, { only: ["a/booking:"] }],
    ],
    ["denied a/b; at 2", [], [{ only: ["a/booking:", "a/listing:"] }]],
    // Another gate in the way is not due, or tries already.
    ["fails*5 a/b; waits a/l; at 2", ["a1"], [{ only: [] }]],
    ["fails*5 a/b; at 1.2; fails a/b; denied a/l; at 2.5", ["a1"], [{ only: ["a/listing:"] }]],
    // For everything, all accounts whose own gates are open or due.
    ["fails*4 a/b; fails b/b; at 2", ["a1"], [{ eventId: "a1" }, {}]],
    ["fails*4 a/b; fails b/b; waits b/b; at 2", ["b1", "a1"], [{ eventId: "a1" }, {}]],
    ["fails*4 /b; fails /l; at 2", [], [{ only: ["booking:", "listing:"] }], { hasAccounts: false }],
    // The limit of reads does not hold a try up.
    ["refuses*10 a/b; denied a/b; at 2", ["a1"], [{ eventId: "a1" }, { only: ["a/booking:", "a/listing:"] }]],
  ])("after %j and %j: %j", (script, newest, choices, options) => {
    const { state, now } = stateOf(script, options);
    const gate = state.gates.shut[0]!;
    expect(choicesOf(state, gate, events(...newest), now)).toEqual(choices);
  });

  test.each<[script: string, except: string[]]>([
    ["fails*4 a/b; fails b/b; at 2", []],
    ["fails*4 a/b; fails b/b; waits b/b; at 2", ["b/booking:", "b/listing:"]],
    ["fails*4 a/b; fails b/b; refuses*10 b/b; at 2", []],
    ["fails*4 a/b; fails b/b; sees a; sees b; starts*2 a; at 2", []],
  ])("after %j all but %j for everything", (script, except) => {
    const { state, now } = stateOf(script);
    expect(exceptOf(state, { isChosen: true }, now)).toEqual(except);
  });
});

test.each<[script: string, may: boolean]>([
  ["refuses*10 a/b; at 0.04", false],
  ["refuses*10 a/b; at 1", true],
  ["full; refuses*10 a/b; at 1", false],
  ["refuses*10 a/b; fails*5 a/b; at 2", false],
  ["refuses*10 a/b; fails*5 a/l; at 2", true],
])("after %j may a limited lane be read: %j", (script, may) => {
  const { state, now } = stateOf(script);
  expect(mayReadLimited(state, lane("a/b"), now)).toBe(may);
});

test.each([
  { hasRead: false, wait: 0 },
  { hasRead: true, wait: 13 },
])(
  "an attempt that ends without a read gives its turn in a flood back: read $hasRead",
  ({ hasRead, wait }) => {
    const { state, now } = stateOf("refuses*10 a/b; at 9");
    vi.spyOn(performance, "now").mockReturnValue(now);
    const reading = began(state, { eventId: "a/1", ref: "a/booking:X" } as ClaimedEvent);
    for (let n = 0; n < 2; n += 1) state.floods.take(reading.lane, now);
    ended(state, { ...reading, hasRead });
    expect(state.floods.waitAt(reading.lane, now)).toBe(wait);
  },
);

test.each<[script: string, dueIn: number | undefined]>([
  ["", undefined],
  ["fails*4 a/b", undefined],
  ["fails*5 a/b", 0.5],
  ["fails*5 a/b; waits a/l", 60],
  ["refuses*10 a/b", undefined],
])("after %j, an event that has failed is due in %j s", (script, dueIn) => {
  const { state, now } = stateOf(script);
  const ms = dueInOf(state, lane("a/b"), now);
  expect(ms === undefined ? undefined : ms / SECOND).toBe(dueIn);
});

describe("a drain", () => {
  test.each<[script: string, needs: boolean]>([
    ["", false],
    ["full", true],
    ["full; closed", false],
    ["full; fails*5 a/b", true],
    ["full; fails*4 a/b; fails b/b", false],
  ])("after %j needs a slot: %j", (script, needs) => expect(needsSlot(stateOf(script).state)).toBe(needs));

  test.each<[script: string, began: number, is: boolean]>([
    ["at 99", 0, false],
    ["refuses*9 a/b; at 99", 0, false],
    ["refuses*10 a/b; at 59", 0, false],
    ["refuses*10 a/b; at 60", 0, true],
    ["refuses*10 a/b; at 60", 1, false],
    ["at 1; refuses*10 a/b; at 60", 0, false],
    // Another lane is answered.
    ["refuses*10 a/b; refuses*11 b/b; at 60; read b/b", 0, false],
  ])("after %j, which began in second %d, is hopeless: %j", (script, began, is) => {
    const { state, now } = stateOf(script);
    expect(isHopeless(state, T + began * SECOND, now)).toBe(is);
  });
});

describe("what was claimed", () => {
  const claim = (given: Partial<ClaimedEvent> = {}): ClaimedEvent =>
    ({
      ...{
        eventId: "a/1",
        ref: "a/booking:X",
        attempts: 1,
        failures: 0,
        refusals: 0,
        outages: 0,
        outageFor: 0,
      },
      ...{ claimedAt: 10 * DAY, firstDueAt: new Date(10 * DAY), dueAt: new Date(10 * DAY) },
      ...given,
    }) as ClaimedEvent;
  const old = { firstDueAt: new Date(DAY) };
  const lastFailure = { at: new Date(), duration: 1, outcome: "retrying", reason: "unavailable" } as const;
  const down = { outages: 9, lastFailure };
  const gaveUp = { givesUpBecause: "Error: 404" };

  test.each<[what: string, script: string, claim: Partial<ClaimedEvent>, how: object, step: unknown]>([
    ["begins", "", {}, { isCommon: true }, "start"],
    ["goes back if the queue is closed", "closed", {}, { isCommon: true }, "give back"],
    ["goes back if its lane has been shut meanwhile", "fails*5 a/b", {}, { isCommon: true }, "give back"],
    ["begins if another lane has been shut", "fails*5 a/l", {}, { isCommon: true }, "start"],
    ["is the try when it is due", "fails*5 a/b; at 2", {}, { isChosen: true }, "start"],
    ["is no second try", "fails*5 a/b; at 2; tries a/b", {}, { isChosen: true }, "give back"],
    [
      "is the try at once if it has just arrived",
      "fails*5 a/b; at 1",
      {},
      { isFresh: true, isChosen: true },
      "start",
    ],
    ["goes back in a flood", "refuses*10 a/b", {}, { isCommon: true }, "give back"],
    ["begins in a flood if it was chosen", "refuses*10 a/b", {}, { isChosen: true }, "start"],
    [
      "goes back if its account has its half",
      "sees a; sees b; starts*2 a",
      {},
      { isCommon: true },
      "give back",
    ],
    ["begins beyond the half if it is a try", "sees a; sees b; starts*2 a", {}, { isChosen: true }, "start"],
    ["is given up after giveUpAfter", "fails*5 a/b", { ...down, outageFor: 3 * DAY }, {}, gaveUp],
    ["is not given up before", "fails*5 a/b", { ...down, outageFor: 3 * DAY - 1 }, {}, "give back"],
    [
      "is not given up for refusals in a flood",
      "fails*5 a/b",
      { outages: 9, outageFor: 3 * DAY },
      {},
      "give back",
    ],
    ["is not given up if its lane is open", "", { ...down, outageFor: 3 * DAY }, {}, "start"],
    ["is read once more in doubt", "doubts a/b", { outages: 9, outageFor: 3 * DAY }, {}, "start"],
    ["was never read: given up", "fails*5 a/b; at 300000", old, { givesUp: true }, gaveUp],
    ["was never read, but the pause is young", "fails*5 a/b; at 9", old, { givesUp: true }, "give back"],
    ["was never read, and is a try: read", "fails*5 a/b; at 300000", old, { isChosen: true }, "start"],
    [
      "waits for its own retry",
      "fails*5 a/b; at 300000",
      { ...old, attempts: 3 },
      { givesUp: true },
      "give back",
    ],
  ])("%s", (_, script, given, how, step) => {
    const { state, now } = stateOf(script);
    expect(stepOf(state, claim(given), how, now)).toEqual(step);
  });
});

test.each<[script: string, turn: unknown]>([
  ["", "now"],
  ["full", Infinity],
  ["fails*5 a/b; at 0.5", "shut"],
  ["fails*5 a/b; at 1", "now"],
  ["waits a/b; at 59", "shut"],
  ["refuses*10 a/b; at 0.1", 42],
  ["refuses*10 a/b; at 1", "now"],
])("after %j, the turn of a request's own event is %j", (script, turn) => {
  const { state, now } = stateOf(script);
  expect(ownTurnAt(state, lane("a/b"), now)).toBe(turn);
});
