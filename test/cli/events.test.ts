import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import { eventOf } from "../stores/event.ts";
import { eventually } from "../support/eventually.ts";
import { appOf, cli, directory, fileStore, plain, platform, start } from "./support.ts";

/** A command after `stayhook events`, and its stdout, or its stderr if the exit code is not 0. An object is JSON. */
type Step = readonly [line: string, expected: string | RegExp | object, code?: number];

const names = ["done", "parked1", "parked2", "waiting"] as const;
const idOf = (name: string): string =>
  `00000000-0000-4000-8000-00000000000${names.indexOf(name as "done") + 1}`;
const withIds = (text: string): string => text.replace(/\{([a-z]\w*)\}/g, (_, name: string) => idOf(name));

/** Makes a file with one done, two parked and one pending event. */
async function recorded() {
  const file = join(directory(), "events.db");
  const { sandbox, env } = await platform();
  const open = () => fileStore(file);
  const on = {
    "booking.Request": () => {
      throw new Error("the calendar is closed");
    },
  };
  const { webhooks, record, close } = appOf(env, { store: open(), on, maxAttempts: 1 });
  await sandbox.bookings.create({ bookingCode: "FINE", status: "Confirmed" });
  await sandbox.bookings.create({ bookingCode: "BAD", status: "Request" });
  for (const name of names) {
    await record(name.startsWith("parked") ? "BAD" : "FINE", { eventId: idOf(name) });
    if (name !== "waiting") await webhooks.drain();
  }
  await close();
  const events = (line: string, given: Parameters<typeof cli>[1] = {}) =>
    cli(`events ${withIds(line)} --store ${file}`, { env, ...given });
  const play = async (steps: readonly Step[]) => {
    for (const [line, expected, code = 0] of steps) {
      const isJson = typeof expected === "object" && !(expected instanceof RegExp);
      const ended = await events(isJson ? `${line} --json` : line);
      expect(ended.code, line + ended.stderr).toBe(code);
      const shown = code === 0 ? ended.stdout : ended.stderr;
      if (code !== 0) expect(ended.stdout, line).toBe("");
      if (isJson) expect(JSON.parse(shown), line).toEqual(expected);
      else if (typeof expected === "string") expect(shown, line).toContain(withIds(expected));
      else expect(shown, line).toMatch(new RegExp(withIds(expected.source), expected.flags));
    }
  };
  return { file, env, open, events, play };
}

const partly = (expected: object) => expect.objectContaining(expected);
/** The events of a list, in this order. */
const listed = (...expected: (typeof names)[number][]) =>
  expected.map((name) => partly({ eventId: idOf(name) }));

