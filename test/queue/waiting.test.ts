import { describe, expect, test } from "vitest";
import { afterFailure, type Gate, newGate, type Read } from "../../src/queue/gate.ts";
import { Waiting } from "../../src/queue/waiting.ts";
import type { Lane } from "../../src/queue/work.ts";
import { memoryStore } from "../../src/stores/memory/index.ts";
import type { StoredEvent } from "../../src/stores/stored-event.ts";
import { beginningOf, laneOf } from "../../src/webhooks/refs.ts";
import { advance, DAY, eventOf, HOUR, idsOf, MINUTE, SECOND, useFakeTime } from "./support.ts";

useFakeTime(new Date(Date.UTC(2026, 4, 1)));

const asked = {
  ...{ since: new Date(0), at: 0, until: 0, askedAt: 0, toldUntil: 0, reason: "", ref: "", isDoubt: false },
};

/**
 * `a/b` is the gate of the bookings of account a, `a/l` that of its listings, `a` that of the account, `*` that of everything. The
 * platform has asked for its wait, so that one record is enough to keep it shut.
 */
function gateOf(name: string, shutting: Gate["shutting"] = asked): Gate {
  const [account, kind] = name.split("/");
  const kinds: Record<string, Lane["kind"]> = { b: "bookings", l: "listings" };
  const lane = { account: name === "*" ? undefined : account || undefined, kind: kinds[kind ?? ""] };
  return { ...newGate(name === "*" ? "everything" : lane.kind ? "lane" : "account", lane), shutting };
}

/**
 * Makes a store that has the events of a script. `a/booking:X` is a notification, `timer` and `message` before it another
 * event, `again` a second one of the record, and `+5` behind it the seconds until it is due. `fails 9`, `refused 9`, `takes`, `ends`, `parks` and `replays` concern the event
 * before. `at 5` is second 5.
 */
async function waitingOf(script: string, hasAccounts = true) {
  const store = memoryStore();
  const waiting = new Waiting<never>({ store, laneOf, beginningOf, hasAccounts });
  let at = 0;
  let eventId = "";
  const claim = async () => (await store.claim({ limit: 1, eventId, leaseDuration: HOUR }))[0]!;
  const failed = { reason: "unavailable", entry: { duration: 1 } } as const;
  for (const step of script.split(";").map((each) => each.trim())) {
    const [name, value] = step.split(" ");
    if (name === "at") {
      await advance(Number(value) * SECOND - at);
      at = Number(value) * SECOND;
    } else if (name === "takes") await claim();
    else if (name === "fails")
      await store.settle(await claim(), {
        ...failed,
        state: "retrying",
        in: Number(value) * SECOND,
        count: "nothing",
        holdsRecord: true,
      });
    else if (name === "refused")
      await store.settle(await claim(), {
        ...failed,
        reason: "not-found",
        state: "retrying",
        in: Number(value) * SECOND,
      });
    else if (name === "parks") await store.settle(await claim(), { ...failed, state: "parked" });
    else if (name === "ends")
      await store.settle(await claim(), { state: "done", type: "x", entry: { duration: 1 } });
    else if (name === "replays") await store.replay({ eventId });
    else if (name !== "") {
      const [, kind, ref = "", wait] = step.match(/^(?:(timer|message|again) )?([^+]*)(?:\+(.*))?$/)!;
      const account = ref.slice(0, ref.indexOf("/") + 1);
      eventId = kind === "message" ? ref : `${account}${kind === "again" ? kind : ""} of ${ref}`;
      const event = eventOf(eventId, kind === "message" ? null : ref);
      await store.add(
        { ...event, source: kind === "timer" ? "timer" : "webhook" },
        { dueIn: Number(wait ?? 0) * SECOND },
      );
    }
  }
  return { store, waiting };
}

async function longWaiting(waiting: Waiting<never>, gate: string): Promise<StoredEvent[]> {
  const found: StoredEvent[] = [];
  for await (const event of waiting.since(gateOf(gate), MINUTE)) found.push(event);
  return found;
}

