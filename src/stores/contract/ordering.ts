import { between, equal } from "./expect.ts";
import { type Bench, type Cases, failed, unreachable } from "./harness.ts";

type Order = "oldest" | "newest" | "retries";

/** Which record a claim takes first. */
export const ordering: Cases = {
  "records go by the arrival of their first due event": async (bench) => {
    const { add, tick } = bench;
    for (const ref of ["booking:C", "booking:A", "booking:B", "booking:A", "booking:C"]) {
      await add(ref);
      await tick();
    }
    await expectOrder(bench, "oldest", ["booking:C", "booking:A", "booking:B"]);
    await expectOrder(bench, "newest", ["booking:B", "booking:A", "booking:C"]);
    await expectOrder(bench, undefined, ["booking:C", "booking:A", "booking:B"]);
  },

  "one claim of many has the same order": async (bench) => {
    const { add, claim, settle, tick } = bench;
    for (let index = 0; index < 12; index++) {
      await add(`booking:${index % 6}`);
      await tick();
    }
    const expected = Array.from({ length: 6 }, (_, index) => `booking:${index}`);
    for (const order of ["oldest", "newest"] as const) {
      const claims = await claim({ order, limit: 4 });
      const refs = claims.map(({ ref }) => ref).sort();
      const first = order === "oldest" ? expected.slice(0, 4) : expected.slice(2);
      equal(`the records claimed with order ${order}`, refs, first);
      for (const claimed of claims) await settle(claimed, { state: "released" });
    }
  },

  "retries go last, or first, by the time at which they became due": async (bench) => {
    const { add, tick } = bench;
    await retries(bench, ["booking:late", "booking:soon"]);
    await add("booking:new");
    await tick();
    await add("booking:newest");
    await tick();
    await expectOrder(bench, "oldest", ["booking:new", "booking:newest", "booking:soon", "booking:late"]);
    await expectOrder(bench, "newest", ["booking:newest", "booking:new", "booking:soon", "booking:late"]);
    await expectOrder(bench, "retries", ["booking:soon", "booking:late", "booking:new", "booking:newest"]);
  },

  "of a record with a retry and a new event, the oldest due one goes": async (bench) => {
    const { add, tick, claimOne, done } = bench;
    await retries(bench, ["booking:A"]);
    await add("booking:B");
    await tick();
    await add("booking:A");
    await tick();
    await expectOrder(bench, "oldest", ["booking:B", "booking:A"]);
    await expectOrder(bench, "newest", ["booking:A", "booking:B"]);
    await expectOrder(bench, "retries", ["booking:A", "booking:B"]);
    const first = await claimOne({ limit: 1, order: "newest" });
    equal("attempts of the claimed event", [first.ref, first.attempts], ["booking:A", 2]);
    await done(first);
    const second = await claimOne({ limit: 1, order: "newest" });
    equal("attempts of the next one", [second.ref, second.attempts], ["booking:A", 1]);
  },

  "an event whose lease has ended goes as a retry": async (bench) => {
    const { add, claimOne, sleep, tick, unit } = bench;
    await add("booking:lost");
    await claimOne({ leaseDuration: unit });
    await sleep(2);
    await tick();
    await add("booking:new");
    await tick();
    await expectOrder(bench, "oldest", ["booking:new", "booking:lost"]);
    await add("booking:other");
    const [last] = await bench.claim({ limit: 1, order: "retries" });
    equal("the first with order retries", [last?.ref, last?.attempts], ["booking:lost", 2]);
  },

  "claimedAt is the time of the claim, by the store's clock": async ({
    add,
    claimOne,
    settle,
    claimLater,
    sleep,
  }) => {
    await add("booking:A");
    const first = await claimOne();
    await settle(first, unreachable(0));
    const settled = performance.now();
    await sleep(2);
    const least = Math.floor(performance.now() - settled) - 5;
    const second = await claimLater(0);
    equal("receivedAt of the second claim", second.receivedAt, first.receivedAt);
    between("ms between the claims", second.claimedAt - first.claimedAt, Math.max(1, least), 60_000);
  },
};

/** Retries whose wait is over, the last named first. */
async function retries({ add, claimOne, settle, tick }: Bench, refs: readonly string[]): Promise<void> {
  const claims = [];
  for (const ref of refs) {
    await add(ref);
    claims.push(await claimOne());
  }
  for (const claimed of claims.reverse()) {
    await settle(claimed, failed(0));
    await tick();
  }
}

/** Claims all, one at a time, and gives them back. */
async function expectOrder(bench: Bench, order: Order | undefined, refs: readonly string[]): Promise<void> {
  const claims = [];
  for (let index = 0; index < refs.length; index++) claims.push(await bench.claimOne({ limit: 1, order }));
  equal(
    `the claimed records with order ${order}`,
    claims.map(({ ref }) => ref),
    refs,
  );
  for (const claimed of claims) await bench.settle(claimed, { state: "released" });
}
