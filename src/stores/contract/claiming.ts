import {
  type Bench,
  between,
  type Cases,
  check,
  equal,
  failed,
  LONG,
  PATIENCE,
  parked,
  unreachable,
} from "./harness.ts";

export const claiming: Cases = {
  "an empty store has nothing to claim": async ({ claim }) => {
    equal("claim() in an empty store", await claim(), []);
  },

  "a claim has every field that an attempt needs": async ({ add, claimOne, get }) => {
    const event = await add("booking:A");
    const { receivedAt, claimedAt, lease, ...rest } = await claimOne();
    equal("the claim's fields", rest, {
      ...event,
      attempts: 1,
      outages: 0,
      outageFor: 0,
      replayed: false,
      previous: undefined,
      sequence: 0,
    });
    check(typeof lease === "string" && lease !== "", "the lease: expected a string that is not empty");
    const stored = await get(event);
    equal("the event's state", stored.state, "processing");
    equal("the event's attempts", stored.attempts, 1);
    equal("the claim's receivedAt", receivedAt, stored.receivedAt.getTime());
    between("ms from receivedAt to claimedAt", claimedAt - receivedAt, 0, 30_000);
    between("ms from receivedAt to dueAt", Number(stored.dueAt) - receivedAt, LONG - 1, LONG + 30_000);
  },

  "`claim` returns at most `limit` events": async ({ add, claim }) => {
    for (const name of ["A", "B", "C", "D"]) await add(`booking:${name}`);
    equal("how many events claim() returned with limit 0", (await claim({ limit: 0 })).length, 0);
    equal("how many events claim() returned with limit 3", (await claim({ limit: 3 })).length, 3);
    equal("how many events claim() returned with one remaining event", (await claim({ limit: 3 })).length, 1);
    equal("how many events claim() returned with no remaining event", (await claim()).length, 0);
  },

  "`claim` returns at most one event of each record": async ({ add, claim }) => {
    const first = await add("booking:A");
    await add("booking:A");
    await add("booking:A");
    const other = await add("booking:B");
    const claimed = (await claim()).map(({ eventId }) => eventId).sort();
    equal("ids of the claimed events", claimed, [first.eventId, other.eventId]);
  },

  "no event of a leased record can be claimed": async ({ add, claim, claimOne, done }) => {
    await add("booking:A");
    const held = await claimOne();
    const next = await add("booking:A");
    equal("claim() while the record is leased", await claim(), []);
    equal("claim() by id while the record is leased", await claim({ eventId: next.eventId }), []);
    equal("claim() with order `retries` while the record is leased", await claim({ order: "retries" }), []);
    const other = await add("booking:B");
    equal("id of the claimed event of another record", (await claimOne()).eventId, other.eventId);
    await done(held);
    equal("id of the event claimed after settle()", (await claimOne()).eventId, next.eventId);
  },

  "refs that differ only in case or in a space name different records": async ({ add, claim }) => {
    for (const ref of ["booking:a", "booking:A", "booking:A ", "listing:1", "booking:1"]) await add(ref);
    equal("how many records were claimed", (await claim()).length, 5);
  },

  "two events without a record can be claimed at the same time": async ({ add, claim }) => {
    await add(null);
    await add(null);
    equal("how many events were claimed", (await claim()).length, 2);
  },

  "a claim by id claims that event and no other event": async ({ add, claim, claimOne }) => {
    const first = await add("booking:A");
    const second = await add("booking:A");
    const other = await add(null);
    equal("claim() by an unknown id", await claim({ eventId: "00000000-0000-4000-8000-ffffffffffff" }), []);
    equal("claim() by id with limit 0", await claim({ eventId: other.eventId, limit: 0 }), []);
    equal("id of the claimed event", (await claimOne({ eventId: second.eventId })).eventId, second.eventId);
    equal("second claim() by the same id", await claim({ eventId: second.eventId }), []);
    equal("claim() by the id of an older event", await claim({ eventId: first.eventId }), []);
    equal(
      "id of the claimed event without a record",
      (await claimOne({ eventId: other.eventId })).eventId,
      other.eventId,
    );
  },

  "a claim by id claims only an event that is due": async ({ ended, handle, claim }) => {
    const failing = await ended("booking:A", failed(LONG));
    equal("claim() by the id of an event that is not due", await claim({ eventId: failing.eventId }), []);
    const handled = await handle("booking:B");
    equal("claim() by the id of a done event", await claim({ eventId: handled.eventId }), []);
    const given = await ended("booking:C", parked());
    equal("claim() by the id of a parked event", await claim({ eventId: given.eventId }), []);
  },

  "concurrent claims never return the same event or two events of one record": async ({ add, claim }) => {
    for (let index = 0; index < 40; index++) await add(index % 8 === 0 ? null : `booking:${index % 8}`);
    const claims = (await Promise.all(Array.from({ length: 8 }, () => claim({ limit: 5 })))).flat();
    const events = new Set(claims.map(({ eventId }) => eventId));
    equal("how many events were claimed twice", claims.length - events.size, 0);
    const refs = claims.flatMap(({ ref }) => ref ?? []);
    equal("how many records were claimed twice", refs.length - new Set(refs).size, 0);
    equal(
      "how many different leases the claims have",
      new Set(claims.map(({ lease }) => lease)).size,
      claims.length,
    );
    const rest = await claim();
    equal("how many events were claimed in total", claims.length + rest.length, 5 + 7);
  },

  "concurrent workers handle each event once, and one event of a record at a time": async (bench) => {
    const { store, add, claim, done, sleep } = bench;
    for (let index = 0; index < 30; index++) await add(`booking:${index % 5}`);
    const running = new Set<string>();
    const handled: string[] = [];
    const end = performance.now() + PATIENCE * bench.unit;
    const work = async (): Promise<void> => {
      while (handled.length < 30 && performance.now() < end) {
        for (const event of await claim({ limit: 2 })) {
          check(!running.has(event.ref!), `two events of ${event.ref} were claimed at the same time`);
          running.add(event.ref!);
          await sleep(0.02);
          running.delete(event.ref!);
          await done(event, "Confirmed");
          handled.push(event.eventId);
        }
        await sleep(0.02);
      }
    };
    await Promise.all([work(), work(), work(), work()]);
    equal(
      "numbers of done attempts and of different done events",
      [handled.length, new Set(handled).size],
      [30, 30],
    );
    equal("counts().done", (await store.counts()).done, 30);
  },
};

