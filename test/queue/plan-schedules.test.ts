// Random schedules of facts, and what each plan must never do. No timer and no store: thousands of plans a second.

import { expect, test } from "vitest";
import { afterFreed, afterTaken, newFairness } from "../../src/queue/fairness.ts";
import { Floods } from "../../src/queue/floods.ts";
import { type Read, waitOf } from "../../src/queue/gate.ts";
import { Gates } from "../../src/queue/gates.ts";
import { exceptOf, type Looks, needsTasks, plan, type View, versionOf } from "../../src/queue/plan.ts";
import { freeSlots, type QueueState } from "../../src/queue/state.ts";
import type { Lane } from "../../src/queue/work.ts";
import { beginningOf, laneOf } from "../../src/webhooks/refs.ts";
import { isSoak } from "../support/soak.ts";
import { type Random, randomOf, seedOf } from "../system/random.ts";

const SCHEDULES = isSoak ? 2000 : 300;
const STEPS = 100;
const seed = seedOf("plans");
const silent = () => {};
/** `expect` takes most of the time of so many plans. */
function must(isTrue: boolean, what: string): void {
  if (!isTrue) throw new Error(what);
}
const error = new Error("down");

/** Plays one schedule. Each read begins, and ends with a fact. */
function play(random: Random): void {
  const hasAccounts = random.oneIn(2);
  const concurrency = 1 + random.below(10);
  let now = 1_000_000;
  const gates = new Gates(silent);
  const floods = new Floods(silent);
  const state = {
    ...{
      gates,
      floods,
      fairness: newFairness(concurrency, hasAccounts, now),
      laneOf,
      beginningOf,
      hasAccounts,
    },
    ...{
      slots: { running: 0, settling: 0, reserved: 0, freed: 0 },
      isWoken: random.oneIn(2),
      isClosed: false,
    },
    policy: { concurrency, giveUpAfter: 3 * 24 * 60 * 60_000 },
    strays: () => [],
  } as unknown as QueueState;
  const looks: Looks = {
    running: new Set<string>(),
    quietUntil: new Map(),
    ...{ failedUntil: 0, pollAt: 0, giveUpAt: 0, passAt: 0, mayHaveArrived: true },
  };
  const view: View = { dueAt: 0, version: 0, ahead: () => random.below(3) };
  const lanes: Lane[] = (hasAccounts ? ["a", "b", "c"] : [undefined]).flatMap((account) => [
    { account, kind: "bookings" },
    { account, kind: "listings" },
  ]);
  const reads: Read[] = [];
  let count = 0;
  const begin = (lane: Lane): void => {
    reads.push(gates.begin(`r${count++}`, lane, { now }));
    state.slots.running += 1;
    state.fairness = afterTaken(state.fairness, lane.account);
  };
  const end = (): void => {
    const [read] = reads.splice(random.below(reads.length), 1);
    if (read === undefined) return;
    const outage = random.pick([
      { everything: false },
      { everything: false },
      { everything: true },
      { everything: true, retryAfter: random.below(100_000) },
      { everything: false, wholeKind: true },
    ]);
    const isFirst = random.oneIn(2);
    if (random.oneIn(3)) gates.answered(read, { now, isRefusal: random.oneIn(2) });
    else if (random.oneIn(2)) gates.failed(read, { outage, error, isFirst }, now);
    else floods.refused(read.lane, read.ref, { error, isFirst, now });
    gates.end(read);
    state.slots.running -= 1;
    state.fairness = afterFreed(state.fairness, read.lane.account);
  };
  for (let step = 0; step < STEPS; step += 1) {
    random.pick([() => begin(random.pick(lanes)), end, end, silent])();
    now += random.pick([0, 1, 40, 1000, 40_000]);
    floods.expire(now);
    if (random.oneIn(20)) looks.failedUntil = now + 1000;
    const { common, tasks, wakeAt } = plan(state, looks, view, now);
    const slots = Math.max(0, freeSlots(state));
    const own = tasks.filter(({ kind }) => ["fresh", "try", "read"].includes(kind)).length;
    must(own <= slots && (common?.limit ?? 0) <= slots, "more begins than there are slots");
    must(new Set(tasks.map(({ name }) => name)).size === tasks.length, "a task is planned twice");
    must(now >= looks.failedUntil || tasks.length === 0, "a task begins although the store fails");
    for (const task of tasks) {
      if (task.kind === "read") must(!gates.isShut(task.lane), "a limited lane is read that is shut");
      if (task.kind !== "try") continue;
      must(
        task.gate.try === undefined && waitOf(task.gate, now) === 0,
        "a gate has a second try, or an early one",
      );
      const isWidest = tasks.every((each) => each.kind !== "try" || each.gate.level !== "everything");
      must(isWidest || hasAccounts || task.gate.level === "everything", "a lane is tried beside everything");
    }
    must(
      gates.shut.length === 0 || exceptOf(state, { isCommon: true }, now).length > 0,
      "the common claim takes what is shut",
    );
    must(
      needsTasks(state) ? wakeAt <= now + 30_000 : tasks.length === 0,
      "nobody looks within half a minute",
    );
    if (common !== undefined)
      Object.assign(view, { version: versionOf(state), dueAt: random.oneIn(2) ? now + 500 : Infinity });
  }
  // The platform is back: every lane is answered, and nothing is left out any more.
  now += 20 * 60_000;
  while (reads.length > 0) end();
  for (const lane of lanes) {
    const read = gates.begin("last", lane, { now });
    read.beganAt = now + 1;
    gates.answered(read, { now: now + 1 });
    gates.end(read);
  }
  now += 5 * 60_000;
  floods.expire(now);
  expect([gates.shut, floods.limited, gates.size]).toEqual([[], [], 0]);
  expect(plan(state, looks, { ...view, dueAt: now }, now)).toMatchObject({ tasks: [] });
}

test("no plan begins more than it may, and none is left out for ever", () => {
  for (let n = 0; n < SCHEDULES; n += 1)
    try {
      play(randomOf(seed + n));
    } catch (cause) {
      throw new Error(`FUZZ_SEED=${seed + n}: ${(cause as Error).message}`, { cause });
    }
});
