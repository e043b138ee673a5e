import { describe, expect, test } from "vitest";
import { isOfRecord, type Read } from "../../src/queue/gate.ts";
import { Gates, type OnGateNews } from "../../src/queue/gates.ts";
import type { Lane } from "../../src/queue/work.ts";

/** `a/b` is the lane of the bookings of account a, `a/l` that of its listings. `/b` has no account. */
function laneOf(name: string): Lane {
  const [account, kind] = name.split("/");
  return { account: account || undefined, kind: kind === "b" ? "bookings" : "listings" };
}

/**
 * Plays a script on gates. Each step is `<name> <lane> <read>`, and takes no time. `at 5` is second 5. A read begins with its
 * first step, unless it has begun.
 */
function play(script: string) {
  const changes: string[] = [];
  const onNews: OnGateNews = ({ level, lane }, news) =>
    changes.push(
      `${news} ${level}${lane.account ? ` ${lane.account}` : ""}${lane.kind ? ` ${lane.kind}` : ""}`,
    );
  const gates = new Gates(onNews);
  const reads = new Map<string, Read>();
  const failedAt = new Map<string, number>();
  const counted: string[] = [];
  let now = 100_000;
  let count = 0;
  const readOf = (lane: string, name = `r${count++}`): Read => {
    const read = reads.get(name) ?? gates.begin(`booking:${name}`, laneOf(lane), { key: name, now });
    reads.set(name, read);
    return read;
  };
  const fail = (read: Read, outage: object, isFirst = true): void => {
    const all = { everything: false, ...outage };
    const since = failedAt.get(read.key);
    failedAt.set(read.key, now);
    const isAlone = gates.failed(read, { outage: all, error: new Error("down"), isFirst, since }, now);
    if (isAlone && isOfRecord(all)) counted.push(read.key);
    gates.end(read);
  };
  const steps: Record<string, (lane: string, read?: string, value?: string) => unknown> = {
    at: (second) => {
      now = 100_000 + Number(second) * 1000;
    },
    begins: (lane, read) => readOf(lane, read),
    ends: (lane, read) => gates.end(readOf(lane, read)),
    answers: (lane, name) => {
      const read = readOf(lane, name);
      gates.answered(read, { now });
      gates.end(read);
    },
    fails: (lane, read) => fail(readOf(lane, read), {}),
    "fails-again": (lane, read) => fail(readOf(lane, read), {}, false),
    denied: (lane, read) => fail(readOf(lane, read), { everything: true }),
    limited: (lane, read, s) => fail(readOf(lane, read), { everything: true, retryAfter: Number(s) * 1000 }),
    "whole-kind": (lane, read) => fail(readOf(lane, read), { wholeKind: true }),
    forget: (account) => gates.closeAccount(account),
  };
  for (const step of script.split(";").map((each) => each.trim()))
    for (const [, name, times, lane, read, value] of [
      ...step.matchAll(/^([a-z-]+?)(?:\*(\d+))? (\S+)(?: (\S+))?(?: (\S+))?$/g),
    ])
      for (let n = 0; n < Number(times ?? 1); n += 1) steps[name!]!(lane!, read, value);
  const waits = (lane: string): number => Math.round(gates.waitAt(now, laneOf(lane)) / 100) / 10;
  return {
    gates,
    changes,
    counted,
    now,
    lets: (lane: string, fresh = false) => gates.lets(laneOf(lane), now, fresh),
    waits,
  };
}

const error = new Error("down");

