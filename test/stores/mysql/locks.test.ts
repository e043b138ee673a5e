// Rows and tables that a session of somebody else has locked.

import { setTimeout as sleep } from "node:timers/promises";
import mysql from "mysql2/promise";
import { expect, onTestFinished, test } from "vitest";
import { mysqlStore } from "../../../src/stores/mysql/index.ts";
import { eventually } from "../../support/eventually.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { createDatabases, describeMysql } from "./support.ts";

const REFS = Array.from({ length: 12 }, (_, n) => `booking:${n}`);
const [LOCKED, ...OTHERS] = REFS as [string, ...string[]];

describeMysql.each(["own", "user's"])("while another session holds a lock (the %s pool)", (kind) => {
  const databases = createDatabases();

  async function beside({ commandTimeout }: { commandTimeout?: number } = {}) {
    const url = await databases.create();
    const pool = kind === "own" ? undefined : mysql.createPool({ uri: url, connectionLimit: 5 });
    const store = mysqlStore({ ...(pool ? { pool } : { url }), commandTimeout });
    await store.counts();
    const connection = await mysql.createConnection({ uri: url });
    onTestFinished(async () => {
      connection.destroy();
      await store.close();
      await pool?.end();
    });
    const add = (refs: readonly string[]) => Promise.all(refs.map((ref) => store.add(eventOf(ref))));
    return {
      ...{ store, database: new URL(url).pathname.slice(1), add },
      /** Holds the event of the first record. */
      async hold(table: "events" | "records" = "events") {
        // By the primary key. Otherwise, InnoDB would lock the gaps beside the row, too.
        const [rows] = await connection.query<mysql.RowDataPacket[]>(
          "SELECT seq FROM stayhook_events WHERE ref = ? ORDER BY seq LIMIT 1",
          [LOCKED],
        );
        await connection.query("BEGIN");
        if (table === "events")
          await connection.query("UPDATE stayhook_events SET topic = 1 WHERE seq = ?", [rows[0]!.seq]);
        else await connection.query("UPDATE stayhook_records SET seen_at = 1 WHERE ref = ?", [LOCKED]);
      },
      lockTable: () => connection.query("LOCK TABLES stayhook_events WRITE"),
      unlock: () => connection.query("ROLLBACK"),
      unlockTable: () => connection.query("UNLOCK TABLES"),
    };
  }

  /** Claims and settles what it can. Returns the records. */
  async function work(store: Awaited<ReturnType<typeof beside>>["store"], count: number) {
    const seen: string[] = [];
    const startedAt = performance.now();
    while (seen.length < count && performance.now() - startedAt < 20_000)
      for (const claim of await store.claim({ ...CLAIM, limit: 10 })) {
        seen.push(claim.ref!);
        expect(await store.settle(claim, DONE)).toBe(true);
      }
    expect(performance.now() - startedAt).toBeLessThan(20_000);
    return seen.sort();
  }

  test("an event holds its record alone", async () => {
    const { store, add, hold, unlock } = await beside();
    await add(REFS);
    await hold();
    expect(await work(store, 11)).toEqual(OTHERS.toSorted());
    expect(new Set(await add(OTHERS))).toEqual(new Set(["added"]));
    expect(await work(store, 11)).toEqual(OTHERS.toSorted());
    expect(await store.claim(CLAIM)).toEqual([]);
    await unlock();
    await eventually(async () => expect(await store.claim(CLAIM)).toMatchObject([{ ref: LOCKED }]));
  });

  test("the event of an ended lease holds its record alone, and no other event of it is claimed", async () => {
    const { store, add, hold, unlock } = await beside();
    await add(REFS);
    await store.claim({ leaseDuration: 500, limit: 20 });
    await hold();
    await sleep(600);
    await add([LOCKED]);
    expect(await work(store, 11)).toEqual(OTHERS.toSorted());
    expect(await store.claim(CLAIM)).toEqual([]);
    await unlock();
    await eventually(async () => expect(await store.claim(CLAIM)).toMatchObject([{ ref: LOCKED }]));
  });

  test("results and leases of other records are recorded, and those of the record after the lock", async () => {
    const { store, add, hold, unlock } = await beside();
    await add(REFS);
    const claims = (await store.claim({ ...CLAIM, limit: 20 })).sort((a) => (a.ref === LOCKED ? -1 : 1));
    await hold();
    const startedAt = performance.now();
    expect((await store.renew(claims, 6000)).map(({ ref }) => ref).sort()).toEqual(OTHERS.toSorted());
    const [own, ...others] = claims.map((claim) => store.settle(claim, DONE));
    expect(new Set(await Promise.all(others))).toEqual(new Set([true]));
    expect(performance.now() - startedAt).toBeLessThan(20_000);
    await unlock();
    expect(await own).toBe(true);
    expect(await store.counts()).toMatchObject({ processing: 0, done: 12 });
  });

  test("adds to a record leave connections for other calls", async () => {
    const { store, add, hold, unlock } = await beside();
    await add([LOCKED]);
    await hold("records");
    const added: Promise<string>[] = [];
    for (let round = 0; round < 12; round += 1) {
      const adding = store.add(eventOf(LOCKED));
      adding.catch(() => {});
      added.push(adding);
      await sleep(30);
    }
    const startedAt = performance.now();
    expect(await store.add(eventOf("booking:B"))).toBe("added");
    expect(await store.claim(CLAIM)).toMatchObject([{ ref: "booking:B" }]);
    expect(performance.now() - startedAt).toBeLessThan(15_000);
    await unlock();
    expect(new Set(await Promise.all(added))).toEqual(new Set(["added"]));
  });

  test("a table leaves no statements on the server", async () => {
    const { store, database, lockTable, unlockTable } = await beside({ commandTimeout: 1000 });
    await lockTable();
    const waiting = async () => {
      const sql =
        "SELECT count(*) AS n FROM information_schema.processlist WHERE db = ? AND state LIKE 'Waiting%'";
      const [rows] = await databases.pool.query<mysql.RowDataPacket[]>(sql, [database]);
      return Number(rows[0]!.n);
    };
    let most = 0;
    const calls: Promise<unknown>[] = [];
    for (let n = 0; n < 20; n += 1) {
      calls.push(
        store.add(eventOf()).catch(() => {}),
        store.counts().catch(() => {}),
      );
      await sleep(150);
      most = Math.max(most, await waiting());
    }
    await Promise.all(calls);
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(6);
    await eventually(async () => expect(await waiting()).toBe(0));
    await unlockTable();
    expect(await store.add(eventOf())).toBe("added");
  });
});
