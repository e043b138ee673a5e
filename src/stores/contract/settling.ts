import { noEvents } from "../event-states.ts";
import type { Snapshot } from "../snapshot.ts";
import { between, type Cases, equal, failed, handled, idsOf, LONG, parked, unreachable } from "./harness.ts";

export const settling: Cases = {
  "a done outcome writes the snapshot, and raises sequence if the record has changed": async (bench) => {
    const { store, add, claimOne, settle, tick } = bench;
    equal("snapshotOf() before the first snapshot", await store.snapshotOf("booking:A"), undefined);
    const ends = [
      [{ status: "Request", fields: { checkIn: "2026-07-01", nights: 2.5 } }, true],
      [{ status: "Request", fields: { checkIn: "2026-07-02", paid: false, note: null } }, true],
      [undefined, false],
      // The queue computes `changed`, not the store.
      [{ status: "Gone \udfff", fields: { "füld \u0001\ud800": "日本 '\ud83d" } }, false],
    ] as const;
    let previous: Snapshot | undefined;
    let [sequence, seenAt] = [0, 0];
    for (const [snapshot, changed] of ends) {
      await add("booking:A");
      await tick();
      const claim = await claimOne();
      equal("previous and sequence of the claim", [claim.previous, claim.sequence], [previous, sequence]);
      const record = snapshot && { record: { snapshot, changed } };
      await settle(claim, { state: "done", type: "booking.Confirmed", entry: { duration: 1 }, ...record });
      previous = snapshot ?? previous;
      sequence += changed ? 1 : 0;
      const stored = (await store.snapshotOf("booking:A"))!;
      equal(
        "the snapshot",
        [stored.ref, stored.snapshot, stored.sequence],
        ["booking:A", previous, sequence],
      );
      equal("whether seenAt is later than before", Number(stored.seenAt) > seenAt, snapshot !== undefined);
      seenAt = Number(stored.seenAt);
    }
    equal("snapshotOf() of another record", await store.snapshotOf("booking:B"), undefined);
  },

  "after a failed attempt that counts, only its own event waits": async (bench) => {
    const { add, ended, claims, get } = bench;
    const event = await add("booking:A");
    const next = await ended("booking:A", { ...failed(LONG), type: "booking.Request" });
    const { receivedAt, dueAt, state, attempts, type, reason, doneAt } = await get(event);
    equal(
      "the failed event",
      { state, attempts, type, reason, doneAt },
      { state: "retrying", attempts: 1, type: "booking.Request", reason: "callback", doneAt: null },
    );
    between("ms from receivedAt to dueAt", Number(dueAt) - Number(receivedAt), LONG, LONG + 30_000);
    await claims("after the failure", next);
  },

  "an event without a record loses its notification when it is done or discarded": async (bench) => {
    const { store, add, handle, ended, shows } = bench;
    const text = { notification: '{"text":"hello"}' };
    const ofRecord = await handle("booking:A", "Confirmed", {});
    await shows(ofRecord, { state: "done", notification: ofRecord.notification });
    await shows(await handle(null), { state: "done", notification: null });
    const retrying = await ended(null, failed(LONG));
    await shows(retrying, { state: "retrying", notification: retrying.notification });
    const parkedEvent = await ended(null, parked());
    await shows(parkedEvent, { state: "parked", notification: parkedEvent.notification });
    const [waiting, known] = [await add(null, text), await add("booking:B", text)];
    for (const { eventId } of [waiting, known, parkedEvent]) await store.discard({ eventId });
    for (const event of [waiting, parkedEvent]) await shows(event, { state: "done", notification: null });
    await shows(known, { state: "done", ...text });
    equal("add() of a done id", await store.add(waiting), "duplicate");
  },

  "`attempts` does not count a released attempt": async (bench) => {
    const { ended, claimOne, claimLater, settle, shows } = bench;
    const event = await ended("booking:A", { state: "released" });
    await shows(event, { state: "pending", attempts: 0, history: [] });
    const again = await claimOne();
    equal("attempts of the second claim", again.attempts, 1);
    await settle(again, failed(0));
    await settle(await claimLater(0), { state: "released" });
    await shows(event, { state: "retrying", reason: "callback" });
    equal("attempts of the last claim", (await claimLater(0)).attempts, 2);
  },

  "`events` are recorded with the end of the attempt, by the rules of `add`": async (bench) => {
    const { store, newEvent, add, handle, claimOne, settle, shows } = bench;
    for (const outcome of [handled, () => failed(LONG), () => parked()]) {
      const known = await handle("booking:B");
      const later = newEvent("booking:A", { source: "recheck" });
      const fresh = newEvent(null, { source: "timer" });
      await add("booking:A");
      const claim = await claimOne();
      const events = [
        { event: known },
        { event: later, dueIn: LONG, replace: "moved" },
        { event: fresh },
      ] as const;
      await settle(claim, { ...outcome(claim), events });
      await shows(known, { state: "done" });
      await shows(later, { ...later, state: "scheduled" });
      await bench.claims("after settle()", fresh);
      await store.discard({ state: "retrying" });
    }
  },

  "an attempt can replace its own event": async (bench) => {
    const { add, claim, claimOne, settle, shows, get } = bench;
    const event = await add("booking:A", { source: "timer" });
    const own = { ...event, timestamp: "2027-01-01T00:00:00.000Z" };
    const claimed = await claimOne();
    // The attempt ends before `remove` and `events`, so that "timers" does not delete its own event.
    const changes = { remove: "timers", events: [{ event: own, dueIn: LONG, replace: "moved" }] } as const;
    await settle(claimed, { ...handled(claimed, "Confirmed"), ...changes });
    await shows(event, { state: "scheduled", attempts: 0, doneAt: null, timestamp: own.timestamp });
    equal("the history of a timer that was set again", (await get(event)).history, []);
    equal("claim() before the event is due", await claim(), []);
    await bench.store.replay({ eventId: event.eventId });
    const next = await claimOne();
    equal("attempts and timestamp of the next claim", [next.attempts, next.timestamp], [1, own.timestamp]);
    await settle(next, { ...failed(LONG), events: [{ event: own, replace: "ended" }, { event: own }] });
    await shows(event, { state: "retrying", attempts: 1 });
    await bench.store.replay({ eventId: event.eventId });
    const moved = { ...event, timestamp: "2028-01-01T00:00:00.000Z" };
    await settle(await claimOne(), { ...unreachable(LONG), events: [{ event: moved, replace: "moved" }] });
    equal("claim() of an event in the place of one whose failure holds up its record", await claim(), []);
  },

  "`remove` deletes events of the record before `events` are recorded": async (bench) => {
    const { store, add, handle, claimOne, settle, shows } = bench;
    const [timer, other, elsewhere, recheck] = [
      await add("booking:A", { source: "timer" }, { dueIn: LONG }),
      await add("booking:A", { source: "timer" }, { dueIn: LONG }),
      await add("booking:B", { source: "timer" }, { dueIn: LONG }),
      await add("booking:A", { source: "recheck" }, { dueIn: LONG }),
    ];
    const ended = await handle("booking:A");
    await add("booking:A");
    const claimed = await claimOne();
    const remove = [timer, elsewhere, ended, claimed].map(({ eventId }) => eventId);
    await settle(claimed, { ...failed(0), remove });
    equal("get() of the removed event", await store.get(timer.eventId), undefined);
    for (const event of [ended, claimed]) await bench.get(event);
    const again = await claimOne();
    const events = [{ event: { ...other, notification: "anew" }, dueIn: LONG }];
    await settle(again, { ...handled(again), remove: "timers", events });
    await shows(other, { state: "scheduled", notification: "anew" });
    for (const event of [elsewhere, recheck]) await shows(event, { state: "scheduled" });
  },
};

