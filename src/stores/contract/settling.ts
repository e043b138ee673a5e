import type { Snapshot } from "../event-store.ts";
import { between, type Cases, check, equal, failed, handled, LONG, parked, unreachable } from "./harness.ts";

export const settling: Cases = {
  "a done outcome ends the event": async ({ store, ended, claim, get }) => {
    const event = await ended("booking:A", {
      state: "done",
      type: "booking.Request",
      entry: { duration: 1 },
    });
    const { doneAt, receivedAt, dueAt, state, type, reason, attempts } = await get(event);
    const expected = { state: "done", type: "booking.Request", dueAt: null, reason: null, attempts: 1 };
    equal("the done event", { state, type, dueAt, reason, attempts }, expected);
    check(doneAt instanceof Date && doneAt >= receivedAt, "doneAt: expected a Date at or after receivedAt");
    equal("claim() after the event is done", await claim(), []);
    equal("nextDue() after the event is done", await store.nextDue(), undefined);
  },

  "a done outcome writes the snapshot, and raises sequence if the record has changed": async (bench) => {
    const { store, add, claimOne, settle, tick } = bench;
    equal("recordOf() before the first snapshot", await store.recordOf("booking:A"), undefined);
    const ends = [
      [{ status: "Request", fields: { checkIn: "2026-07-01", nights: 2.5 } }, true],
      [{ status: "Request", fields: { checkIn: "2026-07-01", nights: 2.5 } }, false],
      [{ status: "Request", fields: { checkIn: "2026-07-02", paid: false, note: null } }, true],
      [undefined, false],
      // The queue computes `changed`, not the store. If only a newly tracked field differs, `changed` is `false`.
      [{ status: "Request", fields: { checkIn: "2026-07-02", "füld \u0001\ud800": "日本 '\ud83d" } }, false],
      [{ status: "Gone \udfff", fields: {} }, true],
    ] as const;
    let previous: Snapshot | undefined;
    let sequence = 0;
    let seenAt = 0;
    for (const [snapshot, changed] of ends) {
      await add("booking:A");
      await tick();
      const claim = await claimOne();
      equal("previous and sequence of the claim", [claim.previous, claim.sequence], [previous, sequence]);
      await settle(claim, {
        state: "done",
        type: "booking.Confirmed",
        entry: { duration: 1 },
        ...(snapshot && { record: { snapshot, changed } }),
      });
      previous = snapshot ?? previous;
      sequence += changed ? 1 : 0;
      const record = await store.recordOf("booking:A");
      check(record !== undefined, "recordOf(): expected the record's snapshot, got undefined");
      equal("the record", [record.ref, record.snapshot, record.sequence], ["booking:A", previous, sequence]);
      if (snapshot === undefined) {
        equal("seenAt after a done outcome without a snapshot", Number(record.seenAt), seenAt);
      } else {
        check(Number(record.seenAt) > seenAt, "seenAt: expected a later time than before the event");
      }
      seenAt = Number(record.seenAt);
    }
    equal("recordOf() of another record", await store.recordOf("booking:B"), undefined);
  },

  "a done outcome without a snapshot writes no snapshot": async (bench) => {
    const { store, add, handle, claimOne } = bench;
    await handle("booking:A");
    equal("recordOf() after the event is done", await store.recordOf("booking:A"), undefined);
    await add("booking:A");
    const claim = await claimOne();
    equal("previous and sequence of the claim", [claim.previous, claim.sequence], [undefined, 0]);
  },

  "a failed or released attempt does not change the record's snapshot": async (bench) => {
    const { store, ended, handle, claimLater, settle } = bench;
    await handle("booking:A", "Request");
    const before = await store.recordOf("booking:A");
    await ended("booking:A", failed(0));
    await settle(await claimLater(0), { state: "released" });
    await settle(await claimLater(0), parked());
    equal("recordOf() after the attempts", await store.recordOf("booking:A"), before);
  },

  "after a failed attempt that counts, only its own event waits": async (bench) => {
    const { add, ended, claim, claimOne, get } = bench;
    const event = await add("booking:A");
    const next = await ended("booking:A", { ...failed(LONG), type: "booking.Request" });
    const { receivedAt, dueAt, state, attempts, type, lastError, reason, doneAt } = await get(event);
    equal(
      "the failed event",
      { state, attempts, type, lastError, reason, doneAt },
      {
        state: "retrying",
        attempts: 1,
        type: "booking.Request",
        lastError: "the callback failed",
        reason: "callback",
        doneAt: null,
      },
    );
    between("ms from receivedAt to dueAt", Number(dueAt) - Number(receivedAt), LONG - 1, LONG + 30_000);
    equal("id of the next claimed event", (await claimOne()).eventId, next.eventId);
    equal("claim() with order `retries`", await claim({ order: "retries" }), []);
  },

  "a failed event can be claimed again when it is due": async (bench) => {
    const { unit, add, claimOne, claimLater, settle, done, get, shows } = bench;
    const event = await add("booking:A");
    const claim = await claimOne();
    const start = performance.now();
    await settle(claim, {
      ...failed(2 * unit),
      reason: "invalid-record",
      type: "booking.Request",
    });
    const again = await claimLater(start + 2 * unit);
    equal(
      "eventId, attempts and outages of the second claim",
      [again.eventId, again.attempts, again.outages],
      [event.eventId, 2, 0],
    );
    await settle(again, failed(0));
    await shows(event, { type: "booking.Request", reason: "callback" });
    const last = await claimLater(0);
    equal("attempts of the third claim", last.attempts, 3);
    await done(last);
    equal("reason of the done event", (await get(event)).reason, null);
  },

  "parked events stay parked until they are replayed": async (bench) => {
    const { store, add, ended, claim, claimOne, settle, shows } = bench;
    const event = await add("booking:A");
    const next = await ended("booking:A", { ...parked("not-found"), type: "booking.unknown" });
    await shows(event, {
      state: "parked",
      attempts: 1,
      type: "booking.unknown",
      lastError: "given up",
      reason: "not-found",
      dueAt: null,
      doneAt: null,
    });
    equal("claim() of the parked event", await claim({ eventId: event.eventId }), []);
    const following = await claimOne();
    equal("id of the next claimed event", following.eventId, next.eventId);
    await settle(following, parked());
    equal("nextDue() with only parked events", await store.nextDue(), undefined);
  },

  "`attempts` does not count a released attempt": async (bench) => {
    const { ended, claimOne, claimLater, settle, get, shows } = bench;
    const event = await ended("booking:A", { state: "released" });
    await shows(event, { state: "pending", attempts: 0, lastError: null, history: [] });
    const again = await claimOne();
    equal("attempts of the second claim", again.attempts, 1);
    await settle(again, failed(0));
    await settle(await claimLater(0), { state: "released" });
    equal("the event's state after a released retry", (await get(event)).state, "retrying");
    equal("attempts of the last claim", (await claimLater(0)).attempts, 2);
  },

  "an event without a record writes no snapshot": async ({ store, add, claim, settle }) => {
    await add(null);
    await add(null);
    for (const claimed of await claim()) {
      equal("previous and sequence of the claim", [claimed.previous, claimed.sequence], [undefined, 0]);
      await settle(claimed, handled(claimed));
    }
    for await (const record of store.records()) check(false, `records(): expected none, got ${record.ref}`);
  },
};

