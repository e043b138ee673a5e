import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { createConnection } from "mysql2/promise";
import pg from "pg";
import { createWebhookHandler, StayhookClient } from "stayhook";
import { mysqlStore } from "stayhook/mysql";
import { postgresStore } from "stayhook/postgres";
import { redisStore } from "stayhook/redis";
import { sqliteStore } from "stayhook/sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import { mysqlUrl } from "../support/mysql-server.ts";
import { postgresUrl } from "../support/postgres-server.ts";
import { deleteKeys, redisUrl } from "../support/redis-server.ts";
import { cli, platform, quiet, start, until } from "./support.ts";

/** Makes a file with one done, two parked and one pending event. */
async function recorded() {
  const directory = mkdtempSync(join(tmpdir(), "stayhook-cli-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const file = join(directory, "events.db");
  const { sandbox, env } = await platform();
  const store = sqliteStore(file, { durability: "process-crash" });
  const webhooks = createWebhookHandler({
    client: new StayhookClient({ baseUrl: sandbox.url, accessToken: sandbox.accessToken }),
    store,
    on: {
      "booking.Request": () => {
        throw new Error("the calendar is closed");
      },
    },
    maxAttempts: 1,
    autoStart: false,
    logger: quiet,
  });
  const receive = async (n: number, bookingCode: string) => {
    const eventId = `00000000-0000-4000-8000-00000000000${n}`;
    const body = JSON.stringify({ eventId, timestamp: "2026-11-21T10:00:00Z", bookingCode, listingId: null });
    expect(await webhooks.receive({ method: "POST", url: "/", headers: {}, body })).toMatchObject({
      status: 200,
    });
    return eventId;
  };
  await sandbox.bookings.create({ bookingCode: "FINE", status: "Confirmed" });
  await sandbox.bookings.create({ bookingCode: "BAD", status: "Request" });
  const done = await receive(1, "FINE");
  const parked = [await receive(2, "BAD"), await receive(3, "BAD")];
  await webhooks.drain();
  const waiting = await receive(4, "FINE");
  await webhooks.close();
  await store.close();
  const events = (...args: string[]) => cli(["events", ...args, "--store", file], { env });
  const json = async (...args: string[]) => JSON.parse((await events(...args, "--json")).stdout);
  return { file, env, done, parked, waiting, events, json };
}

const servers = {
  postgres: { url: await postgresUrl(), names: "--schema" },
  redis: { url: await redisUrl(), names: "--prefix" },
};
const mysql = await mysqlUrl();

describe.each(Object.entries(servers))("in %s", (_engine, { url = "", names }) => {
  test.skipIf(url === "")("ls, show, replay and counts work, and a typo creates nothing", async () => {
    const place = `stayhook_cli_${crypto.randomUUID().slice(0, 8)}`;
    const store = url.startsWith("redis")
      ? redisStore({ url, prefix: place, logger: quiet })
      : postgresStore({ connectionString: url, schema: place });
    onTestFinished(async () => {
      await store.close();
      if (url.startsWith("redis")) return deleteKeys(url, `{${place}}`);
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      await client.query(`DROP SCHEMA "${place}" CASCADE`);
      await client.end();
    });
    const eventId = crypto.randomUUID();
    await store.add({
      eventId,
      ref: "booking:HX3K9",
      source: "webhook",
      topic: null,
      timestamp: new Date().toISOString(),
      notification: "{}",
    });
    const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000 });
    if (!claim) throw new Error("nothing to claim");
    await store.settle(claim, {
      state: "parked",
      reason: "denied",
      entry: { duration: 5, reason: "denied", error: "no" },
    });
    const events = async (...args: string[]) => {
      const { code, stdout, stderr } = await cli(["events", ...args, names, place, "--json"], {
        env: { STAYHOOK_STORE: url },
      });
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      return JSON.parse(stdout);
    };
    expect(await events("ls")).toMatchObject([{ eventId, state: "parked" }]);
    expect(await events("show", eventId)).toMatchObject({ reason: "denied", history: [{ error: "no" }] });
    expect(await events("replay", "--all", "--yes")).toEqual({ replayed: 1 });
    expect(await events("counts")).toMatchObject({ pending: 1, parked: 0 });
    // The second run proves that the first one created nothing.
    for (let time = 0; time < 2; time += 1) {
      const typo = await cli(["events", "ls", names, `${place}_typo`], { env: { STAYHOOK_STORE: url } });
      expect(typo).toMatchObject({ code: 4, stdout: "" });
      expect(typo.stderr).toContain(`${place}_typo`);
    }
  });
});

