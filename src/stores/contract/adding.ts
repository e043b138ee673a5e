import type { Replace } from "../store-options.ts";
import { type Bench, between, type Cases, check, equal, failed, handled, LONG, parked } from "./harness.ts";

/** How long a write takes, ms. Two calls on a busy machine take less. */
const SLOW = 400;

/** Takes time without a promise, which a synchronous store refuses. */
function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

const BACKSLASH_U = "\\u";

export const adding: Cases = {
  "a new event is stored, and can be claimed at once": async ({ add, claims, get }) => {
    const event = await add("booking:A");
    const { receivedAt, dueAt, firstDueAt, ...rest } = await get(event);
    equal("the new event, as get() returns it", rest, {
      ...event,
      ...{ state: "pending", attempts: 0, failures: 0, refusals: 0 },
      ...{ doneAt: null, type: null, reason: null, history: [] },
    });
    check(receivedAt instanceof Date && Number(dueAt) === Number(receivedAt), "dueAt: expected receivedAt");
    equal("firstDueAt", firstDueAt, dueAt);
    await claims("after add()", event);
  },

  "`add` of a stored id returns `duplicate`, in every state of the event": async (bench) => {
    const { store, add, ended, handle, claimOne, settle, get } = bench;
    const event = await add("booking:A");
    const expectDuplicate = async (stored: typeof event): Promise<void> => {
      const before = await get(stored);
      const what = `second add() of a ${before.state} event`;
      equal(what, await store.add({ ...stored, notification: "{}" }), "duplicate");
      equal(`${what} with dueIn`, await store.add(stored, { dueIn: LONG }), "duplicate");
      equal("the event after the second add()", await get(stored), before);
    };
    await expectDuplicate(event);
    const claim = await claimOne();
    await expectDuplicate(event);
    await settle(claim, failed(LONG));
    await expectDuplicate(event);
    await expectDuplicate(await handle("booking:B", "Confirmed"));
    await expectDuplicate(await ended(null, parked()));
    await expectDuplicate(await add("booking:C", {}, { dueIn: LONG }));
  },

  "`add` of a stored id with another ref returns `conflict`, and changes nothing": async (bench) => {
    const { store, add, get } = bench;
    const one = await add("booking:A");
    const other = await add(null);
    for (const [event, ref] of [
      [one, "booking:B"],
      [one, null],
      [other, "booking:A"],
    ] as const)
      equal(`add() of a stored id with the ref ${ref}`, await store.add({ ...event, ref }), "conflict");
    equal("the stored refs", [(await get(one)).ref, (await get(other)).ref], ["booking:A", null]);
    equal("counts().pending", (await store.counts()).pending, 2);
  },

  "if many calls add one id concurrently, only one call returns `added`": async (bench) => {
    const { store, newEvent, claims } = bench;
    const event = newEvent("booking:A");
    const answers = await Promise.all(Array.from({ length: 25 }, () => store.add(event)));
    equal("the answers", answers.sort(), ["added", ...Array(24).fill("duplicate")]);
    await claims("after the calls", event);
    const other = newEvent(null);
    const refs = Array.from({ length: 10 }, (_, index) => `booking:${index}`);
    const mixed = await Promise.all(refs.map((ref) => store.add({ ...other, ref })));
    equal("the answers with different refs", mixed.sort(), ["added", ...Array(9).fill("conflict")]);
  },

  "`get`, `claim` and `list` return an event as it was added": async ({ store, newEvent, claim, get }) => {
    const events = [
      newEvent("booking:ü'\"%_\\;日本🎉 -- ", {
        topic: "bookings",
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      }),
      newEvent("booking:K", { source: "recheck", notification: null, eventId: "stayhook:recheck:booking:K" }),
      // A column of type JSON would change or reject this notification.
      newEvent("listing:42", {
        notification: ` { "b":1.0,\n"a":"${BACKSLASH_U}0000","b":2, "c":"${BACKSLASH_U}d800", "d":12345678901234567890 } `,
      }),
      newEvent(null, { notification: `{"text":"${"x".repeat(64_000)}"}` }),
      newEvent("booking:R", { source: "reconcile", timestamp: "2026-02-28T23:59:59.999Z" }),
      // Some databases reject a lone surrogate and a NUL. Such an event must not fail the calls beside it.
      newEvent("booking:lone \ud800"),
      newEvent("booking:nul \u0000"),
    ];
    const answers = await Promise.all(events.map((event) => store.add(event)));
    equal("the answers of concurrent calls", answers, Array(events.length).fill("added"));
    const claims = new Map((await claim()).map((claimed) => [claimed.eventId, claimed]));
    const listed = new Map((await store.list({ limit: 10 })).map((row) => [row.eventId, row]));
    for (const event of events) {
      for (const [what, found] of [
        ["get", await get(event)],
        ["claim", claims.get(event.eventId)],
        ["list", listed.get(event.eventId)],
      ] as const) {
        const { eventId, ref, source, topic, timestamp, notification, traceparent } = found ?? {};
        const given = { eventId, ref, source, topic, timestamp, notification, traceparent };
        equal(`the event that ${what}() returned`, given, event);
      }
    }
  },
};

