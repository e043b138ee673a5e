import { type Bench, between, type Cases, check, equal, idsOf, LONG } from "./harness.ts";

export const claiming: Cases = {
  "an empty store has nothing to claim": async ({ claim }) => {
    equal("claim() in an empty store", await claim(), []);
  },

  "a claim has every field that an attempt needs": async ({ add, claimOne, get }) => {
    const event = await add("booking:A");
    const before = await get(event);
    const { receivedAt, claimedAt, dueAt, firstDueAt, lease, ...rest } = await claimOne();
    equal("the claim's fields", rest, {
      ...event,
      ...{ attempts: 1, outages: 0, outageFor: 0, failures: 0, refusals: 0, replayed: false },
      ...{ lastFailure: undefined, previous: undefined, sequence: 0, ledger: undefined },
    });
    equal("the claim's dueAt and firstDueAt", [dueAt, firstDueAt], [before.dueAt, before.firstDueAt]);
    check(typeof lease === "string" && lease !== "", "the lease: expected a string that is not empty");
    const stored = await get(event);
    equal("the event's state and attempts", [stored.state, stored.attempts], ["processing", 1]);
    equal("the claim's receivedAt", receivedAt, stored.receivedAt.getTime());
    between("ms from receivedAt to claimedAt", claimedAt - receivedAt, 0, 30_000);
    equal("ms from claimedAt to dueAt", Number(stored.dueAt) - claimedAt, LONG);
  },

  "`claim` returns at most `limit` events": async ({ add, claim }) => {
    for (const name of ["A", "B", "C", "D"]) await add(`booking:${name}`);
    const found = [];
    for (const limit of [0, 3, 3, 3]) found.push((await claim({ limit })).length);
    equal("how many events claim() returned with the limits 0, 3, 3 and 3", found, [0, 3, 1, 0]);
  },

  "no event of a leased record can be claimed": async ({ add, claim, claimOne, claims, done }) => {
    await add("booking:A");
    const held = await claimOne();
    const next = await add("booking:A");
    equal("claim() while the record is leased", await claim(), []);
    equal("claim() by id while the record is leased", await claim({ eventId: next.eventId }), []);
    await claims("of another record", await add("booking:B"));
    await done(held);
    await claims("after settle()", next);
  },

  "refs that differ only in case or in a space name different records": async ({ add, claim }) => {
    for (const ref of ["booking:a", "booking:A", "booking:A ", "listing:1", "booking:1"]) await add(ref);
    equal("how many records were claimed", (await claim()).length, 5);
  },

  "a claim by id claims that event and no other event": async ({ add, claim, claimOne, newEvent }) => {
    const first = await add("booking:A");
    const second = await add("booking:A");
    const other = await add(null);
    equal("claim() by an unknown id", await claim({ eventId: newEvent(null).eventId }), []);
    equal("claim() by id with limit 0", await claim({ eventId: other.eventId, limit: 0 }), []);
    for (const { eventId } of [second, other]) {
      equal("id of the claimed event", (await claimOne({ eventId })).eventId, eventId);
      equal("second claim() by the same id", await claim({ eventId }), []);
    }
    equal("claim() by the id of an older event", await claim({ eventId: first.eventId }), []);
  },

  "concurrent claims never return the same event or two events of one record": async ({ add, claim }) => {
    for (let index = 0; index < 40; index++) await add(index % 8 === 0 ? null : `booking:${index % 8}`);
    const claims = (await Promise.all(Array.from({ length: 8 }, () => claim({ limit: 5 })))).flat();
    equal("how many events were claimed twice", claims.length - new Set(idsOf(claims)).size, 0);
    const refs = claims.flatMap(({ ref }) => ref ?? []);
    equal("how many records were claimed twice", refs.length - new Set(refs).size, 0);
    const leases = new Set(claims.map(({ lease }) => lease));
    equal("how many different leases the claims have", leases.size, claims.length);
    equal("how many events were claimed in total", claims.length + (await claim()).length, 5 + 7);
  },
};

/** Claims the records one by one, and fails if their order differs. */
async function expectOrder({ claimOne }: Bench, refs: readonly (string | null)[]) {
  const claims = [];
  for (let index = 0; index < refs.length; index++) claims.push(await claimOne({ limit: 1 }));
  equal(
    "refs of successive claims",
    claims.map(({ ref }) => ref),
    refs,
  );
  return claims;
}

/** Stores an event that has been due for some seconds, by the store's clock. */
async function overdue(
  bench: Bench,
  state: "scheduled" | "pending" | "retrying",
  ref: string | null,
  seconds: number,
) {
  const { store, add, get, newEvent } = bench;
  const now = await get(await add("booking:clock"));
  await store.erase("booking:clock");
  const event = { ...now, ...newEvent(ref), state, dueAt: new Date(Number(now.dueAt) - seconds * 1000) };
  await store.restore({ events: [event], snapshots: [] });
  return event;
}

/** Cases for the record and the event that `claim` takes. */
export const ordering: Cases = {
  "the record that is due longest is claimed first": async (bench) => {
    const order = ["booking:new", "booking:retry", "booking:timer", null];
    await overdue(bench, "pending", "booking:new", 400);
    await overdue(bench, "scheduled", "booking:timer", 200);
    await overdue(bench, "pending", null, 100);
    await overdue(bench, "retrying", "booking:retry", 300);
    for (const claimed of await expectOrder(bench, order)) {
      await bench.settle(claimed, { state: "released" });
      await bench.tick();
    }
    // Each of the released events has been due since its release.
    await expectOrder(bench, order);
  },

  "of a record, the event that is due longest is claimed first": async (bench) => {
    const { store, add, claimOne, done } = bench;
    const late = await overdue(bench, "scheduled", "booking:A", 100);
    const retry = await overdue(bench, "retrying", "booking:A", 200);
    const first = await overdue(bench, "pending", "booking:A", 400);
    const second = await overdue(bench, "pending", "booking:A", 300);
    const last = await add("booking:A");
    // The state in which an event waits makes no difference.
    for (const { eventId } of [first, second, retry, late, last]) {
      const claimed = await claimOne();
      equal("id of the claimed event", claimed.eventId, eventId);
      await done(claimed);
    }
    equal("nextDue() after all events", await store.nextDue(), undefined);
  },

  "a record with many events does not hold up other records": async (bench) => {
    const { add, claimOne, done, tick } = bench;
    for (let index = 0; index < 3; index++) await add("booking:busy");
    await tick();
    await add("booking:A");
    await tick();
    await add("booking:B");
    const refs = [];
    for (let index = 0; index < 4; index++) {
      const claimed = await claimOne({ limit: 1 });
      refs.push(claimed.ref);
      await tick();
      await done(claimed);
    }
    equal("refs of successive claims", refs, ["booking:busy", "booking:A", "booking:B", "booking:busy"]);
  },
};
