import { between, equal } from "./expect.ts";
import { type Cases, failed, LONG, unreachable } from "./harness.ts";

export const outages: Cases = {
  "an attempt that found the platform out of reach is not counted": async (bench) => {
    const { add, claimOne, claimLater, settle, get, unit } = bench;
    const event = await add("booking:A");
    const claim = await claimOne();
    const start = performance.now();
    await settle(claim, unreachable(2 * unit));
    const { state, attempts, reason, lastError } = await get(event);
    equal(
      "the event",
      { state, attempts, reason, lastError },
      { state: "retrying", attempts: 0, reason: "unavailable", lastError: "the platform is out of reach" },
    );
    const again = await claimLater(start + 2 * unit);
    equal("attempts and outages, claimed again", [again.attempts, again.outages], [1, 1]);
  },

  "an outage makes the whole record wait, and no other record": async (bench) => {
    const { add, claim, claimOne, settle, get } = bench;
    const failing = await add("booking:A");
    const behind = await add("booking:A");
    await settle(await claimOne(), unreachable(LONG));
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

  "an event without a record waits alone": async ({ add, claimOne, claimLater, settle, unit }) => {
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
    const { store, add, claimOne, settle, done } = bench;
    const failing = await add("booking:A");
    const behind = await add("booking:A");
    await settle(await claimOne(), unreachable(LONG));
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
    const { add, claimOne, claimLater, settle, sleep, unit } = bench;
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

  "an attempt that was given back ends no outage": async ({ add, claimOne, claimLater, settle, get }) => {
    const event = await add("booking:A");
    await settle(await claimOne(), unreachable(0));
    await settle(await claimLater(0), { state: "released" });
    equal("its state", (await get(event)).state, "retrying");
    const again = await claimLater(0);
    equal("attempts and outages", [again.attempts, again.outages], [1, 1]);
  },
};
