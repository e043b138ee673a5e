import {
  type Bench,
  between,
  type Cases,
  equal,
  failed,
  handled,
  LONG,
  parked,
  unreachable,
} from "./harness.ts";

export const leases: Cases = {
  "`settle` and `renew` with a lost lease change nothing": async (bench) => {
    const { store, unit, add, claimOne, claimLater, settle, shows } = bench;
    const event = await add("booking:A");
    const lost = await claimOne({ leaseDuration: unit });
    const held = await claimLater(0);
    const changes = { events: [{ event: bench.newEvent("booking:B") }], remove: "timers" } as const;
    for (const outcome of [
      { ...handled(lost, "Cancelled", { lost: true }), ...changes },
      { ...failed(0), ...changes },
      unreachable(0),
      { ...parked(), ...changes },
      { state: "released" } as const,
    ])
      equal(`settle() as ${outcome.state} with the lost lease`, await store.settle(lost, outcome), false);
    equal("renew() of the lost lease", await store.renew([lost], LONG), []);
    await shows(event, { state: "processing", attempts: 2, type: null });
    equal("how many events are stored", (await store.list({ limit: 5 })).length, 1);
    equal("snapshotOf() after settle() with the lost lease", await store.snapshotOf("booking:A"), undefined);
    await settle(held, handled(held, "Confirmed"));
    const status = (await store.snapshotOf("booking:A"))?.snapshot.status;
    equal("the status after settle() with the held lease", status, "Confirmed");
  },

  "a lease that has ended stays valid until its record is claimed": async (bench) => {
    const { store, unit, add, claim, claimOne, sleep, settle, get } = bench;
    const event = await add("booking:A");
    const other = await add("booking:A", {}, { dueIn: LONG });
    const claims = [await claimOne({ leaseDuration: unit })];
    await sleep(2);
    equal("claim() of an event that is not due", await claim({ eventId: other.eventId }), []);
    equal("second add() of the event", await store.add(event), "duplicate");
    equal("how many leases renew() extended", (await store.renew(claims, unit)).length, 1);
    await sleep(2);
    await settle(claims[0]!, handled(claims[0]!));
    equal("the event's state", (await get(event)).state, "done");
  },

  "`renew` extends the leases that are still held, and returns their claims": async (bench) => {
    const { store, unit, add, claim, claimOne, done, get, sleep } = bench;
    await add("booking:B");
    const ended = await claimOne();
    await done(ended);
    const event = await add("booking:A");
    await add("booking:A");
    // With jitter, a duration has a fraction.
    const claimed = await claimOne({ leaseDuration: 10 * unit + 0.5 });
    const before = Number((await get(event)).dueAt);
    const renewed = await store.renew([ended, claimed], LONG + 0.5);
    const tokens = renewed.map(({ eventId, lease }) => [eventId, lease]);
    equal("the claims that renew() returned", tokens, [[claimed.eventId, claimed.lease]]);
    const by = Number((await get(event)).dueAt) - before;
    between("ms by which renew() moved dueAt", by, LONG - 10 * unit - 1, LONG + 30_000);
    await sleep(11);
    equal("claim() after the end of the original lease", await claim(), []);
    await done(renewed[0]!);
  },

  "a second `settle` of a claim returns true, and records nothing": async (bench) => {
    const { store, add, claim, claimOne, done, get } = bench;
    for (const outcome of [handled, () => failed(LONG), () => parked()]) {
      const event = await add("booking:A");
      const claimed = await claimOne();
      await bench.settle(claimed, outcome(claimed, "Confirmed"));
      const before = [await get(event), await store.snapshotOf("booking:A")];
      const events = [{ event: bench.newEvent("booking:B") }];
      await done(claimed, "Cancelled");
      await bench.settle(claimed, { ...parked(), events });
      equal(
        "the event after the repeated calls",
        [await get(event), await store.snapshotOf("booking:A")],
        before,
      );
      equal("claim() after the repeated calls", await claim(), []);
      equal("renew() of the settled claim", await store.renew([claimed], LONG), []);
    }
  },

  "a second `settle` returns true until the event itself is claimed again": async (bench) => {
    const { store, add, claimOne, settle, done, get } = bench;
    const event = await add("booking:A");
    const first = await claimOne();
    await settle(first, failed(0));
    const second = await claimOne();
    equal("second settle() of the first claim", await store.settle(first, handled(first)), false);
    await done(second);
    await add("booking:A");
    equal("settle() while another event waits", await store.settle(second, parked()), true);
    const third = await claimOne();
    equal("settle() while another event is processed", await store.settle(second, parked()), true);
    await done(third);
    equal("settle() after another event was handled", await store.settle(second, parked()), true);
    equal("the event's state", (await get(event)).state, "done");
  },

  "a lease is valid only for its own event": async ({ store, add, claim, done }) => {
    for (const ref of ["booking:A", "booking:B"]) await add(ref);
    const [a, b] = await claim();
    for (const mixed of [
      { ...a!, lease: b!.lease },
      { ...a!, ...(await add(a!.ref)) },
    ]) {
      equal(
        "settle() with the lease of another event",
        await store.settle(mixed, { state: "released" }),
        false,
      );
      equal("renew() with the lease of another event", await store.renew([mixed], LONG), []);
    }
    for (const held of [a!, b!]) await done(held);
  },
};

