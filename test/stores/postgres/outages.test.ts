import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { postgresStore } from "../../../src/stores/postgres/index.ts";
import { eventually } from "../../support/eventually.ts";
import { startOwnPostgres } from "../../support/postgres-server.ts";
import type { OwnServer } from "../../support/server-process.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { createSchemas, describePostgres, url } from "./support.ts";

describePostgres("on a network that fails", () => {
  const schemas = createSchemas();

  test.each(["the store's own pool", "a pool of the user that opened them before"])(
    "the store drops the sessions of %s on a read-only server, and connects again",
    async (which) => {
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
      const pool = which.startsWith("a pool")
        ? new pg.Pool({ connectionString: asRole.href, max: 5 })
        : undefined;
      onTestFinished(() => pool?.end());
      // Opens five sessions, all on the old primary.
      await Promise.all(Array.from({ length: 5 }, () => pool?.query("SELECT pg_sleep(0.1)")));
      const store = schemas.store(pool ? { schema, pool } : { schema, connectionString: asRole.href });
      if (pool === undefined) {
        await Promise.all(Array.from({ length: 5 }, () => store.counts()));
        await expect(store.add(eventOf())).rejects.toThrow("read-only");
        await Promise.all(Array.from({ length: 5 }, () => store.counts()));
      }
      await setReadOnly("off");
      // This call first gets a read-only session. The store then drops its old sessions and repeats the call.
      expect(await store.add(eventOf())).toBe("added");
      const [claim] = await store.claim(CLAIM);
      expect(await store.settle(claim!, DONE)).toBe(true);
      await store.close();
    },
  );

  test("sessions that the server ends do not crash the process, even if the user's pool has no error listener", async () => {
    const victims = `stayhook test ${randomUUID().slice(0, 8)}`;
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
    await eventually(() => store.counts());
    // The connection may also end while it is in use.
    const [claim] = await store.claim(CLAIM);
    const settled = store.settle(claim!, { ...DONE, writes: [async () => void (await end())] });
    await expect(settled).rejects.toThrow();
    await eventually(async () => expect(await store.settle(claim!, DONE)).toBe(true));
    await store.close();
    await pool.end();
  });
});

test.skipIf(url === undefined)("a listening connection ends with its last subscriber", async () => {
  const schema = `stayhook_test_${randomUUID().slice(0, 8)}`;
  const admin = new pg.Pool({ connectionString: url, max: 1 });
  const store = postgresStore({ connectionString: url, schema });
  onTestFinished(async () => {
    await store.close();
    await admin.query(`DROP SCHEMA ${schema} CASCADE`);
    await admin.end();
  });
  await store.migrate();
  const sql = "SELECT FROM pg_stat_activity WHERE query LIKE $1";
  const listens = async (count: number) =>
    expect((await admin.query(sql, [`LISTEN "stayhook ${schema}"%`])).rowCount).toBe(count);
  const ends = [store.subscribe?.(() => {}), store.subscribe?.(() => {})];
  await eventually(() => listens(1));
  ends[0]?.();
  await sleep(50);
  await listens(1);
  ends[1]?.();
  await eventually(() => listens(0));
});

describePostgres("on a server that is restarted", () => {
  let server: OwnServer | undefined;
  beforeAll(async () => {
    server = await startOwnPostgres();
  });
  afterAll(() => server?.close());

  test.each(["stop", "kill"] as const)(
    "after a %s, calls reject, and no event with an answered add is lost",
    async (mode) => {
      const store = postgresStore({ connectionString: server!.url, schema: `restart_${mode}` });
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
      await eventually(() => expect(answered.length).toBeGreaterThan(20));
      await server![mode]();
      await eventually(() => expect(refused).toBeGreaterThan(0));
      await server!.start();
      const before = answered.length;
      await eventually(() => expect(answered.length).toBeGreaterThan(before + 20));
      going = false;
      await adding;
      const kept = new Set((await store.list({ limit: 100_000 })).map(({ eventId }) => eventId));
      expect(answered.filter((eventId) => !kept.has(eventId))).toEqual([]);
      // The store listens again, so it gets notifications from another process.
      const other = postgresStore({ connectionString: server!.url, schema: `restart_${mode}` });
      woken.mockClear();
      await other.add(eventOf());
      await eventually(() => expect(woken).toHaveBeenCalled());
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
