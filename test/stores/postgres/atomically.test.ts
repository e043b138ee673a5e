import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { ClientBase } from "pg";
import { beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { InvalidWriteError } from "../../../src/errors.ts";
import type { PostgresStoreOptions } from "../../../src/stores/postgres/index.ts";
import { eventually } from "../../support/eventually.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { createSchemas, describePostgres, url } from "./support.ts";

/** An error of PostgreSQL that ends the session. */
function fatal(code: string, message: string): Buffer {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0M${message}\0\0`);
  const head = Buffer.alloc(5, "E");
  head.writeInt32BE(4 + fields.length, 1);
  return Buffer.concat([head, fields]);
}

/** A proxy in front of the server that sends a last message on its connections, and ends them. */
async function createServerThatEnds() {
  const { hostname, port } = new URL(url);
  const open = new Map<Socket, Socket>();
  const server = createServer((near) => {
    const far = connect(Number(port || 5432), hostname);
    open.set(near, far);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const)
      from
        .on("error", () => {})
        .on("close", () => to.destroy())
        .pipe(to);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const end = (message: Uint8Array = new Uint8Array()) => {
    for (const [near, far] of open) {
      far.unpipe(near);
      near.end(message);
    }
    open.clear();
  };
  onTestFinished(() => {
    server.close();
    end();
  });
  const found = new URL(url);
  found.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url: found.href, end };
}

describePostgres("event.atomically", () => {
  const schemas = createSchemas();
  const users = schemas.name();
  beforeAll(async () => {
    await schemas.pool.query(`CREATE SCHEMA ${users}; CREATE TABLE ${users}.nights (event text, test text)`);
  });

  let tests = 0;
  /** Makes a store with a table of the user, and claims `count` events of different records. */
  async function claimed(count: number, options: PostgresStoreOptions = {}) {
    tests += 1;
    const name = String(tests);
    const store = schemas.store(options);
    onTestFinished(() => store.close());
    await Promise.all(Array.from({ length: count }, () => store.add(eventOf(null))));
    const claims = await store.claim(CLAIM);
    const nights = async () => {
      const sql = `SELECT event FROM ${users}.nights WHERE test = $1 ORDER BY event`;
      return (await schemas.pool.query(sql, [name])).rows.map(({ event }) => event);
    };
    const night = (event: string) => async (tx: ClientBase) =>
      void (await tx.query(`INSERT INTO ${users}.nights VALUES ($1, $2)`, [event, name]));
    const done = (...writes: ((tx: ClientBase) => void | Promise<void>)[]) => ({ ...DONE, writes });
    return { store, claims, nights, night, done };
  }

  test("the server ends a session that is idle for a minute during the writes", async () => {
    const { store, claims, done } = await claimed(1);
    let timeout = "0";
    const look = async (tx: ClientBase) => {
      const { rows } = await tx.query("SELECT current_setting('idle_in_transaction_session_timeout') AS set");
      timeout = rows[0].set;
    };
    expect(await store.settle(claims[0]!, done(look))).toBe(true);
    expect(timeout).toBe("1min");
  });

  test("a statement in a write that times out fails the write, and its connection is used again", async () => {
    const { store, claims, nights, night, done } = await claimed(1, { commandTimeout: 1000 });
    const slow = async (tx: ClientBase) => void (await tx.query("SELECT pg_sleep(30)"));
    await expect(store.settle(claims[0]!, done(night("undone"), slow))).rejects.toMatchObject({
      message: "Query read timeout",
    });
    expect(await store.settle(claims[0]!, done(night("one")))).toBe(true);
    expect(await nights()).toEqual(["one"]);
  });

  // PostgreSQL has transaction_timeout from 17 on. The proxy sends what such a server sends, and ends the connection.
  test.each(["in a statement", "between two statements"])(
    "transaction_timeout %s fails the write",
    async (when) => {
      const proxy = await createServerThatEnds();
      const { store, claims, done } = await claimed(1, { connectionString: proxy.url });
      const slow = async (tx: ClientBase) => {
        await tx.query("SELECT 1");
        setTimeout(() => proxy.end(fatal("25P04", "terminating connection due to transaction timeout")), 50);
        if (when === "in a statement") await tx.query("SELECT pg_sleep(20)");
        else await sleep(300);
      };
      await expect(store.settle(claims[0]!, done(slow))).rejects.toMatchObject({
        name: "InvalidWriteError",
        message: expect.stringContaining("transaction_timeout"),
      });
      expect(await store.counts()).toMatchObject({ processing: 1 });
      expect(await store.settle(claims[0]!, done())).toBe(true);
    },
  );

  describe("a write that breaks the rules", () => {
    test.each(["COMMIT; BEGIN", "ROLLBACK; BEGIN", "ROLLBACK AND CHAIN"])("runs %s", async (sql) => {
      const { store, claims, done } = await claimed(1);
      const bad = async (tx: ClientBase) => void (await tx.query(sql));
      await expect(store.settle(claims[0]!, done(bad))).rejects.toThrow(InvalidWriteError);
      expect(await store.counts()).toMatchObject({ processing: 1 });
    });

    test("catches an SQL error: settle rejects with InvalidWriteError, and nothing is committed", async () => {
      const { store, claims, nights, night, done } = await claimed(1);
      const swallow = (tx: ClientBase) =>
        tx.query("SELECT 1 / 0").then(
          () => {},
          () => {},
        );
      await expect(store.settle(claims[0]!, done(night("one"), swallow))).rejects.toMatchObject({
        name: "InvalidWriteError",
        message: expect.stringContaining("SAVEPOINT"),
      });
      expect(await nights()).toEqual([]);
      expect(await store.settle(claims[0]!, done(night("one")))).toBe(true);
    });
  });

  describe("store.with(client)", () => {
    test("adds an event when the caller commits, and no event after a rollback", async () => {
      const { store } = await claimed(0);
      const [kept, undone] = [eventOf("booking:A"), eventOf("booking:B")];
      const client = await schemas.pool.connect();
      try {
        await client.query("BEGIN");
        expect(await store.with(client).add(kept)).toBe("added");
        expect(await store.with(client).add(kept)).toBe("duplicate");
        expect(await store.get(kept.eventId)).toBeUndefined();
        expect(await store.claim(CLAIM)).toEqual([]);
        await client.query("COMMIT");
        expect(await store.claim(CLAIM)).toMatchObject([{ eventId: kept.eventId }]);
        await client.query("BEGIN");
        expect(await store.with(client).add(undone)).toBe("added");
        await client.query("ROLLBACK");
      } finally {
        client.release();
      }
      expect(await store.get(undone.eventId)).toBeUndefined();
      expect(await store.claim(CLAIM)).toEqual([]);
    });

    test("wakes subscribers when the caller commits", async () => {
      const { store } = await claimed(0);
      const woken = vi.fn();
      const end = store.subscribe?.(woken);
      await store.add(eventOf("booking:Z"));
      await eventually(() => expect(woken.mock.calls.length).toBeGreaterThan(1));
      const client = await schemas.pool.connect();
      await client.query("BEGIN");
      await store.with(client).add(eventOf("booking:A"));
      woken.mockClear();
      await client.query("COMMIT");
      client.release();
      // The listener also wakes the store every ten seconds, so wait less than that.
      await eventually(() => expect(woken).toHaveBeenCalled());
      end?.();
    });

    test("does not delay adds to other records", async () => {
      const { store } = await claimed(0);
      const client = await schemas.pool.connect();
      await client.query("BEGIN");
      await store.with(client).add(eventOf("booking:A"));
      // One pending call for record A must not block the calls for other records.
      const waits = store.add(eventOf("booking:A"));
      const others = await Promise.all(["B", "C", "D"].map((name) => store.add(eventOf(`booking:${name}`))));
      expect(others).toEqual(["added", "added", "added"]);
      await client.query("COMMIT");
      client.release();
      expect(await waits).toBe("added");
    });
  });
});
