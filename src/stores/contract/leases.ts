import { between, type Cases, check, equal, failed, handled, LONG, parked, unreachable } from "./harness.ts";

export const leases: Cases = {
  "an event whose lease has ended can be claimed again, as a new attempt": async (bench) => {
    const { unit, add, claimOne, claimLater } = bench;
    for (const ref of ["booking:A", null]) {
      await add(ref);
      const start = performance.now();
      const first = await claimOne({ leaseDuration: 2 * unit });
      const second = await claimLater(start + 2 * unit);
      equal("id of the event claimed again", second.eventId, first.eventId);
      equal("attempts of the second claim", second.attempts, 2);
      check(second.lease !== first.lease, "lease of the second claim: expected a new token, got the same");
    }
  },

  "`settle` and `renew` with a lost lease change nothing": async (bench) => {
    const { store, unit, add, claimOne, claimLater, settle, shows } = bench;
    const event = await add("booking:A");
    const lost = await claimOne({ leaseDuration: unit });
    const held = await claimLater(0);
    for (const outcome of [
      handled(lost, "Cancelled", { lost: true }),
      failed(0),
      unreachable(0),
      parked(),
      { state: "released" } as const,
    ]) {
      equal(`settle() as ${outcome.state} with the lost lease`, await store.settle(lost, outcome), false);
    }
    equal("renew() of the lost lease", await store.renew([lost], LONG), []);
    await shows(event, { state: "processing", attempts: 2, type: null, lastError: null });
    equal("recordOf() after settle() with the lost lease", await store.recordOf("booking:A"), undefined);
    await settle(held, handled(held, "Confirmed"));
    const record = await store.recordOf("booking:A");
    equal("the status after settle() with the held lease", record?.snapshot.status, "Confirmed");
  },

  "a lease that has ended is lost when another event of its record is claimed": async (bench) => {
    const { store, unit, add, claimOne, claimLater, done } = bench;
    const first = await add("booking:A");
    const second = await add("booking:A");
    const lost = await claimOne({ leaseDuration: unit });
    equal("id of the first claimed event", lost.eventId, first.eventId);
    const held = await claimLater(0, { eventId: second.eventId });
    equal("renew() of the lost lease", await store.renew([lost], LONG), []);
    const settled = await store.settle(lost, handled(lost, "Cancelled"));
    equal("settle() with the lost lease", settled, false);
    await done(held, "Confirmed");
    const again = await claimOne();
    equal("eventId and attempts of the next claim", [again.eventId, again.attempts], [first.eventId, 2]);
    equal("previous status in the new claim", again.previous?.status, "Confirmed");
  },

  "if the leases of two events of a record end, both events can be claimed, one at a time": async (bench) => {
    const { store, unit, add, claimOne, claimLater, done } = bench;
    const first = await add("booking:A");
    const second = await add("booking:A");
    await claimOne({ leaseDuration: unit });
    await claimLater(0, { eventId: second.eventId, leaseDuration: unit });
    const again = await claimLater(0);
    equal("id of the first event claimed again", again.eventId, first.eventId);
    await done(again);
    check((await store.nextDue()) !== undefined, "nextDue(): expected a number, got undefined");
    const left = await claimLater(0);
    equal("eventId and attempts of the next claim", [left.eventId, left.attempts], [second.eventId, 2]);
  },

  "`renew` extends a lease": async ({ store, unit, add, claim, claimOne, done, get, sleep }) => {
    const event = await add("booking:A");
    await add("booking:A");
    const claimed = await claimOne({ leaseDuration: 10 * unit });
    const before = (await get(event)).dueAt;
    const renewed = await store.renew([claimed], LONG);
    equal(
      "eventId and lease of the claims that renew() returned",
      renewed.map(({ eventId, lease }) => [eventId, lease]),
      [[claimed.eventId, claimed.lease]],
    );
    between(
      "ms by which renew() moved the event's dueAt",
      Number((await get(event)).dueAt) - Number(before),
      LONG - 10 * unit - 1,
      LONG + 30_000,
    );
    await sleep(11);
    equal("claim() after the end of the original lease", await claim(), []);
    await done(renewed[0]!);
  },

  "`renew` resolves to the claims whose lease is still held": async ({ store, add, claim, settle, done }) => {
    for (const ref of ["booking:A", "booking:B", null, null]) await add(ref);
    const claims = await claim();
    const [a, b, c, d] = claims.sort((x, y) => (x.eventId < y.eventId ? -1 : 1));
    await done(a!);
    await settle(c!, { state: "released" });
    const renewed = (await store.renew(claims, LONG)).map(({ eventId }) => eventId).sort();
    equal("ids of the renewed events", renewed, [b!.eventId, d!.eventId]);
    equal("renew() of no claims", await store.renew([], LONG), []);
  },

  "a claim can be settled only once": async ({ store, add, claim, claimOne, settle, done, get }) => {
    const event = await add("booking:A");
    const finished = await claimOne();
    await done(finished, "Confirmed");
    equal("second settle() of one claim", await store.settle(finished, { state: "released" }), false);
    equal("the event's state", (await get(event)).state, "done");
    equal("claim() after the event is done", await claim(), []);

    await add("booking:B");
    const given = await claimOne();
    await settle(given, { state: "released" });
    const taken = await claimOne();
    const late = await store.settle(given, handled(given));
    equal("settle() with the lease of a released attempt", late, false);
    equal("how many leases renew() extended", (await store.renew([given, taken], LONG)).length, 1);
  },

  "if many calls settle one claim concurrently, only one call returns true": async (bench) => {
    const { store, add, claimOne } = bench;
    await add("booking:A");
    const claimed = await claimOne();
    const answers = await Promise.all(
      ["Confirmed", "Cancelled", "Declined", "Request"].map((status) =>
        store.settle(claimed, handled(claimed, status)),
      ),
    );
    equal("how many calls of settle returned true", answers.filter(Boolean).length, 1);
    equal("the record's sequence", (await store.recordOf("booking:A"))?.sequence, 1);
  },

  "a lease is valid only for its own event": async ({ store, newEvent, add, claim, done }) => {
    await add("booking:A");
    await add("booking:B");
    const claims = await claim();
    const [a, b] = claims as [(typeof claims)[0], (typeof claims)[0]];
    const mixed = { ...a, lease: b.lease };
    equal(
      "settle() with the lease of another record",
      await store.settle(mixed, { state: "released" }),
      false,
    );
    equal("renew() with the lease of another record", await store.renew([mixed], LONG), []);
    const behind = { ...a, ...(await add("booking:A")) };
    equal(
      "settle() with the lease of another event",
      await store.settle(behind, { state: "released" }),
      false,
    );
    equal("renew() with the lease of another event", await store.renew([behind], LONG), []);
    const unknown = { ...a, ...newEvent("booking:A") };
    equal("settle() of an unknown event", await store.settle(unknown, { state: "released" }), false);
    equal("renew() of an unknown event", await store.renew([unknown], LONG), []);
    await done(a);
    await done(b);
  },
};

