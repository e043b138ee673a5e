// Servers that a connection must leave, because they take no part in their cluster any longer.

import { connect, createServer } from "node:net";
import mysql from "mysql2/promise";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { type MysqlStore, mysqlStore } from "../../../src/stores/mysql/index.ts";
import { startOwnMysql } from "../../support/mysql-server.ts";
import { freePort, installed } from "../../support/server-process.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { createDatabases, describeMysql, isMariadb } from "./support.ts";

const PROVIDER = installed(["libgalera_smm.so"], ["/usr/lib/galera"]);

const added = (store: MysqlStore, count: number) =>
  Promise.all(Array.from({ length: count }, (_, n) => store.add(eventOf(`booking:${n}`))));

describeMysql("a server that refuses the connections that it has, by the code", () => {
  const databases = createDatabases();

  test.each([
    [1047, "Galera: WSREP has not yet prepared node for application use"],
    [1053, "Server shutdown in progress"],
    [1290, "The server is running with the --read-only option"],
    [1927, "MaxScale: Lost connection to backend server"],
    [3100, "Error on observer while running replication hook 'before_commit'"],
    [3101, "Plugin instructed the server to rollback the current transaction"],
    [9001, "ProxySQL: Max connect timeout reached while reaching hostgroup"],
  ])("%i (%s) is left: all events are recorded", async (code, message) => {
    const url = await databases.create();
    const store = mysqlStore({ url });
    onTestFinished(() => store.close());
    const admin = await mysql.createConnection({ uri: url });
    onTestFinished(() => admin.end());
    await added(store, 10);
    // Only the connections that are open now meet the error.
    const [rows] = await admin.query<mysql.RowDataPacket[]>(
      "SELECT max(id) AS newest FROM information_schema.processlist",
    );
    await admin.query(`CREATE TRIGGER leaving BEFORE INSERT ON stayhook_events FOR EACH ROW
      IF CONNECTION_ID() <= ${rows[0]!.newest} THEN
        SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = ${code}, MESSAGE_TEXT = "${message}";
      END IF`);
    expect(await added(store, 40)).toEqual(Array(40).fill("added"));
  });
});

