// A standby that becomes the primary while calls wait for a server that does not answer.

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { postgresStore } from "../../../src/stores/postgres/index.ts";
import { eventually } from "../../support/eventually.ts";
import { startOwnPostgres, startStandby } from "../../support/postgres-server.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";
import { describePostgres } from "./support.ts";

/** Leads new connections to a server. */
async function startSwitch(to: string) {
  let leads = new URL(to);
  let isSilent = false;
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const far = connect(Number(leads.port), leads.hostname);
    const old = isSilent;
    for (const socket of [client, far]) open.add(socket.on("error", () => {}));
    client.on("data", (chunk) => isSilent === old && far.write(chunk)).on("close", () => far.destroy());
    far.on("data", (chunk) => isSilent === old && client.write(chunk)).on("close", () => client.destroy());
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    for (const socket of open) socket.destroy();
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: Object.assign(new URL(to), { port: String(port) }).href,
    /** The connections that are open now pass nothing on. New ones lead to another server. */
    moveTo(url: string) {
      isSilent = true;
      leads = new URL(url);
    },
  };
}

describePostgres("a standby that is promoted while calls wait", () => {
  test("records the adds that wait, and handles what the old primary had", async () => {
    const primary = (await startOwnPostgres())!;
    onTestFinished(() => primary.close());
    const standby = (await startStandby(new URL(primary.url), 0))!;
    onTestFinished(() => standby.close());
    const { url, moveTo } = await startSwitch(primary.url);
    const store = postgresStore({ connectionString: url, wake: "poll", commandTimeout: 4000 });
    onTestFinished(() => store.close());
    await Promise.all([1, 2, 3].map((n) => store.add(eventOf(`booking:${n}`))));
    const [claim] = await store.claim({ ...CLAIM, limit: 1 });
    const copy = new pg.Client({ connectionString: standby.url });
    await copy.connect();
    onTestFinished(() => copy.end());
    const processing = "SELECT count(*)::int AS events FROM stayhook.events WHERE state = 'processing'";
    await eventually(async () => expect((await copy.query(processing)).rows).toEqual([{ events: 1 }]));
    moveTo(standby.url);
    const adds = Array.from({ length: 12 }, (_, n) => store.add(eventOf(`booking:late-${n}`)));
    await copy.query("SELECT pg_promote()");
    expect(new Set(await Promise.all(adds))).toEqual(new Set(["added"]));
    expect(
      await store.settle(claim!, { ...DONE, writes: [(tx: pg.PoolClient) => tx.query("SELECT 1")] }),
    ).toBe(true);
    const claims = await store.claim({ ...CLAIM, limit: 20 });
    expect(claims).toHaveLength(14);
    expect(new Set(await Promise.all(claims.map((each) => store.settle(each, DONE))))).toEqual(
      new Set([true]),
    );
    expect(await store.counts()).toMatchObject({ done: 15, pending: 0, processing: 0 });
  });
});