export const scheduling: Cases = {
  "an event with dueIn is scheduled, and cannot be claimed before it is due": async (bench) => {
    const { store, unit, add, claim, claims, claimLater, get, done, settle } = bench;
    const late = await add("booking:A", { source: "recheck" }, { dueIn: LONG });
    const { state, receivedAt, dueAt } = await get(late);
    const wait = Number(dueAt) - Number(receivedAt);
    equal("the event's state, and ms from receivedAt to dueAt", [state, wait], ["scheduled", LONG]);
    equal("claim() before the event is due", await claim(), []);
    equal("claim() by id, before the event is due", await claim({ eventId: late.eventId }), []);
    between("nextDue() before the event is due", await store.nextDue(), LONG - 30_000, LONG);
    await done((await claims("beside a scheduled event", await add("booking:A")))[0]!);
    const start = performance.now();
    const soon = await add("booking:A", {}, { dueIn: 3 * unit });
    between("nextDue() with a shorter dueIn", await store.nextDue(), 0, 3 * unit);
    const claimed = await claimLater(start + 3 * unit);
    equal("eventId and attempts of the claim", [claimed.eventId, claimed.attempts], [soon.eventId, 1]);
    await settle(claimed, { state: "released" });
    equal("the state after a released attempt", (await get(soon)).state, "pending");
  },

  "an event with dueAt is due at that time, however long the call takes": async (bench) => {
    const { store, unit, newEvent, add, claims, claimOne, claimLater, get, settle, shows } = bench;
    const at = new Date(Date.now() + LONG);
    const added = await add("booking:A", { source: "timer" }, { dueAt: at });
    await shows(added, { state: "scheduled" });
    between("nextDue() before the event is due", await store.nextDue(), LONG - 30_000, LONG);
    const own = await add("booking:B", { source: "timer" });
    const claim = await claimOne();
    const later = newEvent("booking:C", { source: "timer" });
    const moved = { ...own, timestamp: "2027-01-01T00:00:00.000Z" };
    const events = [later, moved].map((event) => ({ event, dueAt: at, replace: "moved" }) as const);
    // A write delays the step that records the events.
    const writes = store.transactional && [() => block(SLOW)];
    await settle(claim, { ...handled(claim), ...(writes && { writes }), events });
    for (const event of [later, moved]) {
      await shows(event, { state: "scheduled" });
      const ms = Number((await get(event)).dueAt) - Number((await get(added)).dueAt);
      between("ms between the due times of two events with the same dueAt", ms, -SLOW / 4, SLOW / 4);
    }
    const passed = await add("booking:D", {}, { dueAt: new Date(0), dueIn: LONG });
    await shows(passed, { state: "pending" });
    await bench.done((await claims("of an event whose dueAt has passed", passed))[0]!);
    const start = performance.now();
    const soon = await add("booking:E", {}, { dueAt: new Date(Date.now() + 3 * unit) });
    const claimed = await claimLater(start + 3 * unit - 2);
    equal("the event that is claimed at its dueAt", claimed.eventId, soon.eventId);
  },

  "a longer wait is shortened, to 5 years for a retry, and to 1,000 years for a new event": async ({
    store,
    add,
    ended,
    get,
  }) => {
    const day = 24 * 60 * 60_000;
    const [ofRetry, ofNew] = [1826 * day, 365_250 * day];
    for (const wait of [1e300, Number.POSITIVE_INFINITY]) {
      const added = await add(null, {}, { dueIn: wait });
      for (const [event, most] of [
        [added, ofNew] as const,
        [await ended(null, failed(wait)), ofRetry] as const,
      ]) {
        const { dueAt, receivedAt } = await get(event);
        const ms = Number(dueAt) - Number(receivedAt);
        between(`ms until an event that waits for ${wait} ms is due`, ms, most, most + 30_000);
      }
    }
    between("nextDue() with these events", await store.nextDue(), ofRetry - 30_000, ofRetry);
  },
};