const scripts: Readonly<Record<string, readonly Step[]>> = {
  "ls and counts": [
    [
      "counts",
      /^scheduled\t0\npending\t1\nprocessing\t0\nretrying\t0\ndone\t1\nparked\t2\nage of .*\t\d+ s\n$/,
    ],
    ["counts", partly({ pending: 1, done: 1, parked: 2, oldestWaiting: expect.any(Number) })],
    ["ls", listed("waiting", "parked2", "parked1", "done")],
    ["ls --limit 2", listed("waiting", "parked2")],
    [`ls --limit 2 --after ${idOf("parked2").toUpperCase()}`, listed("parked1", "done")],
    ["ls --state parked", listed("parked2", "parked1")],
    ["ls --ref FINE", listed("waiting", "done")],
    ["ls --ref fine", listed("waiting", "done")],
    ["ls --ref booking:Fine", listed("waiting", "done")],
    ["ls --type booking.Request", listed("parked2", "parked1")],
    ["ls --reason callback --state parked", listed("parked2", "parked1")],
    ["ls --source reconcile", []],
    ["ls --since 2020-01-01T00:00:00Z --until 90s", []],
    ["ls --since 90s", listed("waiting", "parked2", "parked1", "done")],
    // A waiting event says when it is due, before the error.
    ["ls --state pending", /^{waiting}\tpending\t.*\t-\t\d{4}-\S+Z\t-\n$/],
    [
      "ls --state parked",
      /^\S+\tparked\tbooking\.Request\tbooking:BAD\t1\t\S+Z\tcallback\t-\t.*calendar is closed/,
    ],
  ],
  show: [
    [`show ${idOf("done").toUpperCase()}`, partly({ type: "booking.Confirmed", lastStatus: "Confirmed" })],
    ["show {done}", /\nreceived\t\S+Z by webhook\nattempt 1\t\S+Z by \S+, took \d+ ms: done\ndone\t\S+Z\n$/],
    [
      "show {waiting}",
      /\nreceived\t\S+Z by webhook\nnext attempt\t\S+Z, as soon as a process of the app is free\n$/,
    ],
    [
      "show {parked1}",
      /\nattempt 1\t\S+Z by \S+, took \d+ ms: parked \(callback\): Error: the calendar is closed at \S.*:\d+:\d+\)?\n$/,
    ],
    ["show 11111111-0000-4000-8000-000000000000", "There is no event 11111111", 4],
  ],
  replay: [
    ["replay {done} 11111111-0000-4000-8000-000000000000", "There is no event", 4],
    ["counts", partly({ pending: 1, done: 1, parked: 2 })],
    [
      "replay {done} {parked1}",
      "event {done} (booking:FINE) replayed\nevent {parked1} (booking:BAD) replayed\n2 events will be handled again\n",
    ],
    ["counts", partly({ pending: 3, done: 0, parked: 1 })],
    ["replay --all --yes --reason denied", { replayed: 0 }],
    ["replay --all --yes --until 2020-01-01T00:00:00Z", { replayed: 0 }],
    ["replay --all --yes --ref booking:FINE", { replayed: 0 }],
    ["replay --since 1h", "Add --yes", 2],
    [
      "replay --reason callback --source webhook --yes",
      /^1 event will be handled again \(parked, reason callback, source webhook\)\n$/,
    ],
    ["counts", partly({ pending: 4, parked: 0 })],
  ],
  "--dry-run": [
    ["replay --reason callback --dry-run", { dryRun: true, count: 2, events: listed("parked2", "parked1") }],
    [
      "discard --ref booking:BAD --dry-run",
      /^Would discard 2 parked events\n{parked2}\t.*\n{parked1}\t.*\n$/,
    ],
    // Replay does not change pending events.
    ["replay {done} {waiting} --dry-run", /^Would replay 1 event\n{done}\t.*\n$/],
    ["counts", partly({ pending: 1, done: 1, parked: 2 })],
  ],
  discard: [
    ["discard {parked1}", { discarded: 1 }],
    ["show {parked1}", partly({ state: "done", reason: "discarded" })],
    ["show {parked1}", /\ndiscarded\t\S+Z\n$/],
    ["discard --all --yes", { discarded: 1 }],
    ["discard --until 1h --state pending --yes", { discarded: 0 }],
    ["discard --all --state pending --yes", { discarded: 1 }],
    ["counts", partly({ pending: 0, parked: 0, done: 4 })],
  ],
  "prune and erase": [
    ["prune", "Add --yes", 2],
    ["prune --yes", { pruned: 0 }],
    ["prune --yes --older-than 0", { pruned: 1 }],
    ["prune --yes --older-than 0 --state parked --reason denied", { pruned: 0 }],
    ["prune --yes --older-than long", "--older-than must be an age", 2],
    ["prune --yes --older-than 7", "--older-than must be an age", 2],
    ["prune --yes --state pending", "--state must be one of done, parked", 2],
    ["erase booking:BAD", "Add --yes", 2],
    ["erase booking:BAD --yes", { erased: 2 }],
    ["show {parked1}", "There is no event", 4],
    ["erase booking:BAD", "The store has no data about booking:BAD.", 4],
    ["erase BAD", "such as booking:HX3K9", 2],
    ["counts", partly({ pending: 1, parked: 0, done: 0 })],
  ],
};

test.each(Object.entries(scripts))("events: %s", async (_, steps) => {
  await (await recorded()).play(steps);
});

