import { beforeEach, describe, expect, test, vi } from "vitest";
import { seedOf } from "../../system/random.ts";
import { useFakeTime } from "../support.ts";
import { type Answer, appOf, longest, MINUTE, mostInASecond, SECOND, seedRandom } from "./app.ts";

/** Each test takes seconds. A busy machine may need much longer. */
vi.setConfig({ testTimeout: 300_000 });

const seed = seedOf("outages of the platform");
useFakeTime(new Date(Date.UTC(2026, 4, 1)));
beforeEach(() => seedRandom(seed));

describe.each<{ name: string; answer: Answer }>([
  { name: "503", answer: 503 },
  { name: "refused connections", answer: "refused" },
  { name: "hanging connections", answer: "hangs" },
])("$name for 10 minutes", ({ answer }) => {
  test.each([true, false])("is an outage (snapshots: %s)", async (withSnapshots) => {
    const [from, to] = [2 * MINUTE, 12 * MINUTE];
    const app = appOf((_, at) => (at >= from && at < to ? answer : 200));
    const { webhooks, store, reads, waits, until, send, sendEvery } = app;
    const all = async () => {
      for (let n = 0; n < 1000; n += 1) await send(`B${n}`);
    };
    if (withSnapshots) await all();
    await until(from);
    const before = waits.length;
    await all();
    await sendEvery(SECOND, 600, (n) => `LATER${n}`);
    expect(app.now()).toBe(to);
    // Reads that hang fail after 10 s. Until five of them have failed, others begin in their place.
    const inVain = reads.filter(({ at }) => at >= from + 11 * SECOND && at < to);
    expect(mostInASecond(inVain)).toBeLessThanOrEqual(1);
    expect(await webhooks.health()).toMatchObject({
      state: "paused",
      pauseScope: "bookings",
      pauseRef: expect.stringContaining("booking:"),
    });
    const waiting = [
      ...(await store.list({ state: "retrying", limit: 2000 })),
      ...(await store.list({ state: "pending", limit: 2000 })),
    ];
    // The read of one try may hang at this moment.
    const { processing } = await store.counts();
    expect(processing).toBeLessThanOrEqual(answer === "hangs" ? 1 : 0);
    expect(waiting).toHaveLength(1600 - processing);
    expect(waiting.filter(({ attempts }) => attempts > 0)).toEqual([]);
    await until(to + MINUTE);
    expect(waits.length - before).toBe(1600);
    expect(await webhooks.health()).toMatchObject({ state: "running", pauseScope: undefined });
  });
});

test("bookings that are out of reach stop no listing", async () => {
  const [from, to] = [MINUTE, 11 * MINUTE];
  const app = appOf((id, at) => (/^\d+$/.test(id) || at < from || at >= to ? 200 : 503));
  const { webhooks, reads, waits, now, until, send } = app;
  await send("KNOWN");
  await until(from);
  for (let n = 0; n < 1000; n += 1) await send(`B${n}`);
  for (let n = 0; now() < to; n += 1) {
    await send(`${100 + n}`);
    await send(`LATER${n}`);
    await until(now() + 5 * SECOND);
    if (n === 20) expect(await webhooks.health()).toMatchObject({ state: "paused", pauseScope: "bookings" });
  }
  const listings = waits.filter(({ id }) => /^\d+$/.test(id));
  expect(listings).toHaveLength(120);
  expect(longest(listings)).toBeLessThanOrEqual(5 * SECOND);
  const inVain = reads.filter(({ id, at }) => !/^\d+$/.test(id) && at >= from + 10 * SECOND && at < to);
  expect(mostInASecond(inVain)).toBeLessThanOrEqual(1);
  await until(to + MINUTE);
  expect(waits).toHaveLength(1 + 1000 + 240);
});

test.each([
  { limit: Number.POSITIVE_INFINITY, known: false },
  { limit: 20, known: true },
])(
  "forged 200 a second, every ninth a real code, and 429 above $limit a second",
  async ({ limit, known }) => {
    const recent: number[] = [];
    const app = appOf((id, at) => {
      while (recent.length > 0 && at - recent[0]! >= SECOND) recent.shift();
      if (recent.length >= limit) return 429;
      recent.push(at);
      return id.startsWith("FORGED") ? 404 : 200;
    });
    const { reads, waits, now, until, send } = app;
    await send("REAL");
    if (known) for (let n = 0; n < 15; n += 1) await send(`GENUINE${n}`);
    await until(30 * SECOND);
    const start = now();
    const before = waits.length;
    for (let n = 0; n < 6000; n += 1) {
      await send(n % 9 === 0 ? "REAL" : `FORGED${n}`);
      if (n % 400 === 0) await send(`GENUINE${n / 400}`);
      if (n % 10 === 0) await until(start + n * 5);
    }
    await until(start + 30 * SECOND + 3 * MINUTE);
    const genuine = waits.slice(before).filter(({ id }) => !id.startsWith("FORGED"));
    expect(mostInASecond(reads.filter(({ at }) => at >= start + SECOND))).toBeLessThanOrEqual(40);
    expect(genuine).toHaveLength(15 + 667);
    expect(longest(genuine)).toBeLessThanOrEqual(3 * MINUTE);
  },
);
