import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import pg from "pg";
import { describe, expect, test, vi } from "vitest";
import { migrationSql, postgresStore } from "../../../src/stores/postgres/index.ts";
import { CLAIM, eventOf } from "./event.ts";
import { createSchemas, describePostgres, url } from "./support.ts";

describePostgres("the schema", () => {
  const schemas = createSchemas();

  test("is made once by twenty that start at the same time", async () => {
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

  test("can be made by its SQL, after which no right to create anything is needed", async () => {
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
    expect(await store.replay(claim!.eventId)).toBe(true);
    await store.close();
    await pool.end();
    await schemas.pool.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
  });

  test("of a newer version is refused, and left as it is", async () => {
    const schema = schemas.name();
    const store = schemas.store({ schema });
    await store.add(eventOf());
    await store.close();
    const version = async (sql: string) => {
      const made = `CREATE OR REPLACE FUNCTION ${schema}.schema_version() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT ${sql}'`;
      await schemas.pool.query(made);
    };
    await version("99");
    const older = schemas.store({ schema });
    const newer =
      /the schema \S+ was made by a newer version of stayhook \(it is version 99, this one knows up to 1\)/;
    await expect(older.add(eventOf())).rejects.toThrow(newer);
    await expect(older.migrate()).rejects.toThrow(newer);
    await version("1");
    expect(await older.counts()).toMatchObject({ pending: 1 });
    await older.close();
  });

  test("may have a name that SQL would have quoted", async () => {
    const schema = `${schemas.name()}-Größe`;
    const store = schemas.store({ schema });
    const woken = vi.fn();
    const end = store.subscribe?.(woken);
    const other = schemas.store({ schema });
    await other.add(eventOf());
    await vi.waitFor(() => expect(woken).toHaveBeenCalled(), 20_000);
    expect(await store.claim(CLAIM)).toHaveLength(1);
    end?.();
    await Promise.all([store.close(), other.close()]);
    await schemas.pool.query(`DROP SCHEMA "${schema}" CASCADE`);
  });

  test("in a database that is not in UTF-8 is refused", async () => {
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

describePostgres("what a connection is set up with", () => {
  const schemas = createSchemas();

  test("makes no difference: isolation, search_path, types, read only, an hour ahead", async () => {
    const pool = new pg.Pool({
      connectionString: url,
      max: 3,
      ...({ binary: true } as object),
      options:
        "-c default_transaction_isolation=serializable -c search_path=nowhere -c timezone=Asia/Kathmandu -c datestyle=German",
    });
    const plain = schemas.name();
    const store = schemas.store({ schema: plain });
    const odd = postgresStore({ schema: plain, pool });
    const event = eventOf("booking:\u0000\ud800\\");
    expect(await odd.add(event)).toBe("added");
    const [claim] = await odd.claim(CLAIM);
    expect(claim).toMatchObject({ ...event, attempts: 1, replayed: false });
    expect(Math.abs(claim!.receivedAt - Date.now())).toBeLessThan(60_000);
    expect(await odd.get(event.eventId)).toEqual(await store.get(event.eventId));
    expect(await odd.settle(claim!, { state: "done", type: "t", status: "\u0000", writes: [] })).toBe(true);
    expect(await odd.statusOf(event.ref!)).toMatchObject({ ref: event.ref, status: "\u0000", sequence: 1 });
    expect(await odd.settle(claim!, { state: "released" })).toBe(false);
    await Promise.all([odd.close(), store.close()]);
    await pool.end();
  });

  test("connections that keep no session, as behind PgBouncer, are enough", async () => {
    // Each is used once.
    const pool = new pg.Pool({ connectionString: url, max: 4, maxUses: 1 });
    const store = schemas.store({ pool, wake: "poll", pollInterval: 20 });
    const woken = vi.fn();
    const end = store.subscribe?.(woken);
    await store.add(eventOf());
    const [claim] = await store.claim(CLAIM);
    const write = async (tx: pg.ClientBase) => void (await tx.query("SELECT 1"));
    expect(await store.settle(claim!, { state: "done", type: "t", writes: [write] })).toBe(true);
    woken.mockClear();
    await vi.waitFor(() => expect(woken).toHaveBeenCalled(), 20_000);
    end?.();
    await store.close();
    expect((await pool.query("SELECT 1")).rowCount).toBe(1);
    await pool.end();
  });

  test("what text cannot hold is kept all the same", async () => {
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
        error: claim.ref ?? "\u0000",
        type: claim.ref ?? "",
      } as const;
      expect(await store.settle(claim, outcome)).toBe(true);
      expect(await store.get(claim.eventId)).toMatchObject({ lastError: outcome.error, type: outcome.type });
    }
    await store.close();
  });
});

describe("options that cannot be used", () => {
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
      { connectionString, wake: "sometimes", pollInterval: 0, maxConnections: 1.5, callTimeout: Infinity },
      [["wake"], ["pollInterval"], ["maxConnections"], ["callTimeout"]],
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

  test("are told of for the SQL, too", () => {
    expect(() => migrationSql({ schema: "a b" })).toThrow(
      expect.objectContaining({ name: "InvalidArgumentError" }),
    );
  });
});

test("without pg, the first call says how to install it", async () => {
  const script = `
    import { registerHooks } from "node:module";
    registerHooks({ resolve(name, context, next) {
      if (name === "pg") throw Object.assign(new Error("Cannot find package 'pg'"), { code: "ERR_MODULE_NOT_FOUND" });
      return next(name, context);
    } });
    const { postgresStore } = await import(${JSON.stringify(new URL("../../../src/stores/postgres/index.ts", import.meta.url).href)});
    const store = postgresStore({ connectionString: "postgresql://user:p4ssw0rd@127.0.0.1/none" });
    store.subscribe(() => {});
    await store.counts().catch((error) => console.log(error.name, error.message));`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  child.stdout.on("data", (chunk) => {
    said += chunk;
  });
  const [code] = await once(child, "exit");
  expect([code, said.trim()]).toEqual([
    0,
    "StayhookError postgresStore needs the package pg, which is not installed: npm install pg",
  ]);
});
