import { between, type Cases, check, equal, failed, LONG, parked, unreachable } from "./harness.ts";

const BACKSLASH_U = "\\u";

export const adding: Cases = {
  "a new event is stored, and can be claimed at once": async ({ newEvent, add, claimOne, get }) => {
    const event = await add("booking:A");
    const { receivedAt, dueAt, ...rest } = await get(event);
    equal("the new event, as get() returns it", rest, {
      ...event,
      state: "pending",
      attempts: 0,
      doneAt: null,
      type: null,
      lastError: null,
      reason: null,
      history: [],
    });
    equal("whether receivedAt and dueAt are Dates", [receivedAt, dueAt].map(isDate), [true, true]);
    equal("id of the claimed event", (await claimOne()).eventId, event.eventId);
    equal("whether the case made the same id twice", newEvent(null).eventId === event.eventId, false);
  },

  "`add` of a stored id returns `duplicate`, in every state of the event": async (bench) => {
    const { store, add, ended, handle, claimOne, settle, get } = bench;
    const waiting = await add("booking:A");
    equal(
      "second add() of a pending event",
      await store.add({ ...waiting, notification: "{}" }),
      "duplicate",
    );
    equal("the notification after the second add()", (await get(waiting)).notification, waiting.notification);

    const claim = await claimOne();
    equal("second add() of a processing event", await store.add(waiting), "duplicate");
    equal("the state after the second add()", (await get(waiting)).state, "processing");
    await settle(claim, failed(LONG));
    equal("second add() of a retrying event", await store.add(waiting), "duplicate");
    equal("the state after the second add()", (await get(waiting)).state, "retrying");

    const handled = await handle("booking:B", "Confirmed");
    equal("second add() of a done event", await store.add(handled), "duplicate");
    equal("the state after the second add()", (await get(handled)).state, "done");

    const given = await ended(null, parked());
    equal("second add() of a parked event", await store.add(given), "duplicate");
    equal("the state after the second add()", (await get(given)).state, "parked");
  },

  "`add` of a stored id with another ref returns `conflict`, and changes nothing": async (bench) => {
    const { store, add, get } = bench;
    const one = await add("booking:A");
    const other = await add(null);
    equal("add() of a stored id with another ref", await store.add({ ...one, ref: "booking:B" }), "conflict");
    equal(
      "add() of a stored id with null instead of its ref",
      await store.add({ ...one, ref: null }),
      "conflict",
    );
    equal(
      "add() of a stored id with a ref instead of null",
      await store.add({ ...other, ref: "booking:A" }),
      "conflict",
    );
    equal("the stored refs", [(await get(one)).ref, (await get(other)).ref], ["booking:A", null]);
    equal("counts().pending", (await store.counts()).pending, 2);
  },

  "if many calls add one id concurrently, only one call returns `added`": async (bench) => {
    const { store, newEvent, claim } = bench;
    const event = newEvent("booking:A");
    const answers = await Promise.all(Array.from({ length: 25 }, () => store.add(event)));
    equal("how many calls of add returned `added`", answers.filter((answer) => answer === "added").length, 1);
    equal(
      "how many calls of add returned `duplicate`",
      answers.filter((answer) => answer === "duplicate").length,
      24,
    );
    equal("how many events were claimed", (await claim()).length, 1);
    equal("counts().pending after the claim", (await store.counts()).pending, 0);
  },

  "of many concurrent calls that add one id with different refs, only one returns `added`": async (bench) => {
    const { store, newEvent } = bench;
    const event = newEvent(null);
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, index) => store.add({ ...event, ref: `booking:${index}` })),
    );
    equal("how many calls of add returned `added`", answers.filter((answer) => answer === "added").length, 1);
    equal(
      "how many calls of add returned `conflict`",
      answers.filter((answer) => answer === "conflict").length,
      9,
    );
  },

  "if many calls add different ids concurrently, all calls return `added`": async (bench) => {
    const { store, newEvent, claim } = bench;
    const events = Array.from({ length: 60 }, (_, index) => newEvent(`booking:${index % 30}`));
    const answers = await Promise.all(events.map((event) => store.add(event)));
    equal(
      "how many calls of add returned `added`",
      answers.filter((answer) => answer === "added").length,
      60,
    );
    equal("counts().pending", (await store.counts()).pending, 60);
    equal("how many records were claimed", (await claim()).length, 30);
  },

  "`get`, `claim` and `list` return an event as it was added": async ({ store, add, claim, get }) => {
    const events = [
      await add("booking:ü'\"%_\\;日本🎉 -- ", {
        topic: "bookings",
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      }),
      await add("booking:K", { source: "recheck", notification: null }),
      // A column of type JSON would change or reject this notification.
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
        equal(`the event that ${what}() returned`, given, event);
      }
    }
  },
};

