import { fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { Redis } from "ioredis";
import { afterAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { eventOf } from "./event.ts";
import type { SubscriberOptions } from "./subscriber.ts";
import { createPrefixes, openStore, url } from "./support.ts";

const prefixes = createPrefixes();
const running = new Set<ReturnType<typeof fork>>();
afterAll(() => {
  for (const child of running) child.kill("SIGKILL");
});

/** Starts another process, from a file in this folder. */
function start(name: string, args: object) {
  const child = fork(join(import.meta.dirname, `${name}.ts`), [JSON.stringify(args)], { stdio: "pipe" });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", (chunk) => {
      output += chunk;
    });
  }
  running.add(child);
  const ended = once(child, "exit").then(([code, signal]) => {
    running.delete(child);
    return { code, signal, output };
  });
  return { child, ended };
}

/** Makes a list in Redis for the log of the processes, under the prefix of this file. */
function createLog() {
  const prefix = prefixes();
  const log = `{${prefix}}-log`;
  const client = new Redis(url!);
  onTestFinished(() => client.disconnect());
  const lines = async () => (await client.lrange(log, 0, -1)).map((line) => line.split(" "));
  return { prefix, log, lines };
}

/** Returns event ids in the order of their callbacks. Fails if two callbacks of a booking overlap in live processes. */
function beginnings(lines: readonly string[][], dead: number[] = []): string[] {
  const busy = new Map<string, string>();
  const began: string[] = [];
  for (const [word, eventId = "", booking = "", pid = ""] of lines) {
    if (word === "ended") busy.delete(booking);
    if (word !== "began") continue;
    const other = busy.get(booking);
    if (other !== undefined) expect(dead.map(String), `${booking} is handled by two`).toContain(other);
    busy.set(booking, pid);
    began.push(eventId);
  }
  return began;
}

const idsOf = (count: number) => Array.from({ length: count }, () => randomUUID());

describe.skipIf(url === undefined)("processes on one Redis", () => {
  test("handle each event once, and one event of a record at a time", async () => {
    const { prefix, log, lines } = createLog();
    // Two processes get the same notifications.
    const shared = idsOf(60);
    const given = [shared, shared, idsOf(60)];
    const workers = given.map((notifications) =>
      start("subscriber", { url: url!, prefix, log, notifications } satisfies SubscriberOptions),
    );
    for (const { ended } of workers) expect(await ended).toEqual({ code: 0, signal: null, output: "" });
    const said = await lines();
    expect(beginnings(said).sort()).toEqual([...shared, ...given[2]!].sort());
    expect(new Set(said.map(([, , , pid]) => pid)).size).toBeGreaterThan(1);
  }, 60_000);

  test("take over an event of a killed process when its lease has ended", async () => {
    const { prefix, log, lines } = createLog();
    const notifications = idsOf(10);
    const hangOn = notifications[3]!;
    const options: SubscriberOptions = { url: url!, prefix, log, notifications };
    const first = start("subscriber", { ...options, hangOn });
    await once(first.child, "message");
    first.child.kill("SIGKILL");
    await first.ended;
    const store = openStore(prefix);
    const held = await store.get(hangOn);
    const second = start("subscriber", options);
    expect(await second.ended).toEqual({ code: 0, signal: null, output: "" });
    const again = await store.get(hangOn);
    expect(again).toMatchObject({ state: "done", attempts: 2 });
    expect(Number(again?.doneAt)).toBeGreaterThanOrEqual(Number(held?.dueAt));
    const began = beginnings(await lines(), [first.child.pid!]);
    expect(began.filter((eventId) => eventId === hangOn).length).toBe(2);
    expect(new Set(began)).toEqual(new Set(notifications));
    expect(await store.counts()).toMatchObject({
      pending: 0,
      processing: 0,
      retrying: 0,
      done: 10,
      parked: 0,
    });
    await store.close();
  }, 60_000);

  test("wake each other without polling", async () => {
    const prefix = prefixes();
    const [store, other] = [openStore(prefix), openStore(prefix)];
    const woken = vi.fn();
    other.subscribe?.(woken);
    await vi.waitFor(() => expect(woken).toHaveBeenCalled());
    for (let round = 0; round < 5; round += 1) {
      woken.mockClear();
      await store.add(eventOf(null));
      await vi.waitFor(() => expect(woken).toHaveBeenCalledTimes(1));
    }
    // A call that changes nothing for other processes must not notify them.
    woken.mockClear();
    const known = eventOf("booking:A");
    await store.add(known);
    await vi.waitFor(() => expect(woken).toHaveBeenCalledTimes(1));
    await store.add(known);
    await store.add(eventOf("booking:A"));
    await store.claim({ limit: 10, leaseDuration: 60_000 });
    await store.add(eventOf("booking:A"));
    await store.add(eventOf(null));
    await vi.waitFor(() => expect(woken).toHaveBeenCalledTimes(2));
    await store.close();
    await other.close();
  });

  test("end although their store is open", async () => {
    const prefix = prefixes();
    expect(await start("idle", { url, prefix }).ended).toEqual({ code: 0, signal: null, output: "" });
    const store = openStore(prefix);
    expect(await store.counts()).toMatchObject({ pending: 1 });
    await store.close();
  }, 60_000);

  test("end although their store is open and Redis is out of reach", async () => {
    const { code, output } = await start("idle", { url: "redis://127.0.0.1:1", prefix: "away" }).ended;
    expect(output).toContain("could not be reached within 1000 ms");
    expect(output).not.toContain("holds it open");
    expect(code).toBe(0);
  }, 60_000);
});