const namesOf = (events: readonly { eventId: string }[]) =>
  events.map(({ eventId }) => eventId.replace(/^.*of /, ""));

test.each([
  { gate: "a/b", held: ["a/booking:X"] },
  { gate: "a/l", held: ["a/listing:1"] },
  { gate: "a", held: ["a/booking:X", "a/listing:1"] },
  // An event without an account is for other processes.
  { gate: "*", held: ["a/booking:X", "a/listing:1", "a1/booking:X"] },
  { gate: "/b", held: ["booking:X"], hasAccounts: false },
])("the gate $gate holds for $held", async ({ gate, held, hasAccounts }) => {
  const { waiting } = await waitingOf("", hasAccounts);
  const refs = ["a/booking:X", "a/listing:1", "a/other:1", "a1/booking:X", "booking:X"];
  expect(refs.filter((ref) => waiting.holds(gateOf(gate), laneOf({ ref, eventId: "" })))).toEqual(held);
  expect(waiting.holds(gateOf(gate), laneOf({ ref: null, eventId: "a/1" }))).toBe(false);
});

test.each([
  { gate: "a/b", beginnings: ["a/booking:"] },
  { gate: "a/l", beginnings: ["a/listing:"] },
  { gate: "a", beginnings: ["a/booking:", "a/listing:"] },
  { gate: "*", beginnings: undefined },
  { gate: "*", beginnings: ["booking:", "listing:"], hasAccounts: false },
  { gate: "/b", beginnings: ["booking:"], hasAccounts: false },
])("the refs behind $gate begin with $beginnings", async ({ gate, beginnings, hasAccounts }) => {
  const { waiting } = await waitingOf("", hasAccounts);
  expect(waiting.beginningsOf(gateOf(gate))).toEqual(beginnings);
});

