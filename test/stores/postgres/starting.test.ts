import { randomUUID } from "node:crypto";
import pg from "pg";
import { describe, expect, test, vi } from "vitest";
import { migrationSql, postgresStore } from "../../../src/stores/postgres/index.ts";
import { eventually } from "../../support/eventually.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { createSchemas, describePostgres, url } from "./support.ts";

describePostgres("the schema", () => {
  const schemas = createSchemas();

  test("is created once if 20 stores start at the same time", async () => {
    const schema = schemas.name();
    const pools = Array.from({ length: 20 }, () => new pg.Pool({ connectionString: url, max: 1 }));
    const stores = pools.map((pool) => schemas.store({ pool, schema }));
    expect(await Promise.all(stores.map((store) => store.add(eventOf(null))))).toEqual(
      Array(20).fill("added"),
    );
    expect(await stores[0]!.counts()).toMatchObject({ pending: 20 });
    await Promise.all(stores.map((store) => store.close()));
    await Promise.all(pools.map((pool) => pool.end()));
  });

  test("can be created by migrationSql, and the store then needs no right to create objects", async () => {
    const schema = schemas.name();
    const role = `${schema}_role`;
    await schemas.pool.query(migrationSql({ schema }));
    await schemas.pool.query(`
      CREATE ROLE ${role} LOGIN;
      GRANT USAGE ON SCHEMA ${schema} TO ${role};
      GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO ${role};
      GRANT USAGE ON ALL SEQUENCES IN SCHEMA ${schema} TO ${role};`);
    const pool = new pg.Pool({ connectionString: url, max: 2 });
    pool.on("connect", (client) => void client.query(`SET ROLE ${role}`));
    const store = schemas.store({ pool, schema });
    await store.add(eventOf());
    const [claim] = await store.claim(CLAIM);
    expect(await store.settle(claim!, { state: "released" })).toBe(true);
    expect(await store.renew([claim!], 1000)).toEqual([]);
    expect(await store.discard({ ref: "booking:A" })).toBe(1);
    expect(await store.erase("booking:A")).toBe(1);
    expect(await store.setMeta("key", "value", { expected: undefined })).toBe(true);
    await store.close();
    await pool.end();
    await schemas.pool.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
  });

  test("is not created with migrate: false, until migrate() or migrationSql has made it", async () => {
    const schema = schemas.name();
    const store = schemas.store({ schema, migrate: false });
    const call = `migrationSql({ schema: "${schema}", from: 0, to: 3 })`;
    await expect(store.add(eventOf())).rejects.toThrow(
      `There are no tables in the schema ${schema}, and this version of stayhook needs schema version 3, and the option migrate is false. Run the SQL that ${call} returns, then start again. Its statements are: `,
    );
    expect(await store.schema?.()).toEqual({ version: 0, expected: 3 });
    await store.migrate();
    expect(await store.add(eventOf())).toBe("added");
    expect(await store.schema?.()).toEqual({ version: 3, expected: 3 });
    await store.close();
  });

  test("that the user may not create: the error has the reason, and the SQL to run", async () => {
    const schema = schemas.name();
    const role = `${schema}_role`;
    await schemas.pool.query(`CREATE ROLE ${role} LOGIN`);
    const pool = new pg.Pool({ connectionString: url, max: 2 });
    pool.on("connect", (client) => void client.query(`SET ROLE ${role}`));
    const store = schemas.store({ pool, schema });
    const rejection = await store.add(eventOf()).catch((error) => String(error));
    expect(rejection).toContain("the tables could not be created: permission denied");
    expect(rejection).toContain(
      `Run the SQL that migrationSql({ schema: "${schema}", from: 0, to: 3 }) returns`,
    );
    await store.close();
    await pool.end();
    await schemas.pool.query(`DROP ROLE ${role}`);
  });

  test("of a newer version works, with more columns and indexes", async () => {
    const schema = schemas.name();
    await schemas.store({ schema }).migrate();
    await schemas.pool.query(`
      ALTER TABLE ${schema}.events ADD COLUMN priority integer NOT NULL DEFAULT 0;
      ALTER TABLE ${schema}.records ADD COLUMN color text;
      CREATE INDEX events_priority ON ${schema}.events (priority, seq);
      UPDATE ${schema}.meta SET value = '99' WHERE name = 'schema'`);
    const older = schemas.store({ schema });
    await older.migrate();
    const event = eventOf();
    expect(await older.add(event)).toBe("added");
    const [claim] = await older.claim(CLAIM);
    expect(await older.renew([claim!], 60_000)).toEqual([claim]);
    expect(await older.settle(claim!, DONE)).toBe(true);
    expect(await older.replay({ eventId: event.eventId })).toBe(1);
    expect(await older.discard({ eventId: event.eventId })).toBe(1);
    expect(await older.list({ limit: 5 })).toMatchObject([{ eventId: event.eventId, reason: "discarded" }]);
    await older.close();
  });

  test("needs no migration from its own version or a newer version", () => {
    expect(migrationSql({ from: 0 })).toBe(migrationSql());
    expect(migrationSql({ from: 3 })).toBe("");
    expect(migrationSql({ from: 4 })).toBe("");
  });

  test.each([`${"я".repeat(30)}`, "stayhook_test-Größe"])("may have the name %s", async (name) => {
    const schema = `${name}${schemas.name().at(-1)}`;
    const store = schemas.store({ schema, pollInterval: 3_600_000 });
    const woken = vi.fn();
    const end = store.subscribe?.(woken);
    await eventually(() => expect(woken).toHaveBeenCalled());
    woken.mockClear();
    const other = schemas.store({ schema });
    await other.add(eventOf());
    // The listener also wakes the store every ten seconds, so wait less than that.
    await eventually(() => expect(woken).toHaveBeenCalled());
    expect(await store.claim(CLAIM)).toHaveLength(1);
    end?.();
    await Promise.all([store.close(), other.close()]);
    await schemas.pool.query(`DROP SCHEMA "${schema}" CASCADE`);
  });

  test("is rejected in a database that is not in UTF-8", async () => {
    const database = schemas.name();
    await schemas.pool.query(`CREATE DATABASE ${database} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0`);
    const latin = new URL(url);
    latin.pathname = `/${database}`;
    const store = schemas.store({ connectionString: latin.href });
    await expect(store.add(eventOf())).rejects.toThrow("encoding is LATIN1");
    await store.close();
    await schemas.pool.query(`DROP DATABASE ${database} WITH (FORCE)`);
  });
});

