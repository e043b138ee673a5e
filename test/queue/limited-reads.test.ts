import { describe, expect, test } from "vitest";
import type { Claimant, FillOptions } from "../../src/queue/claims.ts";
import { Floods } from "../../src/queue/floods.ts";
import { Gates } from "../../src/queue/gates.ts";
import { LimitedReads } from "../../src/queue/limited-reads.ts";
import type { QueueState } from "../../src/queue/state.ts";
import { memoryStore } from "../../src/stores/memory/index.ts";
import { beginningOf, laneOf } from "../../src/webhooks/refs.ts";
import { advance, counted, eventOf, HOUR, idsOf, SECOND, useFakeTime } from "./support.ts";

useFakeTime();

const lane = { account: "a", kind: "bookings" } as const;
const failed = { state: "retrying", entry: { duration: 1 } } as const;

/** Makes a limited lane of the bookings of account a. Its claims end at once, and `begun` has the ids of their events. */
function limitedOf({ slots = () => 10 as number, gives = "begun" as "begun" | "back" } = {}) {
  const calls = { list: 0, snapshotOf: 0 };
  const own = memoryStore();
  const store = counted(own, calls);
  const floods = new Floods(() => {});
  for (const id of idsOf(20)) floods.refused(lane, id, { error: new Error("404"), isFirst: true });
  const gates = new Gates(() => {});
  const begun: string[] = [];
  const fill = async ({ eventId, only, limit = 1, claimant }: FillOptions) => {
    const got = await own.claim({ limit, eventId, only, leaseDuration: HOUR });
    const started = gives === "back" ? [] : got.filter((claim) => !claimant?.knows(claim.eventId));
    if (gives === "back")
      for (const claim of got) {
        begun.push(claim.eventId);
        if (begun.length > 100) throw new Error("the same event is claimed again and again");
        await own.settle(claim, { state: "released" });
      }
    for (const claim of started) {
      begun.push(claim.eventId.replace("a/", ""));
      await own.settle(claim, { state: "done", type: "x", entry: { duration: 1 } });
    }
    return { claimed: got.length, next: undefined, started: started as never };
  };
  const state = {
    ...{ laneOf, beginningOf, gates, floods, isClosed: false },
    // Each attempt ends at once, so that the running ones are only those that take the slots that are not free.
    slots: {
      get running() {
        return 10 - slots();
      },
      settling: 0,
      reserved: 0,
    },
    policy: { concurrency: 10 },
  } as unknown as QueueState;
  const reads = new LimitedReads<never>({ store, state, claims: { fill } });
  /** Adds an event of the account; the record is that of its id, unless one is given. */
  const add = async (id: string, record = `booking:${id}`, dueIn = 0): Promise<void> => {
    await own.add(eventOf(`a/${id}`, record.includes("/") ? record : `a/${record}`), { dueIn });
    await advance(1);
  };
  const learn = (record: string) => own.learn(`a/${record}`, { status: "Confirmed", fields: {} });
  const fail = async (id: string, reason: "unavailable" | "not-found"): Promise<void> => {
    const [claim] = await own.claim({ limit: 1, eventId: `a/${id}`, leaseDuration: HOUR });
    await own.settle(claim!, { ...failed, in: 0, count: "nothing", holdsRecord: true, reason });
  };
  /** Lets `count` reads begin, one each 30 ms, which is less than the limit allows. */
  const play = async (count: number, claimant?: Claimant) => {
    let last: number | undefined;
    for (let n = 0; n < count; n += 1) {
      await advance(14);
      last = await reads.read(lane, claimant);
    }
    return last;
  };
  return {
    store: own,
    floods,
    gates,
    calls,
    begun,
    add,
    learn,
    fail,
    play,
    reads,
    read: () => reads.read(lane, undefined),
  };
}

