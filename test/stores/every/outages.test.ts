import { setTimeout as sleep } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import type { EventStore, Outcome } from "../../../src/stores/event-store.ts";
import type { ClaimedEvent } from "../../../src/stores/stored-event.ts";
import { eventually } from "../../support/eventually.ts";
import { CLAIM, DONE, eventOf, PARKED, RETRY } from "../event.ts";
import { createProxy, type FaultyProxy } from "./proxy.ts";
import { describeEvery, type Kind, type Opening, opened } from "./stores.ts";

/** Opens a store through a proxy, and one directly. */
async function behindProxy(kind: Kind, options: Opening = {}) {
  const proxy = await createProxy(kind.url!);
  const place = await kind.create();
  const direct = opened(place);
  await direct.counts();
  const store = opened(place, { ...options, url: proxy.url });
  await store.counts();
  return { place, proxy, store, direct };
}

const isStoreError = { name: "StayhookError" };

/** Makes the call, and loses the nth answer of the server during it. Resolves to `false` if there were fewer. */
async function losing(proxy: FaultyProxy, nth: number, call: () => Promise<unknown>): Promise<boolean> {
  const { lost, forget } = proxy.loseAnswer(nth);
  const answered = call().then(
    () => true,
    () => false,
  );
  await answered;
  forget();
  return lost;
}

/** Waits until the store answers again. */
const answers = (store: EventStore<unknown>) => eventually(() => store.counts());

