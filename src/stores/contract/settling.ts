import { type Cases, failed, LONG, parked } from "./harness.ts";
import { between, check, equal } from "./expect.ts";

export const settling: Cases = {
  "done ends an event": async ({ store, add, claim, claimOne, settle, get }) => {
    const event = await add("booking:A");
    await settle(await claimOne(), { state: "done", type: "booking.Request", status: "Request" });
    const { doneAt, receivedAt, dueAt, state, type, reason, attempts } = await get(event);
    const expected = { state: "done", type: "booking.Request", dueAt: null, reason: null, attempts: 1 };
    equal("the event", { state, type, dueAt, reason, attempts }, expected);
    check(doneAt instanceof Date && doneAt >= receivedAt, "doneAt: expected a Date, not before receivedAt");
    equal("claim", await claim(), []);
    equal("nextDue", await store.nextDue(), undefined);
  },

  "done keeps the record's status, and counts its changes": async ({ store, add, claimOne, done, tick }) => {
    equal("statusOf, before the first", await store.statusOf("booking:A"), undefined);
    let previous: string | undefined;
    let sequence = 0;
    let seenAt = 0;
    for (const [status, rises] of [
      ["Request", true],
      ["Request", false],
      ["Confirmed", true],
      ["Request", true],
      [undefined, false],
      ["Request", false],
    ] as const) {
      await add("booking:A");
      await tick();
      const claim = await claimOne();
      equal(
        "previousStatus and sequence, as claimed",
        [claim.previousStatus, claim.sequence],
        [previous, sequence],
      );
      await done(claim, status);
      previous = status ?? previous;
      sequence += rises ? 1 : 0;
      const record = await store.statusOf("booking:A");
      check(record !== undefined, "statusOf: expected the record's status, got undefined");
      const { ref, status: kept, sequence: counted } = record;
      equal("the record", [ref, kept, counted], ["booking:A", previous, sequence]);
      if (status !== undefined) {
        check(Number(record.seenAt) > seenAt, `seenAt: expected a later one, after ${status} was handled`);
        seenAt = Number(record.seenAt);
      }
    }
    equal("another record's status", await store.statusOf("booking:B"), undefined);
  },

  "done without a status, for a record that has none, leaves it so": async ({
    store,
    add,
    claimOne,
    done,
  }) => {
    await add("booking:A");
    await done(await claimOne());
    equal("statusOf", await store.statusOf("booking:A"), undefined);
    await add("booking:A");
    const claim = await claimOne();
    equal("previousStatus and sequence", [claim.previousStatus, claim.sequence], [undefined, 0]);
  },

  "an attempt that failed leaves the record's status as it was": async (bench) => {
    const { store, add, claimOne, claimLater, done, settle } = bench;
    await add("booking:A");
    await done(await claimOne(), "Request");
    const before = await store.statusOf("booking:A");
    await add("booking:A");
    await settle(await claimOne(), failed(0));
    await settle(await claimLater(0), { state: "released" });
    await settle(await claimLater(0), parked());
    equal("the record", await store.statusOf("booking:A"), before);
  },

  "a failure that counts makes the event alone wait": async (bench) => {
    const { add, claim, claimOne, settle, get } = bench;
    const event = await add("booking:A");
    const next = await add("booking:A");
    await settle(await claimOne(), { ...failed(LONG), type: "booking.Request" });
    const { receivedAt, dueAt, state, attempts, type, lastError, reason, doneAt } = await get(event);
    equal(
      "the event",
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
    between("ms until it is due, by dueAt", Number(dueAt) - Number(receivedAt), LONG - 1, LONG + 30_000);
    equal("the next event of its record", (await claimOne()).eventId, next.eventId);
    equal("what else can be claimed", await claim({ retriesFirst: true }), []);
  },

  "it is claimed again once it is due": async ({ add, claimOne, claimLater, settle, done, get, unit }) => {
    const event = await add("booking:A");
    const claim = await claimOne();
    const start = performance.now();
    await settle(claim, {
      state: "retrying",
      in: 2 * unit,
      counted: true,
      reason: "invalid-record",
      error: "no code",
      type: "booking.Request",
    });
    const again = await claimLater(start + 2 * unit);
    equal("the claim", [again.eventId, again.attempts, again.outages], [event.eventId, 2, 0]);
    await settle(again, failed(0));
    const { type, reason } = await get(event);
    equal(
      "its type is kept, its reason the last one",
      { type, reason },
      { type: "booking.Request", reason: "callback" },
    );
    const last = await claimLater(0);
    equal("its attempts", last.attempts, 3);
    await done(last);
    equal("its reason, once done", (await get(event)).reason, null);
  },

  "parked events stay until they are replayed": async ({ store, add, claim, claimOne, settle, get }) => {
    const event = await add("booking:A");
    const next = await add("booking:A");
    const outcome = { state: "parked", reason: "not-found", error: "404", type: "booking.unknown" } as const;
    await settle(await claimOne(), outcome);
    const { state, attempts, type, lastError, reason, dueAt, doneAt } = await get(event);
    equal(
      "the event",
      { state, attempts, type, lastError, reason, dueAt, doneAt },
      {
        state: "parked",
        attempts: 1,
        type: "booking.unknown",
        lastError: "404",
        reason: "not-found",
        dueAt: null,
        doneAt: null,
      },
    );
    equal("claim by its id", await claim({ eventId: event.eventId }), []);
    const following = await claimOne();
    equal("the next event of its record", following.eventId, next.eventId);
    await settle(following, parked());
    equal("nextDue", await store.nextDue(), undefined);
  },

  "a released attempt never happened": async ({ add, claimOne, claimLater, settle, get }) => {
    const event = await add("booking:A");
    await settle(await claimOne(), { state: "released" });
    const { state, attempts, lastError } = await get(event);
    equal("the event", { state, attempts, lastError }, { state: "pending", attempts: 0, lastError: null });
    const again = await claimOne();
    equal("its attempts, at once claimed again", again.attempts, 1);
    await settle(again, failed(0));
    await settle(await claimLater(0), { state: "released" });
    equal("its state, after an attempt that failed", (await get(event)).state, "retrying");
    equal("its attempts", (await claimLater(0)).attempts, 2);
  },

  "events without a record leave no status": async ({ store, add, claim, settle }) => {
    await add(null);
    await add(null);
    for (const claimed of await claim()) {
      equal("previousStatus and sequence", [claimed.previousStatus, claimed.sequence], [undefined, 0]);
      await settle(claimed, { state: "done", type: "unknown" });
    }
    for await (const record of store.statuses()) check(false, `statuses: expected none, got ${record.ref}`);
  },

  "a failure's text may hold anything": async ({ store, add, claimOne, settle, get }) => {
    for (const error of ["", "a\u0000b", "lone \ud800", "x".repeat(20_000), "'; -- 日本"]) {
      const event = await add(null);
      await settle(await claimOne(), { state: "parked", reason: "callback", error });
      equal("its state", (await get(event)).state, "parked");
    }
    equal("counts().parked", (await store.counts()).parked, 5);
  },
};
