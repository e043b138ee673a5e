import { describe, expect, test } from "vitest";
import { Floods } from "../../src/queue/floods.ts";
import type { Lane } from "../../src/queue/work.ts";

/** `a/b` is the lane of the bookings of account a, `a/l` that of its listings, `a/-` that of its other events. */
function laneOf(name: string): Lane {
  const [account, kind] = name.split("/");
  const kinds: Record<string, Lane["kind"]> = { b: "bookings", l: "listings" };
  return { account: account || undefined, kind: kinds[kind!] };
}

/**
 * Plays a script. Each step is `<name> <lane> <record>`, and takes no time. `at 5` is second 5. Each `refused` without a
 * record is of another one. `takes` and `polls` note the turns of the reads that begin: `takes` asks once, `polls` each ms of
 * a second.
 */
function play(script: string) {
  const told: string[] = [];
  const floods = new Floods(({ account, kind }, inRow) => told.push(`${inRow} ${kind} of ${account}`));
  const turns: string[] = [];
  const taken: number[] = [];
  let now = 0;
  let count = 0;
  const error = new Error("404");
  const steps: Record<string, (lane: string, record?: string) => unknown> = {
    at: (second) => {
      now = Number(second) * 1000;
    },
    refused: (lane, record = `r${count++}`) =>
      floods.refused(laneOf(lane), record, { error, isFirst: true, now }),
    answered: (lane) => floods.answered(laneOf(lane)),
    again: (lane, record = "r") => floods.refused(laneOf(lane), record, { error, isFirst: false, now }),
    expires: () => floods.expire(now),
    slow: (account) => floods.slowDown(laneOf(account).account, now),
    takes: (lane) => turns.push(floods.take(laneOf(lane), now) ?? "none"),
    back: (lane) => floods.giveBack(laneOf(lane), now),
    polls: (lane) => {
      let begun = 0;
      for (let ms = 0; ms < 1000; ms += 1)
        while (floods.take(laneOf(lane), now + ms) !== undefined) begun += 1;
      now += 1000;
      taken.push(begun);
    },
  };
  for (const [, name, times, lane, record] of script.matchAll(
    /([a-z]+)(?:\*(\d+))? ([^\s;]+)(?: ([^\s;]+))?(?:;|$)/g,
  ))
    for (let n = 0; n < Number(times ?? 1); n += 1) steps[name!]!(lane!, record);
  return { floods, told, turns, taken, now, wait: (lane: string) => floods.waitAt(laneOf(lane), now) };
}

const limitedOf = ({ floods }: ReturnType<typeof play>) => floods.limited;

const bookings = laneOf("a/b");

