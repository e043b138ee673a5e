// One key is gone, because Redis evicted it or somebody deleted it. Everything else goes on.

import { Redis } from "ioredis";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { CLAIM, DONE, eventOf, PARKED, RETRY } from "../event.ts";
import { createPrefixes, openStore, url } from "./support.ts";

describe.skipIf(url === undefined)("without one of its keys", () => {
  const prefixes = createPrefixes();
  const admin = new Redis(url!, { lazyConnect: true });
  afterAll(() => admin.disconnect());

  /** A store with events in all states, some of them of one record. */
  async function filled() {
    const prefix = prefixes();
    const logged: string[] = [];
    const store = openStore(prefix, { logger: (entry) => logged.push(`${entry.level} ${entry.message}`) });
    onTestFinished(() => store.close());
    const ids: string[] = [];
    const add = async (ref: string | null, options = {}, fields = {}) => {
      const event = { ...eventOf(ref), ...fields };
      ids.push(event.eventId);
      expect(await store.add(event, options)).toBe("added");
    };
    for (const ref of ["booking:DONE", "booking:PARKED", "booking:RETRY", "booking:HELD", null])
      await add(ref);
    for (const claim of await store.claim({ ...CLAIM, leaseDuration: 300 })) {
      const outcome = {
        "booking:DONE": DONE,
        "booking:PARKED": PARKED,
        "booking:RETRY": { ...RETRY, in: 100 },
      };
      const end = outcome[claim.ref as keyof typeof outcome];
      if (end) await store.settle(claim, end);
    }
    for (const ref of ["booking:A", "booking:A", "booking:B", "booking:HELD", "booking:DONE", null])
      await add(ref);
    await add("booking:A", { dueIn: 200 }, { source: "timer", timestamp: "2026-01-01T00:00:00Z" });
    return { prefix, store, ids, logged };
  }

  const keysOf = (prefix: string) => admin.keys(`{${prefix}}:*`);

  test("of any kind, no call rejects, and all other events are handled", async () => {
    const first = await filled();
    const count = (await keysOf(first.prefix)).length;
    expect(count).toBeGreaterThan(30);
    for (let n = 0; n < count; n += 1) {
      const { prefix, store, ids, logged } = await filled();
      // Ids are random, so the order of the keys is too. All kinds come up.
      const keys = (await keysOf(prefix)).sort((a, b) =>
        a.replace(/[0-9a-f-]{36}/, "").localeCompare(b.replace(/[0-9a-f-]{36}/, "")),
      );
      const key = keys[n];
      if (key === undefined || key.endsWith(":meta")) continue;
      await admin.del(key);
      const gone = /:event:(.*)$/.exec(key)?.[1];
      const until = performance.now() + 5000;
      let open = 1;
      while (open > 0 && performance.now() < until) {
        for (const claim of await store.claim({ ...CLAIM, leaseDuration: 300 })) {
          await store.renew([claim], 1000);
          expect(await store.settle(claim, DONE), key).toBe(true);
        }
        const states = await Promise.all(ids.filter((id) => id !== gone).map((id) => store.get(id)));
        open = states.filter((event) => event && event.state !== "done" && event.state !== "parked").length;
        if (open > 0) await new Promise((resolve) => setTimeout(resolve, 20));
      }
      expect(open, key).toBe(0);
      await store.list({ limit: 100 });
      await store.list({ limit: 100, receivedAfter: new Date(0) });
      await store.counts();
      await store.oldestWaiting();
      for (const id of ids) await store.add({ ...eventOf("booking:A", id) }, { replace: "ended" });
      await store.learn("booking:NEW", { status: "x", fields: {} });
      for await (const _ of store.snapshots());
      await store.replay({ state: "done" });
      await store.discard({ state: "pending" });
      await store.prune({ state: "done", age: 0, limit: 100 });
      await store.prune({ state: "parked", age: 0, limit: 100 });
      await store.pruneSnapshots({ age: 0, limit: 100 });
      for (const ref of [
        "booking:A",
        "booking:B",
        "booking:DONE",
        "booking:PARKED",
        "booking:HELD",
        "booking:RETRY",
      ])
        await store.erase(ref);
      if (gone && key.includes(":event:")) {
        const told = logged.filter((line) => line.includes(gone));
        expect(told.length, key).toBeLessThanOrEqual(1);
      }
    }
  });

  test("of an event that waits, an error tells it once, and the record goes on", async () => {
    const { prefix, store, logged } = await filled();
    const other = openStore(prefix, { logger: (entry) => logged.push(`${entry.level} ${entry.message}`) });
    onTestFinished(() => other.close());
    const [first, second] = [eventOf("booking:X"), eventOf("booking:X")];
    await store.add(first);
    await store.add(second);
    await admin.del(`{${prefix}}:event:${first.eventId}`);
    const claims = [...(await store.claim(CLAIM)), ...(await other.claim(CLAIM))];
    expect(claims.map(({ eventId }) => eventId)).toContain(second.eventId);
    await store.claim(CLAIM);
    const told = logged.filter((line) => line.includes(first.eventId));
    expect(told).toEqual([expect.stringMatching(/^error .*key of event .* is gone\..*noeviction/)]);
    expect(await store.add(first)).toBe("added");
  });
});
