import { between, type Cases, check, equal, failed, handled, LONG, parked, unreachable } from "./harness.ts";

export const leases: Cases = {
  "an event whose lease has ended can be claimed again, as another attempt": async (bench) => {
    const { unit, add, claimOne, claimLater } = bench;
    for (const ref of ["booking:A", null]) {
      await add(ref);
      const start = performance.now();
      const first = await claimOne({ leaseDuration: 2 * unit });
      const second = await claimLater(start + 2 * unit);
      equal("the event", second.eventId, first.eventId);
      equal("its attempts", second.attempts, 2);
      check(second.lease !== first.lease, "lease: expected a new token, got the old one");
    }
  },

  "a lost lease records nothing": async ({ store, unit, add, claimOne, claimLater, settle, shows }) => {
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
      equal(`settle as ${outcome.state} with the lost lease`, await store.settle(lost, outcome), false);
    }
    equal("renew of the lost lease", await store.renew([lost], LONG), []);
    await shows(event, { state: "processing", attempts: 2, type: null, lastError: null });
    equal("the record's snapshot", await store.recordOf("booking:A"), undefined);
    await settle(held, handled(held, "Confirmed"));
    const record = await store.recordOf("booking:A");
    equal("the snapshot of the attempt that held the lease", record?.snapshot.status, "Confirmed");
  },

  "a lease is lost to another event of its record, too": async (bench) => {
    const { store, unit, add, claimOne, claimLater, done } = bench;
    const first = await add("booking:A");
    const second = await add("booking:A");
    const lost = await claimOne({ leaseDuration: unit });
    equal("the first to be claimed", lost.eventId, first.eventId);
    const held = await claimLater(0, { eventId: second.eventId });
    equal("renew of the lost lease", await store.renew([lost], LONG), []);
    const settled = await store.settle(lost, handled(lost, "Cancelled"));
    equal("settle with the lost lease", settled, false);
    await done(held, "Confirmed");
    const again = await claimOne();
    equal("the first one, again", [again.eventId, again.attempts], [first.eventId, 2]);
    equal("the status before it", again.previous?.status, "Confirmed");
  },

  "an event whose lease has ended waits while another one of its record is handled": async (bench) => {
    const { store, unit, add, claimOne, claimLater, done } = bench;
    const first = await add("booking:A");
    const second = await add("booking:A");
    await claimOne({ leaseDuration: unit });
    await claimLater(0, { eventId: second.eventId, leaseDuration: unit });
    const again = await claimLater(0);
    equal("the first to be claimed again", again.eventId, first.eventId);
    await done(again);
    check((await store.nextDue()) !== undefined, "nextDue: expected a number, as the second event is left");
    const left = await claimLater(0);
    equal("the second one", [left.eventId, left.attempts], [second.eventId, 2]);
  },

  "a lease that is renewed goes on": async ({ store, unit, add, claim, claimOne, done, get, sleep }) => {
    const event = await add("booking:A");
    await add("booking:A");
    const claimed = await claimOne({ leaseDuration: 10 * unit });
    const before = (await get(event)).dueAt;
    const renewed = await store.renew([claimed], LONG);
    equal(
      "the claims that are still held",
      renewed.map(({ eventId, lease }) => [eventId, lease]),
      [[claimed.eventId, claimed.lease]],
    );
    between(
      "ms by which its dueAt moved",
      Number((await get(event)).dueAt) - Number(before),
      LONG - 10 * unit - 1,
      LONG + 30_000,
    );
    await sleep(11);
    equal("claim, after the first lease's end", await claim(), []);
    await done(renewed[0]!);
  },

  "renew resolves to those still held": async ({ store, add, claim, settle, done }) => {
    for (const ref of ["booking:A", "booking:B", null, null]) await add(ref);
    const claims = await claim();
    const [a, b, c, d] = claims.sort((x, y) => (x.eventId < y.eventId ? -1 : 1));
    await done(a!);
    await settle(c!, { state: "released" });
    const renewed = (await store.renew(claims, LONG)).map(({ eventId }) => eventId).sort();
    equal("the renewed events", renewed, [b!.eventId, d!.eventId]);
    equal("renew of none", await store.renew([], LONG), []);
  },

  "an attempt ends once": async ({ store, add, claim, claimOne, settle, done, get }) => {
    const event = await add("booking:A");
    const finished = await claimOne();
    await done(finished, "Confirmed");
    equal("settle, again", await store.settle(finished, { state: "released" }), false);
    equal("its state", (await get(event)).state, "done");
    equal("claim", await claim(), []);

    await add("booking:B");
    const given = await claimOne();
    await settle(given, { state: "released" });
    const taken = await claimOne();
    const late = await store.settle(given, handled(given));
    equal("settle with the lease that was given back", late, false);
    equal("the claims that are still held", (await store.renew([given, taken], LONG)).length, 1);
  },

  "of many settling one lease at once, one does": async ({ store, add, claimOne }) => {
    await add("booking:A");
    const claimed = await claimOne();
    const answers = await Promise.all(
      ["Confirmed", "Cancelled", "Declined", "Request"].map((status) =>
        store.settle(claimed, handled(claimed, status)),
      ),
    );
    equal("how many of them did", answers.filter(Boolean).length, 1);
    equal("the record's sequence", (await store.recordOf("booking:A"))?.sequence, 1);
  },

  "a lease opens its own event only": async ({ store, newEvent, add, claim, done }) => {
    await add("booking:A");
    await add("booking:B");
    const claims = await claim();
    const [a, b] = claims as [(typeof claims)[0], (typeof claims)[0]];
    const mixed = { ...a, lease: b.lease };
    equal("settle with another event's lease", await store.settle(mixed, { state: "released" }), false);
    equal("renew with another event's lease", await store.renew([mixed], LONG), []);
    const behind = { ...a, ...(await add("booking:A")) };
    equal("settle of another event of its record", await store.settle(behind, { state: "released" }), false);
    equal("renew of another event of its record", await store.renew([behind], LONG), []);
    const unknown = { ...a, ...newEvent("booking:A") };
    equal("settle of an unknown event", await store.settle(unknown, { state: "released" }), false);
    equal("renew of an unknown event", await store.renew([unknown], LONG), []);
    await done(a);
    await done(b);
  },
};