describeEvery(
  ({ url, name }) => url !== undefined || ["PostgreSQL", "MySQL", "Redis"].includes(name),
  (kind) => {
    test("calls reject while connections are cut, and work again afterwards", async () => {
      const { proxy, store } = await behindProxy(kind, { commandTimeout: 2000 });
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
        expect(answer).toMatchObject({ status: "rejected", reason: isStoreError });
      proxy.restore();
      await answers(store);
      expect(await store.settle(claim!, DONE)).toBe(true);
      expect(await store.counts()).toMatchObject({ done: 1 });
    });

    test("calls to a server that hangs reject after commandTimeout", async () => {
      const { proxy, store } = await behindProxy(kind, { commandTimeout: "1500ms" });
      await store.add(eventOf());
      const [claim] = await store.claim(CLAIM);
      proxy.hang();
      // More calls than connections: a call that waits for a connection must reject, too.
      const calls = [
        ...Array.from({ length: 8 }, () => store.nextDue()),
        store.add(eventOf()),
        store.claim(CLAIM),
        store.settle(claim!, DONE),
      ];
      for (const answer of await Promise.allSettled(calls))
        expect(answer).toMatchObject({ status: "rejected", reason: isStoreError });
      proxy.restore();
      await answers(store);
      expect(await store.settle(claim!, DONE)).toBe(true);
    });

    test("close does not wait for commandTimeout while the network is gone", async () => {
      const { proxy, store } = await behindProxy(kind, { commandTimeout: "120s" });
      await store.add(eventOf());
      const claims = await store.claim(CLAIM);
      proxy.hang();
      const calls = [
        ...claims.map((claim) => store.settle(claim, DONE)),
        store.renew(claims, 30_000),
        ...Array.from({ length: 10 }, () => store.add(eventOf())),
        store.counts(),
      ];
      void Promise.allSettled(calls);
      const start = performance.now();
      await store.close();
      expect(performance.now() - start).toBeLessThan(60_000);
    });

    test("a settle whose answer was lost counts once, and says true when it is repeated", async () => {
      const { proxy, store, direct } = await behindProxy(kind);
      const outcomes: Outcome<unknown>[] = [
        { ...DONE, events: [{ event: eventOf("booking:next"), dueIn: 60_000 }] },
        { ...PARKED, remove: "timers" },
        { ...RETRY, in: 60_000 },
        { ...RETRY, in: 60_000, count: "nothing", holdsRecord: true, reason: "unavailable" },
      ];
      for (const [index, outcome] of outcomes.entries()) {
        const event = eventOf(`booking:${index}`);
        await store.add(event);
        const [claim] = await store.claim(CLAIM);
        const settle = () => store.settle(claim!, outcome);
        expect(await losing(proxy, 1, settle)).toBe(true);
        await answers(store);
        expect(await settle()).toBe(true);
        const settled = await direct.get(event.eventId);
        expect(settled).toMatchObject({ state: outcome.state, history: [{ outcome: outcome.state }] });
        // Another process gets the same answer, and nothing is recorded twice.
        expect(await direct.settle(claim!, { ...PARKED })).toBe(true);
        expect(await direct.get(event.eventId)).toEqual(settled);
      }
      expect(await direct.snapshotOf("booking:0")).toMatchObject({ sequence: 1 });
      expect(await direct.list({ ref: "booking:next", limit: 9 })).toHaveLength(1);
    });

    test.each(["its id", "its due time"])(
      "the leases of a claim by %s whose answer was lost are given back, and no attempt counts",
      async (by) => {
        const { proxy, store, direct } = await behindProxy(kind);
        await direct.add(eventOf("booking:theirs"));
        const [theirs] = await direct.claim(CLAIM);
        const event = eventOf();
        await direct.add(event);
        const asked = by === "its id" ? { ...CLAIM, eventId: event.eventId } : CLAIM;
        let answered: readonly ClaimedEvent[] = [];
        const claiming = async () => {
          answered = [];
          answered = await store.claim(asked);
        };
        for (let nth = 1; await losing(proxy, nth, claiming); nth += 1) {
          const again = async () => {
            const [found] = await store.claim(CLAIM);
            expect(found).toBeDefined();
            return found!;
          };
          // If the lost answer was that of a read before the claim, ioredis has sent the read again.
          const claim = answered[0] ?? (await eventually(again));
          expect(claim).toMatchObject({ eventId: event.eventId, attempts: 1 });
          expect(await direct.get(event.eventId)).toMatchObject({ attempts: 1, history: [] });
          // A claim whose answer arrived is not given back.
          expect(await store.claim(CLAIM)).toEqual([]);
          // `store` would send a NOTIFY, whose answer would count as one of the next claim's.
          expect(await direct.settle(claim, { state: "released" })).toBe(true);
        }
        const [held] = await direct.list({ state: "processing", ref: event.ref!, limit: 1 });
        expect(held, "the last claim was answered").toMatchObject({ eventId: event.eventId, attempts: 1 });
        expect(await direct.settle(theirs!, DONE)).toBe(true);
      },
    );

    test("an add whose answer was lost is a duplicate when it is repeated", async () => {
      const { proxy, store, direct } = await behindProxy(kind);
      const event = eventOf();
      expect(await losing(proxy, 1, () => store.add(event))).toBe(true);
      await answers(store);
      // The answer that was lost may be that of an earlier statement, so that the event is not recorded yet.
      const isThere = (await direct.get(event.eventId)) !== undefined;
      expect(await store.add(event)).toBe(isThere ? "duplicate" : "added");
      expect(await store.add(event)).toBe("duplicate");
      expect(await store.claim(CLAIM)).toHaveLength(1);
    });

    test("new adds that share a statement say `added`, also if its answer was lost", async () => {
      const { proxy, store, direct } = await behindProxy(kind);
      await store.add(eventOf("booking:first"));
      for (let nth = 1, wasLost = true; wasLost; nth += 1) {
        await answers(store);
        const { lost, forget } = proxy.loseAnswer(nth);
        const events = [eventOf("booking:A"), eventOf("booking:B"), eventOf(null)];
        expect(await Promise.all(events.map((event) => store.add(event)))).toEqual(Array(3).fill("added"));
        forget();
        wasLost = await lost;
        expect(await store.add(events[0]!)).toBe("duplicate");
        expect(await direct.add(events[1]!)).toBe("duplicate");
      }
      const listed = await direct.list({ limit: 1000 });
      expect(await direct.claim(CLAIM)).toHaveLength(
        new Set(listed.map(({ ref, eventId }) => ref ?? eventId)).size,
      );
    });

    test("a subscriber is woken again after its connection was cut", async () => {
      const { proxy, store, direct } = await behindProxy(kind);
      const woken = vi.fn();
      store.subscribe!(woken);
      await sleep(300);
      proxy.restore();
      await eventually(async () => {
        woken.mockClear();
        await direct.add(eventOf(null));
        await eventually(() => expect(woken).toHaveBeenCalled(), 1000);
      }, 30_000);
    });

    if (!kind.isTransactional) return;
    test("a connection lost during the writes is the store's failure", async () => {
      const { place, proxy, store, direct } = await behindProxy(kind);
      await place.sql("CREATE TABLE nights (name VARCHAR(9))");
      await store.add(eventOf());
      const [claim] = await store.claim(CLAIM);
      const thrown: unknown[] = [];
      const cut = async (tx: unknown) => {
        proxy.cut();
        await Promise.resolve(kind.write!(tx, "SELECT 1")).catch((error: unknown) => {
          thrown.push(error);
          throw error;
        });
      };
      const write = (tx: unknown) => kind.write!(tx, "INSERT INTO nights VALUES ('a')");
      const rejection = await store.settle(claim!, { ...DONE, writes: [write, cut] }).catch((error) => error);
      expect(rejection).toMatchObject(isStoreError);
      expect(thrown).not.toContain(rejection);
      expect(await direct.get(claim!.eventId)).toMatchObject({ state: "processing", attempts: 1 });
      proxy.restore();
      await answers(store);
      // The answer to the COMMIT is lost, too: whether or not it was done, the writes are there once.
      const settle = () => store.settle(claim!, { ...DONE, writes: [write] });
      for (const nth of [5, 4, 3, 2, 1]) await losing(proxy, nth, settle);
      await answers(store);
      expect(await settle()).toBe(true);
      expect(await place.sql("SELECT * FROM nights")).toHaveLength(1);
      expect(await direct.snapshotOf("booking:A")).toMatchObject({ sequence: 1 });
    });
  },
);
