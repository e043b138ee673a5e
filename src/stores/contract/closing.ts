import { type Cases, LONG } from "./harness.ts";
import { rejects } from "./expect.ts";

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
    await rejects("replay", () => store.replay(event.eventId));
    await rejects("replayParked", () => store.replayParked());
    await rejects("statusOf", () => store.statusOf("booking:A"));
    await rejects("statuses", () => store.statuses()[Symbol.asyncIterator]().next());
  },
};