export const nextDue: Cases = {
  "it is undefined where nothing is left to do": async ({ store, ended, handle }) => {
    equal("in an empty store", await store.nextDue(), undefined);
    await handle("booking:A", "Confirmed");
    await ended(null, parked());
    equal("with all done or parked", await store.nextDue(), undefined);
  },

  "it is 0 where something can be claimed": async ({ store, add, claimOne, settle }) => {
    await add("booking:A");
    equal("with a pending event", await store.nextDue(), 0);
    const claim = await claimOne();
    await add("booking:B");
    equal("with a pending event beside a leased one", await store.nextDue(), 0);
    await claimOne();
    await settle(claim, { state: "released" });
    equal("with one given back", await store.nextDue(), 0);
  },

  "it counts the end of a lease, also for events that wait behind it": async ({ store, add, claimOne }) => {
    await add("booking:A");
    await claimOne({ leaseDuration: LONG });
    between("with a leased event", await store.nextDue(), LONG - 30_000, LONG);
    await add("booking:A");
    between("with another behind it", await store.nextDue(), LONG - 30_000, LONG);
    await add("booking:B");
    await claimOne({ leaseDuration: 3 * LONG });
    between("with a longer lease beside it", await store.nextDue(), LONG - 30_000, LONG);
  },

  "it counts an event's retry": async ({ store, add, ended }) => {
    await ended("booking:A", failed(LONG));
    between("with a retry", await store.nextDue(), LONG - 30_000, LONG);
    await add("booking:A");
    equal("with a new event of its record", await store.nextDue(), 0);
  },

  "it counts a record's wait": async ({ store, add, ended }) => {
    await add("booking:A");
    await ended("booking:A", unreachable(LONG));
    between("with a record that waits", await store.nextDue(), LONG - 30_000, LONG);
    await ended("booking:B", failed(2 * LONG));
    between("with a later retry beside it", await store.nextDue(), LONG - 30_000, LONG);
  },

  "after that time an event can be claimed": async ({ store, unit, add, claim, claimOne, settle, sleep }) => {
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
        `nextDue: expected at most ${2 * unit} ms, got ${wait}`,
      );
      // A timer may go off a little early by another clock.
      await sleep((wait + 5) / unit);
      const claims = await claim();
      equal("how many can be claimed then", claims.length, 1);
      await settle(claims[0]!, handled(claims[0]!));
    }
  },
};