export const nextDue: Cases = {
  "nextDue is undefined if all events are done or parked": async ({ store, ended, handle }) => {
    equal("nextDue() in an empty store", await store.nextDue(), undefined);
    await handle("booking:A", "Confirmed");
    await ended(null, parked());
    equal("nextDue() with a done and a parked event", await store.nextDue(), undefined);
  },

  "nextDue is 0 if an event can be claimed now": async ({ store, add, claimOne, settle }) => {
    await add("booking:A");
    equal("nextDue() with a pending event", await store.nextDue(), 0);
    const claim = await claimOne();
    await add("booking:B");
    equal("nextDue() with a pending event and a leased event", await store.nextDue(), 0);
    await claimOne();
    await settle(claim, { state: "released" });
    equal("nextDue() with a released event", await store.nextDue(), 0);
  },

  "nextDue considers the time at which a lease ends": async ({ store, add, claimOne }) => {
    await add("booking:A");
    await claimOne({ leaseDuration: LONG });
    between("nextDue() with a leased event", await store.nextDue(), LONG - 30_000, LONG);
    await add("booking:A");
    between("nextDue() with a second event of the leased record", await store.nextDue(), LONG - 30_000, LONG);
    await add("booking:B");
    await claimOne({ leaseDuration: 3 * LONG });
    between("nextDue() with a longer lease of another record", await store.nextDue(), LONG - 30_000, LONG);
  },

  "nextDue considers the time of an event's retry": async ({ store, add, ended }) => {
    await ended("booking:A", failed(LONG));
    between("nextDue() with a retry", await store.nextDue(), LONG - 30_000, LONG);
    await add("booking:A");
    equal("nextDue() with a retry and a new event of its record", await store.nextDue(), 0);
  },

  "nextDue considers the end of a record's wait": async ({ store, add, ended }) => {
    await add("booking:A");
    await ended("booking:A", unreachable(LONG));
    between("nextDue() with a record that waits", await store.nextDue(), LONG - 30_000, LONG);
    await ended("booking:B", failed(2 * LONG));
    between("nextDue() with a later retry of another record", await store.nextDue(), LONG - 30_000, LONG);
  },

  "an event can be claimed after the wait that nextDue returned": async (bench) => {
    const { store, unit, add, claim, claimOne, settle, sleep } = bench;
    for (const prepare of [
      async () => void (await claimOne({ leaseDuration: 2 * unit })),
      async () => settle(await claimOne(), failed(2 * unit)),
      async () => settle(await claimOne(), unreachable(2 * unit)),
    ]) {
      await add(null);
      await prepare();
      const wait = await store.nextDue();
      check(
        wait !== undefined && wait <= 2 * unit + 5,
        `nextDue(): expected at most ${2 * unit} ms, got ${wait}`,
      );
      // By the store's clock, a timer may fire slightly early. So wait 5 ms longer.
      await sleep((wait + 5) / unit);
      const claims = await claim();
      equal("how many events were claimed after the wait", claims.length, 1);
      await settle(claims[0]!, handled(claims[0]!));
    }
  },
};

