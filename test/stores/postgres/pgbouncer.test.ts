import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { eventually } from "../../support/eventually.ts";
import { freePort } from "../../support/server-process.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { race } from "../every/race.ts";
import { createSchemas, url } from "./support.ts";

const version = pgbouncerVersion();
if (version === undefined)
  console.log("pgbouncer is not installed, so its tests are skipped: apt-get install pgbouncer");

/** Since 1.21, PgBouncer in transaction mode can keep prepared statements. Older versions reject the setting. */
const canPrepare = version !== undefined && version >= 1.21;
const modes = [
  {
    name: "transaction pooling without prepared statements",
    settings: "pool_mode = transaction",
    listens: false,
  },
  {
    name: `transaction pooling with prepared statements${canPrepare ? "" : ", which this version does not have"}`,
    settings: `pool_mode = transaction${canPrepare ? "\nmax_prepared_statements = 100" : "\nserver_reset_query_always = 1"}`,
    listens: false,
  },
  { name: "session pooling", settings: "pool_mode = session", listens: true },
];

describe.skipIf(url === undefined || version === undefined).each(modes)("behind PgBouncer, $name", (mode) => {
  const schemas = createSchemas();
  let bouncer: { readonly connectionString: string; close(): Promise<void> };
  beforeAll(async () => {
    bouncer = await startPgbouncer(url, mode.settings);
  });
  afterAll(() => bouncer?.close());

  test("four handles handle each event once", async () => {
    const schema = schemas.name();
    const open = () => schemas.store({ connectionString: bouncer.connectionString, schema });
    const handles = Array.from({ length: 4 }, open);
    await race(handles, 300, 7);
    await Promise.all(handles.map((store) => store.close()));
  });

  test("the writes of event.atomically are committed with the end of the event", async () => {
    const schema = schemas.name();
    const store = schemas.store({ connectionString: bouncer.connectionString, schema });
    await store.add(eventOf());
    await schemas.pool.query(`CREATE TABLE ${schema}.nights (event text)`);
    const [claim] = await store.claim(CLAIM);
    const write = async (tx: pg.ClientBase) =>
      void (await tx.query(`INSERT INTO ${schema}.nights VALUES ($1)`, ["one"]));
    expect(await store.settle(claim!, { ...DONE, writes: [write] })).toBe(true);
    expect((await schemas.pool.query(`SELECT event FROM ${schema}.nights`)).rows).toEqual([{ event: "one" }]);
    await store.close();
  });

  test(`an event of another process is found ${mode.listens ? "by a notification" : "by polling"}`, async () => {
    const schema = schemas.name();
    const pollInterval = mode.listens ? 3_600_000 : 50;
    const store = schemas.store({ connectionString: bouncer.connectionString, schema, pollInterval });
    const other = schemas.store({ schema });
    const woken = vi.fn();
    const end = store.subscribe?.(woken);
    await eventually(() => expect(woken).toHaveBeenCalled());
    await other.add(eventOf());
    woken.mockClear();
    if (mode.listens) await other.add(eventOf());
    await eventually(() => expect(woken).toHaveBeenCalled());
    end?.();
    await Promise.all([store.close(), other.close()]);
  });
});

describe.skipIf(url === undefined || version === undefined)("a PgBouncer that refuses", () => {
  const schemas = createSchemas();

  async function bouncerWith(settings: string) {
    const bouncer = await startPgbouncer(url, settings);
    onTestFinished(() => bouncer.close());
    return bouncer;
  }

  test("connections: with four for two processes, all events get through", async () => {
    const { connectionString } = await bouncerWith("pool_mode = transaction\nmax_client_conn = 4");
    const schema = schemas.name();
    await schemas.store({ schema }).migrate();
    const stores = [1, 2].map(() => schemas.store({ connectionString, schema }));
    onTestFinished(async () => void (await Promise.all(stores.map((store) => store.close()))));
    for (const store of stores) {
      await store.counts();
      store.subscribe?.(() => {});
    }
    const rest = Array.from({ length: 300 }, (_, n) => n).values();
    // A busy machine gets no more calls at once than this.
    const calling = Array.from({ length: 20 }, async () => {
      for (const n of rest) {
        const store = stores[n % 2]!;
        const adding = store.add(eventOf(`booking:${n}`));
        await Promise.all([adding, store.counts(), store.nextDue()]);
        expect(await adding).toBe("added");
        await sleep(10);
      }
    });
    await Promise.all(calling);
  });

  test("transactions: the error has the reason and the setting, and no advice about rights", async () => {
    const { connectionString } = await bouncerWith("pool_mode = statement");
    const store = schemas.store({ connectionString });
    const error = await store.add(eventOf()).catch(String);
    expect(error).toMatch(/statement pooling mode/);
    expect(error).toMatch(/set PgBouncer's pool_mode to transaction or session/);
    expect(error).not.toMatch(/right to change tables|migrationSql/);
    await store.close();
  });
});

function pgbouncerVersion(): number | undefined {
  try {
    const said = execFileSync("pgbouncer", ["--version"], { encoding: "utf8" });
    return Number(/PgBouncer (\d+\.\d+)/.exec(said)?.[1]);
  } catch {
    return undefined;
  }
}

/** Starts PgBouncer in front of a server. It lends three connections, so that clients share them. */
async function startPgbouncer(target: string, settings: string) {
  const server = new URL(target);
  const directory = mkdtempSync(join(tmpdir(), "stayhook-pgbouncer-"));
  const port = await freePort();
  const database = server.pathname.slice(1) || "postgres";
  const user = server.username || "postgres";
  const size = settings.includes("session") ? 40 : 3;
  writeFileSync(join(directory, "users.txt"), `"${user}" "${server.password}"\n`);
  writeFileSync(
    join(directory, "pgbouncer.ini"),
    `[databases]
${database} = host=${server.hostname} port=${server.port || 5432} dbname=${database} user=${user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
auth_file = ${join(directory, "users.txt")}
default_pool_size = ${size}
ignore_startup_parameters = extra_float_digits
${settings}
`,
  );
  // PgBouncer refuses to run as root.
  const as = process.getuid?.() === 0 ? ["-u", "nobody"] : [];
  execFileSync("chmod", ["-R", "a+rX", directory]);
  const child: ChildProcess = spawn("pgbouncer", ["-q", ...as, join(directory, "pgbouncer.ini")], {
    stdio: "ignore",
  });
  const connectionString = `postgresql://${user}@127.0.0.1:${port}/${database}`;
  await eventually(async () => {
    const client = new pg.Client({ connectionString });
    await client.connect();
    await client.query("SELECT 1");
    await client.end();
  });
  return {
    connectionString,
    async close() {
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