export const outages: Cases = {
  "an attempt that found the platform out of reach is not counted": async (bench) => {
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
    equal("attempts and outages, claimed again", [again.attempts, again.outages], [1, 1]);
  },

  "an outage makes the whole record wait, and no other record": async (bench) => {
    const { add, ended, claim, claimOne, get } = bench;
    const failing = await add("booking:A");
    const behind = await ended("booking:A", unreachable(LONG));
    equal("claim", await claim(), []);
    equal("claim, retries first", await claim({ order: "retries" }), []);
    equal("claim of the failing one by its id", await claim({ eventId: failing.eventId }), []);
    equal("claim of the one behind it by its id", await claim({ eventId: behind.eventId }), []);
    for (const event of [failing, behind]) {
      const { dueAt, receivedAt } = await get(event);
      between("ms until it is due, by dueAt", Number(dueAt) - Number(receivedAt), LONG - 1, LONG + 30_000);
    }
    const other = await add("booking:B");
    equal("an event of another record", (await claimOne()).eventId, other.eventId);
  },

  "an event without a record waits alone": async ({ unit, add, claimOne, claimLater, settle }) => {
    const event = await add(null);
    const claimed = await claimOne();
    const start = performance.now();
    await settle(claimed, unreachable(2 * unit));
    const other = await add(null);
    equal("the other one", (await claimOne({ eventId: other.eventId })).eventId, other.eventId);
    const again = await claimLater(start + 2 * unit);
    equal("the one that waited", [again.eventId, again.outages], [event.eventId, 1]);
  },

  "a new event ends its record's wait, for all of its events": async (bench) => {
    const { store, add, ended, claimOne, done } = bench;
    const failing = await add("booking:A");
    const behind = await ended("booking:A", unreachable(LONG));
    await store.add(behind);
    between("nextDue, after a mere duplicate", await store.nextDue(), 1, LONG);
    await bench.tick();
    const fresh = await add("booking:A");
    equal("nextDue", await store.nextDue(), 0);
    for (const expected of [failing, behind, fresh]) {
      const claim = await claimOne();
      equal("the claimed event", claim.eventId, expected.eventId);
      await done(claim, "Confirmed");
    }
  },

  "an event that came before the outage was seen does not end the wait": async (bench) => {
    const { add, claim, claimOne, settle } = bench;
    await add("booking:A");
    const claimed = await claimOne();
    await add("booking:A");
    await settle(claimed, unreachable(LONG));
    equal("claim", await claim(), []);
  },

  "outages in a row are counted, and timed from the first": async (bench) => {
    const { unit, add, claimOne, claimLater, settle, sleep } = bench;
    await add("booking:A");
    const claim = await claimOne();
    equal("outages and outageFor, before the first", [claim.outages, claim.outageFor], [0, 0]);
    const before = performance.now();
    await settle(claim, unreachable(0));
    const after = performance.now();
    await sleep(2);
    const second = await claimLater(0);
    equal("attempts and outages, after one", [second.attempts, second.outages], [1, 1]);
    await settle(second, unreachable(unit));
    const beforeThird = performance.now();
    const third = await claimLater(0);
    equal("attempts and outages, after two", [third.attempts, third.outages], [1, 2]);
    between(
      "outageFor",
      third.outageFor,
      Math.floor(beforeThird - after) - 5,
      Math.ceil(performance.now() - before) + 5,
    );
    await settle(third, failed(0));
    const fourth = await claimLater(0);
    equal("after a failure that counts", [fourth.attempts, fourth.outages, fourth.outageFor], [2, 0, 0]);
    await settle(fourth, unreachable(0));
    const fifth = await claimLater(0);
    equal("attempts and outages, after another one", [fifth.attempts, fifth.outages], [2, 1]);
    between("outageFor, timed anew", fifth.outageFor, 0, Math.ceil(performance.now() - beforeThird));
  },

  "an attempt that was given back ends no outage": async ({ ended, claimLater, settle, get }) => {
    const event = await ended("booking:A", unreachable(0));
    await settle(await claimLater(0), { state: "released" });
    equal("its state", (await get(event)).state, "retrying");
    const again = await claimLater(0);
    equal("attempts and outages", [again.attempts, again.outages], [1, 1]);
  },
};