describe("the next event behind a gate is due", () => {
  test.each([
    { script: "", dueIn: undefined },
    { script: "a/booking:X", dueIn: 0 },
    { script: "a/booking:X; fails 9", dueIn: 9 },
    { script: "a/booking:X; fails 9; at 4", dueIn: 5 },
    { script: "a/booking:X; parks", dueIn: undefined },
    // It was answered, so that it waits for its own time.
    { script: "a/booking:X; refused 9", dueIn: undefined },
    { script: "a/booking:X; refused 9; at 9", dueIn: 0 },
    { script: "a/booking:X; refused 9; a/booking:Y; fails 30", dueIn: 9 },
    // Another process tries it, until its lease ends.
    { script: "a/booking:X; fails 0; takes; at 9", dueIn: 3591 },
    { script: "a/booking:X; ends", dueIn: undefined },
    { script: "a/booking:X; parks; replays", dueIn: 0 },
    // A timer waits only when its time has come.
    { script: "timer a/booking:X+9", dueIn: undefined },
    { script: "timer a/booking:X+9; at 9", dueIn: 0 },
    { script: "timer a/booking:X+9; a/booking:Y; fails 30", dueIn: 9 },
    { script: "a/listing:1; fails 9", dueIn: undefined },
    { script: "b/booking:X; fails 9", dueIn: undefined },
    { script: "timer a/booking:X+9; a/listing:1; fails 30", dueIn: undefined },
    { script: "message a/1", dueIn: undefined },
    { gate: "a", script: "a/listing:1; fails 9", dueIn: 9 },
    { gate: "a", script: "b/listing:1; fails 9", dueIn: undefined },
    { gate: "*", script: "b/listing:1; fails 9", dueIn: 9 },
    { gate: "*", script: "timer a/booking:X+9", dueIn: undefined },
    { gate: "*", script: "listing:1; fails 9", dueIn: 9, hasAccounts: false },
    { gate: "*", script: "message 1", dueIn: undefined, hasAccounts: false },
    { gate: "/b", script: "booking:1; fails 9", dueIn: 9, hasAccounts: false },
    { gate: "/l", script: "booking:1; fails 9", dueIn: undefined, hasAccounts: false },
  ])("$dueIn s later: $gate $script", async ({ gate = "a/b", script, dueIn, hasAccounts }) => {
    const { waiting } = await waitingOf(script, hasAccounts);
    expect(await waiting.dueIn(gateOf(gate))).toBe(dueIn === undefined ? undefined : dueIn * SECOND);
  });

  test.each([
    { what: "asked for a wait", script: "refused 39", retryAfter: 60 * SECOND, dueIn: undefined },
    { what: "may hide all records", script: "refused 39", isDoubt: true, dueIn: 30 * SECOND },
    { what: "may hide all records for long", script: "refused 60", isDoubt: true, dueIn: undefined },
    {
      what: "asked for a wait of the event",
      script: "fails 60",
      retryAfter: 60 * SECOND,
      dueIn: 51 * SECOND,
    },
    { what: "asked for a shorter wait", script: "fails 99", retryAfter: 60 * SECOND, dueIn: undefined },
    { what: "asked for no wait", script: "fails 60", dueIn: undefined },
  ])("after an attempt, if the platform $what", async ({ script, retryAfter, isDoubt = false, dueIn }) => {
    const { waiting } = await waitingOf(`a/booking:X; ${script}; at 9`);
    const gate = { ...gateOf(retryAfter === undefined ? "a/b" : "a"), shutting: undefined };
    const lane = { account: "a", kind: "bookings" } as const;
    const read: Read = { ref: "X", key: "X", lane, beganAt: 0, hasResult: true };
    const outage = { everything: retryAfter !== undefined, wholeKind: isDoubt, retryAfter };
    const fact = { read, outage, error: undefined, isFirst: true, date: new Date(), spread: 1 };
    const shut = afterFailure(gate, { ...fact, now: performance.now() - 5 * SECOND });
    expect(await waiting.dueIn(shut)).toBe(dueIn);
  });

  test.each([
    { gate: "a/b", script: "a/booking:X; fails 9", keeps: false },
    { gate: "a/b", script: "a/booking:X; fails 9; again a/booking:X+5", keeps: false },
    { gate: "a/b", script: "a/booking:X; fails 9; a/booking:Y; fails 9", keeps: true },
    { gate: "*", script: "a/booking:X; fails 9", keeps: false },
    { gate: "*", script: "a/booking:X; fails 9; b/booking:X; fails 9", keeps: true },
    { gate: "a", script: "a/booking:X; fails 9", keeps: true },
  ])(
    "keeps $gate shut after a row of failures, if another record waits: $script",
    async ({ gate, script, keeps }) => {
      const { waiting } = await waitingOf(script);
      const dueIn = await waiting.dueIn(gateOf(gate, { ...asked, askedAt: undefined }));
      expect(dueIn !== undefined).toBe(keeps);
    },
  );

  test("although 200 others that wait are newer", async () => {
    const { waiting, store } = await waitingOf("a/booking:X; fails 9; timer a/booking:T+8");
    for (const id of idsOf(200)) {
      const event = eventOf(`a/${id}`, `a/listing:${id}`);
      await store.add(event);
      const [claim] = await store.claim({ limit: 1, eventId: event.eventId, leaseDuration: HOUR });
      const entry = { duration: 1 };
      await store.settle(claim!, {
        state: "retrying",
        in: DAY,
        count: "nothing",
        holdsRecord: true,
        reason: "unavailable",
        entry,
      });
    }
    expect(await waiting.dueIn(gateOf("a/b"))).toBe(8 * SECOND);
  });
});