test.skipIf(mysql === undefined)(
  "in mysql ls and replay work, and a wrong database stays empty",
  async () => {
    const server = new URL(mysql ?? "mysql://localhost");
    const name = `stayhook_cli_${crypto.randomUUID().slice(0, 8)}`;
    const connection = await createConnection({ uri: server.href });
    await connection.query(`CREATE DATABASE ${name}`);
    onTestFinished(async () => {
      await connection.query(`DROP DATABASE ${name}`);
      await connection.end();
    });
    const url = Object.assign(new URL(server), { pathname: name }).href;
    const unused = await cli(["events", "ls", "--store", url]);
    expect(unused).toMatchObject({ code: 4, stdout: "" });
    expect(unused.stderr).toContain(`There is no event store in the database ${name} at ${server.host}`);
    expect((await connection.query(`SHOW TABLES IN ${name}`))[0]).toEqual([]);

    const store = mysqlStore({ url });
    const eventId = crypto.randomUUID();
    const rest = { ref: "booking:HX3K9", source: "webhook", topic: null, notification: "{}" } as const;
    await store.add({ eventId, timestamp: "2026-11-21T10:00:00Z", ...rest });
    const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000 });
    await store.settle(claim!, {
      state: "parked",
      reason: "denied",
      entry: { duration: 5, reason: "denied" },
    });
    await store.close();
    const events = (...args: string[]) => cli(["events", ...args], { env: { STAYHOOK_STORE: url } });
    expect(await events("ls")).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(eventId),
      stderr: "",
    });
    expect(await events("replay", "--reason", "denied", "--yes")).toMatchObject({
      code: 0,
      stdout: "1 event will be handled again\n",
    });
  },
);

test("ls, discard and prune take more events than one page of the store, once each", {
  timeout: 30_000,
}, async () => {
  const directory = mkdtempSync(join(tmpdir(), "stayhook-cli-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const file = join(directory, "events.db");
  const store = sqliteStore(file, { durability: "process-crash" });
  const eventIds = Array.from({ length: 1001 }, () => crypto.randomUUID());
  const rest = { source: "webhook", topic: null, timestamp: "2026-11-21T10:00:00Z" } as const;
  await Promise.all(
    eventIds.map((eventId) => store.add({ ...rest, eventId, ref: null, notification: "{}" })),
  );
  await store.close();
  const listed = async (limit: string) => {
    const { stdout } = await cli(["events", "ls", "--limit", limit, "--store", file]);
    return stdout
      .trim()
      .split("\n")
      .map((line) => line.split("\t")[0] ?? "");
  };
  expect((await listed("2000")).sort()).toEqual(eventIds.toSorted());
  expect(new Set(await listed("430")).size).toBe(430);
  const json = async (...args: string[]) =>
    JSON.parse((await cli(["events", ...args, "--json", "--store", file])).stdout);
  const pending = ["discard", "--state", "pending", "--source", "webhook"];
  expect(await json(...pending, "--dry-run")).toMatchObject({ count: 1001 });
  expect(await json(...pending, "--yes")).toEqual({ discarded: 1001 });
  expect(await json("prune", "--older-than", "0", "--yes")).toEqual({ pruned: 1001 });
});

test("an error of the store names its host; a password in --store causes a warning and is not shown", async () => {
  const store = "postgres://u:hunter2@127.0.0.1:1/x";
  const { code, stderr } = await cli(["events", "counts", "--store", store]);
  expect(code).toBe(1);
  const inEnvironment = await cli(["events", "counts"], { env: { STAYHOOK_STORE: store } });
  expect(inEnvironment.code).toBe(1);
  expect(inEnvironment.stderr).toBe(
    "stayhook: The store at 127.0.0.1:1 cannot be read: connect ECONNREFUSED 127.0.0.1:1. Is --store or STAYHOOK_STORE right?\n",
  );
  expect(stderr).toContain("Use STAYHOOK_STORE instead.");
  expect(stderr).not.toContain("hunter2");
});

test("with --json warnings are JSON, too", async () => {
  const { stderr } = await cli([
    "events",
    "counts",
    "--json",
    "--store",
    "postgres://u@127.0.0.1:1/x?password=hunter2",
  ]);
  const lines = stderr.trim().split("\n");
  expect(lines.map((line) => Object.keys(JSON.parse(line)))).toEqual([["warning"], ["error"]]);
  expect(stderr).not.toContain("hunter2");
});

test.each([
  ["postgresql+psycopg2://u:hunter2@127.0.0.1/x", 2],
  ["postgres:/u:hunter2@127.0.0.1/x", 2],
  ["u:hunter2@127.0.0.1/x", 4],
  ["host=127.0.0.1 password=hunter2", 4],
  ["postgres://u:hunter2@127.0.0.1:99999/x", 2],
  ["redis://:hunter2@127.0.0.1:99999", 2],
])("an error does not show the password of an invalid --store: %s", async (store, expected) => {
  for (const args of [[], ["--json"]]) {
    const { code, stdout, stderr } = await cli(["events", "counts", ...args], {
      env: { STAYHOOK_STORE: store },
    });
    expect({ code, stdout }).toEqual({ code: expected, stdout: "" });
    expect(stderr).not.toContain("hunter2");
  }
});

test("Ctrl-C ends a command while the store does not answer", async () => {
  let asked = false;
  const mute = createServer(() => {
    asked = true;
  });
  await new Promise<void>((listening) => mute.listen(0, "127.0.0.1", listening));
  const sockets = new Set<Socket>();
  mute.on("connection", (socket) => void sockets.add(socket.on("error", () => {})));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    mute.close();
  });
  const { port } = mute.address() as AddressInfo;
  const running = start(["events", "counts"], { env: { STAYHOOK_STORE: `postgres://127.0.0.1:${port}/x` } });
  await until(() => expect(asked).toBe(true));
  running.interrupt();
  expect(await running.ended).toEqual({ code: 130, stdout: "", stderr: "" });
});

