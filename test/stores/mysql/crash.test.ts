import { fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import mysql from "mysql2/promise";
import { afterAll, expect, test, vi } from "vitest";
import { mysqlStore } from "../../../src/stores/mysql/index.ts";
import { createDatabases, describeMysql } from "./support.ts";
import type { Point, WorkerOptions } from "./worker.ts";

const killedAt: readonly Point[] = [
  "in the callback",
  "in the writes",
  "before the commit",
  "after the commit",
];
const LEASE = 2000;
const EVENTS = 6;

const running = new Set<ReturnType<typeof fork>>();
afterAll(() => {
  for (const child of running) child.kill("SIGKILL");
});

function startWorker(options: WorkerOptions) {
  const child = fork(join(import.meta.dirname, "worker.ts"), [JSON.stringify(options)], {
    stdio: ["ignore", "inherit", "pipe", "ipc"],
  });
  let errors = "";
  child.stderr?.on("data", (chunk) => {
    errors += chunk;
  });
  running.add(child);
  const ended = once(child, "exit").then(([code, signal]) => {
    running.delete(child);
    return { code, signal, errors };
  });
  return { child, ended, stands: once(child, "message") };
}

describeMysql("workers with writes of the user's", () => {
  const databases = createDatabases();

  async function withEvents() {
    const url = await databases.create();
    const connection = await mysql.createConnection({ uri: url });
    await connection.query("CREATE TABLE handled (event VARCHAR(36))");
    await connection.query("CREATE TABLE begun (event VARCHAR(36))");
    const store = mysqlStore({ url });
    const ids = Array.from({ length: EVENTS }, () => randomUUID()).sort();
    for (const [index, eventId] of ids.entries()) {
      await store.add({
        eventId,
        ref: `booking:HM${index % 3}`,
        source: "webhook",
        topic: null,
        timestamp: "2026-05-01T12:00:00.000Z",
        notification: JSON.stringify({ eventId }),
      });
    }
    const column = async (table: string) => {
      const [rows] = await connection.query<mysql.RowDataPacket[]>(
        `SELECT event FROM ${table} ORDER BY event`,
      );
      return rows.map(({ event }) => event as string);
    };
    const close = async () => {
      await store.close();
      await connection.end();
    };
    return { url, store, ids, column, close };
  }

  test.concurrent.each(killedAt)(
    "killed %s: each event's writes are there once",
    { timeout: 120_000 },
    async (standAt) => {
      const { url, store, ids, column, close } = await withEvents();
      const first = startWorker({ url, leaseDuration: LEASE, ahead: 0, standAt });
      await Promise.race([
        first.stands,
        first.ended.then(({ errors }) => expect.fail(`it ended: ${errors}`)),
      ]);
      first.child.kill("SIGKILL");
      expect(await first.ended).toMatchObject({ signal: "SIGKILL" });
      // The server undoes the transaction of a process that is gone.
      const done = (await store.list({ state: "done", limit: 100 })).map(({ eventId }) => eventId);
      // By another clock, which must make no difference.
      const second = startWorker({ url, leaseDuration: LEASE, ahead: 600_000 });
      expect(await second.ended).toEqual({ code: 0, signal: null, errors: "" });
      expect(await column("handled")).toEqual(ids);
      expect(await store.counts()).toMatchObject({ done: EVENTS, parked: 0 });
      const begun = await column("begun");
      for (const eventId of done) expect(begun.filter((event) => event === eventId)).toHaveLength(1);
      await close();
    },
  );

  test.concurrent("frozen in the callback, past its lease: each event's writes are there once", {
    timeout: 120_000,
  }, async () => {
    const { url, store, ids, column, close } = await withEvents();
    const first = startWorker({ url, leaseDuration: LEASE, ahead: 0, standAt: "in the callback" });
    await first.stands;
    first.child.kill("SIGSTOP");
    const second = startWorker({ url, leaseDuration: LEASE, ahead: -600_000 });
    await vi.waitFor(async () => expect((await column("handled")).length).toBeGreaterThanOrEqual(EVENTS), {
      timeout: 60_000,
      interval: 200,
    });
    first.child.kill("SIGCONT");
    expect(await second.ended).toMatchObject({ code: 0, signal: null });
    expect(await first.ended).toMatchObject({ code: 0, signal: null });
    expect(await column("handled")).toEqual(ids);
    expect(await store.counts()).toMatchObject({ done: EVENTS, parked: 0 });
    await close();
  });
});