test("show says what changed, how long a lease and a wait last, and numbers no attempt of a full history", async () => {
  const { open, events, play } = await recorded();
  const store = open();
  onTestFinished(() => store.close());
  const claimed = async () =>
    (await store.claim({ limit: 1, leaseDuration: 60_000, worker: "web-1:42" }))[0]!;
  const retried = { state: "retrying", reason: "unavailable" } as const;
  const entryOf = (error: string) => ({ duration: 5, reason: "unavailable", error }) as const;
  let claim = await claimed();
  await play([["show {waiting}", /\nlease ends\t\S+Z, in (59 s|60 s|1 min)\n$/]]);
  await store.settle(claim, { ...retried, in: 600_000, entry: entryOf("502") });
  const wait =
    /\nattempt 1\t\S+Z by web-1:42, took 5 ms: retrying \(unavailable\): 502\nnext retry\t\S+Z, in 10 min\n$/;
  await play([
    ["show {waiting}", wait],
    ["replay {waiting}", { replayed: 1 }],
  ]);
  for (let attempt = 2; attempt <= 10; attempt += 1)
    await store.settle(await claimed(), { ...retried, in: 0, entry: entryOf(`failure ${attempt}`) });
  claim = await claimed();
  const { status, fields } = claim.previous!;
  const snapshot = { status: "Cancelled", fields: { ...fields, checkIn: "2031-02-03" } };
  const record = { snapshot, changed: true };
  await store.settle(claim, { state: "done", type: "booking.Cancelled", entry: { duration: 5 }, record });
  const { stdout } = await events("show {waiting}");
  const steps = stdout.split("\n").filter((line) => line.startsWith("attempt"));
  expect(steps.map((line) => line.replace(/\t.* ms: /, ": "))).toEqual([
    ...Array.from({ length: 9 }, (_, index) => `attempt: retrying (unavailable): failure ${index + 2}`),
    `attempt: done: status ${status} -> Cancelled, checkIn ${fields.checkIn} -> 2031-02-03`,
  ]);
});

test("replay prints what it has changed, also if another event is being processed", async () => {
  const { open, events } = await recorded();
  const store = open();
  onTestFinished(() => store.close());
  const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000 });
  const { code, stdout, stderr } = await events(`replay ${idOf("parked1")} ${claim!.eventId}`);
  expect(code).toBe(1);
  expect(stdout).toMatch(
    new RegExp(`^event ${idOf("parked1")} \\(.*\\) replayed\n1 event will be handled again\n$`),
  );
  expect(stderr).toContain(`Event ${claim!.eventId} is being processed now. Try again later.`);
  const nothing = await events(`replay ${claim!.eventId}`);
  expect(nothing).toMatchObject({ code: 1, stdout: "" });
});

test("replay asks before timers run early, by id and by filter", async () => {
  const { open, events } = await recorded();
  const store = open();
  onTestFinished(() => store.close());
  const ids = ["a", "b"].map((name) => `stayhook:timer:booking:FINE:${name}`);
  const timer = { ref: "booking:FINE", source: "timer", topic: null, notification: "{}" } as const;
  for (const eventId of ids)
    await store.add({ eventId, timestamp: "2031-11-21T10:00:00.000Z", ...timer }, { dueIn: 6 * 86_400_000 });
  for (const line of [`replay ${ids.join(" ")}`, "replay --state scheduled"]) {
    const { code, stderr } = await events(line);
    expect({ code, stderr }).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("Run 2 timers now, before their time? Add --yes"),
    });
    expect(await store.counts()).toMatchObject({ scheduled: 2 });
  }
  expect((await events("discard --state scheduled")).stderr).toContain("Cancel 2 timers?");
  expect(await events(`replay ${ids[0]} --yes`)).toMatchObject({ code: 0 });
  const due = await Promise.all(ids.map(async (eventId) => Number((await store.get(eventId))?.dueAt)));
  expect(due.map((at) => at <= Date.now() + 1000)).toEqual([true, false]);
});