type Order = "oldest" | "newest" | "retries";

/** Cases for the order in which `claim` takes records. */
export const ordering: Cases = {
  "records are claimed in the order in which their first due event arrived": async (bench) => {
    const { add, tick } = bench;
    for (const ref of ["booking:C", "booking:A", null, "booking:B", "booking:A", "booking:C"]) {
      await add(ref);
      await tick();
    }
    await expectOrder(bench, "oldest", ["booking:C", "booking:A", null, "booking:B"]);
    await expectOrder(bench, "newest", ["booking:B", null, "booking:A", "booking:C"]);
    await expectOrder(bench, undefined, ["booking:C", "booking:A", null, "booking:B"]);
  },

  "a claim with limit 4 takes the first 4 records of the order": async ({ add, claim, settle, tick }) => {
    for (let index = 0; index < 12; index++) {
      await add(`booking:${index % 6}`);
      await tick();
    }
    const expected = Array.from({ length: 6 }, (_, index) => `booking:${index}`);
    for (const order of ["oldest", "newest"] as const) {
      const claims = await claim({ order, limit: 4 });
      const refs = claims.map(({ ref }) => ref).sort();
      const first = order === "oldest" ? expected.slice(0, 4) : expected.slice(2);
      equal(`refs of the events claimed with order ${order}`, refs, first);
      for (const claimed of claims) await settle(claimed, { state: "released" });
    }
  },

  "retries are claimed last, or first with order `retries`, sorted by their due times": async (bench) => {
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

  "a released retry keeps its place in the order": async (bench) => {
    const { claimOne, settle, tick } = bench;
    await retries(bench, ["booking:late", "booking:soon"]);
    const first = await claimOne({ limit: 1 });
    await tick();
    await settle(first, { state: "released" });
    await expectOrder(bench, "oldest", ["booking:soon", "booking:late"]);
  },

  "if a record has a retry and a newer event, the retry is claimed first": async (bench) => {
    const { add, claimOne, done, tick } = bench;
    await retries(bench, ["booking:A"]);
    await add("booking:B");
    await tick();
    await add("booking:A");
    await tick();
    await expectOrder(bench, "oldest", ["booking:B", "booking:A"]);
    await expectOrder(bench, "newest", ["booking:A", "booking:B"]);
    await expectOrder(bench, "retries", ["booking:A", "booking:B"]);
    const first = await claimOne({ limit: 1, order: "newest" });
    equal("ref and attempts of the first claim", [first.ref, first.attempts], ["booking:A", 2]);
    await done(first);
    const second = await claimOne({ limit: 1, order: "newest" });
    equal("ref and attempts of the second claim", [second.ref, second.attempts], ["booking:A", 1]);
  },

  "in the order of claims, an event whose lease has ended counts as a retry": async (bench) => {
    const { unit, add, claimOne, sleep, tick } = bench;
    await add("booking:lost");
    await claimOne({ leaseDuration: unit });
    await sleep(2);
    await tick();
    await add("booking:new");
    await tick();
    await expectOrder(bench, "oldest", ["booking:new", "booking:lost"]);
    await add("booking:other");
    const [last] = await bench.claim({ limit: 1, order: "retries" });
    equal("ref and attempts of the first claim", [last?.ref, last?.attempts], ["booking:lost", 2]);
  },

  "claimedAt is the time of the claim, by the store's clock": async (bench) => {
    const { add, claimOne, claimLater, settle, sleep } = bench;
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

/** Makes a due retry for each of `refs`. The retries become due in the reverse order of `refs`. */
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

/** Claims the events one at a time, checks their order, and releases them. */
async function expectOrder(
  bench: Bench,
  order: Order | undefined,
  refs: readonly (string | null)[],
): Promise<void> {
  const claims = [];
  for (let index = 0; index < refs.length; index++) claims.push(await bench.claimOne({ limit: 1, order }));
  equal(
    `refs of successive claims with order ${order}`,
    claims.map(({ ref }) => ref),
    refs,
  );
  for (const claimed of claims) await bench.settle(claimed, { state: "released" });
}
