import { statSync, utimesSync, watch } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, test, vi } from "vitest";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { eventually } from "../../support/eventually.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { createFiles } from "./support.ts";

// Files share a worker and its modules. Those that another file has loaded know no mock, and a later file wants none.
vi.hoisted(() => vi.resetModules());
afterAll(() => void vi.resetModules());

vi.mock("node:fs", async (original) => {
  const fs = await original<typeof import("node:fs")>();
  return { ...fs, watch: vi.fn(fs.watch) };
});

const files = createFiles();
const LONG_AGO = new Date("2020-01-01");

describe("another connection's events", () => {
  test("wake a subscriber by polling if the file's time does not change", async () => {
    const path = files.path();
    const store = sqliteStore(path);
    const woken = vi.fn();
    store.subscribe?.(woken);
    const db = new DatabaseSync(path);
    db.exec("CREATE TABLE nights (day TEXT)");
    db.close();
    await eventually(() => expect(woken).toHaveBeenCalled());
    await store.close();
  });
});

test("the store watches the file only while it has subscribers", async () => {
  vi.mocked(watch).mockClear();
  const store = sqliteStore(files.path());
  const first = store.subscribe?.(() => {});
  const second = store.subscribe?.(() => {});
  expect(watch).toHaveBeenCalledTimes(1);
  const watcher = vi.mocked(watch).mock.results[0]?.value;
  const closed = vi.spyOn(watcher, "close");
  first?.();
  expect(closed).not.toHaveBeenCalled();
  second?.();
  expect(closed).toHaveBeenCalledTimes(1);
  const woken = vi.fn();
  store.subscribe?.(woken);
  expect(watch).toHaveBeenCalledTimes(2);
  const added = store.add(eventOf());
  await store.close();
  expect(await added).toBe("added");
  expect(woken).not.toHaveBeenCalled();
});

test("a new file time without new events wakes no subscriber", async () => {
  const path = files.path();
  const store = sqliteStore(path);
  const woken = vi.fn();
  store.subscribe?.(woken);
  await sleep(50);
  utimesSync(path, LONG_AGO, LONG_AGO);
  await sleep(1200);
  expect(woken).not.toHaveBeenCalled();
  await store.close();
});

test("only a call that makes an event due changes the file's time", async () => {
  const path = files.path();
  const store = sqliteStore(path);
  const touches = async (act: () => Promise<unknown>): Promise<boolean> => {
    utimesSync(path, LONG_AGO, LONG_AGO);
    await act();
    return statSync(path).mtimeMs !== LONG_AGO.getTime();
  };
  const event = eventOf();
  expect(await touches(() => store.add(event))).toBe(true);
  expect(await touches(() => store.add(event))).toBe(false);
  let [claim] = await store.claim({ ...CLAIM, limit: 0 });
  const claimOne = async () => {
    [claim] = await store.claim(CLAIM);
  };
  expect(await touches(claimOne)).toBe(false);
  expect(await touches(() => store.renew([claim!], 60_000))).toBe(false);
  expect(await touches(() => store.settle(claim!, { state: "released" }))).toBe(true);
  await claimOne();
  expect(await touches(() => store.settle(claim!, DONE))).toBe(false);
  expect(await touches(() => store.replay({ eventId: event.eventId }))).toBe(true);
  await claimOne();
  await store.add(eventOf());
  expect(await touches(() => store.settle(claim!, DONE))).toBe(true);
  expect(await touches(() => store.prune({ state: "done", age: 0, limit: 10 }))).toBe(false);
  await store.close();
});
