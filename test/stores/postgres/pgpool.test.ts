// A proxy that sends reads to a standby, which is behind.

import { spawn } from "node:child_process";
import { chownSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { postgresStore } from "../../../src/stores/postgres/index.ts";
import type { PgStore } from "../../../src/stores/postgres/postgres-store.ts";
import { eventually } from "../../support/eventually.ts";
import { runAs, startOwnPostgres, startStandby } from "../../support/postgres-server.ts";
import { freePort, installed, type OwnServer, ownServer } from "../../support/server-process.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { createProxy } from "../every/proxy.ts";

const program = installed(["pgpool"]);
if (program === undefined)
  console.log("pgpool is not installed, so its tests are skipped: apt-get install pgpool2");

/** How far the standby is behind, ms. */
const DELAY = 1500;

describe.skipIf(program === undefined)("behind pgpool-II, with a standby that is behind", () => {
  const servers: OwnServer[] = [];
  let [primary, pool] = ["", ""];
  beforeAll(async () => {
    const started = async (server: Promise<OwnServer | undefined>) => {
      servers.unshift((await server)!);
      return servers[0]!.url;
    };
    primary = await started(startOwnPostgres());
    const standby = await started(startStandby(new URL(primary), DELAY));
    pool = await started(startPgpool(primary, standby));
  });
  afterAll(async () => {
    for (const server of servers) await server.close();
  });

  function open(url = pool) {
    const store = postgresStore({ connectionString: url, schema: "stays", pollInterval: 100 });
    onTestFinished(() => store.close());
    return store;
  }

  test("other reads come from the standby, so the store would see the past", async () => {
    const client = new pg.Client({ connectionString: pool });
    await client.connect();
    onTestFinished(() => client.end());
    const { rows } = await client.query("SELECT current_setting('transaction_read_only') AS fixed");
    expect(rows).toEqual([{ fixed: "on" }]);
  });

  test("events with writes of event.atomically are handled, each once", async () => {
    const store = open();
    await store.add(eventOf("booking:first"));
    const direct = new pg.Client({ connectionString: primary });
    await direct.connect();
    onTestFinished(() => direct.end());
    await direct.query("CREATE TABLE IF NOT EXISTS nights (event text)");
    const refs = Array.from({ length: 20 }, (_, n) => `booking:${n}`);
    await Promise.all(refs.map((ref) => store.add(eventOf(ref))));
    const settled: boolean[] = [];
    while (settled.length < 21)
      for (const claim of await store.claim(CLAIM)) {
        const write = async (tx: pg.PoolClient) =>
          void (await tx.query("INSERT INTO nights VALUES ($1)", [claim.eventId]));
        settled.push(await store.settle(claim, { ...DONE, writes: [write] }));
      }
    expect(settled).toEqual(Array(21).fill(true));
    const { rows } = await direct.query(
      "SELECT count(DISTINCT event)::int AS events, count(*)::int AS rows FROM nights",
    );
    expect(rows).toEqual([{ events: 21, rows: 21 }]);
  });

  test("what a repeated call did is known, although its answer was lost", async () => {
    const proxy = await createProxy(pool);
    const store = open(proxy.url);
    await store.counts();
    for (const hasWrites of [false, true])
      for (let nth = 1; nth <= 8; nth += 1) {
        const event = eventOf("booking:lost");
        await store.add(event);
        const [claim] = await store.claim(CLAIM);
        const ran = vi.fn();
        const outcome = hasWrites ? { ...DONE, writes: [async () => ran()] } : DONE;
        const { forget } = proxy.loseAnswer(nth);
        const first = await store.settle(claim!, outcome).catch(() => undefined);
        forget();
        const again = await eventually(() => store.settle(claim!, outcome));
        expect([first, again], `answer ${nth}`).toEqual([first === undefined ? undefined : true, true]);
      }
  });

  test("an event that is known is a duplicate or a conflict, and a timer that was just set can be removed", async () => {
    const store = open();
    const event = eventOf("booking:known");
    expect(await store.add(event)).toBe("added");
    expect(await store.add(event)).toBe("duplicate");
    expect(await store.add({ ...event, ref: "booking:other" })).toBe("conflict");
    const at = new Date(Date.now() + 3_600_000);
    const timer = {
      ...eventOf("booking:known"),
      eventId: "stayhook:timer:booking:known:door",
      source: "timer" as const,
      timestamp: at.toISOString(),
    };
    expect(await store.add(timer, { dueAt: at })).toBe("added");
    expect(await store.remove("booking:known", [`${timer.eventId}:${timer.timestamp}`])).toBe(1);
    expect(await store.discard({ ref: "booking:known" })).toBe(1);
    await store.add(eventOf("booking:known"));
    expect(await store.nextDue()).toBe(0);
  });

  test("stayhook doctor tries all, and names the proxy", async () => {
    const store = open() as PgStore;
    const found = (await store.problems()).filter(({ detail }) => !detail.startsWith("fsync is off"));
    const detail = expect.stringContaining("A proxy sends reads to a standby");
    expect(found).toEqual([{ fails: false, detail }]);
  });
});

/** Starts pgpool-II, which sends all reads that it may to the standby. */
async function startPgpool(primary: string, standby: string): Promise<OwnServer> {
  const directory = mkdtempSync(join(tmpdir(), "stayhook-pgpool-"));
  const [port, pcp] = [await freePort(), await freePort()];
  const backends = [primary, standby].flatMap((url, n) => [
    ...[`backend_hostname${n} = '127.0.0.1'`, `backend_port${n} = ${new URL(url).port}`],
    ...[`backend_weight${n} = ${n}`, `backend_flag${n} = 'DISALLOW_TO_FAILOVER'`],
  ]);
  const settings = [
    ...["backend_clustering_mode = 'streaming_replication'", "load_balance_mode = on", ...backends],
    ...["listen_addresses = '127.0.0.1'", `port = ${port}`, `pcp_port = ${pcp}`, "num_init_children = 12"],
    ...[`socket_dir = '${directory}'`, `pcp_socket_dir = '${directory}'`, `logdir = '${directory}'`],
    ...[`pid_file_name = '${join(directory, "pid")}'`, "sr_check_user = 'postgres'", "sr_check_period = 1"],
    // The standby is to serve reads although it is behind.
    "delay_threshold = 0",
  ];
  const file = join(directory, "pgpool.conf");
  writeFileSync(file, settings.join("\n"));
  for (const name of ["pcp.conf", "pool_hba.conf"]) writeFileSync(join(directory, name), "");
  const user = runAs();
  if (user) for (const path of [directory, file]) chownSync(path, user.uid, user.gid);
  const url = `postgresql://postgres@127.0.0.1:${port}/postgres`;
  const answers = async () => {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2000 });
    client.on("error", () => {});
    try {
      await client.connect();
      // pgpool may not know the primary yet.
      await client.query("CREATE TEMP TABLE one (a int)");
      return true;
    } catch {
      return false;
    } finally {
      await client.end().catch(() => {});
    }
  };
  const args = ["-n", "-f", file, "-F", join(directory, "pcp.conf"), "-a", join(directory, "pool_hba.conf")];
  return ownServer({
    ...{ url, directory, answers, killSignal: "SIGINT" },
    run: () =>
      spawn(program!, args, {
        stdio: process.env.PGPOOL_LOG ? "inherit" : "ignore",
        cwd: directory,
        ...user,
      }),
  });
}
