import { beforeEach, describe, expect, test, vi } from "vitest";
import { randomOf, seedOf } from "../../system/random.ts";
import { useFakeTime } from "../support.ts";
import { appOf, longest, MINUTE, mostInASecond, SECOND, seedRandom } from "./app.ts";

/** Each test takes seconds. A busy machine may need much longer. */
vi.setConfig({ testTimeout: 300_000 });

const seed = seedOf("bad records");
useFakeTime(new Date(Date.UTC(2026, 4, 1)));
beforeEach(() => seedRandom(seed));

describe.each([2, 20, 100, 300])("%i bookings whose read answers 500 for ever", (count) => {
  test.each([
    { app: "that has read a booking before", limit: 15 * SECOND },
    { app: "that has read none", limit: MINUTE },
  ])("delay no good one for long in an app $app", async ({ limit }) => {
    const { reads, waits, now, until, send, sendEvery } = appOf((id) => (id.startsWith("BAD") ? 500 : 200));
    if (limit < MINUTE) await send("KNOWN");
    await until(10 * SECOND);
    for (let n = 0; n < count; n += 1) await send(`BAD${n}`);
    await until(11 * SECOND);
    const start = now();
    await sendEvery(10 * SECOND, 30, (n) => `GOOD${n}`);
    await until(now() + limit);
    const good = waits.filter(({ id }) => id.startsWith("GOOD"));
    expect(good).toHaveLength(30);
    expect(longest(good.slice(1))).toBeLessThanOrEqual(SECOND);
    const bad = reads.filter(({ id }) => id.startsWith("BAD"));
    expect(mostInASecond(bad)).toBeLessThanOrEqual(40);
    const inMinute = (n: number) =>
      bad.filter(({ at }) => at >= start + n * MINUTE && at < start + (n + 1) * MINUTE).length;
    // Each good one opens the gate. Then 20 failures shut it again, beside the ten reads in flight.
    for (const minute of [0, 4]) expect(inMinute(minute)).toBeLessThanOrEqual(7 * 30);
  });
});

test("every third read answers 500 at random", async () => {
  const soon: number[] = [];
  // In about one of 130 runs, chance lets three witnesses fail, as in an outage, and the pause delays a quarter of the events.
  for (let run = 1; run <= 5; run += 1) {
    const random = randomOf(seed + run);
    const { waits, now, until, send, sendEvery } = appOf(() => (random.oneIn(3) ? 500 : 200));
    await send("KNOWN");
    await until(20 * SECOND);
    await sendEvery(200, 300, (n) => `B${n}`);
    await until(now() + 2 * MINUTE);
    soon.push(waits.filter(({ id, wait }) => id.startsWith("B") && wait <= 20 * SECOND).length);
  }
  const [worst, ...others] = soon.sort((a, b) => a - b);
  for (const count of others) expect(count, `FUZZ_SEED=${seed}`).toBeGreaterThanOrEqual(0.95 * 300);
  expect(worst, `FUZZ_SEED=${seed}`).toBeGreaterThanOrEqual(0.5 * 300);
});

test.each([429, 503])("%i with Retry-After pauses everything", async (status) => {
  const [from, to] = [MINUTE, 4 * MINUTE];
  const app = appOf((_, at) => (at >= from && at < to ? { status, retryAfter: (to - at) / SECOND } : 200));
  const { webhooks, reads, waits, now, until, send } = app;
  await send("KNOWN");
  await until(from);
  for (let n = 0; n < 20; n += 1) {
    await send(`B${n}`);
    await until(now() + SECOND);
    await send(`${100 + n}`);
    await until(from + (n + 1) * 5 * SECOND);
  }
  expect(reads.filter(({ at }) => at >= from).length).toBe(1);
  expect(await webhooks.health()).toMatchObject({ state: "paused", pauseScope: "everything" });
  await until(to + 2 * SECOND);
  expect(waits).toHaveLength(41);
});