export const removing: Cases = {
  "`remove` deletes timers that have fired, too, so that they can be set again": async (bench) => {
    const { store, add, claimOne, settle } = bench;
    const fire = async () => {
      const event = await add("booking:A", { source: "timer" });
      const claimed = await claimOne();
      await settle(claimed, handled(claimed, "Confirmed"));
      return event;
    };
    const [one, two] = [await fire(), await fire()];
    const parkedTimer = await add("booking:A", { source: "timer" });
    const failing = await claimOne();
    await settle(failing, parked());
    equal("remove() of a fired timer", await store.remove("booking:A", [one.eventId]), 1);
    equal("add() of the same timer", await store.add(one), "added");
    const own = await claimOne();
    await settle(own, { ...handled(own, "Confirmed"), remove: "timers" });
    equal("get() of a fired timer", await store.get(two.eventId), undefined);
    equal("get() of a parked timer", await store.get(parkedTimer.eventId), undefined);
    equal("state of the own event", (await bench.get(one)).state, "done");
    equal("remove() of the timers", await store.remove("booking:A", "timers"), 1);
    equal("counts()", await store.counts(), noEvents);
  },

  "`remove` deletes the timers of a record, or its events by their ids, and no other done event": async (
    bench,
  ) => {
    const { store, add, ended, handle } = bench;
    const waiting = [
      await add("booking:A", { source: "timer" }, { dueIn: LONG }),
      await ended("booking:A", failed(LONG)),
      await ended("booking:A", parked()),
      await add("booking:A"),
    ];
    const other = await add("booking:B", {}, { dueIn: LONG });
    await store.discard({ eventId: (await add("booking:A")).eventId });
    const kept = [other, ...(await store.list({ state: "done", limit: 5 }))];
    const ids = idsOf([...waiting, ...kept, bench.newEvent(null)]);
    equal("remove() without ids", await store.remove("booking:A", []), 0);
    equal("remove() of an unknown record", await store.remove("booking:Z", ids), 0);
    equal("remove() of the timers", await store.remove("booking:A", "timers"), 1);
    equal("remove() of the record", await store.remove("booking:A", ids), 3);
    equal("ids that are left", idsOf(await store.list({ limit: 9 })), idsOf(kept));
    equal("counts() after remove()", await store.counts(), { ...noEvents, scheduled: 1, done: 1 });
    between("nextDue() after remove()", await store.nextDue(), LONG - 30_000, LONG);
    await handle("booking:A", "Confirmed");
  },

  "`remove` skips an event that is being processed, until its lease ends": async (bench) => {
    const { store, unit, add, claimOne, sleep, settle } = bench;
    const event = await add("booking:A", { source: "timer" });
    const claimed = await claimOne();
    const behind = await add("booking:A", { source: "timer" });
    equal("remove() during the attempt", await store.remove("booking:A", idsOf([event, behind])), 1);
    await settle(claimed, failed(0));
    const lost = await claimOne({ leaseDuration: unit });
    await sleep(2);
    equal("remove() after the end of the lease", await store.remove("booking:A", "timers"), 1);
    equal("settle() of the removed event", await store.settle(lost, handled(lost, "Confirmed")), false);
    equal("nextDue() after remove()", await store.nextDue(), undefined);
  },
};

