// Calls of a group share statements.

import mysql from "mysql2/promise";
import { expect, onTestFinished, test } from "vitest";
import { mysqlStore } from "../../../src/stores/mysql/index.ts";
import { CLAIM, DONE, eventOf, RETRY } from "../event.ts";
import { createDatabases, describeMysql } from "./support.ts";

describeMysql("calls at once", () => {
  const databases = createDatabases();

  async function open() {
    const url = await databases.create();
    const pool = mysql.createPool({ uri: url, connectionLimit: 4 });
    const stores = [mysqlStore({ pool }), mysqlStore({ url })] as const;
    onTestFinished(async () => {
      await Promise.all(stores.map((store) => store.close()));
      await pool.end();
    });
    await stores[0].counts();
    return { stores, store: stores[0] };
  }

  test("two processes add the same events: one of them adds each, and no due time is lost", async () => {
    const { stores } = await open();
    for (let round = 0; round < 3; round += 1) {
      const events = Array.from({ length: 60 }, (_, n) => eventOf(`booking:${n % 20}`));
      const mixed = (from: number) => [...events.slice(from), ...events.slice(0, from)];
      const [one, other] = await Promise.all(
        stores.map((store, n) => Promise.all(mixed(n * 30).map((event) => store.add(event)))),
      );
      const answers = events.map((_, n) => [one![n], other![(n + 30) % 60]].sort());
      expect(new Set(answers.map(String))).toEqual(new Set(["added,duplicate"]));
    }
    let done = 0;
    while (done < 180) {
      const claims = (await Promise.all(stores.map((store) => store.claim({ ...CLAIM, limit: 10 })))).flat();
      expect(claims.length).toBeGreaterThan(0);
      const results = claims.map((claim, n) => stores[n % 2]!.settle(claim, DONE));
      for (const held of await Promise.all(results)) expect(held).toBe(true);
      done += claims.length;
    }
    expect(await stores[0].counts()).toMatchObject({ pending: 0, done: 180 });
    expect(await stores[0].nextDue()).toBeUndefined();
  });

  test("a group has new events, known ones, conflicts, replaced ones and timers", async () => {
    const { store } = await open();
    const known = eventOf("booking:A");
    await store.add(known);
    const timer = {
      ...eventOf("booking:A"),
      source: "timer" as const,
      eventId: "stayhook:timer:booking:A:door",
    };
    const at = (day: number) => new Date(Date.UTC(2040, 0, day)).toISOString();
    const dueAt = (day: number) => ({ dueAt: new Date(at(day)), replace: "moved" as const });
    await store.add({ ...timer, timestamp: at(1) }, dueAt(1));
    const answers = await Promise.all([
      store.add(eventOf("booking:A")),
      store.add(known),
      store.add({ ...known, ref: "booking:B" }),
      store.add({ ...timer, timestamp: at(2) }, dueAt(2)),
      store.add(eventOf("booking:C"), { dueIn: 60_000 }),
      ...Array.from({ length: 60 }, (_, n) => store.add(eventOf(`booking:${n}`))),
    ]);
    expect(answers.slice(0, 5)).toEqual(["added", "duplicate", "conflict", "added", "added"]);
    expect(await store.nextDue()).toBe(0);
    const claims = await store.claim({ ...CLAIM, limit: 100 });
    expect(claims.map(({ ref }) => ref).filter((ref) => ref === "booking:A" || ref === "booking:C")).toEqual([
      "booking:A",
    ]);
    expect((await store.get(timer.eventId))?.timestamp).toBe(at(2));
  });

  test("settles of a group write, keep and delete ledgers, and a record with a ledger stays", async () => {
    const { store } = await open();
    const refs = Array.from({ length: 9 }, (_, n) => `booking:${n}`);
    const bare = { ...DONE, record: undefined };
    const ledgersAfter = async (ledgerOf: (n: number) => string | null | undefined) => {
      await Promise.all(refs.map((ref) => store.add(eventOf(ref))));
      const claims = await store.claim(CLAIM);
      const settles = claims.map((claim) => {
        const ledger = ledgerOf(refs.indexOf(claim.ref!));
        return store.settle(claim, { ...bare, ...(ledger !== undefined && { ledger }) });
      });
      expect(await Promise.all(settles)).toEqual(Array(9).fill(true));
      await Promise.all(refs.map((ref) => store.add(eventOf(ref))));
      const after = await store.claim(CLAIM);
      await Promise.all(after.map((claim) => store.settle(claim, bare)));
      return refs.map((ref) => after.find((claim) => claim.ref === ref)!.ledger);
    };
    const first = (n: number) => (n % 3 === 0 ? undefined : `plan ${n}`);
    expect(await ledgersAfter(first)).toEqual(refs.map((_, n) => first(n)));
    const second = (n: number) => [undefined, null, "new"][n % 3];
    const left = (n: number) => [undefined, undefined, "new"][n % 3];
    expect(await ledgersAfter(second)).toEqual(refs.map((_, n) => left(n)));
  });

  test("some settles of a group come twice, some have lost their lease, and some retry", async () => {
    const { store } = await open();
    const refs = Array.from({ length: 40 }, (_, n) => `booking:${n}`);
    await Promise.all(refs.map((ref) => store.add(eventOf(ref))));
    const short = await store.claim({ limit: 10, leaseDuration: 1 });
    await new Promise((resolve) => setTimeout(resolve, 20));
    const claims = await store.claim({ ...CLAIM, limit: 40 });
    expect(claims).toHaveLength(40);
    expect(claims.filter(({ attempts }) => attempts === 2)).toHaveLength(10);
    await Promise.all(claims.slice(0, 5).map((claim) => store.settle(claim, DONE)));
    const later = { ...RETRY, in: 3_600_000 };
    const settled = await Promise.all([
      ...short.map((claim) => store.settle(claim, DONE)),
      ...claims.map((claim, n) => store.settle(claim, n < 20 ? DONE : later)),
    ]);
    expect(settled).toEqual([...Array(10).fill(false), ...Array(40).fill(true)]);
    expect(await store.counts()).toMatchObject({ done: 20, retrying: 20, processing: 0 });
    expect(await store.nextDue()).toBeGreaterThan(3_000_000);
  });
});