test.each([
  { script: "a/booking:X; at 1; a/booking:Y", found: ["a/booking:Y", "a/booking:X"] },
  { script: "a/booking:X; a/listing:1; b/booking:X; message a/1", found: ["a/booking:X"] },
  { script: "a/booking:X; fails 0", found: [] },
  { script: "a/booking:X; takes", found: [] },
  { script: "timer a/booking:X+9", found: [] },
  // A store lists a timer as scheduled until it is claimed. Its try is the one that is due first.
  { script: "timer a/booking:X+9; at 9", found: [] },
  // A failed read makes the other events of its record wait, too.
  { script: "a/booking:X; again a/booking:X; a/booking:X; fails 9", found: [] },
  { gate: "a", script: "a/booking:X; at 1; a/listing:1; b/booking:X", found: ["a/listing:1", "a/booking:X"] },
  { gate: "*", script: "a/booking:X; at 1; b/listing:1; message b/1", found: ["b/listing:1", "a/booking:X"] },
])("the events that were never tried: $gate $script", async ({ gate = "a/b", script, found }) => {
  const { waiting } = await waitingOf(script);
  expect(namesOf(await waiting.neverTried(gateOf(gate)))).toEqual(found);
});

test.each([
  { newer: 49, found: ["a/booking:X"] },
  { newer: 50, found: [] },
])("an event is looked for among the newest 50: behind $newer", async ({ newer, found }) => {
  const others = Array.from({ length: newer }, (_, n) => `a/listing:${n}`);
  const { waiting } = await waitingOf(["a/booking:X", "at 1", ...others].join("; "));
  expect(namesOf(await waiting.neverTried(gateOf("a/b")))).toEqual(found);
});

test.each([
  { from: undefined, found: ["b/listing:1", "a/booking:X"] },
  { from: 0, found: ["b/listing:1", "a/booking:X"] },
  { from: 1, found: ["b/listing:1"] },
  { from: 2, found: [] },
])("the events that have arrived since second $from", async ({ from, found }) => {
  const start = Date.now();
  const { waiting } = await waitingOf("a/booking:X; at 1; b/listing:1; a/booking:Y; fails 9");
  const since = from === undefined ? undefined : new Date(start + from * SECOND);
  expect(namesOf(await waiting.arrivedSince(since))).toEqual(found);
});

describe("the events that have waited for a minute", () => {
  test.each([
    { script: "a/booking:X; at 60.001", found: ["a/booking:X"] },
    { script: "a/booking:X; at 60", found: [] },
    { script: "a/listing:X; b/booking:X; message a/1; at 60.001", found: [] },
    // Only the claim of a failed event tells since when it fails.
    { script: "a/booking:X; at 30; fails 9; at 59.999", found: [] },
    { script: "a/booking:X; at 30; fails 9; at 60.001", found: ["a/booking:X"] },
    { script: "a/booking:X; parks; at 60.001", found: [] },
    { script: "a/booking:X; ends; at 60.001", found: [] },
    // A replayed event waits since its replay.
    { script: "a/booking:X; parks; at 30; replays; at 89.999", found: [] },
    { script: "a/booking:X; parks; at 30; replays; at 90", found: ["a/booking:X"] },
    // A timer waits since its time.
    { script: "timer a/booking:X+30; at 89.999", found: [] },
    { script: "timer a/booking:X+30; at 90", found: ["a/booking:X"] },
    {
      gate: "a",
      script: "a/booking:X; at 1; a/listing:1; b/listing:1; at 61.001",
      found: ["a/listing:1", "a/booking:X"],
    },
    {
      gate: "*",
      script: "a/booking:X; at 1; b/listing:1; message b/1; at 61.001",
      found: ["b/listing:1", "a/booking:X"],
    },
  ])("$gate $script", async ({ gate = "a/b", script, found }) => {
    const { waiting } = await waitingOf(script);
    expect(namesOf(await longWaiting(waiting, gate))).toEqual(found);
  });

  test.each([199, 200, 201, 400])("are found on all pages: %i", async (count) => {
    const { waiting, store } = await waitingOf("");
    for (const id of idsOf(count)) await store.add(eventOf(`a/${id}`, `a/booking:${id}`));
    await advance(MINUTE + 1);
    expect(await longWaiting(waiting, "a/b")).toHaveLength(count);
  });
});