describe("the events of a limited lane", () => {
  test("are in turn the newest, one of a known record, the one of a known record", async () => {
    const { add, learn, play, begun } = limitedOf();
    for (const id of ["K1", "K2", "K3"]) await learn(`booking:${id}`);
    for (const id of ["U1", "K1", "U2", "K2", "U3", "K3", "U4"]) await add(id);
    await advance(SECOND);
    await play(6);
    // The first time, two reads begin at once.
    expect(begun).toEqual(["U4", "K3", "U1", "K2", "U3", "K1", "U2"]);
  });

  test.each([
    { what: "known records only", ids: ["K1", "K2", "K3"], order: ["K3", "K2", "K1"] },
    { what: "unknown records only", ids: ["U1", "U2", "U3", "U4"], order: ["U4", "U3", "U1", "U2"] },
    { what: "one unknown record among known ones", ids: ["U1", "K1", "K2"], order: ["U1", "K2", "K1"] },
  ])("leave no read unused: $what", async ({ ids, order }) => {
    const { add, learn, play, begun } = limitedOf();
    for (const id of ["K1", "K2", "K3"]) await learn(`booking:${id}`);
    for (const id of ids) await add(id);
    await advance(SECOND);
    await play(4);
    expect(begun).toEqual(order);
  });

  test("are not claimed again and again for a drain that is over, and gives each one back", async () => {
    const { add, begun, reads, floods } = limitedOf({ gives: "back" });
    await add("U1");
    const claimant: Claimant = { isOver: true, knows: () => false, held: [] };
    await advance(SECOND);
    await reads.read(lane, claimant);
    expect(begun.length).toBeLessThanOrEqual(8);
    expect(floods.waitAt(lane, performance.now())).toBe(0);
  });

  test.each([
    { others: ["K2"], known: ["K2", "z"] },
    { others: [], known: ["z", "y"] },
  ])("of one known record take turns with those of others: $others", async ({ others, known }) => {
    const { add, learn, play, begun } = limitedOf();
    for (const id of ["K1", "K2"]) await learn(`booking:${id}`);
    await add("U1");
    for (const id of ["x", "y", "z"]) await add(id, "booking:K1");
    for (const id of [...others, "U2", "U3"]) await add(id);
    await advance(SECOND);
    // The first time, two reads begin at once.
    await play(3);
    expect(begun).toEqual(["U3", known[0], "U1", known[1]]);
  });

  test.each([
    { what: "another kind", id: "L", record: "listing:1" },
    { what: "another account", id: "B", record: "b/booking:X" },
    { what: "no record", id: "M", record: "message" },
  ])("do not include those of $what", async ({ id, record }) => {
    const { add, play, begun } = limitedOf();
    await add(id, record);
    await add("U1");
    await advance(SECOND);
    await play(3);
    expect(begun).toEqual(["U1"]);
  });

  test("of one unknown record are chosen once", async () => {
    const { add, calls, play, begun } = limitedOf();
    await add("U1");
    for (const id of ["x", "y"]) await add(id, "booking:U2");
    await advance(SECOND);
    await play(2);
    expect(begun).toEqual(["y", "U1", "x"]);
    expect(calls.snapshotOf).toBe(2);
  });

  test("that have just arrived are chosen although the list is a moment old, in turn", async () => {
    const { add, learn, reads, play, begun } = limitedOf();
    for (const id of ["K1", "K2"]) await learn(`booking:${id}`);
    await add("U1");
    await advance(SECOND);
    await play(1);
    for (const id of ["U2", "U3", "K2"]) {
      await add(id);
      reads.arrived(lane, { eventId: `a/${id}`, ref: `a/booking:${id}` });
    }
    await play(3);
    // U2 is the one that is due first.
    expect(begun).toEqual(["U1", "U2", "K2", "U3"]);
  });

  test("that failed without an answer are chosen, refused ones only as the first", async () => {
    const { add, learn, fail, play, begun } = limitedOf();
    for (const id of ["K1", "K2"]) await learn(`booking:${id}`);
    await add("K1");
    await fail("K1", "not-found");
    await add("U1");
    await add("K2");
    await fail("K2", "unavailable");
    await advance(SECOND);
    await play(3);
    expect(begun).toEqual(["U1", "K2", "K1"]);
  });

  test("of a known record are found behind 350 newer ones, a page at each look", async () => {
    const { add, learn, play, begun } = limitedOf();
    await learn("booking:K1");
    await add("K1");
    for (const id of idsOf(350)) await add(id);
    await advance(SECOND);
    await play(45);
    expect(begun).toContain("K1");
    expect(begun.indexOf("K1")).toBeLessThan(45);
  });
});

describe("a look at the store", () => {
  test.each([
    { after: 249, lists: 4 },
    { after: 250, lists: 8 },
  ])("serves the reads of a quarter of a second: after $after ms", async ({ after, lists }) => {
    const { add, calls, read } = limitedOf();
    for (const id of idsOf(60)) await add(id);
    await advance(SECOND);
    await read();
    await advance(after);
    await read();
    expect(calls.list).toBe(lists);
  });

  test("asks once for each snapshot, until all older events have been looked at", async () => {
    const { add, calls, read } = limitedOf();
    for (const id of idsOf(250)) await add(id);
    await advance(SECOND);
    await read();
    expect(calls.snapshotOf).toBe(100);
    await advance(250);
    await read();
    expect(calls.snapshotOf).toBe(200);
  });
});

describe("no read begins", () => {
  test.each([
    { what: "without a slot", slots: 0, wait: SECOND },
    { what: "before its time", slots: 10, wait: 100 },
  ])("$what", async ({ slots, wait }) => {
    const { add, begun, read } = limitedOf({ slots: () => slots });
    await add("U1");
    await advance(wait);
    expect(await read()).toBeUndefined();
    expect(begun).toEqual([]);
  });

  test("at a shut gate", async () => {
    const { add, begun, gates, read } = limitedOf();
    await add("U1");
    await advance(SECOND);
    const outage = { everything: true };
    gates.failed(gates.begin("booking:x", lane), { outage, error: new Error("401"), isFirst: true });
    expect(await read()).toBeUndefined();
    expect(begun).toEqual([]);
  });

  test.each([
    { what: "if nothing waits", due: undefined, next: Number.POSITIVE_INFINITY },
    { what: "before an event is due", due: 5 * SECOND, next: 4 * SECOND },
  ])("$what, and it is not used up", async ({ due, next }) => {
    const { add, begun, floods, read } = limitedOf();
    if (due) await add("U1", undefined, due + 1);
    await add("L", "listing:1");
    await advance(SECOND - 1);
    expect(await read()).toBe(next);
    expect([begun, floods.waitAt(lane, performance.now())]).toEqual([[], 0]);
    expect(floods.take(lane, performance.now())).toBe("known");
    expect(floods.take(lane, performance.now())).toBe("first");
  });
});

test("as many reads begin as there are slots", async () => {
  const { begun, add, read } = limitedOf({ slots: () => 1 - begun.length });
  for (const id of ["U1", "U2", "U3"]) await add(id);
  await advance(SECOND);
  expect(await read()).toBeUndefined();
  expect(begun).toEqual(["U3"]);
});

test("a drain passes the events that it knows, and ends when there is no other", async () => {
  const { add, play, begun } = limitedOf();
  for (const id of ["U1", "U2", "U3", "U4"]) await add(id);
  await advance(SECOND);
  const claimant: Claimant = { isOver: false, held: [], knows: (id) => id !== "a/U2" };
  expect(await play(1, claimant)).toBe(HOUR);
  expect(begun).toEqual(["U2"]);
});
