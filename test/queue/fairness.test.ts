import { describe, expect, test } from "vitest";
import {
  afterFreed,
  afterNoOther,
  afterSeen,
  afterTaken,
  type Fairness,
  fullAt,
  isFull,
  newFairness,
  roomAt,
} from "../../src/queue/fairness.ts";

/**
 * Plays a script on the slots of a process that starts at second 0. Each step is `<name> <account>`, and takes no time.
 * `at 5` is second 5. The account `-` is none.
 */
function play(slots: number, script: string, hasAccounts = true) {
  let fairness = newFairness(slots, hasAccounts, 0);
  const found: boolean[] = [];
  let now = 0;
  const nameOf = (name: string): string | undefined => (name === "-" ? undefined : name);
  const steps: Record<string, (value: string) => Fairness> = {
    at: (second) => {
      now = Number(second) * 1000;
      return fairness;
    },
    see: (account) => afterSeen(fairness, nameOf(account), now),
    take: (account) => afterTaken(fairness, nameOf(account)),
    free: (account) => afterFreed(fairness, nameOf(account)),
    finds: () => {
      found.push(fairness.last !== undefined);
      return afterNoOther(fairness);
    },
  };
  for (const [, name, times, value] of script.matchAll(/([a-z]+)(?:\*(\d+))? (\S+?)(?:;|$)/g))
    for (let n = 0; n < Number(times ?? 1); n += 1) fairness = steps[name!]!(value!);
  return { fairness, now, found };
}

const ANY = Number.POSITIVE_INFINITY;

describe("an account", () => {
  test.each([
    // In the first minute of a process, another account may be there.
    { script: "at 0; take*5 a", full: ["a"], room: 5 },
    { script: "at 59.999; take*5 a", full: ["a"], room: 5 },
    { script: "at 60; take*5 a", full: [], room: ANY },
    { script: "at 1; take*4 a", full: [], room: 1 },
    { script: "at 1", full: [], room: 5 },
    { script: "at 1; take*5 a; take*3 b; take*2 c", full: ["a"], room: 2 },
    { script: "at 1; take*5 a; take*5 b", full: ["a", "b"], room: 5 },
    { script: "at 1; take*7 a", full: ["a"], room: 5 },
    // Alone.
    { script: "at 61; see a; take*7 a", full: [], room: ANY },
    { script: "at 61; see a; at 70; see a; take*7 a", full: [], room: ANY },
    // Another account was there within the last minute.
    { script: "at 61; see b; see a; take*5 a", full: ["a"], room: 5 },
    { script: "at 61; see b; see a; take*5 a; at 120.999", full: ["a"], room: 5 },
    { script: "at 61; see b; see a; take*5 a; at 121", full: [], room: ANY },
    { script: "at 61; see b; at 90; see a; take*5 a; at 120.999", full: ["a"], room: 5 },
    { script: "at 61; see b; at 90; see a; take*5 a; at 121", full: [], room: ANY },
    { script: "at 61; see a; at 90; see b; take*5 a; at 149.999", full: ["a"], room: 5 },
    { script: "at 61; see a; at 90; see b; take*5 a; at 150", full: [], room: ANY },
    { script: "at 61; see a; at 90; see b; take*5 b; at 120.999", full: ["b"], room: 5 },
    { script: "at 61; see a; at 90; see b; take*5 b; at 121", full: [], room: ANY },
    { script: "at 61; see a; at 90; see b; take*4 a; take*2 b; at 125", full: [], room: 1 },
    { script: "at 61; see b; at 62; see c; at 90; see c; take*5 c; at 120.999", full: ["c"], room: 5 },
    // A second look at an account that was there before says nothing about others.
    {
      script: "at 61; see b; at 62; see a; at 63; see b; at 64; see a; take*5 a; at 122.9",
      full: ["a"],
      room: 5,
    },
    {
      script: "at 61; see b; at 62; see a; at 63; see b; at 64; see a; take*5 a; at 123",
      full: [],
      room: ANY,
    },
    // What has no account takes no part.
    { script: "at 61; see -; see a; take*5 a", full: [], room: ANY },
    { script: "at 61; see a; see -; take*5 a", full: [], room: ANY },
    { script: "at 1; take*9 -", full: [], room: 5 },
    { script: "at 1; take*5 a; free -", full: ["a"], room: 5 },
    { script: "at 1; take*5 a; free a", full: [], room: 1 },
    { script: "at 1; take*6 a; free a", full: ["a"], room: 5 },
    { script: "at 1; take a; free a", full: [], room: 5 },
  ])("of ten slots: $script", ({ script, full, room }) => {
    const { fairness, now } = play(10, script);
    expect([fullAt(fairness, now), roomAt(fairness, now)]).toEqual([full, room]);
    for (const account of ["a", "b", "c"])
      expect(isFull(fairness, account, now)).toBe((full as string[]).includes(account));
  });

  test.each([
    { slots: 11, script: "take*5 a", full: [], room: 1 },
    { slots: 11, script: "take*6 a", full: ["a"], room: 6 },
    { slots: 3, script: "take a", full: [], room: 1 },
    { slots: 3, script: "take*2 a", full: ["a"], room: 2 },
    { slots: 2, script: "take a", full: ["a"], room: 1 },
    // Only with one slot, the account that had it last is out.
    { slots: 2, script: "take a; free a", full: [], room: 1 },
  ])("has half of $slots slots, rounded up: $script", ({ slots, script, full, room }) => {
    const { fairness } = play(slots, script);
    expect([fullAt(fairness, 0), roomAt(fairness, 0)]).toEqual([full, room]);
  });
});