describe("a row of failures", () => {
  test.each([
    { what: "of 4 leaves the lane open", script: "fails*4 a/b", shut: [] },
    { what: "of 5 shuts the lane", script: "fails*5 a/b", shut: ["a/b"] },
    {
      what: "of 5 with an answer in it leaves the lane open",
      script: "fails*4 a/b; answers a/b; fails*4 a/b",
      shut: [],
    },
    { what: "begins anew with an answer", script: "fails*5 a/b; at 2; answers a/b; fails*4 a/b", shut: [] },
    { what: "of events that had failed before leaves the lane open", script: "fails-again*19 a/b", shut: [] },
    { what: "of 20 of any kind shuts the lane", script: "fails-again*20 a/b", shut: ["a/b"] },
    {
      what: "of 4 first ones and 16 others shuts the lane",
      script: "fails*4 a/b; fails-again*16 a/b",
      shut: ["a/b"],
    },
    {
      what: "of another kind of the account does not lengthen it",
      script: "fails*4 a/b; fails*4 a/l",
      shut: [],
    },
    {
      what: "of one account does not shut everything",
      script: "fails*9 a/b; fails*9 a/l",
      shut: ["a/b", "a/l"],
    },
    {
      what: "of two accounts shuts everything",
      script: "fails*4 a/b; fails b/b",
      shut: ["a/b", "a/l", "b/b", "c/b"],
    },
    { what: "of two accounts with 4 leaves everything open", script: "fails*3 a/b; fails b/b", shut: [] },
    {
      what: "of two accounts that had failed before leaves everything open",
      script: "fails-again*4 a/b; fails-again*4 b/b",
      shut: [],
    },
    {
      what: "of one account after an answer does not shut everything",
      script: "fails a/b; fails b/b; answers c/b; fails*5 a/b",
      shut: ["a/b"],
    },
    {
      what: "of both kinds shuts everything without accounts",
      script: "fails*3 /b; fails*2 /l",
      shut: ["/b", "/l"],
    },
    { what: "of one kind without accounts shuts that kind", script: "fails*9 /b", shut: ["/b"] },
    { what: "for a whole kind shuts the lane at once", script: "whole-kind a/b", shut: ["a/b"] },
    { what: "with a 401 shuts the account at once", script: "denied a/b", shut: ["a/b", "a/l"] },
    {
      what: "with 401 of two accounts says nothing about everything",
      script: "denied*5 a/b; denied*5 b/b",
      shut: ["a/b", "a/l", "b/b"],
    },
    { what: "with a 429 shuts the account at once", script: "limited a/l r 3", shut: ["a/b", "a/l"] },
    {
      what: "whose account is erased leaves nothing shut",
      script: "denied a/b; fails*5 a/l; forget a",
      shut: [],
    },
  ])("$what", ({ script, shut }) => {
    const { gates } = play(script);
    const lanes = ["a/b", "a/l", "b/b", "c/b", "/b", "/l"].filter(
      (lane) => lane.startsWith("/") === script.includes(" /"),
    );
    expect(lanes.filter((lane) => gates.isShut(laneOf(lane)))).toEqual(shut);
  });

  test("that is answered at another lane of the account opens the account, but not the lane", () => {
    const { gates } = play("begins a/l x; fails*5 a/b; denied a/b; answers a/l x");
    expect(["a/b", "a/l"].map((lane) => gates.isShut(laneOf(lane)))).toEqual([true, false]);
  });

  test("counts how many tries of a lane have failed", () => {
    const failures = (script: string) => play(script).gates.failuresOf(laneOf("a/b"));
    expect(["", "fails*4 a/b", "fails*5 a/b", "fails*5 a/b; at 2; fails a/b"].map(failures)).toEqual([
      0, 0, 1, 2,
    ]);
  });

  test("remembers the answers of the 10,000 lanes that were answered last", () => {
    const { gates } = play("");
    let count = 0;
    const laneAt = (n: number): Lane => ({ account: `a${n}`, kind: "bookings" });
    const answer = (n: number) => gates.answered(gates.begin("x", laneAt(n), { now: 1 }), { now: 2 });
    const fails = (n: number) =>
      gates.failed(
        gates.begin(`y${count++}`, laneAt(n), { now: 3 }),
        { outage: { everything: false }, error, isFirst: false, since: 1 },
        4,
      );
    for (let n = 0; n < 10_000; n += 1) answer(n);
    // The first lane is the latest one again.
    answer(0);
    expect([0, 1, 2].map(fails)).toEqual([true, true, true]);
    answer(10_000);
    expect([0, 1, 2, 10_000].map(fails)).toEqual([true, false, true, true]);
  });

  test("forgets what is well again", () => {
    expect(play("fails*5 a/b; denied b/b; at 2; answers a/b; answers b/b").gates.size).toBe(0);
    expect(play("fails a/b; answers a/b").gates.size).toBe(0);
    expect(play("fails a/b").gates.size).toBe(1);
  });
});

