import { randomUUID } from "node:crypto";
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import type { Point, SubscriberOptions } from "./subscriber.ts";
import { createFiles, startWorker } from "./support.ts";

const files = createFiles();
/** Longer than a lease, in ms. */
const LATER = 60_000;

/** Starts a subscriber on one database several times. Checks the database after each death of the process. */
function createHistory() {
  const file = files.path();
  const log = `${file}.log`;
  writeFileSync(log, "");
  let lives = 0;

  const start = (notifications: number, dieAt?: Point) => {
    const ids = Array.from({ length: notifications }, () => randomUUID());
    const options = { file, log, notifications: ids, ahead: lives * LATER } satisfies SubscriberOptions;
    lives += 1;
    return startWorker("subscriber", { ...options, dieAt });
  };

  /** Checks the conditions that hold whenever the process is dead. Logs the events that are done. */
  const inspect = async (): Promise<void> => {
    const db = new DatabaseSync(file);
    const store = sqliteStore(db);
    const events = new Map((await store.list({ limit: 100_000 })).map((event) => [event.eventId, event]));
    for (const line of linesOf(log, "answered")) {
      const [eventId, status] = line.split(" ") as [string, string];
      expect(status).toBe("200");
      expect(events.has(eventId), `${eventId} was answered 200, and is not there`).toBe(true);
    }
    const done = [...events.values()].filter(({ state }) => state === "done").map(({ eventId }) => eventId);
    const handled = db
      .prepare("SELECT event FROM handled")
      .all()
      .map(({ event }) => String(event));
    expect(handled.sort(), "the user's table and the events agree").toEqual(done.sort());
    for (const eventId of done) appendFileSync(log, `done ${eventId}\n`);
    expect(db.prepare("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
    expect(await store.counts()).toEqual(countsOf(events.values()));
    await store.close();
    db.close();
    appendFileSync(log, "dead\n");
  };

  /** Runs the process to its end. Checks that all accepted events are done, and that no done event began again. */
  const finish = async (): Promise<void> => {
    const { ended } = start(0);
    expect(await ended).toEqual({ code: 0, signal: null, errors: "" });
    await inspect();
    const done = new Set(linesOf(log, "done"));
    for (const line of linesOf(log, "answered")) expect(done).toContain(line.split(" ")[0]);
    expectNoneTwice(readFileSync(log, "utf8"));
  };

  return { start, inspect, finish, answered: () => linesOf(log, "answered").length };
}

function linesOf(log: string, word: string): string[] {
  const lines = readFileSync(log, "utf8").split("\n");
  return lines.filter((line) => line.startsWith(`${word} `)).map((line) => line.slice(word.length + 1));
}

function countsOf(events: Iterable<{ readonly state: string }>): Record<string, number> {
  const counts: Record<string, number> = {
    scheduled: 0,
    pending: 0,
    processing: 0,
    retrying: 0,
    done: 0,
    parked: 0,
  };
  for (const { state } of events) counts[state]! += 1;
  return counts;
}

/** Fails if an event begins twice in one run of the process, or begins again in a run after it was done. */
function expectNoneTwice(log: string): void {
  const done = new Set<string>();
  for (const life of log.split("dead\n")) {
    const began = new Set<string>();
    for (const [word, eventId = ""] of life.split("\n").map((line) => line.split(" "))) {
      if (word === "began") {
        expect(done.has(eventId) || began.has(eventId), `${eventId} was handled twice`).toBe(false);
        began.add(eventId);
      }
      if (word === "done") done.add(eventId);
    }
  }
}

describe("a process that dies", () => {
  const points: readonly Point[] = [
    "before add",
    "after add",
    "after the answer",
    "before fetch",
    "after fetch",
    "in the callback",
    "before settle",
    "before the commit of settle",
    "after the commit of settle",
  ];
  test.concurrent.each(points)(
    "%s loses no event, and does not handle a done event again",
    async (point) => {
      const history = createHistory();
      const { ended } = history.start(12, point);
      expect(await ended).toMatchObject({ signal: "SIGKILL" });
      await history.inspect();
      await history.finish();
    },
    120_000,
  );
});

test("repeated kill -9 at random moments loses no event", async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 100_000);
  const random = seeded(seed);
  console.log(`SEED=${seed}`);
  const history = createHistory();
  for (let round = 0; round < 5; round++) {
    const { child, ended, said } = history.start(150);
    await said();
    await sleep(random() * 350);
    child.kill("SIGKILL");
    expect(await ended).toMatchObject({ signal: "SIGKILL" });
    await history.inspect();
  }
  await history.finish();
  expect(history.answered()).toBeGreaterThan(0);
}, 120_000);

/** Returns a mulberry32 generator. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
