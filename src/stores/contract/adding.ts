import { between, type Cases, check, equal, failed, LONG, parked, unreachable } from "./harness.ts";

const BACKSLASH_U = "\\u";

export const adding: Cases = {
  "a new event is added, and due at once": async ({ newEvent, add, claimOne, get }) => {
    const event = await add("booking:A");
    const { receivedAt, dueAt, ...rest } = await get(event);
    equal("the new event", rest, {
      ...event,
      state: "pending",
      attempts: 0,
      doneAt: null,
      type: null,
      lastError: null,
      reason: null,
      history: [],
    });
    equal("its receivedAt and dueAt are Dates", [receivedAt, dueAt].map(isDate), [true, true]);
    equal("the claimed event", (await claimOne()).eventId, event.eventId);
    equal("an id that is not there", newEvent(null).eventId === event.eventId, false);
  },

  "a known id is a duplicate, whatever became of it": async (bench) => {
    const { store, add, ended, handle, claimOne, settle, get } = bench;
    const waiting = await add("booking:A");
    equal("the same id again, pending", await store.add({ ...waiting, notification: "{}" }), "duplicate");
    equal("the first notification is kept", (await get(waiting)).notification, waiting.notification);

    const claim = await claimOne();
    equal("the same id again, processing", await store.add(waiting), "duplicate");
    equal("its state", (await get(waiting)).state, "processing");
    await settle(claim, failed(LONG));
    equal("the same id again, retrying", await store.add(waiting), "duplicate");
    equal("its state", (await get(waiting)).state, "retrying");

    const handled = await handle("booking:B", "Confirmed");
    equal("the same id again, done", await store.add(handled), "duplicate");
    equal("its state", (await get(handled)).state, "done");

    const given = await ended(null, parked());
    equal("the same id again, parked", await store.add(given), "duplicate");
    equal("its state", (await get(given)).state, "parked");
  },

  "a known id with another ref is a conflict, and changes nothing": async ({ store, add, get }) => {
    const one = await add("booking:A");
    const other = await add(null);
    equal("with another ref", await store.add({ ...one, ref: "booking:B" }), "conflict");
    equal("with null for a ref", await store.add({ ...one, ref: null }), "conflict");
    equal("with a ref for null", await store.add({ ...other, ref: "booking:A" }), "conflict");
    equal("the refs that are kept", [(await get(one)).ref, (await get(other)).ref], ["booking:A", null]);
    equal("counts().pending", (await store.counts()).pending, 2);
  },

  "of many with one id at once, exactly one is added": async ({ store, newEvent, claim }) => {
    const event = newEvent("booking:A");
    const answers = await Promise.all(Array.from({ length: 25 }, () => store.add(event)));
    equal("how often it was added", answers.filter((answer) => answer === "added").length, 1);
    equal("how often it was a duplicate", answers.filter((answer) => answer === "duplicate").length, 24);
    equal("how many can be claimed", (await claim()).length, 1);
    equal("how many are behind it", (await store.counts()).pending, 0);
  },

  "of many with one id and different refs at once, one is added": async ({ store, newEvent }) => {
    const event = newEvent(null);
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, index) => store.add({ ...event, ref: `booking:${index}` })),
    );
    equal("how often it was added", answers.filter((answer) => answer === "added").length, 1);
    equal("how often it was a conflict", answers.filter((answer) => answer === "conflict").length, 9);
  },

  "of many different events at once, all are added": async ({ store, newEvent, claim }) => {
    const events = Array.from({ length: 60 }, (_, index) => newEvent(`booking:${index % 30}`));
    const answers = await Promise.all(events.map((event) => store.add(event)));
    equal("how many were added", answers.filter((answer) => answer === "added").length, 60);
    equal("counts().pending", (await store.counts()).pending, 60);
    equal("how many records can be claimed", (await claim()).length, 30);
  },

  "an event comes back as it was given": async ({ store, add, claim, get }) => {
    const events = [
      await add("booking:ü'\"%_\\;日本🎉 -- ", {
        topic: "bookings",
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      }),
      await add("booking:K", { source: "recheck", notification: null }),
      // JSON text in which a column of type JSON would change something, or refuse it.
      await add("listing:42", {
        notification: ` { "b":1.0,\n"a":"${BACKSLASH_U}0000","b":2, "c":"${BACKSLASH_U}d800", "d":12345678901234567890 } `,
      }),
      await add(null, { notification: `{"text":"${"x".repeat(64_000)}"}` }),
      await add("booking:R", {
        source: "reconcile",
        notification: null,
        timestamp: "2026-02-28T23:59:59.999Z",
      }),
    ];
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
        equal(`the event by ${what}`, given, event);
      }
    }
  },
};

function isDate(value: unknown): boolean {
  return value instanceof Date && !Number.isNaN(value.getTime());
}