test("ls --follow prints new events and changes of their state until Ctrl-C", async () => {
  const { file, open } = await recorded();
  const store = open();
  const follow = (more: string) => start(`events ls --follow${more} --store ${file}`);
  const parkedOnly = follow(" --state parked --reason denied");
  const [since, json] = [follow(" --since 1h --ref FINE"), follow(" --json --ref booking:NEW")];
  await eventually(() => expect(since.stdout()).toContain(idOf("done")));
  const add = async () => {
    const event = eventOf("booking:NEW");
    await store.add(event);
    return event.eventId;
  };
  const park = async (eventId: string) => {
    const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000, eventId });
    const entry = { duration: 5, reason: "denied" } as const;
    await store.settle(claim!, { state: "parked", reason: "denied", entry });
  };
  // The commands do not say when they begin to follow the store, so add events until each command prints one.
  for (const running of [parkedOnly, json])
    await eventually(async () => {
      await park(await add());
      await new Promise((resolve) => setTimeout(resolve, 600));
      expect(running.stdout()).not.toBe("");
    });
  const eventId = await add();
  // A command may also see the event between its claim and its settle.
  const states = () => {
    const lines = json.stdout().trim().split("\n");
    const own = lines.map((line) => JSON.parse(line)).filter((event) => event.eventId === eventId);
    return own.map(({ state }) => state).filter((state) => state !== "processing");
  };
  await eventually(() => expect(states()).toEqual(["pending"]));
  await park(eventId);
  const row = new RegExp(`^${eventId}\tparked\t.*\tdenied\t.*\n$`, "m");
  await eventually(() => expect(parkedOnly.stdout()).toMatch(row));
  expect(parkedOnly.stdout()).not.toContain("\tpending\t");
  await eventually(() => expect(states()).toEqual(["pending", "parked"]));
  for (const running of [parkedOnly, since, json]) {
    running.interrupt();
    expect(await running.ended).toMatchObject({ code: 0, stderr: "" });
  }
  expect(since.stdout().trim().split("\n")).toHaveLength(2);
  await store.close();
});

test("a scheduled timer is listed with its type and its time, shown, run now and cancelled", async () => {
  const { env, open, play } = await recorded();
  const { webhooks, close } = appOf(env, { store: open() });
  const at = new Date(Math.ceil(Date.now() / 1000) * 1000 + 10 * 86_400_000);
  for (const name of ["door-code", "cleaning"]) await webhooks.timers("booking:FINE").set(name, at);
  await close();
  const [door, cleaning] = ["door-code", "cleaning"].map(
    (name) => `stayhook:timer:booking:FINE:${name}:${at.toISOString()}`,
  );
  await play([
    ["ls --state scheduled", `${door}\tscheduled\tbooking.timer.door-code\tbooking:FINE`],
    ["ls --state scheduled", at.toISOString().slice(0, 10)],
    [`show ${door}`, "in 10 days"],
    [`replay ${door} --yes`, { replayed: 1 }],
    ["replay stayhook:timer:booking:FINE:door-code", { replayed: 0 }],
    [`discard ${cleaning}`, { discarded: 1 }],
  ]);
  const copy = open();
  expect(Number((await copy.get(door!))?.dueAt)).toBeLessThanOrEqual(Date.now());
  await copy.close();
});

test("ls, discard and prune take more events than one page of the store, once each", async () => {
  const file = join(directory(), "events.db");
  const store = fileStore(file);
  const eventIds = Array.from({ length: 1001 }, () => crypto.randomUUID());
  await Promise.all(eventIds.map((eventId) => store.add(eventOf(null, eventId))));
  await store.close();
  const json = async (line: string) =>
    JSON.parse((await cli(`events ${line} --json --store ${file}`)).stdout);
  const all: { eventId: string }[] = await json("ls --limit 2000");
  expect(all.map(({ eventId }) => eventId).sort()).toEqual(eventIds.toSorted());
  const pending = "discard --state pending --source webhook";
  expect(await json(`${pending} --dry-run`)).toMatchObject({ count: 1001 });
  expect(await json(`${pending} --yes`)).toEqual({ discarded: 1001 });
  expect(await json("prune --older-than 0 --yes")).toEqual({ pruned: 1001 });
});

