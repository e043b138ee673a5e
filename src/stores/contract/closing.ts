import { rejects } from "./expect.ts";
import { type Cases, LONG } from "./harness.ts";

export const closing: Cases = {
  "close is safe twice, and at the same time": async ({ store, add }) => {
    await add("booking:A");
    await Promise.all([store.close(), store.close()]);
    await store.close();
  },

  "a closed store takes and gives nothing": async ({ store, newEvent, add, claimOne }) => {
    const event = await add("booking:A");
    const claim = await claimOne();
    await store.close();
    await rejects("add", () => store.add(newEvent("booking:A")));
    await rejects("claim", () => store.claim({ limit: 1, leaseDuration: LONG }));
    await rejects("renew", () => store.renew([claim], LONG));
    await rejects("settle", () => store.settle(claim, { state: "released" }));
    await rejects("nextDue", () => store.nextDue());
    await rejects("prune", () => store.prune({ state: "done", age: 0, limit: 1 }));
    await rejects("pruneRecords", () => store.pruneRecords({ age: 0, limit: 1 }));
    await rejects("list", () => store.list({ limit: 1 }));
    await rejects("get", () => store.get(event.eventId));
    await rejects("counts", () => store.counts());
    await rejects("oldestWaiting", () => store.oldestWaiting());
    await rejects("newestReceived", () => store.newestReceived());
    await rejects("replay", () => store.replay({ state: "done" }));
    await rejects("discard", () => store.discard({ state: "parked" }));
    await rejects("erase", () => store.erase("booking:A"));
    await rejects("recordOf", () => store.recordOf("booking:A"));
    await rejects("records", () => store.records()[Symbol.asyncIterator]().next());
    await rejects("learn", () => store.learn("booking:A", { status: "Confirmed", fields: {} }));
    await rejects("getMeta", () => store.getMeta("key"));
    await rejects("setMeta", () => store.setMeta("key", "value", { expected: undefined }));
  },
};