describe("a lane", () => {
  test.each([
    { script: "refused*9 a/b", limited: [], version: 0 },
    { script: "refused*10 a/b", limited: ["a/b"], version: 1 },
    { script: "refused*10 /b", limited: ["/b"], version: 1 },
    { script: "refused*15 a/b", limited: ["a/b"], version: 1 },
    { script: "refused*99 a/b same", limited: [], version: 0 },
    { script: "refused*9 a/b; refused*9 a/l; refused*9 c/b", limited: [], version: 0 },
    { script: "refused*10 a/b; refused*10 c/l", limited: ["a/b", "c/l"], version: 2 },
    { script: "refused*99 a/-", limited: [], version: 0 },
    { script: "refused*9 a/b; answered a/b; refused a/b", limited: [], version: 0 },
    { script: "refused*9 a/b; answered a/b; refused*2 a/b", limited: ["a/b"], version: 1 },
    { script: "refused*10 a/b; answered a/b", limited: [], version: 2 },
    { script: "refused*10 a/b; answered a/l; answered c/b", limited: ["a/b"], version: 1 },
    { script: "refused*12 a/b; answered*2 a/b", limited: ["a/b"], version: 1 },
    { script: "refused*12 a/b; answered*3 a/b", limited: [], version: 2 },
    { script: "refused*99 a/b; answered*89 a/b", limited: ["a/b"], version: 1 },
    { script: "refused*99 a/b; answered*90 a/b", limited: [], version: 2 },
    // At most 1,000 refusals count.
    { script: "refused*2000 a/b; answered*991 a/b", limited: [], version: 2 },
    // Only the first refusal of a record counts, and only for five minutes.
    { script: "refused*9 a/b; again*9 a/b r0", limited: [], version: 0 },
    // Records that are refused again keep the limit, also after the flood.
    { script: "refused*9 a/b; again a/b", limited: ["a/b"], version: 1 },
    { script: "refused*10 a/b; at 200; again*3 a/b r0; at 300; expires x", limited: [], version: 2 },
    { script: "refused*10 a/b; at 299; expires x", limited: ["a/b"], version: 1 },
    { script: "refused*10 a/b; at 300; expires x", limited: [], version: 2 },
    { script: "refused*5 a/b; at 200; refused*9 a/b; at 300; expires x", limited: [], version: 2 },
    { script: "refused*5 a/b; at 200; refused*10 a/b; at 300; expires x", limited: ["a/b"], version: 1 },
    { script: "refused*10 a/b; answered*99 a/b; refused*9 a/b", limited: [], version: 2 },
    // The oldest refusal is taken back first.
    { script: "refused a/b old; refused*9 a/b; answered a/b; refused a/b old", limited: ["a/b"], version: 3 },
  ])("$script", ({ script, limited, version }) => {
    const played = play(script);
    expect(limitedOf(played)).toEqual(limited.map(laneOf));
    for (const lane of ["a/b", "a/l", "c/b", "c/l", "/b"])
      expect(played.floods.isLimited(laneOf(lane))).toBe((limited as string[]).includes(lane));
    expect(played.floods.version).toBe(version);
  });

  test.each([
    { script: "refused*9 a/b", since: undefined },
    { script: "at 1; refused a/b; at 5; refused*9 a/b", since: 1000 },
    { script: "at 1; refused*12 a/b; at 2; answered a/b", since: Number.POSITIVE_INFINITY },
    {
      script: "at 1; refused*12 a/b; at 2; answered a/b; at 3; refused*2 a/b; at 4; refused a/b",
      since: 3000,
    },
    { script: "at 1; refused*10 a/b; at 2; refused*10 c/b", since: 2000 },
    { script: "at 1; refused*10 a/b; at 2; refused*9 c/b", since: 1000 },
  ])("was refused all its reads since $since ms: $script", ({ script, since }) => {
    expect(play(script).floods.since).toBe(since);
  });
});