export const histories: Cases = {
  "each attempt adds an entry to the history": async (bench) => {
    const { add, claimOne, claimLater, settle, get } = bench;
    const event = await add("booking:A");
    const worker = "höst-1:42";
    const claims = [await claimOne({ worker })];
    const error = "one: cause";
    await settle(claims[0]!, { ...failed(0), entry: { duration: 12, reason: "callback", error } });
    claims.push(await claimLater(0));
    await settle(claims[1]!, handled(claims[1]!, "Confirmed"));
    const { history } = await get(event);
    const at = claims.map(({ claimedAt }) => new Date(claimedAt));
    equal("the history", history, [
      { at: at[0], duration: 12, outcome: "retrying", reason: "callback", error, worker },
      { at: at[1], duration: 1, outcome: "done" },
    ]);
    equal("the history that list() returned", (await bench.store.list({ limit: 1 }))[0]?.history, history);
  },

  "the history keeps the last 10 entries": async ({ ended, claimLater, settle, get }) => {
    const event = await ended("booking:A", failed(0));
    for (let duration = 2; duration <= 13; duration++)
      await settle(await claimLater(0), { ...failed(0), entry: { duration } });
    const { history, attempts } = await get(event);
    const durations = history.map(({ duration }) => duration);
    equal("durations of the kept entries", durations, [4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
    equal("the event's attempts", attempts, 13);
  },

  "a claim after the end of a lease adds a `lost` entry to the history": async (bench) => {
    const { store, unit, add, claimOne, claimLater, done, get, sleep } = bench;
    const event = await add("booking:A");
    const lost = await claimOne({ leaseDuration: 4 * unit, worker: "dead:1" });
    await sleep(1);
    equal("how many leases renew() extended", (await store.renew([lost], 4 * unit)).length, 1);
    const { history: before, dueAt } = await get(event);
    equal("the history while the event is processed", before, []);
    const held = await claimLater(0, { worker: "alive:2" });
    await done(held);
    const { history } = await get(event);
    const duration = Number(dueAt) - lost.claimedAt;
    equal("the history", history, [
      { at: new Date(lost.claimedAt), duration, outcome: "lost", worker: "dead:1" },
      { at: new Date(held.claimedAt), duration: 1, outcome: "done", worker: "alive:2" },
    ]);
  },

  "an error's text may contain any characters": async ({ ended, get }) => {
    const kept = ["quotes '\" \\ ; --", "日本 🎉", "lone \ud800", "tab\tline\nend"];
    // A store may change these texts, but it must accept them.
    const taken = ["", "a\u0000b", "x".repeat(20_000)];
    for (const error of [...kept, ...taken]) {
      const event = await ended(null, { ...parked(), entry: { duration: 1, reason: "callback", error } });
      const stored = (await get(event)).history[0]?.error;
      if (kept.includes(error)) equal("the entry's error", stored, error);
    }
  },
};