test("replay shows its progress on a terminal only", async () => {
  const { events } = await recorded();
  const { stderr } = await events("replay --all --yes", { terminal: true });
  expect(stderr).toContain("0 of 2 events");
  expect(stderr.endsWith("\r\u001b[2K")).toBe(true);
  expect((await events("replay --all --yes")).stderr).toBe("");
  expect((await events("replay --all --yes --json", { terminal: true })).stderr).toBe("");
});

describe("a store on a server", () => {
  // The store's own words, because the driver's alone do not say what to do.
  const refused = "connect ECONNREFUSED 127.0.0.1:1. Nothing listens there.";
  test.each([
    [
      "postgres://u:hunter2@127.0.0.1:1/x",
      1,
      `The store at 127.0.0.1:1 cannot be read. Is --store or STAYHOOK_STORE right? postgresStore: the tables could not be read: ${refused}`,
    ],
    ["postgresql+psycopg2://u:hunter2@127.0.0.1/x", 2, "must be an SQLite file"],
    ["postgres:/u:hunter2@127.0.0.1/x", 2, "must be an SQLite file"],
    ["u:hunter2@127.0.0.1/x", 4, "names no existing file"],
    ["host=127.0.0.1 password=hunter2", 4, "names no existing file"],
    ["postgres://u:hunter2@127.0.0.1:99999/x", 2, ""],
    ["redis://:hunter2@127.0.0.1:99999", 2, ""],
  ])("an error does not show the password of %s", async (store, code, message) => {
    const inEnvironment = await cli("events counts --json", { env: { STAYHOOK_STORE: store } });
    const asOption = await cli(["events", "counts", "--json", "--store", store]);
    const hasPassword = store.includes("://u") || store.includes("://:");
    for (const [ended, warning] of [
      [inEnvironment, undefined],
      [asOption, URL.canParse(store) && hasPassword ? "Use STAYHOOK_STORE instead." : undefined],
    ] as const) {
      expect(ended).toMatchObject({ code, stdout: "" });
      expect(ended.stderr).not.toContain("hunter2");
      const lines = ended.stderr
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));
      expect(lines.at(-1).error.message).toContain(message);
      expect(lines[0].warning?.message.slice(-27)).toBe(warning);
    }
  });

  test("that does not answer: Ctrl-C ends the command", async () => {
    const sockets = new Set<Socket>();
    const mute = createServer((socket) => void sockets.add(socket.on("error", () => {})));
    await new Promise<void>((listening) => mute.listen(0, "127.0.0.1", listening));
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
      mute.close();
    });
    const { port } = mute.address() as AddressInfo;
    const running = start("events counts", { env: { STAYHOOK_STORE: `postgres://127.0.0.1:${port}/x` } });
    await eventually(() => expect(sockets.size).toBe(1));
    running.interrupt();
    expect(await running.ended).toEqual({ code: 130, stdout: "", stderr: "" });
  });
});

test("ls --follow prints the end of each attempt of an event, however old the event is", async () => {
  const { file, open } = await recorded();
  const store = open();
  const settleAll = async (outcome: "parked" | "retrying") => {
    const claims = await store.claim({ limit: 300, leaseDuration: 60_000 });
    const entry = { duration: 5, reason: "callback" } as const;
    for (const claim of claims)
      await store.settle(claim, { state: outcome, reason: "callback", entry, in: 0 });
    return claims.length;
  };
  await settleAll("parked");
  const parked = Array.from({ length: 20 }, (_, n) => `old-${n}`);
  for (const eventId of parked) await store.add(eventOf(`booking:${eventId}`, eventId));
  expect(await settleAll("parked")).toBe(20);
  for (let n = 0; n < 210; n++) await store.add(eventOf("booking:NEW", `new-${n}`), { dueIn: 3_600_000 });
  const running = start(`events ls --follow --store ${file}`);
  // Nothing says when the command begins to follow the store.
  await eventually(async () => {
    await store.add(eventOf(null), { dueIn: 3_600_000 });
    await new Promise((resolve) => setTimeout(resolve, 700));
    expect(running.stdout()).not.toBe("");
  });
  expect(await store.replay({ state: "parked", reason: "callback" })).toBeGreaterThanOrEqual(20);
  await settleAll("retrying");
  await settleAll("parked");
  const statesOf = (eventId: string) =>
    [...running.stdout().matchAll(new RegExp(`^${eventId}\t(\\w+)`, "gm"))]
      .map(([, state]) => state)
      .filter((state) => state === "retrying" || state === "parked");
  await eventually(() => {
    for (const eventId of parked) expect(statesOf(eventId), eventId).toEqual(["retrying", "parked"]);
  });
  running.interrupt();
  await running.ended;
  await store.close();
});

