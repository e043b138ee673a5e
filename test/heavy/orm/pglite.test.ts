// The socket of PGlite, which takes one connection.
import { PGlite } from "@electric-sql/pglite";
import { PGLiteSocketServer } from "@electric-sql/pglite-socket";
import pg from "pg";
import { postgresStore } from "stayhook/postgres";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { CLAIM, DONE, eventOf } from "../../stores/event.ts";

let connectionString = "";
beforeAll(async () => {
  const db = await PGlite.create();
  const server = new PGLiteSocketServer({ db, port: 0, host: "127.0.0.1" });
  await server.start();
  connectionString = `postgresql://postgres@${server.getServerConn()}/postgres`;
  return async () => {
    await server.stop();
    await db.close();
  };
});

test("the socket of PGlite works with maxConnections: 1", async () => {
  const store = postgresStore({ connectionString, maxConnections: 1 });
  onTestFinished(() => store.close());
  store.subscribe?.(() => {});
  const events = Array.from({ length: 6 }, (_, n) => eventOf(`booking:${n}`));
  expect(await Promise.all(events.map((event) => store.add(event)))).toEqual(events.map(() => "added"));
  const claims = await store.claim(CLAIM);
  const write = async (tx: pg.PoolClient) => void (await tx.query("SELECT 1"));
  const settling = claims.map((claim) => store.settle(claim, { ...DONE, writes: [write] }));
  expect(await Promise.all(settling)).toEqual(events.map(() => true));
  expect(await store.counts()).toMatchObject({ done: 6 });
});

test("the socket of PGlite refuses a second connection, and the error says what to do", async () => {
  const pool = new pg.Pool({ connectionString });
  const stores = [postgresStore({ connectionString }), postgresStore({ pool })];
  for (const store of stores) {
    const answers = await Promise.allSettled(Array.from({ length: 6 }, () => store.counts()));
    const refused = answers.filter(({ status }) => status === "rejected");
    for (const { reason } of refused as PromiseRejectedResult[])
      expect(reason.message).toMatch(/set (the option maxConnections|max of your pool) to 1$/);
    expect(refused.length).toBeGreaterThan(0);
    await store.close();
  }
  await pool.end();
});
