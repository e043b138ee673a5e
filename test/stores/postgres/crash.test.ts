import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { eventOf } from "./event.ts";
import { createSchemas, describePostgres, url } from "./support.ts";
import type { WorkerOptions } from "./worker.ts";

type Point = NonNullable<WorkerOptions["standAt"]>;
const killedAt: readonly Point[] = [
  "in the writes",
  "before the end of the event",
  "before the commit",
  "after the commit",
];
const frozenAt: readonly Point[] = ["in the callback", "in the writes", "before the commit"];
// Long enough for renewals on a busy machine: each may take a sixth of it.
const LEASE = 4000;

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

describePostgres("workers with writes of the user's", () => {
  const schemas = createSchemas();

  async function withEvents(count: number) {
    const schema = schemas.name();
    const store = schemas.store({ schema });
    await store.migrate();
    await schemas.pool.query(
      `CREATE TABLE ${schema}.handled (event text); CREATE TABLE ${schema}.begun (event text)`,
    );
    const events = Array.from({ length: count }, (_, index) => eventOf(`booking:HM${index % 3}`));
    for (const event of events)
      await store.add({ ...event, notification: JSON.stringify({ eventId: event.eventId }) });
    const column = async (table: string) =>
      (await schemas.pool.query(`SELECT event FROM ${schema}.${table} ORDER BY event`)).rows.map(
        ({ event }) => event as string,
      );
    const ids = events.map(({ eventId }) => eventId).sort();
    return { schema, store, ids, column };
  }

  const options = { url, leaseDuration: LEASE, ahead: 0 };

  test.concurrent.each(killedAt)(
    "killed %s: each event's writes are there once",
    { timeout: 120_000 },
    async (standAt) => {
      const { schema, store, ids, column } = await withEvents(6);
      const first = startWorker({ ...options, schema, standAt });
      await first.stands;
      first.child.kill("SIGKILL");
      expect(await first.ended).toMatchObject({ signal: "SIGKILL" });
      const done = (await store.list({ state: "done", limit: 100 })).map(({ eventId }) => eventId);
      // By another's clock, which must make no difference.
      const second = startWorker({ ...options, schema, ahead: 600_000 });
      expect(await second.ended).toEqual({ code: 0, signal: null, errors: "" });
      expect(await column("handled")).toEqual(ids);
      expect(await store.counts()).toMatchObject({ done: 6, parked: 0 });
      const begun = await column("begun");
      for (const eventId of done) expect(begun.filter((event) => event === eventId)).toHaveLength(1);
      await store.close();
    },
  );

  test.concurrent.each(frozenAt)(
    "frozen %s, past its lease: each event's writes are there once",
    { timeout: 120_000 },
    async (standAt) => {
      const { schema, store, ids, column } = await withEvents(6);
      const first = startWorker({ ...options, schema, standAt });
      await first.stands;
      first.child.kill("SIGSTOP");
      // All, though the other may hold locks: the server ends a session that stands still in a transaction.
      const second = startWorker({ ...options, schema, ahead: -600_000 });
      await vi.waitFor(async () => expect((await column("handled")).length).toBeGreaterThanOrEqual(6), {
        timeout: 60_000,
        interval: 200,
      });
      first.child.kill("SIGCONT");
      expect(await second.ended).toMatchObject({ code: 0, signal: null });
      expect(await first.ended).toMatchObject({ code: 0, signal: null });
      expect(await column("handled")).toEqual(ids);
      expect(await store.counts()).toMatchObject({ done: 6, parked: 0 });
      await store.close();
    },
  );
});