/** Events that are added with `dueIn`. */
export const delaying: Cases = {
  "an event with dueIn is claimed once it is due": async (bench) => {
    const { store, unit, newEvent, claim, claimLater, get } = bench;
    const late = newEvent("booking:A", { source: "recheck" });
    equal("add", await store.add(late, { dueIn: LONG }), "added");
    const { state, receivedAt, dueAt } = await get(late);
    equal(
      "its state, and ms until it is due",
      [state, Number(dueAt) - Number(receivedAt)],
      ["pending", LONG],
    );
    equal("claim", await claim(), []);
    equal("claim by its id", await claim({ eventId: late.eventId }), []);
    between("nextDue", await store.nextDue(), LONG - 30_000, LONG);
    const soon = newEvent("booking:A");
    const start = performance.now();
    equal("add", await store.add(soon, { dueIn: 3 * unit }), "added");
    const wait = await store.nextDue();
    check(wait !== undefined && wait <= 3 * unit, `nextDue: expected at most ${3 * unit}, got ${wait}`);
    const { attempts, eventId } = await claimLater(start + 3 * unit);
    equal("the claim", [eventId, attempts], [soon.eventId, 1]);
  },

  "with dueIn 0 it is due at once": async ({ store, newEvent, claimOne }) => {
    const event = newEvent("booking:A");
    equal("add", await store.add(event, { dueIn: 0 }), "added");
    equal("nextDue", await store.nextDue(), 0);
    equal("the claimed event", (await claimOne()).eventId, event.eventId);
  },

  "a known id is a duplicate, with dueIn, too": async ({ store, newEvent, add, claimOne }) => {
    const event = await add("booking:A");
    equal("add", await store.add(event, { dueIn: LONG }), "duplicate");
    equal("add with another ref", await store.add({ ...event, ref: null }, { dueIn: LONG }), "conflict");
    equal("the claimed event", (await claimOne()).eventId, event.eventId);
    const later = newEvent("booking:B");
    equal("add", await store.add(later, { dueIn: LONG }), "added");
    equal("add, without dueIn", await store.add(later), "duplicate");
    between("nextDue", await store.nextDue(), 1, LONG);
  },

  "an event with dueIn ends no wait of its record": async (bench) => {
    const { store, newEvent, add, ended, claim, claimOne } = bench;
    const first = await ended("booking:A", unreachable(LONG));
    equal("add", await store.add(newEvent("booking:A"), { dueIn: 0 }), "added");
    equal("claim", await claim(), []);
    between("nextDue", await store.nextDue(), 1, LONG);
    await add("booking:A");
    equal("the claimed event, after one without dueIn", (await claimOne()).eventId, first.eventId);
  },

  "a wait is at most 366 days": async ({ store, newEvent, ended, get }) => {
    const most = 366 * 24 * 60 * 60_000;
    for (const dueIn of [1e300, Number.MAX_SAFE_INTEGER, Number.POSITIVE_INFINITY]) {
      const event = newEvent(null);
      equal("add", await store.add(event, { dueIn }), "added");
      const { dueAt, receivedAt } = await get(event);
      equal(`ms until an event with dueIn ${dueIn} is due`, Number(dueAt) - Number(receivedAt), most);
      const retried = await ended("booking:A", { ...unreachable(dueIn), counted: true });
      const retry = await get(retried);
      between(
        `ms until a retry in ${dueIn} is due`,
        Number(retry.dueAt) - Number(retry.receivedAt),
        most,
        most + 30_000,
      );
      equal("discard", await store.discard({ ref: "booking:A" }), 1);
    }
    between("nextDue", await store.nextDue(), most - 30_000, most);
  },

  "oldestWaiting counts it once it is due, by receivedAt": async (bench) => {
    const { store, unit, newEvent, add, eventually, sleep } = bench;
    await store.add(newEvent("booking:B"), { dueIn: LONG });
    equal("oldestWaiting, before it is due", await store.oldestWaiting(), undefined);
    const start = performance.now();
    await store.add(newEvent("booking:A"), { dueIn: 3 * unit });
    const added = performance.now();
    const first = await eventually("an age", () => store.oldestWaiting());
    check(first >= 3 * unit - 5, `oldestWaiting: expected the age since the event was added, got ${first}`);
    await sleep(1);
    const least = Math.floor(performance.now() - added) - 5;
    const age = await store.oldestWaiting();
    between("oldestWaiting, once it is due", age, least, Math.ceil(performance.now() - start) + 5);
    equal("discard", await store.discard({ ref: "booking:A" }), 1);
    equal("oldestWaiting, with one that is not due", await store.oldestWaiting(), undefined);
    await add("booking:C");
    between("oldestWaiting, with a new one", await store.oldestWaiting(), 0, 30_000);
  },

  "it is no hindrance to the events behind it": async ({ store, newEvent, add, claimOne }) => {
    equal("add", await store.add(newEvent("booking:A"), { dueIn: LONG }), "added");
    const event = await add("booking:A");
    equal("the claimed event", (await claimOne()).eventId, event.eventId);
  },

  "replay and discard treat it as pending": async ({ store, newEvent }) => {
    const event = newEvent("booking:A");
    await store.add(event, { dueIn: LONG });
    equal("replay", await store.replay({ eventId: event.eventId }), 0);
    between("nextDue", await store.nextDue(), 1, LONG);
    equal("discard", await store.discard({ eventId: event.eventId }), 1);
    equal("nextDue, once discarded", await store.nextDue(), undefined);
  },

  "once due it has the place of its arrival": async (bench) => {
    const { store, unit, newEvent, add, claimOne, settle, sleep, tick } = bench;
    const first = newEvent("booking:A");
    await store.add(first, { dueIn: unit });
    await tick();
    const second = await add("booking:A");
    await tick();
    const other = await add("booking:B");
    await sleep(2);
    const oldest = await claimOne({ limit: 1 });
    equal("the oldest", oldest.eventId, first.eventId);
    await settle(oldest, { state: "released" });
    equal("the newest record", (await claimOne({ limit: 1, order: "newest" })).eventId, other.eventId);
    const left = await claimOne({ limit: 1, order: "newest" });
    equal("the oldest of the record that is left", left.eventId, first.eventId);
    equal("the one behind it", (await store.get(second.eventId))?.state, "pending");
  },
};
