import { check, equal } from "./expect.ts";
import { type Bench, type Cases, handled, LONG } from "./harness.ts";

/** For stores that say `transactional`; others pass, as an outcome never has `writes` there. */
export const transactions: Cases = {
  "writes run once, in order, with the store's own handle": async (bench) => {
    const ran: string[] = [];
    const handles = new Set<unknown>();
    const write = (name: string) => (tx: unknown) => {
      ran.push(name);
      handles.add(tx);
    };
    if (!(await settleWith(bench, [write("first"), write("second")]))) return;
    equal("what ran", ran, ["first", "second"]);
    equal("how many handles there were", handles.size, 1);
    equal("whether there was one", handles.has(undefined), false);
    equal("counts().done", (await bench.store.counts()).done, 1);
  },

  "a write that throws leaves all as it was, and the lease held": async (bench) => {
    const { store, add, claim, claimOne, done, get } = bench;
    if (store.transactional !== true) return;
    const event = await add("booking:A");
    const claimed = await claimOne();
    const failure = new Error("a write's own");
    const fail = () => {
      throw failure;
    };
    const outcome = { ...handled(claimed, "Confirmed"), writes: [fail] };
    const rejection = await store.settle(claimed, outcome).then(
      () => undefined,
      (error: unknown) => error,
    );
    // By this, a write's failure is told from a connection that was lost under it.
    check(rejection === failure, "settle: expected it to reject with the very error that the write threw");
    equal("its state", (await get(event)).state, "processing");
    equal("the record's status", await store.recordOf("booking:A"), undefined);
    equal("claim", await claim(), []);
    equal("renew", (await store.renew([claimed], LONG)).length, 1);
    await done(claimed, "Confirmed");
  },

  "with a lost lease nothing is done": async (bench) => {
    const { store, add, claimOne, claimLater, unit } = bench;
    if (store.transactional !== true) return;
    await add("booking:A");
    const lost = await claimOne({ leaseDuration: unit });
    await claimLater(0);
    const outcome = { ...handled(lost, "Confirmed"), writes: [() => {}] };
    equal("settle with the lost lease", await store.settle(lost, outcome), false);
  },
};

async function settleWith(bench: Bench, writes: ((tx: unknown) => void)[]): Promise<boolean> {
  if (bench.store.transactional !== true) return false;
  await bench.add("booking:A");
  const claim = await bench.claimOne();
  await bench.settle(claim, { ...handled(claim, "Confirmed"), writes });
  return true;
}
