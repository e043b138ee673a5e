import { expect, test, vi } from "vitest";
import { AccountList } from "../../src/reconcile/account-list.ts";
import { checkOptions } from "../../src/reconcile/options.ts";
import type { Made } from "../../src/reconcile/passes.ts";
import { Schedule } from "../../src/reconcile/schedule.ts";
import { begunPass, Lock, readState } from "../../src/reconcile/state.ts";
import { advance, HOUR, MINUTE, sleep, useFakeTime } from "../queue/support.ts";
import { machineOf, stores } from "./support.ts";

const memory = () => stores.memory!()();
const report = { checked: 0, changed: 0, failed: 0, duration: 0 };
const through: Made = { report, retryAfter: undefined };
const unreachable = (retryAfter?: number): Made => ({
  report: { ...report, incomplete: "unreachable" },
  retryAfter,
});

useFakeTime();

/**
 * Starts a schedule whose passes end as given, and later ones like the last. Returns when each pass began, in minutes. No
 * pass writes its state, so a pass is due at once after each pass that got through.
 */
function scheduled(...passes: readonly [...Made[], Made]): number[] {
  vi.spyOn(Math, "random").mockReturnValue(0);
  const { webhooks } = machineOf({ url: "http://127.0.0.1:1", accessToken: "secret-token" }, memory());
  const start = Date.now();
  const times: number[] = [];
  const settings = checkOptions(webhooks, { every: "1d" });
  const schedule = new Schedule(settings, {
    list: new AccountList(settings),
    inSlot: (work) => work(),
    pass: async () => {
      times.push(Math.floor((Date.now() - start) / MINUTE));
      return passes[times.length - 1] ?? passes.at(-1)!;
    },
  });
  schedule.start();
  return times;
}

test("after passes that failed, the schedule waits longer and longer", async () => {
  const times = scheduled(unreachable());
  await advance(HOUR);
  expect(times).toEqual([0, 1, 6, 21, 36, 51]);
});

test("after a pass that got through, the waits begin anew", async () => {
  const times = scheduled(unreachable(), unreachable(), through, unreachable());
  await advance(10 * MINUTE);
  expect(times).toEqual([0, 1, 6, 6, 7]);
});

test("the schedule waits for a Retry-After that is longer than its own wait", async () => {
  const times = scheduled(unreachable(HOUR), unreachable());
  await advance(HOUR + MINUTE);
  expect(times).toEqual([0, 60]);
});

test("the lock is free after a pass although a renewal is under way when the pass ends", async () => {
  const store = memory();
  const fail = () => expect.unreachable();
  const lock = await Lock.take(store, {
    ...{ lease: 300, begin: (reading) => begunPass(reading, HOUR) },
    ...{ onLost: fail, onError: fail },
  });
  // The writes come one after another, 50 ms apart.
  const setMeta = store.setMeta.bind(store);
  let written: Promise<unknown> = Promise.resolve();
  vi.spyOn(store, "setMeta").mockImplementation((...args) => {
    const writing = written.then(() => sleep(50)).then(() => setMeta(...args));
    written = writing;
    return writing;
  });
  const progress = { after: null, learned: true, replayed: false, complete: true };
  lock!.keep(() => progress);
  await advance(100);
  expect(store.setMeta).toHaveBeenCalledTimes(1);
  const released = lock!.release(progress);
  await advance(100);
  await released;
  expect(await readState(store)).toMatchObject({ lockedFor: 0, state: { complete: true } });
});