describe("a try", () => {
  test.each([
    { what: "waits a second", script: "fails*5 a/b; at 0.8", lets: false, wait: 0.2 },
    { what: "may begin then", script: "fails*5 a/b; at 1.2", lets: true, wait: 0 },
    { what: "is alone", script: "fails*5 a/b; at 1.2; begins a/b t", lets: false },
    {
      what: "is followed by another a second later if it says nothing",
      script: "fails*5 a/b; at 2; begins a/b t; at 2.5; ends a/b t",
      lets: false,
      wait: 0.5,
    },
    { what: "that fails doubles the wait", script: "fails*5 a/b; at 2; fails a/b t", lets: false, wait: 2 },
    {
      what: "that fails with another kind of failure doubles the wait, too",
      script: "fails*5 a/b; at 2; fails-again a/b t",
      lets: false,
      wait: 2,
    },
    {
      what: "of everything waits once for all",
      script: "fails*4 a/b; fails b/b; at 2; begins a/b t",
      lane: "c/b",
      lets: false,
    },
    {
      what: "of an account waits for everything",
      script: "fails*4 a/b; fails b/b; at 0.5",
      lane: "c/b",
      lets: false,
    },
    { what: "of an account may be its other kind", script: "denied a/b; at 1.2", lane: "a/l", lets: true },
    {
      what: "of an account holds up its other kind",
      script: "denied a/b; at 1.2; begins a/b t",
      lane: "a/l",
      lets: false,
    },
    { what: "waits for Retry-After", script: "limited a/b r 20; at 19.9", lets: false, wait: 0.1 },
    { what: "waits a second for Retry-After: 0", script: "limited a/b r 0; at 0.9", lets: false, wait: 0.1 },
    { what: "waits for 15 minutes at most", script: "limited a/b r 86400", lets: false, wait: 900 },
    {
      what: "that gets a 429 waits for its Retry-After",
      script: "fails*5 a/b; at 2; limited a/b t 7",
      lets: false,
      wait: 7,
    },
  ])("$what", ({ script, lane = "a/b", lets, wait }) => {
    const played = play(script);
    expect(played.lets(lane)).toBe(lets);
    if (wait !== undefined)
      expect(Math.abs(played.waits(lane) - wait)).toBeLessThanOrEqual(
        0.11 * Math.max(1, wait === 900 ? 0 : wait),
      );
  });

  test("waits 30 s at most, a tenth more or less", () => {
    const script = Array.from({ length: 20 }, (_, n) => `at ${(n + 1) * 40}; fails a/b t${n}`).join("; ");
    const wait = play(`fails*5 a/b; ${script}`).waits("a/b");
    expect(wait).toBeGreaterThanOrEqual(27);
    expect(wait).toBeLessThanOrEqual(33);
  });

  test.each([
    { what: "a second after the failure that shut the gate", script: "fails*5 a/b; at 1", fresh: true },
    { what: "but not in the same second", script: "fails*5 a/b; at 0.8", fresh: false },
    { what: "but one a second", script: "fails*5 a/b; begins a/b t; at 0.5; fails a/b t", fresh: false },
    {
      what: "and the next after a second",
      script: "fails*5 a/b; begins a/b t; fails a/b t; at 1",
      fresh: true,
    },
    { what: "but not beside a try", script: "fails*5 a/b; at 2; begins a/b t; at 9", fresh: false },
    { what: "but not before the end of Retry-After", script: "limited a/b r 9; at 8.9", fresh: false },
    { what: "also after a 401", script: "denied a/b; at 2; denied a/b t; at 3", fresh: true },
    {
      what: "but one a second for everything",
      script: "fails*4 a/b; fails b/b; begins a/b t; fails a/b t; at 0.9",
      lane: "c/b",
      fresh: false,
    },
  ])("may be an event that has just arrived, $what", ({ script, lane = "a/b", fresh }) => {
    expect(play(script).lets(lane, true)).toBe(fresh);
  });
});

