import { expect, test } from "vitest";
import { StoreClock } from "../../src/stores/store-clock.ts";
import { advance, HOUR, jump, useFakeTime } from "../queue/support.ts";

useFakeTime();

/** Makes calls of a store whose clock is `ahead` ms ahead, each of which takes as long as `there` and `back` say. */
async function differenceAfter(...calls: { ahead: number; there?: number; back?: number; later?: number }[]) {
  const clock = new StoreClock({ newestReceivedAt: async () => 0, setBack: async () => {} });
  expect([clock.isKnown, clock.difference]).toEqual([false, 0]);
  for (const { ahead, there = 1, back = 1, later = 0 } of calls) {
    const call = async () => {
      await advance(there);
      const now = Date.now() + ahead;
      await advance(back);
      return { now, result: undefined };
    };
    await clock.follow(call, () => true);
    await advance(later);
  }
  expect(clock.isKnown).toBe(true);
  return clock.difference;
}

test.each<{ name: string; calls: Parameters<typeof differenceAfter>; difference: number | [number, number] }>(
  [
    { name: "clocks that agree", calls: [{ ahead: 0 }], difference: 0 },
    {
      name: "clocks that agree, on a busy machine",
      calls: [{ ahead: 0, there: 900, back: 4000 }],
      difference: 0,
    },
    {
      name: "a difference that a call cannot show",
      calls: [{ ahead: 20, there: 30, back: 30 }],
      difference: 0,
    },
    { name: "a store that is ahead", calls: [{ ahead: 5000 }], difference: [5000, 5002] },
    { name: "a store that is behind", calls: [{ ahead: -5000 }], difference: [-5000, -4998] },
    {
      name: "a slow call after a fast one",
      calls: [{ ahead: 5000 }, { ahead: 5000, there: 3000 }],
      difference: [5000, 5002],
    },
    {
      name: "a fast call after a slow one",
      calls: [{ ahead: 5000, there: 3000 }, { ahead: 5000 }],
      difference: [5000, 5002],
    },
    {
      name: "a clock that has jumped since",
      calls: [{ ahead: 5000 }, { ahead: 90_000, there: 3000 }],
      difference: [90_000, 93_002],
    },
    {
      name: "a clock that drifts",
      calls: [
        { ahead: 5000, later: 60_001 },
        { ahead: 5003, there: 8 },
      ],
      difference: [5003, 5013],
    },
  ],
)("the difference of $name", async ({ calls, difference }) => {
  const found = await differenceAfter(...calls);
  const [least, most] = typeof difference === "number" ? [difference, difference] : difference;
  expect(found).toBeGreaterThanOrEqual(least);
  expect(found).toBeLessThanOrEqual(most);
});

test("a jump of the clock of this process is noticed by the next call", async () => {
  const clock = new StoreClock({ newestReceivedAt: async () => 0, setBack: async () => {} });
  const at = Date.now();
  const call = async () => ({ now: at, result: undefined });
  await clock.follow(call, () => true);
  expect(clock.difference).toBe(0);
  jump(700_000);
  await clock.follow(call, () => true);
  expect(clock.difference).toBe(-699_999);
});

test("a jump of the clock of this process makes the difference unknown, until the next call", async () => {
  const clock = new StoreClock({ newestReceivedAt: async () => 0, setBack: async () => {} });
  const call = (ahead: number) =>
    clock.follow(
      async () => ({ now: Date.now() + ahead, result: 0 }),
      () => true,
    );
  await call(0);
  await advance(HOUR);
  expect(clock.isKnown).toBe(true);
  jump(700_000);
  expect(clock.isKnown).toBe(false);
  // The clock of the store has jumped, too.
  await call(0);
  expect([clock.isKnown, clock.difference]).toEqual([true, 0]);
});