describe("events", () => {
  test("counts prints the number of events in each state", async () => {
    const { json, events } = await recorded();
    expect(await json("counts")).toEqual({
      scheduled: 0,
      pending: 1,
      processing: 0,
      retrying: 0,
      done: 1,
      parked: 2,
      oldestWaiting: expect.any(Number),
    });
    expect((await events("counts")).stdout).toMatch(
      /^scheduled\t0\npending\t1\nprocessing\t0\nretrying\t0\ndone\t1\nparked\t2\n/,
    );
  });

  test("ls prints the newest first, with --limit, --after and --state", async () => {
    const { json, events, done, parked, waiting } = await recorded();
    const ids = async (...args: string[]) =>
      (await json("ls", ...args)).map(({ eventId }: { eventId: string }) => eventId);
    const newest = [waiting, ...parked.toReversed(), done];
    expect(await ids()).toEqual(newest);
    expect(await ids("--limit", "2")).toEqual(newest.slice(0, 2));
    expect(await ids("--limit", "2", "--after", (newest[1] as string).toUpperCase())).toEqual(
      newest.slice(2),
    );
    expect(await ids("--state", "parked")).toEqual(parked.toReversed());
    // A waiting event says when it is due, before the error.
    expect((await events("ls", "--state", "pending")).stdout).toMatch(/\t-\t\d{4}-\S+Z\t-\n$/);
    const { stdout } = await events("ls", "--state", "parked");
    expect(stdout).toMatch(
      /^\S+\tparked\tbooking\.Request\tbooking:BAD\t1\t\S+Z\tcallback\t.*the calendar is closed/,
    );
  });

  test("show takes an id in any letter case, and ends with 4 if there is no such event", async () => {
    const { json, events, done } = await recorded();
    expect(await json("show", done.toUpperCase())).toMatchObject({
      eventId: done,
      state: "done",
      type: "booking.Confirmed",
      lastStatus: "Confirmed",
    });
    expect((await events("show", done)).stdout).toContain("state\tdone\n");
    expect(await events("show", "11111111-0000-4000-8000-000000000000")).toMatchObject({
      code: 4,
      stdout: "",
    });
  });

  test("replay of several ids changes nothing if one of them is unknown", async () => {
    const { events, json, done, parked } = await recorded();
    expect(await events("replay", done, parked[0] as string)).toMatchObject({ code: 0 });
    expect(await json("counts")).toMatchObject({ pending: 3, parked: 1, done: 0 });
    expect(await events("replay", parked[1] as string, "11111111-0000-4000-8000-000000000000")).toMatchObject(
      { code: 4 },
    );
    expect(await json("counts")).toMatchObject({ pending: 3, parked: 1 });
    expect(await events("replay", "11111111-0000-4000-8000-000000000000")).toMatchObject({ code: 4 });
  });

  test("replay --all takes parked events that match the filter", async () => {
    const { json } = await recorded();
    const replay = (...args: string[]) => json("replay", "--all", "--yes", ...args);
    expect(await replay("--reason", "denied")).toEqual({ replayed: 0 });
    expect(await replay("--until", "2020-01-01T00:00:00Z")).toEqual({ replayed: 0 });
    expect(await replay("--since", "2120-01-01T00:00:00Z")).toEqual({ replayed: 0 });
    expect(await replay("--ref", "booking:FINE")).toEqual({ replayed: 0 });
    expect(await replay("--reason", "callback")).toEqual({ replayed: 2 });
    expect(await json("counts")).toMatchObject({ pending: 3, parked: 0 });
    expect(await replay("--state", "done", "--ref", "booking:FINE")).toEqual({ replayed: 1 });
  });

  test("replay --all and discard --all ask on a terminal, and need --yes elsewhere", async () => {
    for (const name of ["replay", "discard"]) {
      const { file, json } = await recorded();
      const args = ["events", name, "--all", "--store", file];
      const refused = await cli(args);
      expect(refused).toMatchObject({ code: 2, stdout: "" });
      expect(refused.stderr).toContain("--yes");
      for (const input of ["no\n", "", "\n"]) {
        const { code, stdout, stderr } = await cli(args, { typing: true, input });
        expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
        expect(stderr).toMatch(/ 2 parked events\? \[y\/N\] stayhook: Nothing was changed\.\n$/);
      }
      expect(await json("counts")).toMatchObject({ parked: 2 });
      expect(await cli(args, { typing: true, input: "y\n" })).toMatchObject({ code: 0 });
      expect(await json("counts")).toMatchObject({ parked: 0 });
    }
  });

  test("replay and discard of a filter without --all; --dry-run says how many and which", async () => {
    const { events, json, done, parked, waiting } = await recorded();
    const before = await json("ls");
    expect(await json("replay", "--reason", "callback", "--dry-run")).toMatchObject({
      dryRun: true,
      count: 2,
      events: parked.toReversed().map((eventId) => ({ eventId, state: "parked" })),
    });
    const shown = await events("discard", "--ref", "booking:BAD", "--dry-run");
    expect(shown).toMatchObject({ code: 0, stderr: "" });
    expect(shown.stdout.split("\n").map((line) => line.split("\t")[0])).toEqual([
      "Would discard 2 parked events",
      ...parked.toReversed(),
      "",
    ]);
    // `waiting` is a pending event, and replay does not change pending events.
    expect((await events("replay", done, waiting, "--dry-run")).stdout).toMatch(
      new RegExp(`^Would replay 1 event\n${done}\t`),
    );
    expect(await json("ls")).toEqual(before);
    expect(await events("replay", "--since", "1h")).toMatchObject({ code: 2, stdout: "" });
    expect(await json("replay", "--since", "1h", "--yes")).toEqual({ replayed: 2 });
    expect(await json("discard", "--until", "1h", "--state", "pending", "--yes")).toEqual({ discarded: 0 });
  });

  test("prune and erase ask on a terminal, and need --yes elsewhere", async () => {
    const { file, json } = await recorded();
    for (const [args, question, result] of [
      [
        ["prune", "--state", "parked", "--reason", "callback", "--older-than", "0"],
        "Delete all events that have been parked for 0 or longer and have the reason callback? [y/N] ",
        "2 events deleted\n",
      ],
      [
        ["erase", "booking:FINE"],
        "Delete 2 events and the snapshot of booking:FINE? [y/N] ",
        "2 events and the snapshot of booking:FINE deleted\n",
      ],
    ] as const) {
      const command = ["events", ...args, "--store", file];
      const before = await json("counts");
      expect(await cli(command)).toMatchObject({
        code: 2,
        stdout: "",
        stderr: expect.stringContaining("Add --yes"),
      });
      expect(await cli(command, { typing: true, input: "n\n" })).toEqual({
        code: 1,
        stdout: "",
        stderr: `${question}stayhook: Nothing was changed.\n`,
      });
      const { oldestWaiting: _, ...unchanged } = before;
      expect(await json("counts")).toMatchObject(unchanged);
      expect(await cli(command, { typing: true, input: "y\n" })).toEqual({
        code: 0,
        stdout: result,
        stderr: question,
      });
    }
    expect(await json("counts")).toMatchObject({ pending: 0, done: 0, parked: 0 });
  });

  test("ls takes each filter", async () => {
    const { json, done, parked, waiting } = await recorded();
    const ids = async (...args: string[]) =>
      (await json("ls", ...args)).map(({ eventId }: { eventId: string }) => eventId);
    expect(await ids("--ref", "booking:FINE")).toEqual([waiting, done]);
    expect(await ids("--type", "booking.Request")).toEqual(parked.toReversed());
    expect(await ids("--reason", "callback", "--state", "parked")).toEqual(parked.toReversed());
    expect(await ids("--source", "reconcile")).toEqual([]);
    expect(await ids("--since", "2020-01-01T00:00:00Z", "--source", "webhook")).toHaveLength(4);
    expect(await ids("--since", "90s")).toHaveLength(4);
    expect(await ids("--since", "1ms")).toEqual([]);
    expect(await ids("--until", "90s")).toEqual([]);
    expect(await ids("--until", "2020-01-01T00:00:00Z")).toEqual([]);
  });

  test("show has a line for each attempt", async () => {
    const { events, json, parked } = await recorded();
    const [id = ""] = parked;
    expect((await events("show", id)).stdout).toMatch(
      /\nattempt 1\t\S+Z by \S+, took \d+ ms: parked \(callback\): Error: the calendar is closed\n$/,
    );
    expect(await json("show", id)).toMatchObject({
      history: [{ outcome: "parked", reason: "callback", error: "Error: the calendar is closed" }],
      lastStatus: null,
    });
  });

  test("show ends the timeline with the next retry, the wait or the discard", async () => {
    const { events, file, parked, waiting, done } = await recorded();
    const timeline = async (id: string) => {
      const { stdout } = await events("show", id);
      return stdout.slice(stdout.indexOf("\nreceived\t") + 1);
    };
    expect(await timeline(waiting)).toMatch(
      /^received\t\S+Z by webhook\nnext attempt\t\S+Z, as soon as a process of the app is free\n$/,
    );
    expect(await timeline(done)).toMatch(
      /^received\t\S+Z by webhook\nattempt 1\t\S+Z by \S+, took \d+ ms: done\ndone\t\S+Z\n$/,
    );
    await events("discard", parked[0] as string);
    expect(await timeline(parked[0] as string)).toMatch(/\ndiscarded\t\S+Z\n$/);

    const store = sqliteStore(file, { durability: "process-crash" });
    const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000, worker: "web-1:42" });
    expect(await timeline(waiting)).toMatch(/\nlease ends\t\S+Z, in (59|60) s\n$/);
    const entry = { duration: 5, reason: "unavailable", error: "502" } as const;
    await store.settle(claim!, {
      state: "retrying",
      in: 600_000,
      counted: true,
      reason: "unavailable",
      entry,
    });
    await store.close();
    expect(await timeline(waiting)).toMatch(
      /\nattempt 1\t\S+Z by web-1:42, took 5 ms: retrying \(unavailable\): 502\nnext retry\t\S+Z, in 10 min\n$/,
    );
  });

  test("show numbers no attempt of a full history, because earlier attempts may be missing", async () => {
    const { events, file, waiting } = await recorded();
    const store = sqliteStore(file, { durability: "process-crash" });
    for (let attempt = 1; attempt <= 11; attempt += 1) {
      const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000 });
      const entry = { duration: 5, reason: "callback", error: `failure ${attempt}` } as const;
      await store.settle(claim!, { state: "retrying", in: 0, counted: true, reason: "callback", entry });
    }
    await store.close();
    const { stdout } = await events("show", waiting);
    const steps = stdout.split("\n").filter((line) => line.startsWith("attempt"));
    expect(steps.map((line) => line.replace(/\t.*: /, ": "))).toEqual(
      Array.from({ length: 10 }, (_, index) => `attempt: failure ${index + 2}`),
    );
  });

  test("ls --follow prints new events and changes of their state until Ctrl-C", async () => {
    const { file, done } = await recorded();
    const store = sqliteStore(file, { durability: "process-crash" });
    const follow = (...args: string[]) => start(["events", "ls", "--follow", ...args, "--store", file]);
    const [all, parkedOnly, since, json] = [
      follow(),
      follow("--state", "parked", "--reason", "denied"),
      follow("--since", "1h", "--ref", "booking:FINE"),
      follow("--json", "--ref", "booking:NEW"),
    ];
    await until(() => expect(since.stdout()).toContain(done));
    const rest = { source: "webhook", topic: null, notification: "{}" } as const;
    const entry = { duration: 5, reason: "denied" } as const;
    const park = async (eventId: string): Promise<void> => {
      const [claim] = await store.claim({ limit: 1, leaseDuration: 60_000, eventId });
      await store.settle(claim!, { state: "parked", reason: "denied", entry });
    };
    // The commands do not say when they begin to follow the store, so add events until each command prints one.
    for (const running of [all, parkedOnly, json])
      await until(async () => {
        const eventId = crypto.randomUUID();
        await store.add({ eventId, timestamp: "2026-11-21T10:00:00Z", ref: "booking:NEW", ...rest });
        await park(eventId);
        await new Promise((resolve) => setTimeout(resolve, 600));
        expect(running.stdout()).not.toBe("");
      });
    const eventId = crypto.randomUUID();
    await store.add({ eventId, timestamp: "2026-11-21T10:00:00Z", ref: "booking:NEW", ...rest });
    // A command may also see the event between its claim and its settle.
    const states = () =>
      json
        .stdout()
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line))
        .filter((event) => event.eventId === eventId && event.state !== "processing")
        .map(({ state }) => state);
    await until(() => expect(all.stdout()).toMatch(new RegExp(`^${eventId}\tpending\t`, "m")));
    await until(() => expect(states()).toEqual(["pending"]));
    await park(eventId);
    await until(() => expect(all.stdout()).toMatch(new RegExp(`^${eventId}\tparked\t.*\tdenied\t`, "m")));
    await until(() => expect(parkedOnly.stdout()).toMatch(new RegExp(`^${eventId}\tparked\t.*\n$`, "m")));
    expect(parkedOnly.stdout()).not.toContain("\tpending\t");
    await until(() => expect(states()).toEqual(["pending", "parked"]));
    for (const running of [all, parkedOnly, since, json]) {
      running.interrupt();
      expect(await running.ended).toMatchObject({ code: 0, stderr: "" });
    }
    expect(since.stdout().trim().split("\n")).toHaveLength(2);
    await store.close();
  });

  test("discard takes ids or a filter", async () => {
    const { json, parked, waiting } = await recorded();
    expect(await json("discard", parked[0] as string)).toEqual({ discarded: 1 });
    expect(await json("show", parked[0] as string)).toMatchObject({ state: "done", reason: "discarded" });
    expect(await json("discard", "--all", "--yes")).toEqual({ discarded: 1 });
    expect(await json("show", waiting)).toMatchObject({ state: "pending" });
    expect(await json("discard", "--all", "--state", "pending", "--yes")).toEqual({ discarded: 1 });
    expect(await json("counts")).toMatchObject({ pending: 0, parked: 0, done: 4 });
  });

  test("prune deletes done or parked events by state, reason and age", async () => {
    const { events, json } = await recorded();
    expect(await json("prune", "--yes")).toEqual({ pruned: 0 });
    expect(await json("prune", "--yes", "--older-than", "0")).toEqual({ pruned: 1 });
    expect(
      await json("prune", "--yes", "--older-than", "0", "--state", "parked", "--reason", "denied"),
    ).toEqual({
      pruned: 0,
    });
    expect(await json("prune", "--yes", "--older-than", "0", "--state", "parked")).toEqual({ pruned: 2 });
    expect(await json("counts")).toMatchObject({ pending: 1, parked: 0, done: 0 });
    for (const args of [
      ["--older-than", "long"],
      ["--older-than", "7"],
      ["--state", "pending"],
    ])
      expect(await events("prune", "--yes", ...args)).toMatchObject({ code: 2 });
  });

  test("erase deletes all events of a record, and its snapshot", async () => {
    const { events, json, done } = await recorded();
    expect(await json("erase", "booking:FINE", "--yes")).toEqual({ erased: 2 });
    expect(await events("show", done)).toMatchObject({ code: 4 });
    expect(await events("erase", "booking:FINE")).toMatchObject({ code: 4, stdout: "" });
    expect(await events("erase", "FINE")).toMatchObject({ code: 2 });
    expect(await json("counts")).toMatchObject({ parked: 2, pending: 0, done: 0 });
  });

  test("replay shows its progress on a terminal only", async () => {
    const { file, events } = await recorded();
    const shown = await cli(["events", "replay", "--all", "--yes", "--store", file], { terminal: true });
    expect(shown.stderr).toContain("0 of 2 events");
    expect(shown.stderr.endsWith("\r\u001b[2K")).toBe(true);
    expect((await events("replay", "--all", "--yes")).stderr).toBe("");
    const args = ["events", "replay", "--all", "--yes", "--json", "--store", file];
    const json = await cli(args, { terminal: true });
    expect(json.stderr).toBe("");
  });

  test("STAYHOOK_STORE names the store, and the command closes it", async () => {
    const { file } = await recorded();
    const { code } = await cli(["events", "counts"], { env: { STAYHOOK_STORE: file } });
    expect(code).toBe(0);
    // An open SQLite database has this file.
    expect(existsSync(`${file}-wal`)).toBe(false);
  });

  test("a file without events stays as it is", async () => {
    const { file } = await recorded();
    const other = `${file}.other`;
    const database = new DatabaseSync(other);
    database.exec("CREATE TABLE mine (a)");
    database.close();
    writeFileSync(`${file}.empty`, "");
    for (const each of [other, `${file}.empty`]) {
      const before = readFileSync(each);
      const { code, stdout, stderr } = await cli(["events", "counts", "--store", each]);
      expect({ code, stdout }).toEqual({ code: 4, stdout: "" });
      expect(stderr).toContain("There is no event store in");
      expect(readFileSync(each).equals(before)).toBe(true);
    }
  });

  test("the error of an unreadable file names the file", async () => {
    const { file } = await recorded();
    writeFileSync(`${file}.text`, "no database ".repeat(500));
    const whole = new DatabaseSync(file);
    whole.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    whole.close();
    writeFileSync(`${file}.cut`, readFileSync(file).subarray(0, 5000));
    for (const each of [`${file}.text`, `${file}.cut`, dirname(file)]) {
      const { code, stdout, stderr } = await cli(["events", "ls", "--store", each, "--json"]);
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
      expect(JSON.parse(stderr).error.message).toContain(each);
    }
  });

  test("a missing file is not created", async () => {
    const { file } = await recorded();
    const typo = `${file}x`;
    expect(await cli(["events", "counts", "--store", typo])).toMatchObject({ code: 4, stdout: "" });
    expect(existsSync(typo)).toBe(false);
  });
});