describe("a read that began before its gate shut", () => {
  test.each([
    {
      what: "opens it with an answer",
      script: "begins a/b old; fails*5 a/b; answers a/b old",
      isShut: false,
    },
    {
      what: "does not open it if Retry-After has shut it",
      script: "begins a/b old; limited a/b r 9; answers a/b old",
      isShut: true,
      wait: 9,
    },
    {
      what: "does not prolong it",
      script: "begins a/b old; fails*5 a/b; at 0.9; fails a/b old; at 1.2",
      isShut: true,
      wait: 0,
    },
    {
      what: "prolongs it by a longer Retry-After",
      script: "begins a/b old; limited a/b r 9; limited a/b old 12",
      isShut: true,
      wait: 12,
    },
    {
      what: "does not shorten it",
      script: "begins a/b old; limited a/b r 9; limited a/b old 2",
      isShut: true,
      wait: 9,
    },
    {
      what: "counts once",
      script: "begins a/b old; answers a/b old; fails*4 a/b; fails a/b old",
      isShut: false,
    },
  ])("$what", ({ script, isShut, wait = 0 }) => {
    const { gates, waits } = play(script);
    expect(gates.isShut(laneOf("a/b"))).toBe(isShut);
    expect(waits("a/b")).toBeCloseTo(wait, 1);
  });

  test("does open it if it was answered after a failed try that asked for no wait", () => {
    const { gates } = play("begins a/b old; limited a/b r 3; at 4; fails a/b t; answers a/b old");
    expect(gates.isShut(laneOf("a/b"))).toBe(false);
  });
});

describe("a failed read counts as an attempt", () => {
  test.each([
    { what: "not if nothing was answered", script: "fails a/b x", counted: [] },
    {
      what: "not if the lane was answered before it began",
      script: "answers a/b; at 1; fails a/b x",
      counted: [],
    },
    {
      what: "if the lane was answered while it ran",
      script: "begins a/b x; at 1; answers a/b; at 2; fails a/b x",
      counted: ["x"],
    },
    {
      what: "not if another lane was answered while it ran",
      script: "begins a/b x; at 1; answers a/l; at 2; fails a/b x",
      counted: [],
    },
    {
      what: "not if another account was answered",
      script: "begins a/b x; at 1; answers b/b; at 2; fails a/b x",
      counted: [],
    },
    {
      what: "not if it is a 401",
      script: "begins a/b x; at 1; answers a/b; at 2; denied a/b x",
      counted: [],
    },
    {
      what: "not if it asks for a wait",
      script: "begins a/b x; at 1; answers a/b; at 2; limited a/b x 1",
      counted: [],
    },
    {
      what: "not if all records may be hidden",
      script: "begins a/b x; at 1; answers a/b; at 2; whole-kind a/b x",
      counted: [],
    },
  ])("$what", ({ script, counted }) => {
    expect(play(script).counted).toEqual(counted);
  });

  test.each([
    { what: "in this process", isHere: true, since: 0, answeredAt: 150, counts: true },
    { what: "in this process, but before", isHere: true, since: 0, answeredAt: 50, counts: false },
    { what: "in another process", isHere: false, since: 100, answeredAt: 150, counts: true },
    { what: "in another process, but before", isHere: false, since: 100, answeredAt: 50, counts: false },
    // A replay has begun its counts anew.
    { what: "before a replay", isHere: true, since: undefined, answeredAt: 150, counts: false },
    { what: "nowhere", isHere: false, since: undefined, answeredAt: 150, counts: false },
  ])(
    "if the lane was answered between two failures of its event: first $what",
    ({ isHere, since, answeredAt, counts }) => {
      const gates = new Gates(() => {});
      const lane = laneOf("a/b");
      const outage = { everything: false };
      const failure = { outage, error: new Error("down"), isFirst: false, since };
      const steps: [number, () => unknown][] = [
        [
          answeredAt,
          () => gates.answered(gates.begin("booking:other", lane, { now: answeredAt }), { now: answeredAt }),
        ],
        [100, () => isHere && gates.failed(gates.begin("booking:x", lane, { now: 99 }), failure, 100)],
      ];
      for (const [, step] of steps.sort(([one], [other]) => one - other)) step();
      expect(gates.failed(gates.begin("booking:x", lane, { now: 200 }), failure, 201)).toBe(counts);
    },
  );
});

