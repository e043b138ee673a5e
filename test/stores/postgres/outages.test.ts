import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { postgresStore } from "../../../src/stores/postgres/index.ts";
import { type OwnPostgres, startOwnPostgres } from "../../support/postgres-server.ts";
import { CLAIM, DONE, eventOf } from "./event.ts";
import { postgresProxy } from "./proxy.ts";
import { createSchemas, describePostgres, url } from "./support.ts";

describePostgres("on a network that fails", () => {
  const schemas = createSchemas();

  async function behindProxy(options: { readonly commandTimeout?: number } = {}) {
    const proxy = await postgresProxy(url);
    const schema = schemas.name();
    const store = schemas.store({ connectionString: proxy.connectionString, schema, ...options });
    const direct = schemas.store({ schema });
    await store.migrate();
    onTestFinished(async () => {
      await Promise.all([store.close(), direct.close()]);
      await proxy.close();
    });
    return { proxy, store, direct };
  }

  test("calls reject while connections are cut, and work again afterwards", { timeout: 60_000 }, async () => {
    const { proxy, store } = await behindProxy();
    const event = eventOf();
    await store.add(event);
    const [claim] = await store.claim(CLAIM);
    proxy.cut();
    const calls = [
      store.add(eventOf()),
      store.claim(CLAIM),
      store.renew([claim!], 60_000),
      store.settle(claim!, DONE),
      store.nextDue(),
      store.get(event.eventId),
      store.counts(),
    ];
    for (const answer of await Promise.allSettled(calls))
      expect(answer).toMatchObject({ status: "rejected", reason: { name: "StayhookError" } });
    proxy.restore();
    await vi.waitFor(() => store.counts(), 20_000);
    expect(await store.settle(claim!, DONE)).toBe(true);
    expect(await store.counts()).toMatchObject({ done: 1 });
  });

  test("calls to a server that hangs reject after commandTimeout", { timeout: 60_000 }, async () => {
    const { proxy, store } = await behindProxy({ commandTimeout: 1500 });
    await store.add(eventOf());
    const [claim] = await store.claim(CLAIM);
    proxy.hang();
    const writes = [async (tx: pg.ClientBase) => void (await tx.query("SELECT 1"))];
    // More calls than connections: a call that waits for a connection must reject, too.
    const calls = [
      ...Array.from({ length: 8 }, () => store.nextDue()),
      store.add(eventOf()),
      store.claim(CLAIM),
      store.settle(claim!, { ...DONE, writes }),
    ];
    for (const answer of await Promise.allSettled(calls))
      expect(answer).toMatchObject({ status: "rejected", reason: { name: "StayhookError" } });
    proxy.restore();
    await vi.waitFor(() => store.counts(), 20_000);
    expect(await store.settle(claim!, DONE)).toBe(true);
  });

  describe("a settle whose answer was lost", () => {
    test("returns true when it is repeated", async () => {
      const { proxy, store, direct } = await behindProxy();
      await store.add(eventOf());
      const [claim] = await store.claim(CLAIM);
      proxy.loseAnswerTo("settle_events");
      await expect(store.settle(claim!, DONE)).rejects.toThrow();
      await vi.waitFor(async () => expect(await direct.counts()).toMatchObject({ done: 1 }), 20_000);
      expect(await store.settle(claim!, DONE)).toBe(true);
      // The store may repeat its answer only once: a later settle of the same claim returns false.
      expect(await store.settle(claim!, DONE)).toBe(false);
      expect(await direct.settle(claim!, DONE)).toBe(false);
      expect(await direct.recordOf("booking:A")).toMatchObject({ sequence: 1 });
    });

    test("commits the user's writes once", async () => {
      const { proxy, store, direct } = await behindProxy();
      const table = `nights_${Math.random().toString(36).slice(2)}`;
      await schemas.pool.query(`CREATE TABLE ${table} (event text)`);
      onTestFinished(async () => void (await schemas.pool.query(`DROP TABLE ${table}`)));
      await store.add(eventOf());
      const [claim] = await store.claim(CLAIM);
      const outcome = {
        ...DONE,
        writes: [async (tx: pg.ClientBase) => void (await tx.query(`INSERT INTO ${table} VALUES ('night')`))],
      };
      proxy.loseAnswerTo("COMMIT\0");
      await expect(store.settle(claim!, outcome)).rejects.toThrow();
      await vi.waitFor(async () => expect(await direct.counts()).toMatchObject({ done: 1 }), 20_000);
      expect(await store.settle(claim!, outcome)).toBe(true);
      expect((await schemas.pool.query(`SELECT * FROM ${table}`)).rows).toHaveLength(1);
    });

    test("is recorded when it is repeated, if the server never got it", async () => {
      const { proxy, store } = await behindProxy();
      await store.add(eventOf());
      const [claim] = await store.claim(CLAIM);
      proxy.cut();
      await expect(store.settle(claim!, DONE)).rejects.toThrow();
      proxy.restore();
      await vi.waitFor(() => store.nextDue(), 20_000);
      expect(await store.settle(claim!, DONE)).toBe(true);
    });
  });

  describe("a claim whose answer was lost", () => {
    test("is released by the next call, and does not count as an attempt", async () => {
      const { proxy, store, direct } = await behindProxy();
      const event = eventOf();
      await store.add(event);
      proxy.loseAnswerTo("claim_events");
      await expect(store.claim(CLAIM)).rejects.toThrow();
      await vi.waitFor(async () => expect(await direct.counts()).toMatchObject({ processing: 1 }), 20_000);
      const [claim] = await vi.waitFor(async () => {
        const claims = await store.claim(CLAIM);
        expect(claims).toHaveLength(1);
        return claims;
      }, 20_000);
      expect(claim).toMatchObject({ eventId: event.eventId, attempts: 1 });
      expect(await store.get(event.eventId)).toMatchObject({ attempts: 1, history: [] });
      // A claim whose answer arrived is not returned again.
      expect(await store.claim(CLAIM)).toEqual([]);
      expect(await store.settle(claim!, DONE)).toBe(true);
    });

    test("is also released by a call that only reads", async () => {
      const { proxy, store, direct } = await behindProxy();
      const event = eventOf();
      await store.add(event);
      proxy.loseAnswerTo("claim_events");
      await expect(store.claim(CLAIM)).rejects.toThrow();
      await vi.waitFor(async () => expect(await direct.counts()).toMatchObject({ processing: 1 }), 20_000);
      await vi.waitFor(() => store.nextDue(), 20_000);
      expect(await direct.get(event.eventId)).toMatchObject({ state: "pending", attempts: 0 });
    });
  });

  test("a connection lost during event.atomically is a failure of the store", async () => {
    const { proxy, store, direct } = await behindProxy();
    await store.add(eventOf());
    const [claim] = await store.claim(CLAIM);
    const own = new Error("the write's own");
    const cut = async (tx: pg.ClientBase) => {
      proxy.cut();
      await tx.query("SELECT 1").catch(() => Promise.reject(own));
    };
    await expect(store.settle(claim!, { ...DONE, writes: [cut] })).rejects.toMatchObject({
      name: "StayhookError",
      message: expect.stringContaining(
        "the connection failed while a function passed to event.atomically ran",
      ),
    });
    proxy.restore();
    expect(await direct.get(claim!.eventId)).toMatchObject({ state: "processing", attempts: 1 });
    await vi.waitFor(() => store.counts(), 20_000);
    expect(await store.settle(claim!, { ...DONE, writes: [() => {}] })).toBe(true);
  });

  test("the store drops its sessions on a read-only server, and connects again", async () => {
    const schema = schemas.name();
    const role = `${schema}_role`;
    await schemas.store({ schema }).migrate();
    await schemas.pool.query(`CREATE ROLE ${role} SUPERUSER LOGIN`);
    onTestFinished(async () => void (await schemas.pool.query(`DROP ROLE ${role}`)));
    const setReadOnly = (to: "on" | "off") =>
      schemas.pool.query(`ALTER ROLE ${role} SET default_transaction_read_only = ${to}`);
    await setReadOnly("on");
    const asRole = new URL(url);
    asRole.username = role;
    const store = schemas.store({ schema, connectionString: asRole.href });
    // Opens five sessions, all on the old primary.
    await Promise.all(Array.from({ length: 5 }, () => store.counts()));
    await expect(store.add(eventOf())).rejects.toThrow("read-only");
    await Promise.all(Array.from({ length: 5 }, () => store.counts()));
    await setReadOnly("off");
    // This call first gets a read-only session. The store then drops its old sessions and repeats the call.
    expect(await store.add(eventOf())).toBe("added");
    const [claim] = await store.claim(CLAIM);
    expect(await store.settle(claim!, DONE)).toBe(true);
    await store.close();
  });

  test("sessions that the server ends do not crash the process, even if the user's pool has no error listener", async () => {
    const victims = `stayhook test ${Math.random().toString(36).slice(2)}`;
    const pool = new pg.Pool({ connectionString: url, application_name: victims, max: 2 });
    const store = schemas.store({ pool });
    await store.add(eventOf());
    const end = () =>
      schemas.pool.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1",
        [victims],
      );
    await end();
    await sleep(100);
    await vi.waitFor(() => store.counts(), 20_000);
    // The connection may also end while it is in use.
    const [claim] = await store.claim(CLAIM);
    const settled = store.settle(claim!, { ...DONE, writes: [async () => void (await end())] });
    await expect(settled).rejects.toThrow();
    await vi.waitFor(async () => expect(await store.settle(claim!, DONE)).toBe(true), 20_000);
    await store.close();
    await pool.end();
  });
});