/** Starts a proxy. After `leave`, the connections that are open answer each statement that matches with an error. */
async function startLeaving(url: string) {
  const { port: far } = new URL(url);
  const states: { refuses?: { readonly statements: RegExp; readonly packet: Buffer } }[] = [];
  const server = createServer((client) => {
    const state: (typeof states)[number] = {};
    states.push(state);
    const socket = connect(Number(far || 3306), new URL(url).hostname);
    socket.pipe(client);
    client.on("data", (data: Buffer) => {
      const isStatement = data[3] === 0 && data[4] === 3;
      if (isStatement && state.refuses?.statements.test(data.toString("latin1", 5)))
        return void client.write(state.refuses.packet);
      socket.write(data);
    });
    for (const [each, other] of [[client, socket] as const, [socket, client] as const])
      each.on("error", () => {}).on("close", () => other.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as { readonly port: number };
  return {
    url: Object.assign(new URL(url), { hostname: "127.0.0.1", port }).href,
    leave(code: number, statements = /./) {
      const body = Buffer.concat([Buffer.from([0xff, code & 0xff, code >> 8]), Buffer.from("#HY000left")]);
      const packet = Buffer.concat([Buffer.from([body.length, 0, 0, 1]), body]);
      for (const state of states) state.refuses = { statements, packet };
    },
  };
}

describeMysql("a server that has gone", () => {
  const databases = createDatabases();

  test.each([1053, 1927])("%i fails no call that reads, changes or writes", async (code) => {
    const { url, leave } = await startLeaving(await databases.create());
    const store = mysqlStore({ url });
    onTestFinished(() => store.close());
    await added(store, 10);
    const calls: (() => Promise<unknown>)[] = [
      async () => expect(await store.list({ limit: 20 })).toHaveLength(10),
      async () => expect(await store.nextDue()).toBe(0),
      async () => {
        const [claim] = await store.claim({ ...CLAIM, limit: 1 });
        leave(code);
        expect(await store.renew([claim!], 60_000)).toEqual([claim]);
        leave(code);
        const write = async (tx: mysql.PoolConnection) => void (await tx.query("SELECT 1"));
        expect(await store.settle(claim!, { ...DONE, writes: [write] })).toBe(true);
      },
      async () => expect(await store.replay({ state: "done" })).toBe(1),
      async () => expect(await store.erase("booking:1")).toBe(1),
    ];
    for (const call of calls) {
      await Promise.all(Array.from({ length: 5 }, () => store.counts()));
      leave(code);
      await call();
    }
  });

  test("at the commit of a change: the change is not made twice, and its error says that it may have been", async () => {
    const { url, leave } = await startLeaving(await databases.create());
    const store = mysqlStore({ url });
    onTestFinished(() => store.close());
    await store.counts();
    leave(1927, /^COMMIT/);
    await expect(store.setMeta("a", "1", { expected: undefined })).rejects.toMatchObject({
      name: "StayhookError",
      message: expect.stringContaining("the server has gone at the commit"),
    });
    expect(await store.setMeta("a", "1", { expected: undefined })).toBe(true);
  });

  test("leaves all connections that the user's pool opened before the store got it", async () => {
    const { url, leave } = await startLeaving(await databases.create());
    const pool = mysql.createPool({ uri: url, connectionLimit: 5 });
    onTestFinished(() => pool.end());
    await Promise.all(Array.from({ length: 5 }, () => pool.query("SELECT SLEEP(0.1)")));
    leave(1047);
    const store = mysqlStore({ pool });
    onTestFinished(() => store.close());
    for (let n = 0; n < 5; n += 1) expect(await added(store, 5)).toEqual(Array(5).fill("added"));
    expect(pool.listenerCount("connection")).toBe(1);
    const other = mysqlStore({ pool });
    onTestFinished(() => other.close());
    await other.counts();
    expect(pool.listenerCount("connection")).toBe(1);
  });
});

describe.skipIf(!isMariadb || PROVIDER === undefined)("a node of Galera that leaves its cluster", () => {
  const databases = createDatabases();

  /** Leads new connections to one of two servers. Open ones stay, as behind a name of DNS or a Service of Kubernetes. */
  async function setUp() {
    const [near, ist] = [await freePort(), await freePort()];
    const node = (await startOwnMysql(undefined, () => [
      ...[
        "--wsrep-on=ON",
        `--wsrep-provider=${PROVIDER}`,
        "--wsrep-new-cluster",
        "--wsrep-cluster-address=gcomm://",
      ],
      ...["--wsrep-node-address=127.0.0.1", "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2"],
      `--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:${near};ist.recv_addr=127.0.0.1:${ist};gcache.size=8M`,
    ]))!;
    onTestFinished(() => node.close());
    const sound = await databases.create();
    const admin = await mysql.createConnection({ uri: new URL("/", node.url).href });
    onTestFinished(() => admin.destroy());
    const { pathname } = new URL(sound);
    await admin.query(`CREATE DATABASE ${pathname.slice(1)}`);
    let leads = node.url;
    const server = createServer((client) => {
      const socket = connect(Number(new URL(leads).port || 3306), new URL(leads).hostname);
      client.pipe(socket).pipe(client);
      for (const each of [client, socket]) each.on("error", () => {});
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const { port } = server.address() as { readonly port: number };
    const store = mysqlStore({ url: `mysql://root@127.0.0.1:${port}${pathname}` });
    onTestFinished(() => store.close());
    const ready = mysqlStore({ url: sound });
    await ready.counts();
    onTestFinished(() => ready.close());
    const rejects = (which: "ALL" | "NONE") => admin.query(`SET GLOBAL wsrep_reject_queries = '${which}'`);
    return { store, ready, rejects, leadTo: (url: string) => (leads = url), sound };
  }

  test("answers 1047, and its connections are left: all events are recorded by the node that is reached now", async () => {
    const { store, ready, rejects, leadTo, sound } = await setUp();
    await added(store, 10);
    leadTo(sound);
    await rejects("ALL");
    expect(await added(store, 40)).toEqual(Array(40).fill("added"));
    expect(await ready.counts()).toMatchObject({ pending: 40 });
    expect(await store.claim({ ...CLAIM, limit: 40 })).toHaveLength(40);
  });

  test("answers 1047 inside of a transaction of the user's: it runs again, and is no failure of the callback", async () => {
    const { store, rejects } = await setUp();
    await store.add(eventOf("booking:A"));
    const [claim] = await store.claim(CLAIM);
    const write = vi.fn(async (tx: mysql.PoolConnection) => {
      if (write.mock.calls.length === 1) await rejects("ALL");
      try {
        await tx.query("CREATE TEMPORARY TABLE IF NOT EXISTS t (i INT)");
      } finally {
        await rejects("NONE");
      }
    });
    expect(await store.settle(claim!, { ...DONE, writes: [write] })).toBe(true);
    expect(write).toHaveBeenCalledTimes(2);
    await store.add(eventOf("booking:B"));
    const [other] = await store.claim(CLAIM);
    const leaving = async (tx: mysql.PoolConnection) => {
      await rejects("ALL");
      await tx.query("SELECT * FROM stayhook_meta");
    };
    const settling = store.settle(other!, { ...DONE, writes: [leaving] });
    await expect(settling).rejects.toMatchObject({
      name: "StayhookError",
      message: expect.stringContaining("The server has left its cluster, or its proxy has no server"),
    });
    await rejects("NONE");
  });
});

describe.skipIf(!isMariadb)("a server with binlog_format = STATEMENT", () => {
  test("is named, without advice about rights", async () => {
    const server = (await startOwnMysql(undefined, () => [
      "--log-bin",
      "--server-id=1",
      "--binlog-format=STATEMENT",
    ]))!;
    onTestFinished(() => server.close());
    const store = mysqlStore({ url: server.url });
    onTestFinished(() => store.close());
    const message = await store.add(eventOf()).catch(String);
    expect(message).toContain("Set binlog_format to ROW or MIXED");
    expect(message).not.toContain("right to change tables");
  });
});