export const nextDue: Cases = {
  "a claim may tell when the next event is due": async ({ store, add, ended }) => {
    const told: (number | undefined)[] = [];
    const claimed = async () => {
      const onNextDue = (ms: number | undefined): unknown => told.push(ms);
      return (await store.claim({ limit: 2, leaseDuration: LONG, onNextDue })).length;
    };
    equal("how many events an empty store gives", await claimed(), 0);
    if (told.length === 0) return;
    await add("booking:A", {}, { dueIn: LONG / 2 });
    equal("how many events a claim gives before the event is due", await claimed(), 0);
    await ended("booking:B", failed(LONG / 4));
    await add("booking:C");
    equal("how many events a claim gives", await claimed(), 1);
    equal("what the claim of an empty store told", told[0], undefined);
    between("what the claim before the due time told", told[1] ?? 0, LONG / 2 - 30_000, LONG / 2);
    between("what the claim beside a retry told", told[2] ?? 0, LONG / 4 - 30_000, LONG / 4);
    equal("how often the claims told it", told.length, 3);
  },

  "nextDue considers leases, retries and scheduled events": async ({ store, add, claimOne, ended }) => {
    const soon = async (what: string) =>
      between(`nextDue() with ${what}`, await store.nextDue(), LONG - 30_000, LONG);
    await ended(null, parked());
    equal("nextDue() with a parked event", await store.nextDue(), undefined);
    await add("booking:A", {}, { dueIn: LONG });
    await soon("a scheduled event");
    await store.erase("booking:A");
    await ended("booking:B", failed(LONG));
    await soon("a retry");
    await store.erase("booking:B");
    await add("booking:C");
    equal("nextDue() with a pending event", await store.nextDue(), 0);
    await claimOne({ leaseDuration: LONG });
    await soon("a leased event");
    await add("booking:C");
    await soon("a second event of the leased record");
    await add("booking:D");
    await claimOne({ leaseDuration: 3 * LONG });
    await soon("a longer lease of another record");
  },
};

/** Adds a pending event and a scheduled one beside an event that cannot reach the platform. */
async function outage({ add, claimOne, settle, get }: Bench) {
  const failing = await add("booking:A");
  const behind = await add("booking:A");
  const scheduled = await add("booking:A", {}, { dueIn: LONG / 2 });
  const { dueAt } = await get(scheduled);
  await settle(await claimOne(), unreachable(LONG));
  return { failing, behind, scheduled: { ...scheduled, dueAt } };
}

