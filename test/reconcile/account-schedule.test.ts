import { createWebhookHandler, memoryStore, StayhookClient } from "stayhook";
import { expect, onTestFinished, test } from "vitest";
import type { Slots } from "../../src/async.ts";
import { AccountList } from "../../src/reconcile/account-list.ts";
import { checkOptions, type ReconcileObservation } from "../../src/reconcile/options.ts";
import { Schedule } from "../../src/reconcile/schedule.ts";
import { readState, writeState } from "../../src/reconcile/state.ts";
import { advance, DAY, HOUR, MINUTE, useFakeTime } from "../queue/support.ts";
import { sized } from "../support/soak.ts";

useFakeTime();

const numbered = (count: number) => Array.from({ length: count }, (_, n) => `acc${n}`);

/** Starts a schedule whose passes take no time. Returns when each account had a pass, in ms since the start. */
function scheduled(
  accounts: () => string[] | Promise<string[]>,
  store = memoryStore(),
  inSlot: Slots["run"] = (work) => work(),
) {
  const client = new StayhookClient({ baseUrl: "http://127.0.0.1:1", accessToken: () => "t" });
  const common = { client, store, verify: false as const, on: {}, logger: () => {}, autoStart: false };
  const webhooks = createWebhookHandler({ ...common, accountFrom: { query: "account" } });
  const observed: ReconcileObservation[] = [];
  const settings = checkOptions(webhooks, {
    every: DAY,
    accounts,
    observe: (event) => void observed.push(event),
  });
  const start = Date.now();
  const times = new Map<string, number[]>();
  const refused = new Set<string>();
  const schedule = new Schedule(settings, {
    list: new AccountList(settings),
    inSlot,
    pass: async (id, isDue) => {
      const account = id!;
      const report = { account, checked: 0, changed: 0, failed: 0, duration: 0 };
      const reading = await readState(store as never, account);
      if (!isDue(reading)) return { report: { ...report, incomplete: "locked" }, retryAfter: undefined };
      times.set(account, [...(times.get(account) ?? []), Date.now() - start]);
      const complete = !refused.has(account);
      const state = { ...reading.state, owner: null, lease: 0, elapsed: 0, complete };
      await writeState(store as never, reading, state, account);
      return { report: complete ? report : { ...report, incomplete: "unreachable" }, retryAfter: undefined };
    },
  });
  onTestFinished(() => schedule.stop());
  schedule.start();
  return { schedule, times, refused, store, observed };
}

test("300 accounts have one pass a day each, spread over the day, at the same time each day", async () => {
  const accounts = numbered(300);
  const { times } = scheduled(() => accounts);
  await advance(DAY + MINUTE);
  expect(times.size).toBe(300);
  const first = [...times.values()].map(([time]) => time!).sort((a, b) => a - b);
  for (let n = 0; n + 20 < first.length; n += 1)
    expect(first[n + 20]! - first[n]!).toBeGreaterThan(20 * MINUTE);
  await advance(DAY);
  for (const [one, other] of times.values()) expect(Math.abs(other! - one! - DAY)).toBeLessThan(2 * MINUTE);
});

test("a restart repeats no pass; after a day without a process, the passes are made up for within a tenth of `every`", async () => {
  const accounts = numbered(50);
  const { schedule, times, store } = scheduled(() => accounts);
  await advance(DAY + MINUTE);
  schedule.stop();
  const again = scheduled(() => accounts, store);
  await advance(HOUR);
  schedule.stop();
  again.schedule.stop();
  for (const account of again.times.keys()) expect(times.get(account)![0]).toBeLessThan(2 * HOUR);
  await advance(DAY);
  const late = scheduled(() => accounts, store);
  await advance(DAY / 10 + MINUTE);
  expect(late.times.size).toBe(50);
  expect([...late.times.values()].every(([time], n, all) => n === 0 || time !== all[0]![0])).toBe(true);
});

test("two machines make one pass of each account", async () => {
  const accounts = numbered(40);
  const shared = memoryStore();
  const machines = [scheduled(() => accounts, shared), scheduled(() => accounts, shared)];
  await advance(2 * DAY + HOUR);
  for (const account of accounts) {
    const times = machines.flatMap((machine) => machine.times.get(account) ?? []).sort((a, b) => a - b);
    expect(times.length).toBeGreaterThanOrEqual(2);
    for (const [n, time] of times.entries())
      if (n > 0) expect(Math.abs(time - times[n - 1]! - DAY)).toBeLessThan(2 * MINUTE);
  }
});

test("an account that leaves while it waits for its turn has no pass", async () => {
  let accounts = numbered(6);
  const waiting: (() => void)[] = [];
  const { times } = scheduled(
    () => accounts,
    memoryStore(),
    async (work) => {
      await new Promise<void>((resolve) => waiting.push(resolve));
      return work();
    },
  );
  await advance(DAY + MINUTE);
  expect(waiting.length).toBe(6);
  accounts = ["acc1"];
  // A list of the last second is new enough for a pass.
  await advance(1001);
  for (const go of waiting) go();
  await advance(MINUTE);
  expect([...times.keys()]).toEqual(["acc1"]);
});

test("an account whose pass fails is tried again after 1, 5 and then every 15 minutes, and delays no other", async () => {
  const accounts = ["a17", ...numbered(20)];
  const { times, refused } = scheduled(() => accounts);
  refused.add("a17");
  await advance(DAY + MINUTE);
  const [first, ...again] = times.get("a17")!.map((time) => time / MINUTE);
  expect(times.size).toBe(21);
  for (const [n, wait] of [1, 6, 21, 36].entries()) {
    expect(again[n]! - first!).toBeGreaterThanOrEqual(wait);
    expect(again[n]! - first!).toBeLessThan(wait + 2.6);
  }
  for (const account of numbered(20)) expect(times.get(account)!.length).toBe(1);
});

test("accounts may join and leave, and `accounts` may fail for a time", async () => {
  let accounts = ["a17", "b2"];
  let fails = false;
  const { times, observed } = scheduled(async () => {
    if (fails) throw new Error("no table");
    return accounts;
  });
  await advance(DAY + MINUTE);
  expect([...times.keys()].sort()).toEqual(["a17", "b2"]);
  fails = true;
  await advance(HOUR);
  expect(observed.filter(({ kind }) => kind === "error").length).toBeGreaterThan(0);
  fails = false;
  const before = times.get("b2")!.length;
  accounts = ["a17", "c3"];
  await advance(DAY + HOUR);
  expect(times.get("b2")!.length).toBe(before);
  expect(times.get("c3")!.length).toBeGreaterThan(0);
});

test(`${sized(1000, 10_000)} accounts at rest cost fewer than 2 reads of the store a second`, async () => {
  const accounts = numbered(sized(1000, 10_000));
  const store = memoryStore();
  let reads = 0;
  const getMeta = store.getMeta.bind(store);
  store.getMeta = (key) => {
    reads += 1;
    return getMeta(key);
  };
  scheduled(() => accounts, store);
  await advance(10 * MINUTE);
  expect(reads).toBeGreaterThan(0);
  expect(reads / 600).toBeLessThan(2);
});