/** Adds an event with the same id again, for another time. */
async function again(
  { store }: Bench,
  event: ReturnType<Bench["newEvent"]>,
  replace: Replace,
  { dueIn = 0, timestamp = event.timestamp } = {},
) {
  return store.add({ ...event, timestamp, notification: '"again"' }, { replace, dueIn });
}

const MOVED = { timestamp: "2027-01-01T00:00:00.000Z" };

export const replacing: Cases = {
  'with "ended", a new event takes the place of a done or parked event': async (bench) => {
    const { store, add, ended, handle, claimOne, get, shows } = bench;
    const waits = await add("booking:B", {}, { dueIn: LONG });
    equal("add() of an event that waits", await again(bench, waits, "ended", MOVED), "duplicate");
    for (const [before, state] of [
      [await ended(null, parked()), "parked"],
      [await handle("booking:A", "Confirmed"), "done"],
    ] as const) {
      const { history, receivedAt } = await get(before);
      await bench.tick();
      equal("add() of an ended event", await again(bench, before, "ended"), "added");
      const anew = {
        state: "pending",
        attempts: 0,
        reason: null,
        doneAt: null,
        notification: '"again"',
      } as const;
      await shows(before, { ...anew, history });
      equal("prune() of the new event", await store.prune({ state, age: 0, limit: 10 }), 0);
      const after = (await get(before)).receivedAt;
      check(after > receivedAt, "receivedAt: expected the time of the second add()");
      const { attempts, outages, replayed } = await claimOne();
      equal("the claim", { attempts, outages, replayed }, { attempts: 1, outages: 0, replayed: false });
    }
  },

  'with "moved", a new event takes the place of an event with another timestamp': async (bench) => {
    const { add, ended, handle, claim, claims, shows } = bench;
    const all = [
      await ended("booking:A", failed(LONG)),
      await handle("booking:B"),
      await ended("booking:C", parked()),
      await add("booking:D"),
    ];
    for (const event of all) {
      equal("add() with the same timestamp", await again(bench, event, "moved"), "duplicate");
      equal(
        "add() with another timestamp",
        await again(bench, event, "moved", { ...MOVED, dueIn: LONG }),
        "added",
      );
      await shows(event, { ...MOVED, state: "scheduled", attempts: 0, reason: null, doneAt: null });
    }
    equal("claim() of events that were moved to later", await claim(), []);
    for (const event of all)
      equal("add() with the first timestamp", await again(bench, event, "moved"), "added");
    await claims("after the events moved to now", ...all);
  },

  "an event that is being processed is not replaced: `add` returns `busy`": async (bench) => {
    const { unit, add, claimOne, done, get, sleep, settle } = bench;
    const event = await add("booking:A");
    const claim = await claimOne();
    equal('add() with "moved"', await again(bench, event, "moved", MOVED), "busy");
    equal('add() with "moved" and the same timestamp', await again(bench, event, "moved"), "duplicate");
    equal('add() with "ended"', await again(bench, event, "ended"), "busy");
    await done(claim);
    equal("add() once the attempt has ended", await again(bench, event, "ended", MOVED), "added");
    const lost = await claimOne({ leaseDuration: unit });
    await sleep(2);
    equal('add() with "moved" after the end of the lease', await again(bench, event, "moved"), "added");
    equal("outcome of the attempt", (await get(event)).history.at(-1)?.outcome, "lost");
    equal("settle() with the lost lease", await bench.store.settle(lost, handled(lost)), false);
    await settle(await claimOne(), parked());
  },
};