test("an account without a slot takes no memory", () => {
  expect(play(10, "at 1; take*2 a; take b; free*2 a").fairness.slots).toEqual(new Map([["b", 1]]));
});

test("without accounts, nothing is full, not even in the first minute", () => {
  const { fairness } = play(10, "see -; take*9 -", false);
  expect([fullAt(fairness, 0), roomAt(fairness, 0), isFull(fairness, undefined, 0)]).toEqual([
    [],
    ANY,
    false,
  ]);
});

describe("with one slot, the account that had it last", () => {
  test.each([
    { what: "is out", script: "take a; free a", full: ["a"] },
    { what: "is named once while it has the slot", script: "take a", full: ["a"] },
    { what: "is in if no other one is due", script: "take a; free a; finds none", full: [] },
    {
      what: "is out again after its next event",
      script: "take a; free a; finds none; take a; free a",
      full: ["a"],
    },
    { what: "is in after another one", script: "take a; free a; take b; free b", full: ["b"] },
    { what: "is out beside the next one", script: "take a; free a; take b; finds none", full: ["b"] },
    { what: "is in if no other one is there", script: "take a; free a; at 60", full: [] },
    {
      what: "is not the one of an event without account",
      script: "take a; free a; take -; free -",
      full: ["a"],
    },
  ])("$what", ({ script, full }) => {
    const { fairness, now } = play(1, script);
    expect(fullAt(fairness, now)).toEqual(full);
  });

  test("is let in once", () => {
    expect(play(1, "finds none; take a; free a; finds none; finds none").found).toEqual([false, true, false]);
    expect(play(2, "take a; free a; finds none").found).toEqual([false]);
  });
});

test.each([
  { script: "take*5 a; free a", version: 1 },
  { script: "take*4 a; free a", version: 0 },
  { script: "take*7 a; free*2 a", version: 0 },
  { script: "take*7 a; free*3 a", version: 1 },
  { script: "take*7 a; free*7 a", version: 1 },
])("other events may be claimed when an account leaves its half: $script", ({ script, version }) => {
  expect(play(10, script).fairness.version).toBe(version);
});
