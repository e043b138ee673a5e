import { type ChildProcess, fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { join } from "node:path";
import pg from "pg";
import { postgresStore } from "stayhook/postgres";
import { sqliteStore } from "stayhook/sqlite";
import type { EventStore } from "stayhook/store";
import { expect, onTestFinished, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { postgresUrl } from "../support/postgres-server.ts";
import { freePort } from "../support/server-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const RESTARTS = Number(process.env.STAYHOOK_RESTARTS ?? 3);
/** Notifications are sent at this interval, ms. */
const EVERY = 5;

const postgres = await postgresUrl();

interface Place {
  /** What the app opens. */
  readonly args: object;
  readonly open: () => EventStore<never>;
}

const places: Readonly<Record<string, () => Place>> = {
  SQLite: () => {
    const directory = temporaryFolder();
    const path = join(directory, "events.db");
    return { args: { path }, open: () => sqliteStore(path) as never };
  },
  ...(postgres !== undefined && {
    PostgreSQL: () => {
      const schema = `stayhook_restarts_${randomUUID().replaceAll("-", "")}`;
      onTestFinished(async () => {
        const pool = new pg.Pool({ connectionString: postgres, max: 1 });
        await pool.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
        await pool.end();
      });
      const open = () => postgresStore({ connectionString: postgres, schema }) as never;
      return { args: { postgres, schema }, open };
    },
  }),
};

async function start(args: object): Promise<ChildProcess> {
  const app = fork(join(import.meta.dirname, "restarting-app.ts"), [JSON.stringify(args)], {
    stdio: "pipe",
  });
  onTestFinished(() => void app.kill("SIGKILL"));
  let said = "";
  app.stderr?.on("data", (chunk) => {
    said += chunk;
  });
  const exited = once(app, "exit").then(() => Promise.reject(new Error(`the app ended: ${said}`)));
  exited.catch(() => {});
  await Promise.race([once(app, "message"), exited]);
  return app;
}

/** POSTs a notification. Resolves to the status, or to `undefined` if the connection gave no answer. */
function notify(port: number, agent: Agent, eventId: string): Promise<number | undefined> {
  const body = JSON.stringify({
    eventId,
    timestamp: new Date().toISOString(),
    bookingCode: `B${eventId.slice(0, 4)}`,
  });
  return new Promise((resolve) => {
    const sent = request({ host: "127.0.0.1", port, method: "POST", path: "/", agent }, (answer) => {
      answer.resume();
      answer.on("end", () => resolve(answer.statusCode));
      answer.on("error", () => resolve(undefined));
    });
    sent.on("error", () => resolve(undefined));
    sent.end(body);
  });
}

test.each(Object.entries(places))(
  "an app on %s that restarts under load answers 200 or not at all, and loses nothing",
  async (_, placeOf) => {
    const { args, open: reopen } = placeOf();
    const port = await freePort();
    const agent = new Agent({ keepAlive: true });
    onTestFinished(() => agent.destroy());
    const answers = new Map<string, Promise<number | undefined>>();
    let app = await start({ ...args, port });
    let [open, accepted] = [0, 0];
    const load = setInterval(() => {
      // A busy machine gets no more than it can answer in time.
      if (open >= 20) return;
      open += 1;
      const eventId = randomUUID();
      const answer = notify(port, agent, eventId);
      answers.set(eventId, answer);
      void answer.then((status) => {
        open -= 1;
        if (status === 200) accepted += 1;
      });
    }, EVERY);
    const more = async () => {
      const before = accepted;
      await eventually(() => expect(accepted).toBeGreaterThan(before + 40));
    };
    onTestFinished(() => clearInterval(load));
    for (let restart = 0; restart < RESTARTS; restart += 1) {
      await more();
      app.kill("SIGTERM");
      await once(app, "exit");
      expect(app.exitCode).toBe(0);
      app = await start({ ...args, port });
    }
    await more();
    clearInterval(load);
    const statuses = new Map<string, number | undefined>();
    for (const [eventId, answer] of answers) statuses.set(eventId, await answer);
    app.kill("SIGTERM");
    await once(app, "exit");

    expect([...new Set(statuses.values())].filter((status) => status !== undefined)).toEqual([200]);
    const store = reopen();
    onTestFinished(() => store.close());
    for (const [eventId, status] of statuses)
      if (status === 200) expect(await store.get(eventId)).toBeDefined();
  },
);