test("a failed read counts if the last read of its own event was answered after another one had failed", () => {
  const gates = new Gates(() => {});
  const begin = (now: number) => gates.begin("booking:x", laneOf("a/b"), { now });
  const failure = { outage: { everything: false }, error: new Error("down"), isFirst: false, since: 0 };
  gates.failed(begin(99), failure, 100);
  gates.answered(begin(149), { now: 150 });
  expect(gates.failed(begin(200), failure, 201)).toBe(true);
});

describe("what others learn", () => {
  test.each([
    {
      script: "fails*5 a/b; at 2; fails a/b t; at 3; answers a/b",
      changes: ["shut lane a bookings", "waits lane a bookings", "open lane a bookings"],
    },
    { script: "denied a/b; forget a", changes: ["shut account a", "open account a"] },
    { script: "fails*4 a/b; fails b/b; at 2; answers c/b", changes: ["shut everything", "open everything"] },
    { script: "fails*4 a/b; answers a/b", changes: [] },
    // A try before its time says nothing new, so that an outage with many arrivals is not told each second.
    { script: "fails*5 a/b; begins a/b t; fails a/b t", changes: ["shut lane a bookings"] },
  ])("$script", ({ script, changes }) => {
    const played = play(script);
    expect(played.changes).toEqual(changes);
    expect(played.gates.version).toBe(changes.filter((each) => !each.startsWith("waits")).length);
  });

  test.each([
    { script: "fails*5 /b", pause: { scope: "bookings", ref: "booking:r4" }, accounts: [] },
    { script: "fails*5 /b; fails-again*20 /l", pause: { scope: "everything" }, accounts: [] },
    { script: "denied /b", pause: { scope: "everything", reason: "Error: down" }, accounts: [] },
    { script: "fails*4 a/b; fails b/b", pause: { scope: "everything" }, accounts: [] },
    { script: "fails*5 a/b", pause: undefined, accounts: [{ account: "a", scope: "bookings" }] },
    { script: "fails*5 a/b; fails*5 a/l", pause: undefined, accounts: [{ account: "a", scope: "account" }] },
    {
      script: "denied a/b; denied b/l",
      pause: undefined,
      accounts: [
        { account: "a", scope: "account" },
        { account: "b", scope: "account" },
      ],
    },
  ])("a pause after $script", ({ script, pause, accounts }) => {
    const { gates } = play(script);
    if (pause) expect(gates.pause).toMatchObject(pause);
    else expect(gates.pause).toBeUndefined();
    expect(gates.pausedAccounts).toMatchObject(accounts);
    expect(gates.pausedAccounts).toHaveLength(accounts.length);
  });
});

test("a pass that waits keeps its gates, and only while it waits", async () => {
  const { gates } = play("denied a/b");
  const [gate] = gates.shut;
  await gates.whileWaiting(laneOf("a/l"), async () => expect(gates.mayOpen(gate!)).toBe(false));
  expect(gates.mayOpen(gate!)).toBe(true);
});