export const histories: Cases = {
  "each attempt adds an entry to the history": async (bench) => {
    const { add, claimOne, claimLater, settle, get } = bench;
    const event = await add("booking:A");
    equal("the history of a new event", (await get(event)).history, []);
    const worker = "höst-1:42";
    const claims = [await claimOne({ worker })];
    await settle(claims[0]!, {
      ...failed(0),
      entry: { duration: 12, reason: "callback", error: "one: cause" },
    });
    claims.push(await claimLater(0));
    await settle(claims[1]!, {
      ...unreachable(0),
      entry: { duration: 0, reason: "unavailable", error: "two" },
    });
    claims.push(await claimLater(0, { worker: "host-2:7" }));
    await settle(claims[2]!, { ...handled(claims[2]!, "Confirmed"), entry: { duration: 3 } });
    const { history, lastError, reason } = await get(event);
    const at = claims.map(({ claimedAt }) => new Date(claimedAt));
    equal("the history", history, [
      { at: at[0], duration: 12, outcome: "retrying", reason: "callback", error: "one: cause", worker },
      { at: at[1], duration: 0, outcome: "retrying", reason: "unavailable", error: "two" },
      { at: at[2], duration: 3, outcome: "done", worker: "host-2:7" },
    ]);
    equal("lastError and reason of a done event", [lastError, reason], [null, null]);
    equal("the history that list() returned", (await bench.store.list({ limit: 1 }))[0]?.history, history);
  },

  "lastError is the error of the last entry": async ({ ended, claimLater, settle, get }) => {
    const event = await ended("booking:A", failed(0));
    equal("lastError after the first failure", (await get(event)).lastError, "the callback failed");
    await settle(await claimLater(0), { ...failed(0), entry: { duration: 1 } });
    equal("lastError after a failure without an error", (await get(event)).lastError, null);
    await settle(await claimLater(0), parked());
    const { lastError, history } = await get(event);
    equal("lastError of the parked event", lastError, "given up");
    equal(
      "outcomes in the history",
      history.map(({ outcome }) => outcome),
      ["retrying", "retrying", "parked"],
    );
  },

  "the history keeps the last 10 entries": async ({ ended, claimLater, settle, get }) => {
    const event = await ended("booking:A", failed(0));
    for (let attempt = 2; attempt <= 13; attempt++) {
      const entry = { duration: attempt, reason: "callback", error: `failure ${attempt}` } as const;
      await settle(await claimLater(0), { ...failed(0), entry });
    }
    const { history, attempts } = await get(event);
    equal(
      "durations of the kept entries",
      history.map(({ duration }) => duration),
      [4, 5, 6, 7, 8, 9, 10, 11, 12, 13],
    );
    equal("the event's attempts", attempts, 13);
  },

  "a claim after the end of a lease adds a `lost` entry to the history": async (bench) => {
    const { unit, add, claimOne, claimLater, done, get } = bench;
    const event = await add("booking:A");
    const lost = await claimOne({ leaseDuration: 2 * unit, worker: "dead:1" });
    equal("the history while the event is processed", (await get(event)).history, []);
    const held = await claimLater(0, { worker: "alive:2" });
    const { history, lastError, reason } = await get(event);
    equal("history length, lastError and reason", [history.length, lastError, reason], [1, null, null]);
    const { duration, ...rest } = history[0]!;
    equal("the `lost` entry", rest, { at: new Date(lost.claimedAt), outcome: "lost", worker: "dead:1" });
    between("duration of the `lost` entry", duration, 2 * unit - 1, 2 * unit + 1);
    await done(held);
    const { history: whole } = await get(event);
    equal(
      "outcomes and workers in the history",
      whole.map(({ outcome, worker }) => [outcome, worker]),
      [
        ["lost", "dead:1"],
        ["done", "alive:2"],
      ],
    );
    equal("time of the last entry", whole[1]!.at, new Date(held.claimedAt));
  },

  "the duration of a `lost` entry includes the time that renewals added": async (bench) => {
    const { store, unit, add, claimOne, claimLater, get, sleep } = bench;
    const event = await add(null);
    const lost = await claimOne({ leaseDuration: 4 * unit });
    await sleep(1);
    equal("how many leases renew() extended", (await store.renew([lost], 4 * unit)).length, 1);
    const end = Number((await get(event)).dueAt);
    await claimLater(0);
    const { duration } = (await get(event)).history[0]!;
    // Allow 1 ms of difference, because a store may keep fractions of a ms.
    const expected = end - lost.claimedAt;
    between("duration of the `lost` entry", duration, expected - 1, expected + 1);
  },

  "a replay keeps the history": async ({ store, ended, claimOne, done, get }) => {
    const event = await ended("booking:A", parked());
    const before = await get(event);
    await store.replay({ eventId: event.eventId });
    const replayed = await get(event);
    equal("the history after replay()", replayed.history, before.history);
    equal("lastError and reason after replay()", [replayed.lastError, replayed.reason], ["given up", null]);
    await done(await claimOne());
    const { history } = await get(event);
    equal(
      "outcomes in the history",
      history.map(({ outcome }) => outcome),
      ["parked", "done"],
    );
    check(history[1]!.at >= history[0]!.at, "the history: expected the later entry to be last");
  },

  "an error's text may contain any characters": async ({ ended, get }) => {
    for (const error of [
      "quotes '\" \\ ; --",
      "日本 🎉",
      "lone \ud800 and \udfff",
      "tab\tline\nend",
      '{"json":[]}',
    ]) {
      const event = await ended(null, { ...parked(), entry: { duration: 1, reason: "callback", error } });
      const { history, lastError } = await get(event);
      equal("the entry's error, and lastError", [history[0]!.error, lastError], [error, error]);
    }
    // A store may change the error texts below, but it must accept them.
    for (const error of ["", "a\u0000b", "x".repeat(20_000)]) {
      const event = await ended(null, { ...parked(), entry: { duration: 1, reason: "callback", error } });
      equal("the event's state", (await get(event)).state, "parked");
    }
  },
};
