import { randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { eventOf } from "../event.ts";
import type { SubscriberOptions } from "./subscriber.ts";
import { createFiles, startWorker } from "./support.ts";

const files = createFiles();

test("processes on one new file handle each event once, and one event of a record at a time", async () => {
  const file = files.path();
  const log = `${file}.log`;
  writeFileSync(log, "");
  const idsOf = Array.from({ length: 3 }, () => Array.from({ length: 80 }, () => randomUUID()));
  const workers = idsOf.map((notifications) =>
    startWorker("subscriber", { file, log, notifications, ahead: 0 } satisfies SubscriberOptions),
  );
  for (const { ended } of workers) expect(await ended).toEqual({ code: 0, signal: null, errors: "" });

  const lines = readFileSync(log, "utf8").trim().split("\n");
  const running = new Map<string, string>();
  const began: string[] = [];
  const pids = new Set<string>();
  for (const [word, eventId = "", booking = "", pid = ""] of lines.map((line) => line.split(" "))) {
    if (word === "began") {
      expect(running.get(booking), `${booking} is handled by two`).toBeUndefined();
      running.set(booking, eventId);
      began.push(eventId);
      pids.add(pid);
    }
    if (word === "ended") running.delete(booking);
  }
  expect(began.sort()).toEqual(idsOf.flat().sort());
  expect(pids.size).toBeGreaterThan(1);
}, 120_000);

test("an open store does not keep its process alive", async () => {
  const file = files.path();
  const { ended } = startWorker("idle", { file });
  expect(await ended).toEqual({ code: 0, signal: null, errors: "" });
  const store = sqliteStore(file);
  expect(await store.counts()).toMatchObject({ pending: 1 });
  await store.close();
}, 60_000);

test("calls wait for a file that another process has locked, until that process is dead", async () => {
  const file = files.path();
  const store = sqliteStore(file, { busyTimeout: 60_000 });
  const { child, ended, said } = startWorker("locker", { file });
  expect(await said()).toBe("locked");
  let settled = false;
  const added = store.add(eventOf()).finally(() => {
    settled = true;
  });
  for (let turn = 0; turn < 10; turn++) await sleep(5);
  expect(settled).toBe(false);
  expect(await store.counts()).toMatchObject({ pending: 0 });
  child.kill("SIGKILL");
  await ended;
  expect(await added).toBe("added");
  await store.close();
}, 60_000);