describe("the reads of a limited lane", () => {
  test.each([
    { what: "are free before the limit", script: "refused*9 a/b", wait: 0 },
    // Ten reads have begun already. 11 / 78 s later, another one may.
    { what: "begin after those that were refused", script: "refused*10 a/b", wait: 142 },
    { what: "wait less later", script: "refused*10 a/b; at 0.1", wait: 42 },
    { what: "may begin then", script: "refused*10 a/b; at 0.142", wait: 0 },
    { what: "do not begin before", script: "refused*10 a/b; at 0.141; takes a/b", wait: 1, turns: ["none"] },
    {
      what: "begin two at once",
      script: "refused*10 a/b; at 9; takes*3 a/b",
      wait: 13,
      turns: ["newest", "known", "none"],
    },
    {
      what: "begin 78 a second",
      script: "refused*10 a/b; at 9; takes*2 a/b; at 9.013; takes*2 a/b",
      turns: ["newest", "known", "first", "none"],
    },
    {
      what: "that did not begin are taken back",
      script: "refused*10 a/b; at 9; takes*2 a/b; back a/b",
      wait: 0,
    },
    {
      what: "of other lanes do not wait",
      script: "refused*10 a/b; takes a/l",
      lane: "a/l",
      wait: 0,
      turns: ["none"],
    },
    { what: "are free after the limit", script: "refused*10 a/b; answered a/b", wait: 0 },
    {
      what: "are taken while they are limited only",
      script: "refused*10 a/b; answered a/b; at 9; takes a/b",
      turns: ["none"],
    },
    {
      what: "do not wait longer for more refusals",
      script: "refused*10 a/b; at 0.142; refused*5 a/b",
      wait: 0,
    },
    {
      what: "of a new limit wait anew",
      script: "refused*10 a/b; answered a/b; at 5; refused*2 a/b",
      wait: 142,
    },
    {
      what: "of a new limit are as many as ever",
      script: "refused*10 a/b; slow*9 a/b; answered a/b; at 5; refused a/b",
      wait: 142,
    },
    // A rate of 39 a second.
    { what: "are half as many after a 429", script: "refused*10 a/b; at 9; slow a/b", wait: 26 },
    { what: "are a quarter after two", script: "refused*10 a/b; at 9; slow*2 a/b", wait: 52 },
    { what: "are one a second at least", script: "refused*10 a/b; at 9; slow*20 a/b", wait: 1000 },
    { what: "that a 429 delays do not come earlier for it", script: "refused*10 a/b; slow a/b", wait: 283 },
    { what: "are not fewer for a 429 of another account", script: "refused*10 a/b; at 9; slow c/b", wait: 0 },
    {
      what: "are fewer in all limited lanes of the account",
      script: "refused*10 a/b; refused*10 a/l; at 9; slow a/b",
      lane: "a/l",
      wait: 26,
    },
    // 4 s later, the rate is 40 a second, and two reads wait.
    { what: "become more again", script: "refused*10 a/b; at 9; slow a/b; at 13; takes*2 a/b", wait: 25 },
  ])("$what: $script", ({ script, lane = "a/b", wait, turns = undefined }) => {
    const played = play(script);
    if (wait !== undefined) expect(played.wait(lane)).toBe(wait);
    if (turns) expect(played.turns).toEqual(turns);
  });

  test.each([
    { what: "the first second, with those before it", script: "refused*10 a/b; polls a/b", taken: [67] },
    { what: "each later second", script: "refused*10 a/b; polls*3 a/b", taken: [67, 78, 78] },
    { what: "a second after a pause", script: "refused*10 a/b; at 60; polls a/b", taken: [79] },
    { what: "a second after a 429", script: "refused*10 a/b; at 60; slow a/b; polls a/b", taken: [39] },
    {
      what: "a second long after a 429",
      script: "refused*10 a/b; slow*9 a/b; at 320; polls a/b; at 330; polls a/b",
      taken: [79, 79],
    },
  ])("are few in $what: $script", ({ script, taken }) => {
    expect(play(script).taken).toEqual(taken);
  });

  test("are of known records every second time, else in turn the newest and the first", () => {
    const { turns } = play(
      `refused*10 a/b; ${Array.from({ length: 6 }, (_, n) => `at ${n + 9}; takes a/b`).join("; ")}`,
    );
    expect(turns).toEqual(["newest", "known", "first", "known", "newest", "known"]);
  });
});

test.each([
  { script: "refused*9 a/b", isInFlood: false },
  { script: "refused*10 a/b", isInFlood: true },
  { script: "refused*9 a/b; again*9 a/b", isInFlood: false },
  { script: "refused*10 a/b; at 299; expires x", isInFlood: true },
  {
    script: "refused*10 a/b; at 200; again a/b r0; again a/b r1; at 300; expires x",
    isInFlood: false,
  },
  { script: "refused*10 a/b; answered a/b", isInFlood: false },
  { script: "refused*10 a/l", isInFlood: false },
])("refusals count as nothing only while ten first ones are new: $script", ({ script, isInFlood }) => {
  expect(play(script).floods.isInFlood(bookings)).toBe(isInFlood);
});

test.each([
  { script: "refused*9 a/b", told: [] },
  { script: "refused*11 a/b", told: ["10 bookings of a", "11 bookings of a"] },
  { script: "refused*10 /l", told: ["10 listings of undefined"] },
  { script: "refused*9 a/b; answered a/b; refused*2 a/b", told: ["2 bookings of a"] },
])("each refusal in a flood is told: $script", ({ script, told }) => {
  expect(play(script).told).toEqual(told);
});