describePostgres("the settings of a connection", () => {
  const schemas = createSchemas();

  test("do not affect the store: isolation, search_path, time zone, date style", async () => {
    const pool = new pg.Pool({
      connectionString: url,
      max: 3,
      options:
        "-c default_transaction_isolation=serializable -c search_path=nowhere -c timezone=Asia/Kathmandu -c datestyle=German",
    });
    const plain = schemas.name();
    const store = schemas.store({ schema: plain });
    const odd = postgresStore({ schema: plain, pool });
    const event = eventOf("booking:\u0000\ud800\\");
    const snapshot = { status: "\u0000\ud800", fields: { checkIn: "\ud800" } };
    expect(await odd.add(event)).toBe("added");
    const [claim] = await odd.claim(CLAIM);
    expect(claim).toMatchObject({ ...event, attempts: 1, replayed: false });
    expect(Math.abs(claim!.receivedAt - Date.now())).toBeLessThan(60_000);
    expect(await odd.get(event.eventId)).toEqual(await store.get(event.eventId));
    expect(await odd.settle(claim!, { ...DONE, record: { snapshot, changed: true }, writes: [] })).toBe(true);
    expect(await odd.snapshotOf(event.ref!)).toMatchObject({ ref: event.ref, snapshot, sequence: 1 });
    expect(await odd.settle(claim!, { state: "released" })).toBe(true);
    await Promise.all([odd.close(), store.close()]);
    await pool.end();
  });

  test("may be lost between calls, as behind PgBouncer", async () => {
    // The pool closes each connection after one use.
    const pool = new pg.Pool({ connectionString: url, max: 4, maxUses: 1 });
    const store = schemas.store({ pool, wake: "poll", pollInterval: 20 });
    const woken = vi.fn();
    const end = store.subscribe?.(woken);
    await store.add(eventOf());
    const [claim] = await store.claim(CLAIM);
    const write = async (tx: pg.ClientBase) => void (await tx.query("SELECT 1"));
    expect(await store.settle(claim!, { ...DONE, writes: [write] })).toBe(true);
    woken.mockClear();
    await eventually(() => expect(woken).toHaveBeenCalled());
    end?.();
    await store.close();
    expect((await pool.query("SELECT 1")).rowCount).toBe(1);
    await pool.end();
  });

  test("the store keeps characters that the type text cannot hold", async () => {
    const store = schemas.store();
    const texts = ["\u0000", "a\ud800b", "\\", '\\"x"', "\\event x", "\ud83d\ude00", "\u001a"];
    for (const text of texts) {
      const event = { ...eventOf(text, randomUUID()), topic: text, notification: text, timestamp: text };
      expect(await store.add(event)).toBe("added");
      expect(await store.add(event)).toBe("duplicate");
      expect(await store.get(event.eventId)).toMatchObject(event);
      const lone = eventOf(null, text);
      expect(await store.add(lone)).toBe("added");
      expect(await store.get(text)).toMatchObject(lone);
    }
    const claims = await store.claim({ limit: 100, leaseDuration: 60_000 });
    expect(new Set(claims.map(({ ref, eventId }) => ref ?? eventId))).toEqual(new Set(texts));
    expect(claims).toHaveLength(2 * texts.length);
    for (const claim of claims) {
      const outcome = {
        state: "parked",
        reason: "callback",
        entry: { duration: 1, error: claim.ref ?? "\u0000" },
        type: claim.ref ?? "",
      } as const;
      expect(await store.settle(claim, outcome)).toBe(true);
      expect(await store.get(claim.eventId)).toMatchObject({
        history: [{ error: outcome.entry.error }],
        type: outcome.type,
      });
    }
    await store.close();
  });
});

