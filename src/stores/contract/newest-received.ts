import { equal } from "./expect.ts";
import { type Cases, LONG } from "./harness.ts";

export const newestReceived: Cases = {
  "it is the receivedAt of the newest webhook event": async ({ store, add, newEvent, get, tick }) => {
    equal("in an empty store", await store.newestReceived(), undefined);
    await add("booking:A", { source: "reconcile" });
    await store.add(newEvent("booking:A", { source: "recheck" }), { dueIn: LONG });
    equal("without a webhook event", await store.newestReceived(), undefined);
    const first = await add("booking:A");
    equal("with one", await store.newestReceived(), (await get(first)).receivedAt);
    await tick();
    const second = await add(null);
    const expected = (await get(second)).receivedAt;
    equal("with two", await store.newestReceived(), expected);
    await tick();
    await add("booking:B", { source: "recheck" });
    await store.add(first);
    equal("after a recheck and a duplicate", await store.newestReceived(), expected);
  },

  "pruning and erasing leave it": async ({ store, add, claimOne, done, get }) => {
    const event = await add("booking:A");
    const { receivedAt } = await get(event);
    await done(await claimOne());
    equal("prune", await store.prune({ state: "done", age: 0, limit: 10 }), 1);
    equal("newestReceived, once it is pruned", await store.newestReceived(), receivedAt);
    const other = await add("booking:B");
    const { receivedAt: later } = await get(other);
    equal("erase", await store.erase("booking:B"), 1);
    equal("newestReceived, once it is erased", await store.newestReceived(), later);
  },
};