test("a scheduled timer is listed with its type and its time, shown, run now and cancelled", async () => {
  const { file, env, events, json } = await recorded();
  const store = sqliteStore(file, { durability: "process-crash" });
  const client = new StayhookClient({
    baseUrl: env.STAYHOOK_BASE_URL,
    accessToken: env.STAYHOOK_ACCESS_TOKEN,
  });
  const webhooks = createWebhookHandler({ client, store, verify: false, on: { fallback: () => {} } });
  const at = new Date(Math.ceil(Date.now() / 1000) * 1000 + 10 * 86_400_000);
  await webhooks.timers("booking:FINE").set("door-code", at);
  await webhooks.timers("booking:FINE").set("cleaning", at);
  await webhooks.close();
  await store.close();
  const { stdout } = await events("ls", "--state", "scheduled");
  expect(stdout).toContain(
    "stayhook:timer:booking:FINE:door-code\tscheduled\tbooking.timer.door-code\tbooking:FINE",
  );
  expect(stdout).toContain(at.toISOString());
  expect((await events("show", "stayhook:timer:booking:FINE:door-code")).stdout).toContain("in 10 days");
  await events("replay", "stayhook:timer:booking:FINE:door-code");
  await events("discard", "stayhook:timer:booking:FINE:cleaning", "--yes");
  const left = await json("ls", "--state", "scheduled");
  expect(left).toHaveLength(1);
  expect(Date.parse(left[0].dueAt)).toBeLessThanOrEqual(Date.now());
});