export const outages: Cases = {
  "`attempts` does not count an attempt that could not reach the platform": async (bench) => {
    const { unit, add, claimOne, claimLater, settle, shows } = bench;
    const event = await add("booking:A");
    const claim = await claimOne();
    const start = performance.now();
    await settle(claim, unreachable(2 * unit));
    await shows(event, {
      state: "retrying",
      attempts: 0,
      reason: "unavailable",
      lastError: "the platform is out of reach",
    });
    const again = await claimLater(start + 2 * unit);
    equal("attempts and outages of the second claim", [again.attempts, again.outages], [1, 1]);
  },

  "an outage makes all events of its record wait, but no event of another record": async (bench) => {
    const { add, ended, claim, claimOne, get } = bench;
    const failing = await add("booking:A");
    const behind = await ended("booking:A", unreachable(LONG));
    equal("claim() while the record waits", await claim(), []);
    equal("claim() with order `retries` while the record waits", await claim({ order: "retries" }), []);
    equal("claim() of the first event by id", await claim({ eventId: failing.eventId }), []);
    equal("claim() of the second event by id", await claim({ eventId: behind.eventId }), []);
    for (const event of [failing, behind]) {
      const { dueAt, receivedAt } = await get(event);
      between("ms from receivedAt to dueAt", Number(dueAt) - Number(receivedAt), LONG - 1, LONG + 30_000);
    }
    const other = await add("booking:B");
    equal("id of the claimed event of another record", (await claimOne()).eventId, other.eventId);
  },

  "an outage of an event without a record makes no other event wait": async (bench) => {
    const { unit, add, claimOne, claimLater, settle } = bench;
    const event = await add(null);
    const claimed = await claimOne();
    const start = performance.now();
    await settle(claimed, unreachable(2 * unit));
    const other = await add(null);
    equal("id of the claimed event", (await claimOne({ eventId: other.eventId })).eventId, other.eventId);
    const again = await claimLater(start + 2 * unit);
    equal(
      "`eventId` and `outages` of the event that is claimed after its wait",
      [again.eventId, again.outages],
      [event.eventId, 1],
    );
  },

  "a new event ends the wait of all events of its record": async (bench) => {
    const { store, add, ended, claimOne, done } = bench;
    const failing = await add("booking:A");
    const behind = await ended("booking:A", unreachable(LONG));
    await store.add(behind);
    between("nextDue() after add() of a stored event", await store.nextDue(), 1, LONG);
    await bench.tick();
    const fresh = await add("booking:A");
    equal("nextDue() after a new event", await store.nextDue(), 0);
    for (const expected of [failing, behind, fresh]) {
      const claim = await claimOne();
      equal("id of the claimed event", claim.eventId, expected.eventId);
      await done(claim, "Confirmed");
    }
  },

  "an event that is added during an attempt does not end the wait after the attempt": async (bench) => {
    const { add, claim, claimOne, settle } = bench;
    await add("booking:A");
    const claimed = await claimOne();
    await add("booking:A");
    await settle(claimed, unreachable(LONG));
    equal("claim() while the record waits", await claim(), []);
  },

  "`outages` counts outages in a row, and `outageFor` is the time since the first of them": async (bench) => {
    const { unit, add, claimOne, claimLater, settle, sleep } = bench;
    await add("booking:A");
    const claim = await claimOne();
    equal("outages and outageFor before an outage", [claim.outages, claim.outageFor], [0, 0]);
    const before = performance.now();
    await settle(claim, unreachable(0));
    const after = performance.now();
    await sleep(2);
    const second = await claimLater(0);
    equal("attempts and outages after one outage", [second.attempts, second.outages], [1, 1]);
    await settle(second, unreachable(unit));
    const beforeThird = performance.now();
    const third = await claimLater(0);
    equal("attempts and outages after two outages", [third.attempts, third.outages], [1, 2]);
    between(
      "outageFor after two outages",
      third.outageFor,
      Math.floor(beforeThird - after) - 5,
      Math.ceil(performance.now() - before) + 5,
    );
    await settle(third, failed(0));
    const fourth = await claimLater(0);
    equal(
      "attempts, outages and outageFor after a failure that counts",
      [fourth.attempts, fourth.outages, fourth.outageFor],
      [2, 0, 0],
    );
    await settle(fourth, unreachable(0));
    const fifth = await claimLater(0);
    equal("attempts and outages after another outage", [fifth.attempts, fifth.outages], [2, 1]);
    between("outageFor after another outage", fifth.outageFor, 0, Math.ceil(performance.now() - beforeThird));
  },

  "a released attempt does not reset `outages`": async ({ ended, claimLater, settle, get }) => {
    const event = await ended("booking:A", unreachable(0));
    await settle(await claimLater(0), { state: "released" });
    equal("the event's state", (await get(event)).state, "retrying");
    const again = await claimLater(0);
    equal("attempts and outages of the next claim", [again.attempts, again.outages], [1, 1]);
  },
};