describePostgres("on a server that is restarted", () => {
  let server: OwnPostgres | undefined;
  beforeAll(async () => {
    server = await startOwnPostgres();
  }, 120_000);
  afterAll(() => server?.close());

  test.each(["fast", "immediate"] as const)(
    "after a stop in mode %s, calls reject, and no event with an answered add is lost",
    { timeout: 120_000 },
    async (mode) => {
      const store = postgresStore({ connectionString: server!.connectionString, schema: `restart_${mode}` });
      const woken = vi.fn();
      store.subscribe?.(woken);
      await store.migrate();
      const answered: string[] = [];
      let refused = 0;
      let going = true;
      const adding = (async () => {
        while (going) {
          const event = eventOf(null);
          await store.add(event).then(
            () => answered.push(event.eventId),
            () => {
              refused += 1;
            },
          );
          await sleep(2);
        }
      })();
      await vi.waitFor(() => expect(answered.length).toBeGreaterThan(20), 20_000);
      await server!.stop(mode);
      await vi.waitFor(() => expect(refused).toBeGreaterThan(0), 20_000);
      await server!.start();
      const before = answered.length;
      await vi.waitFor(() => expect(answered.length).toBeGreaterThan(before + 20), 20_000);
      going = false;
      await adding;
      const kept = new Set((await store.list({ limit: 100_000 })).map(({ eventId }) => eventId));
      expect(answered.filter((eventId) => !kept.has(eventId))).toEqual([]);
      // The store listens again, so it gets notifications from another process.
      const other = postgresStore({ connectionString: server!.connectionString, schema: `restart_${mode}` });
      woken.mockClear();
      await other.add(eventOf());
      await vi.waitFor(() => expect(woken).toHaveBeenCalled(), 20_000);
      await Promise.all([store.close(), other.close()]);
    },
  );
});

describe("without a usable server", () => {
  const secret = "p4ssw0rd";

  test.each([
    ["a server that does not answer", "StayhookError", `postgresql://user:${secret}@127.0.0.1:1/none`],
    ["an invalid URL", "InvalidArgumentError", `postgresql://user:${secret}@[nowhere:/none`],
    ["an invalid port", "InvalidArgumentError", `postgresql://user:${secret}@127.0.0.1:99999999/none`],
  ])("%s: calls reject, and their errors do not show the password", async (_, name, connectionString) => {
    const store = postgresStore({ connectionString, commandTimeout: 2000 });
    const end = store.subscribe?.(() => {});
    const error = await store.add(eventOf()).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ name });
    const said = [
      inspect(error, { depth: 9 }),
      JSON.stringify(error),
      inspect(store, { depth: 9 }),
      String(error),
    ];
    expect(said.join()).not.toContain(secret);
    end?.();
    await store.close();
  });
});