describe("invalid options", () => {
  const connectionString = "postgresql://127.0.0.1/none";
  test.each([
    [undefined, [[]]],
    [{}, [["connectionString"]]],
    [{ connectionString: "" }, [["connectionString"]]],
    [{ connectionString: "bogus" }, [["connectionString"]]],
    [{ connectionString: "mysql://u:p4ssw0rd@127.0.0.1/x" }, [["connectionString"]]],
    [{ connectionString: "postgres://x", shema: "other" }, [["shema"]]],
    [{ connectionString, pool: new pg.Pool() }, [[]]],
    [{ pool: {} }, [["pool"]]],
    [{ connectionString, schema: "" }, [["schema"]]],
    [{ connectionString, schema: 'a"b' }, [["schema"]]],
    [{ connectionString, schema: "pg_mine" }, [["schema"]]],
    [{ connectionString, schema: "é".repeat(40) }, [["schema"]]],
    [
      { connectionString, wake: "sometimes", pollInterval: 0, maxConnections: 1.5, commandTimeout: Infinity },
      [["wake"], ["pollInterval"], ["maxConnections"], ["commandTimeout"]],
    ],
  ])("%j", (options, paths) => {
    const make = () => postgresStore(options as never);
    expect(make).toThrow(expect.objectContaining({ name: "InvalidArgumentError" }));
    try {
      make();
    } catch (error) {
      expect((error as { issues: { path: unknown }[] }).issues.map(({ path }) => path)).toEqual(paths);
    }
  });

  test("are rejected by migrationSql, too", () => {
    expect(() => migrationSql({ schema: "a b" })).toThrow(
      expect.objectContaining({ name: "InvalidArgumentError" }),
    );
  });
});
