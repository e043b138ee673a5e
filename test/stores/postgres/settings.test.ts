// Servers, roles and pools with other settings, and rows and tables that somebody else has locked.

import { writeFileSync } from "node:fs";
import { createServer, connect as dial, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { postgresStore } from "../../../src/stores/postgres/index.ts";
import { eventually } from "../../support/eventually.ts";
import { startOwnPostgres } from "../../support/postgres-server.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { createSchemas, describePostgres, url } from "./support.ts";

describePostgres("a schema", () => {
  const schemas = createSchemas();

  /** Makes a role that may use a new schema, and returns the URL with this role. */
  async function roleOf(options = "") {
    const schema = schemas.name();
    const role = `${schema}_role`;
    await schemas.store({ schema }).migrate();
    await schemas.pool.query(`
      CREATE ROLE ${role} LOGIN ${options};
      GRANT USAGE ON SCHEMA ${schema} TO ${role};
      GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO ${role};
      GRANT USAGE, UPDATE ON ALL SEQUENCES IN SCHEMA ${schema} TO ${role};`);
    onTestFinished(async () => void (await schemas.pool.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`)));
    return { schema, role, connectionString: Object.assign(new URL(url), { username: role }).href };
  }

  /** Opens a session that holds locks until the test ends. */
  async function session(sql: string) {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    let isOpen = true;
    const end = async () => {
      if (isOpen) await client.end();
      isOpen = false;
    };
    onTestFinished(end);
    await client.query(`BEGIN; ${sql}`);
    return end;
  }

  test.each(["meta", "events", "records"])(
    "whose table %s hides rows is named at the start",
    async (table) => {
      const { schema, role, connectionString } = await roleOf();
      await schemas.pool.query(`ALTER TABLE ${schema}.${table} ENABLE ROW LEVEL SECURITY`);
      const store = schemas.store({ schema, connectionString });
      const message = `row-level security of the table "${schema}".${table} may hide rows from the user ${role}`;
      await expect(store.add(eventOf())).rejects.toThrow(message);
      await expect(store.counts()).rejects.toThrow(message);
      await schemas.pool.query(`CREATE POLICY all_rows ON ${schema}.${table} USING (true)`);
      expect(await store.add(eventOf())).toBe("added");
      await store.close();
    },
  );

  test("on whose tables an event trigger forces row-level security: the error names it, without advice about rights", async () => {
    const name = schemas.name();
    await schemas.pool.query(`CREATE DATABASE ${name}`);
    await schemas.pool.query(`CREATE ROLE ${name} LOGIN; GRANT CREATE ON DATABASE ${name} TO ${name}`);
    const connectionString = Object.assign(new URL(url), { pathname: `/${name}` }).href;
    const admin = new pg.Client({ connectionString });
    await admin.connect();
    onTestFinished(async () => {
      await admin.end();
      await schemas.pool.query(`DROP DATABASE ${name} WITH (FORCE)`);
      await schemas.pool.query(`DROP ROLE ${name}`);
    });
    await admin.query(`
      CREATE FUNCTION public.force() RETURNS event_trigger LANGUAGE plpgsql AS $$
      DECLARE made record;
      BEGIN
        FOR made IN SELECT objid::regclass AS name FROM pg_event_trigger_ddl_commands() WHERE object_type = 'table' LOOP
          EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', made.name);
        END LOOP;
      END $$;
      CREATE EVENT TRIGGER forcing ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION public.force()`);
    const asRole = Object.assign(new URL(connectionString), { username: name }).href;
    const store = schemas.store({ connectionString: asRole });
    onTestFinished(() => store.close());
    const message = await store.add(eventOf()).catch(String);
    expect(message).toContain("Give the store's user BYPASSRLS, or let the trigger leave out");
    expect(message).not.toContain("right to change tables");
    await schemas.pool.query(`ALTER ROLE ${name} BYPASSRLS`);
    expect(await store.add(eventOf())).toBe("added");
  });

  test.each(["GRANT", "REVOKE"])(
    "whose sequence is behind its table is set right, or says how (%s)",
    async (right) => {
      const { schema, role, connectionString } = await roleOf();
      const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
      onTestFinished(() => warn.mockRestore());
      const store = schemas.store({ schema, connectionString });
      await Promise.all(Array.from({ length: 60 }, () => store.add(eventOf(null))));
      await schemas.pool.query(`SELECT setval('${schema}.events_seq_seq', 1)`);
      if (right === "REVOKE")
        await schemas.pool.query(`REVOKE UPDATE ON ALL SEQUENCES IN SCHEMA ${schema} FROM ${role}`);
      const added = await Promise.allSettled(Array.from({ length: 8 }, () => store.add(eventOf(null))));
      if (right === "REVOKE") {
        const reasons = added.flatMap((one) => (one.status === "rejected" ? [String(one.reason)] : []));
        expect(reasons.length).toBeGreaterThan(0);
        for (const reason of reasons)
          expect(reason).toMatch(/sequence of .*events is behind its table.*Run as the owner: SELECT setval/);
      } else {
        expect(added.map((one) => one.status)).toEqual(Array(8).fill("fulfilled"));
        expect(warn.mock.calls.join()).toMatch(/was behind its table/);
        expect(await store.counts()).toMatchObject({ pending: 68 });
      }
      await store.close();
    },
  );

  test("a sequence that is behind does not fail the end of an attempt that sets a timer", async () => {
    const { schema, connectionString } = await roleOf();
    vi.spyOn(console, "warn").mockImplementation(() => {});
    onTestFinished(() => void vi.restoreAllMocks());
    const store = schemas.store({ schema, connectionString });
    for (let n = 0; n < 5; n += 1) await store.add(eventOf(`booking:${n}`));
    await schemas.pool.query(`SELECT setval('${schema}.events_seq_seq', 1)`);
    const [claim] = await store.claim(CLAIM);
    expect(await store.settle(claim!, { ...DONE, events: [{ event: eventOf(), dueIn: 1000 }] })).toBe(true);
    await store.close();
  });

  test.each([
    ["the pool's option types", { types: { getTypeParser: () => (value: string) => value } }],
    [
      "a parser of bytea",
      { types: { getTypeParser: (oid: number) => (oid === 17 ? String : pg.types.getTypeParser(oid)) } },
    ],
  ])(
    "a pool with %s is refused by name, and one with parsers of numbers and times works",
    async (_, options) => {
      const refused = new pg.Pool({ connectionString: url, ...(options as object) });
      const parser = (oid: number) =>
        oid === 20 ? BigInt : oid === 1184 ? Date.parse : pg.types.getTypeParser(oid);
      const other = new pg.Pool({ connectionString: url, types: { getTypeParser: parser as never } });
      onTestFinished(async () => void (await Promise.all([refused.end(), other.end()])));
      const store = schemas.store({ pool: refused });
      await expect(store.add(eventOf())).rejects.toThrow(
        "needs the parsers of pg for the types bool and bytea",
      );
      await store.close();
      const working = schemas.store({ pool: other });
      await working.add(eventOf());
      expect(await working.settle((await working.claim(CLAIM))[0]!, DONE)).toBe(true);
      expect(await working.counts()).toMatchObject({ done: 1 });
      await working.close();
    },
  );

  test("a pool with binary is refused", () => {
    const pool = new pg.Pool({ connectionString: url, binary: true } as never);
    expect(() => postgresStore({ pool })).toThrow("must not have the option binary");
  });

  test.each([1, 2, 3])("a role with %i connections gets all events through", async (limit) => {
    const { schema, connectionString } = await roleOf(`CONNECTION LIMIT ${limit}`);
    const store = schemas.store({ schema, connectionString });
    const end = store.subscribe?.(() => {});
    const refs = Array.from({ length: 60 }, (_, n) => `booking:${n}`);
    const added = await Promise.all(
      refs.map(async (ref) => (await Promise.all([store.add(eventOf(ref)), store.counts()]))[0]),
    );
    expect(new Set(added)).toEqual(new Set(["added"]));
    const claims = await store.claim({ ...CLAIM, limit: 100 });
    expect(claims.length).toBe(60);
    const settled = await Promise.all(claims.map((claim) => store.settle(claim, DONE)));
    expect(settled.every(Boolean)).toBe(true);
    end?.();
    await store.close();
  });

  test.each(["own", "user's"])(
    "a locked table leaves no statements on the server (the %s pool)",
    async (kind) => {
      const schema = schemas.name();
      const name = `stayhook locks ${schema}`;
      await schemas.store({ schema }).migrate();
      const named = new URL(url);
      named.searchParams.set("application_name", name);
      const pool = kind === "own" ? undefined : new pg.Pool({ connectionString: named.href, max: 5 });
      if (pool) onTestFinished(() => pool.end());
      // The own pool has a name of its own.
      const where = kind === "own" ? ["stayhook", schema] : [name, schema];
      const store = schemas.store({
        ...(pool ? { pool } : { connectionString: url }),
        schema,
        commandTimeout: 1000,
      });
      await store.counts();
      const unlock = await session(`LOCK TABLE ${schema}.events IN ACCESS EXCLUSIVE MODE`);
      const backends = async () => {
        const sql = `SELECT count(*)::int AS n FROM pg_stat_activity a WHERE application_name = $1 AND wait_event_type = 'Lock'
        AND query LIKE '%' || $2 || '%'`;
        return (await schemas.pool.query(sql, where)).rows[0]!.n as number;
      };
      let most = 0;
      const calls: Promise<unknown>[] = [];
      for (let n = 0; n < 15; n += 1) {
        calls.push(
          store.add(eventOf()).catch(() => {}),
          store.claim(CLAIM).catch(() => {}),
        );
        await sleep(150);
        most = Math.max(most, await backends());
      }
      await Promise.all(calls);
      expect(most).toBeLessThanOrEqual(6);
      await eventually(async () => expect(await backends()).toBe(0));
      await unlock();
      expect(await store.add(eventOf())).toBe("added");
      await store.close();
    },
  );

  test("one locked event holds its record alone", async () => {
    const schema = schemas.name();
    const store = schemas.store({ schema });
    const refs = Array.from({ length: 12 }, (_, n) => `booking:${n}`);
    const events = refs.map((ref) => eventOf(ref));
    for (const event of events) await store.add(event);
    const unlock = await session(`UPDATE ${schema}.events SET topic = topic WHERE ref = 'booking:0'`);
    const seen: string[] = [];
    const startedAt = performance.now();
    while (seen.length < 11 && performance.now() - startedAt < 20_000) {
      for (const claim of await store.claim({ ...CLAIM, limit: 1 })) {
        seen.push(claim.ref!);
        expect(await store.settle(claim, DONE)).toBe(true);
      }
    }
    expect(seen.sort()).toEqual(refs.slice(1).sort());
    for (const ref of refs.slice(1)) expect(await store.add(eventOf(ref))).toBe("added");
    expect((await store.claim({ ...CLAIM, limit: 20 })).length).toBe(11);
    await unlock();
    await eventually(async () => expect((await store.claim({ ...CLAIM, limit: 20 })).length).toBe(1));
    await store.close();
  });

  test("the locked event of an ended lease holds its record alone", async () => {
    const schema = schemas.name();
    const store = schemas.store({ schema });
    const refs = Array.from({ length: 12 }, (_, n) => `booking:${n}`);
    for (const ref of refs) await store.add(eventOf(ref));
    const lost = await store.claim({ leaseDuration: 500, limit: 20 });
    const unlock = await session(`UPDATE ${schema}.events SET topic = topic WHERE ref = 'booking:0'`);
    // Results of other records are recorded, although they share a statement with the one of the locked event.
    const startedAt = performance.now();
    const renewed = await store.renew(lost, 2000);
    expect(renewed.map(({ ref }) => ref).sort()).toEqual(refs.slice(1).sort());
    const ended = lost.slice(0, 6).map((claim) => store.settle(claim, DONE).catch(() => claim.ref));
    expect((await Promise.all(ended)).filter((each) => each !== true)).toEqual(["booking:0"]);
    expect(performance.now() - startedAt).toBeLessThan(20_000);
    await store.add(eventOf("booking:0"));
    const seen: string[] = [];
    await eventually(async () => {
      for (const claim of await store.claim({ ...CLAIM, limit: 10 })) {
        seen.push(claim.ref!);
        expect(await store.settle(claim, DONE)).toBe(true);
      }
      expect(seen.sort()).toEqual(
        lost
          .slice(6)
          .map(({ ref }) => ref)
          .sort(),
      );
    });
    expect(await store.claim(CLAIM)).toEqual([]);
    await unlock();
    await eventually(
      async () => expect(await store.claim(CLAIM)).toMatchObject([{ ref: "booking:0" }]),
      5000,
    );
    await store.close();
  });
});

describe.skipIf(url === undefined)("a primary that was demoted", () => {
  test("is left, although its connections still work, with wake: poll", async () => {
    const [old, next] = [await startOwnPostgres(), await startOwnPostgres()];
    onTestFinished(async () => void (await Promise.all([old?.close(), next?.close()])));
    const directory = async (server: { url: string }) => {
      const client = new pg.Client({ connectionString: server.url });
      await client.connect();
      const { rows } = await client.query("SHOW data_directory");
      await client.end();
      return String(rows[0]!.data_directory);
    };
    for (const server of [old!, next!]) {
      const store = postgresStore({ connectionString: server.url });
      await store.migrate();
      await store.close();
    }
    const data = await directory(old!);
    await old!.stop();
    writeFileSync(`${data}/standby.signal`, "");
    await old!.start();
    let port = Number(new URL(old!.url).port);
    const sockets = new Set<Socket>();
    const proxy = createServer((client) => {
      const server = dial(port, "127.0.0.1");
      for (const socket of [client, server]) {
        sockets.add(socket);
        socket.on("error", () => {});
      }
      client.pipe(server).pipe(client);
    }).listen(0, "127.0.0.1");
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
      proxy.close();
    });
    await new Promise((listening) => proxy.once("listening", listening));
    const name = Object.assign(new URL(old!.url), {
      port: String((proxy.address() as { port: number }).port),
    });
    const store = postgresStore({ connectionString: name.href, wake: "poll" });
    onTestFinished(() => store.close());
    expect(await store.counts()).toMatchObject({ pending: 0 });
    port = Number(new URL(next!.url).port);
    const other = postgresStore({ connectionString: next!.url });
    await other.add(eventOf());
    await other.close();
    // The loop only claims. Its first claim finds the standby, and leaves it.
    expect((await store.claim(CLAIM)).length).toBe(1);
  });
});