function isDate(value: unknown): boolean {
  return value instanceof Date && !Number.isNaN(value.getTime());
}

/** Cases for events that are added with `dueIn`. */
export const delaying: Cases = {
  "an event with dueIn cannot be claimed before it is due": async (bench) => {
    const { store, unit, newEvent, claim, claimLater, get } = bench;
    const late = newEvent("booking:A", { source: "recheck" });
    equal("add() with dueIn", await store.add(late, { dueIn: LONG }), "added");
    const { state, receivedAt, dueAt } = await get(late);
    equal(
      "the event's state, and ms from receivedAt to dueAt",
      [state, Number(dueAt) - Number(receivedAt)],
      ["pending", LONG],
    );
    equal("claim() before the event is due", await claim(), []);
    equal("claim() by id, before the event is due", await claim({ eventId: late.eventId }), []);
    between("nextDue() before the event is due", await store.nextDue(), LONG - 30_000, LONG);
    const soon = newEvent("booking:A");
    const start = performance.now();
    equal("add() with a shorter dueIn", await store.add(soon, { dueIn: 3 * unit }), "added");
    const wait = await store.nextDue();
    check(wait !== undefined && wait <= 3 * unit, `nextDue(): expected at most ${3 * unit} ms, got ${wait}`);
    const { attempts, eventId } = await claimLater(start + 3 * unit);
    equal("eventId and attempts of the claim", [eventId, attempts], [soon.eventId, 1]);
  },

  "an event with dueIn 0 is due at once": async ({ store, newEvent, claimOne }) => {
    const event = newEvent("booking:A");
    equal("add() with dueIn 0", await store.add(event, { dueIn: 0 }), "added");
    equal("nextDue() with dueIn 0", await store.nextDue(), 0);
    equal("id of the claimed event", (await claimOne()).eventId, event.eventId);
  },

  "`add` of a stored id returns `duplicate`, with or without dueIn": async (bench) => {
    const { store, newEvent, add, claimOne } = bench;
    const event = await add("booking:A");
    equal("add() of a stored id with dueIn", await store.add(event, { dueIn: LONG }), "duplicate");
    equal(
      "add() with dueIn and another ref",
      await store.add({ ...event, ref: null }, { dueIn: LONG }),
      "conflict",
    );
    equal("id of the claimed event", (await claimOne()).eventId, event.eventId);
    const later = newEvent("booking:B");
    equal("add() of a new id with dueIn", await store.add(later, { dueIn: LONG }), "added");
    equal("second add() of the new id, without dueIn", await store.add(later), "duplicate");
    between("nextDue() after the second add()", await store.nextDue(), 1, LONG);
  },

  "a new event with dueIn does not end its record's wait": async (bench) => {
    const { store, newEvent, add, ended, claim, claimOne } = bench;
    const first = await ended("booking:A", unreachable(LONG));
    equal("add() with dueIn 0", await store.add(newEvent("booking:A"), { dueIn: 0 }), "added");
    equal("claim() while the record waits", await claim(), []);
    between("nextDue() while the record waits", await store.nextDue(), 1, LONG);
    await add("booking:A");
    equal("id of the event claimed after add() without dueIn", (await claimOne()).eventId, first.eventId);
  },

  "a wait of more than 366 days is shortened to 366 days": async ({ store, newEvent, ended, get }) => {
    const most = 366 * 24 * 60 * 60_000;
    for (const dueIn of [1e300, Number.MAX_SAFE_INTEGER, Number.POSITIVE_INFINITY]) {
      const event = newEvent(null);
      equal(`add() with dueIn ${dueIn}`, await store.add(event, { dueIn }), "added");
      const { dueAt, receivedAt } = await get(event);
      equal(`ms until an event with dueIn ${dueIn} is due`, Number(dueAt) - Number(receivedAt), most);
      const retried = await ended("booking:A", { ...unreachable(dueIn), counted: true });
      const retry = await get(retried);
      between(
        `ms until a retry with in = ${dueIn} is due`,
        Number(retry.dueAt) - Number(retry.receivedAt),
        most,
        most + 30_000,
      );
      equal("discard() of the event that waits for the retry", await store.discard({ ref: "booking:A" }), 1);
    }
    between("nextDue() with events that are due in 366 days", await store.nextDue(), most - 30_000, most);
  },

  "oldestWaiting ignores an event until it is due, and measures its age from receivedAt": async (bench) => {
    const { store, unit, newEvent, add, eventually, sleep } = bench;
    await store.add(newEvent("booking:B"), { dueIn: LONG });
    equal("oldestWaiting() before the event is due", await store.oldestWaiting(), undefined);
    const start = performance.now();
    await store.add(newEvent("booking:A"), { dueIn: 3 * unit });
    const added = performance.now();
    const first = await eventually("oldestWaiting() to return an age", () => store.oldestWaiting());
    check(first >= 3 * unit - 5, `oldestWaiting(): expected the ms since the event was added, got ${first}`);
    await sleep(1);
    const least = Math.floor(performance.now() - added) - 5;
    const age = await store.oldestWaiting();
    between("oldestWaiting() when the event is due", age, least, Math.ceil(performance.now() - start) + 5);
    equal("discard() of the due event", await store.discard({ ref: "booking:A" }), 1);
    equal("oldestWaiting() with an event that is not due", await store.oldestWaiting(), undefined);
    await add("booking:C");
    between("oldestWaiting() with a new event", await store.oldestWaiting(), 0, 30_000);
  },

  "an event with dueIn does not make later events of its record wait": async (bench) => {
    const { store, newEvent, add, claimOne } = bench;
    equal("add() with dueIn", await store.add(newEvent("booking:A"), { dueIn: LONG }), "added");
    const event = await add("booking:A");
    equal("id of the claimed event", (await claimOne()).eventId, event.eventId);
  },

  "`replay` and `discard` treat an event with dueIn as pending": async ({ store, newEvent }) => {
    const event = newEvent("booking:A");
    await store.add(event, { dueIn: LONG });
    equal("replay() before the event is due", await store.replay({ eventId: event.eventId }), 0);
    between("nextDue() after replay()", await store.nextDue(), 1, LONG);
    equal("discard() before the event is due", await store.discard({ eventId: event.eventId }), 1);
    equal("nextDue() after discard()", await store.nextDue(), undefined);
  },

  "events with dueIn that are due are claimed in the order of their arrival": async (bench) => {
    const { store, unit, newEvent, add, claimOne, settle, sleep, tick } = bench;
    const first = newEvent("booking:A");
    await store.add(first, { dueIn: unit });
    await tick();
    const second = await add("booking:A");
    await tick();
    const other = await add("booking:B");
    await sleep(2);
    const oldest = await claimOne({ limit: 1 });
    equal("id of the first event claimed without an order", oldest.eventId, first.eventId);
    await settle(oldest, { state: "released" });
    equal(
      "id of the first event claimed with order `newest`",
      (await claimOne({ limit: 1, order: "newest" })).eventId,
      other.eventId,
    );
    const left = await claimOne({ limit: 1, order: "newest" });
    equal("id of the second event claimed with order `newest`", left.eventId, first.eventId);
    equal("state of the record's newer event", (await store.get(second.eventId))?.state, "pending");
  },
};