test("replay --wait tells what came of it, and exits with 1 on new failures", async () => {
  const { env, open, events } = await recorded();
  const { webhooks, close } = appOf(env, {
    store: open(),
    maxAttempts: 1,
    on: {
      "booking.Request": () => {
        throw new Error("still closed");
      },
    },
  });
  const drained = async (line: string) => {
    const running = events(line);
    const timer = setInterval(() => void webhooks.drain().catch(() => {}), 100);
    return running.finally(() => clearInterval(timer));
  };
  expect(await drained("replay --all --yes --wait")).toMatchObject({
    code: 1,
    stdout: "2 replayed: 0 done, 2 failed again, 0 waiting\n",
  });
  const both = await drained(`replay ${idOf("done")} ${idOf("parked1")} --wait --json`);
  expect(both.code).toBe(1);
  expect(JSON.parse(both.stdout)).toEqual({ replayed: 2, done: 1, failed: 1, waiting: 0 });
  expect(await drained(`replay ${idOf("done")} --wait`)).toMatchObject({ code: 0, stderr: "" });
  expect(await events("discard --all --yes --wait")).toMatchObject({ code: 2 });
  await close();
});

describe("on a terminal", () => {
  const long = `Error: the calendar is closed ${"and nobody answers ".repeat(100)}`;
  async function listed() {
    const made = await recorded();
    const store = made.open();
    onTestFinished(() => store.close());
    const eventId = "6f1f7a1e-9a40-4d43-8f0a-0a3f4d1f2b11";
    await store.discard({ state: "pending" });
    await store.add(eventOf("booking:HX3K9", eventId));
    for (let attempt = 0; attempt < 3; attempt += 1) {
      const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000 });
      const entry = { duration: 5, reason: "callback", error: long } as const;
      const more = { reason: "callback", entry, type: "booking.Confirmed" } as const;
      if (attempt < 2) await store.settle(claim!, { state: "retrying", in: 0, ...more });
      else await store.settle(claim!, { state: "parked", ...more });
    }
    return { ...made, store, eventId };
  }

  test.each([45, 80, 120])("the list fits %i columns", async (columns) => {
    const { events, eventId } = await listed();
    const { stdout } = await events("ls --ref HX3K9", { terminal: true, columns, env: { FORCE_COLOR: "1" } });
    const lines = plain(stdout).trimEnd().split("\n");
    for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(columns);
    expect(lines[0]).toMatch(/^EVENT +STATE +TYPE +RECORD/);
    expect(lines[0]).not.toContain("DUE");
    expect(lines[1]).toMatch(/^6f1f7a1e +parked +booki/);
    expect(lines[2]).toMatch(/^ {2}Error: the calendar is closed .*…$/);
    expect(stdout).toContain("\u001b[31mparked");
    const all = await events("ls", { terminal: true, columns: 120 });
    // The other ids of this store have the same 8 characters at their start.
    expect(all.stdout).toContain(eventId);
    if (columns >= 80) expect(lines[1]).toMatch(/(now|\d (m?s|min) ago)/);
  });

  test("a short id is taken by show and replay, and refused if several events have it", async () => {
    const { events, store, eventId } = await listed();
    expect((await events("show 6f1f7a1e")).stdout).toContain(eventId);
    expect(await events("show 00000000")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("Several events begin with 00000000"),
    });
    expect(await events("show 7f1f7a1e")).toMatchObject({ code: 4 });
    expect((await events("replay 6F1F7A1E --json")).stdout).toContain('"replayed": 1');
    expect(await store.get(eventId)).toMatchObject({ state: "pending" });
    const timer = "stayhook:timer:booking:HX3K9:mail";
    await store.add(
      {
        eventId: timer,
        ref: "booking:HX3K9",
        source: "timer",
        topic: null,
        timestamp: "2031-11-21T10:00:00.000Z",
        notification: "{}",
      },
      { dueIn: 3_600_000 },
    );
    const { stdout } = await events("ls --state scheduled", { terminal: true, columns: 120 });
    expect(plain(stdout)).toMatch(/\ntimer:booking:HX3K9:mail +scheduled .* in (60 min|1 h)/);
    expect((await events("show timer:booking:HX3K9:mail")).stdout).toContain(timer);
  });

  test("show prints the newest attempt first, and equal errors once; a pipe has each attempt, the oldest first", async () => {
    const { events, store, eventId } = await listed();
    const shown = async () => plain((await events("show 6f1f7a1e", { terminal: true, columns: 80 })).stdout);
    const once = await shown();
    expect(once.split("the calendar is closed")).toHaveLength(2);
    expect(once).toMatch(
      /\nattempt 3 .*: parked \(callback\): Error: the calendar is closed.*\n +the same error in 2 earlier attempts, the first \S+Z\nreceived /,
    );

    await store.replay({ eventId });
    const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000 });
    const error =
      "Error: refused\nby the lock\n    at open (/srv/app/locks.ts:3:7)\n    at /srv/app/hooks.ts:9:1";
    const entry = { duration: 5, reason: "callback", error } as const;
    await store.settle(claim!, { state: "parked", reason: "callback", type: "booking.Confirmed", entry });
    expect(await shown()).toMatch(
      /\nattempt 4 .*: parked \(callback\): Error: refused\n +by the lock\n +at open \(\/srv\/app\/locks\.ts:3:7\)\n +at \/srv\/app\/hooks\.ts:9:1\nattempt 3 /,
    );
    const { stdout } = await events("show 6f1f7a1e");
    expect(
      stdout.match(/^attempt \d.*\(callback\): Error: \S+/gm)?.map((line) => line.replace(/\t.*: /, " ")),
    ).toEqual(["attempt 1 the", "attempt 2 the", "attempt 3 the", "attempt 4 refused\\u000aby"]);
    expect(stdout).toMatch(
      /by the lock at open \(\/srv\/app\/locks\.ts:3:7\) at \/srv\/app\/hooks\.ts:9:1\n/,
    );
    for (const line of ["ls", "ls --ref HX3K9"])
      for (const given of [{}, { terminal: true, columns: 120 }])
        expect((await events(line, given)).stdout).not.toContain("locks.ts");
  });
});