export const outages: Cases = {
  "an outage makes the events of its record wait that are pending or retrying": async (bench) => {
    const { add, claim, claims, get, shows } = bench;
    const { failing, behind, scheduled } = await outage(bench);
    for (const event of [failing, behind]) {
      equal("claim() by id while the record waits", await claim({ eventId: event.eventId }), []);
      const { dueAt, receivedAt } = await get(event);
      between("ms from receivedAt to dueAt", Number(dueAt) - Number(receivedAt), LONG, LONG + 30_000);
    }
    await shows(scheduled, { state: "scheduled", dueAt: scheduled.dueAt });
    await claims("during the outage", await add("booking:B"));
  },

  "a new event is due at once, and the events that wait stay as they are": async (bench) => {
    const { store, add, claim, claimOne, claims, done, get } = bench;
    const { failing, behind } = await outage(bench);
    const before = [await get(failing), await get(behind)];
    equal("add() of a stored event", await store.add(behind), "duplicate");
    equal("claim() after add() of a stored event", await claim(), []);
    const fresh = await add("booking:A");
    equal("nextDue() after a new event", await store.nextDue(), 0);
    await done((await claims("after a new event", fresh))[0]!);
    equal("the events that wait", [await get(failing), await get(behind)], before);
    equal("claim() after the new event", await claim(), []);
    // A replay makes the events due that wait, and no scheduled event.
    equal("replay() of the record", await store.replay({ ref: "booking:A", reason: "unavailable" }), 1);
    const { eventId, attempts } = await claimOne();
    equal("id and attempts of the claim after replay()", [eventId, attempts], [failing.eventId, 1]);
  },

  "`outages` counts outages in a row, and `outageFor` is the time since the first of them": async (bench) => {
    const { unit, add, claimOne, claimLater, settle, sleep } = bench;
    await add("booking:A");
    const claim = await claimOne();
    equal("outages and outageFor before an outage", [claim.outages, claim.outageFor], [0, 0]);
    const before = performance.now();
    await settle(claim, unreachable(0));
    await sleep(2);
    const second = await claimLater(0);
    await settle(second, unreachable(unit));
    const third = await claimLater(0);
    equal("attempts and outages after two outages", [third.attempts, third.outages], [1, 2]);
    between("outageFor after two outages", third.outageFor, 2 * unit, performance.now() - before + 30_000);
    await settle(third, { state: "released" });
    const fourth = await claimLater(0);
    equal("attempts and outages after a released attempt", [fourth.attempts, fourth.outages], [1, 2]);
    await settle(fourth, failed(0));
    const fifth = await claimLater(0);
    const { attempts, outages, outageFor } = fifth;
    equal("attempts, outages and outageFor after a failure", [attempts, outages, outageFor], [2, 0, 0]);
  },

  "`outages` begins anew when a refusal follows outages, and `lastFailure` is the last entry with a reason":
    async (bench) => {
      const { add, claimOne, claimLater, settle, get, sleep } = bench;
      const event = await add("booking:A");
      let claim = await claimOne();
      let start = claim.claimedAt;
      const refused = { ...failed(0), reason: "not-found", count: "nothing" } as const;
      for (const [outcome, outages] of [
        [unreachable(0), 1],
        [unreachable(0), 2],
        [refused, 1],
        [refused, 2],
        [unreachable(0), 1],
      ] as const) {
        if (outages === 1) start = claim.claimedAt;
        await sleep(2);
        await settle(claim, outcome);
        const last = (await get(event)).history.at(-1);
        claim = await claimLater(0);
        equal(
          `outages and outageFor after ${outcome.reason}`,
          [claim.outages, claim.outageFor],
          [outages, claim.claimedAt - start],
        );
        equal(`lastFailure after ${outcome.reason}`, claim.lastFailure, last);
      }
      await settle(claim, { state: "released" });
      equal("lastFailure after a released attempt", (await claimLater(0)).lastFailure?.reason, "unavailable");
    },

  "each failure raises the count of its own kind, and an answer with the record begins two of them anew":
    async (bench) => {
      const { store, add, claimOne, claimLater, settle, get } = bench;
      const event = await add("booking:A");
      let claim = await claimOne();
      const steps = [
        { count: "failure", counts: [0, 1, 0, 0] },
        { count: "nothing", counts: [0, 1, 0, 1] },
        { count: "refusal", counts: [0, 1, 1, 0] },
        { count: "refusal", counts: [0, 1, 2, 0] },
        { count: "call", counts: [1, 1, 2, 0] },
        { count: "failure", counts: [1, 2, 2, 0] },
        { count: "call", found: true, counts: [2, 0, 0, 0] },
        { count: "failure", found: true, counts: [2, 1, 0, 0] },
        { count: "refusal", counts: [2, 1, 1, 0] },
      ] as const;
      for (const { count, counts, ...found } of steps) {
        await settle(claim, { ...failed(0), count, ...found });
        claim = await claimLater(0);
        const { attempts, failures, refusals, outages } = claim;
        equal(`the counts after ${count}`, [attempts - 1, failures, refusals, outages], counts);
      }
      await settle(claim, { state: "released" });
      claim = await claimLater(0);
      equal("the counts after released", [claim.attempts, claim.failures, claim.refusals], [3, 1, 1]);
      await settle(claim, { state: "released", found: true });
      claim = await claimLater(0);
      equal(
        "the counts after released with found",
        [claim.attempts, claim.failures, claim.refusals],
        [3, 0, 0],
      );
      await settle(claim, { ...failed(0), count: "failure" });
      claim = await claimLater(0);
      await settle(claim, { ...failed(0), count: "refusal" });
      claim = await claimLater(0);
      await settle(claim, { ...failed(LONG), count: "nothing" });
      await store.replay({ eventId: event.eventId });
      claim = await claimOne();
      equal(
        "the counts after a replay of the retrying event",
        [claim.attempts, claim.failures, claim.refusals, claim.outages],
        [3, 1, 1, 1],
      );
      await settle(claim, { ...failed(0), count: "failure" });
      claim = await claimLater(0);
      await settle(claim, { ...parked("not-found"), count: "refusal" });
      const { attempts, failures, refusals } = await get(event);
      equal("the counts of the parked event", [attempts, failures, refusals], [2, 2, 2]);
      await store.replay({ eventId: event.eventId });
      const replayed = await claimOne();
      equal(
        "the counts after a replay",
        [replayed.attempts, replayed.failures, replayed.refusals],
        [1, 0, 0],
      );
    },
};