describe("a file", () => {
  test("from STAYHOOK_STORE is closed after the command; a missing one is not made", async () => {
    const { file } = await recorded();
    expect(await cli("events counts", { env: { STAYHOOK_STORE: file } })).toMatchObject({ code: 0 });
    // An open SQLite database has this file.
    expect(existsSync(`${file}-wal`)).toBe(false);
    expect(await cli(`events counts --store ${file}x`)).toMatchObject({ code: 4, stdout: "" });
    expect(existsSync(`${file}x`)).toBe(false);
  });

  test("that is no store stays as it is, and the error names it", async () => {
    const { file } = await recorded();
    const database = new DatabaseSync(`${file}.other`);
    database.exec("CREATE TABLE mine (a)");
    database.close();
    writeFileSync(`${file}.empty`, "");
    writeFileSync(`${file}.text`, "no database ".repeat(500));
    const whole = new DatabaseSync(file);
    whole.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    whole.close();
    writeFileSync(`${file}.cut`, readFileSync(file).subarray(0, 5000));
    for (const [path, code] of [
      [`${file}.other`, 4],
      [`${file}.empty`, 4],
      [`${file}.text`, 1],
      [`${file}.cut`, 1],
      [dirname(file), 1],
    ] as const) {
      const before = code === 4 ? readFileSync(path) : "";
      const ended = await cli(`events ls --json --store ${path}`);
      expect(ended).toMatchObject({ code, stdout: "" });
      expect(JSON.parse(ended.stderr).error.message).toContain(path);
      if (code === 4) expect(readFileSync(path)).toEqual(before);
    }
  });
});
