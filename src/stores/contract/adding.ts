import { equal } from "./expect.ts";
import { type Cases, failed, LONG, parked } from "./harness.ts";

const BACKSLASH_U = "\\u";

export const adding: Cases = {
  "a new event is added, and due at once": async ({ add, claimOne, get, newEvent }) => {
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

  "a known id is a duplicate, whatever became of it": async ({ store, add, claimOne, settle, done, get }) => {
    const waiting = await add("booking:A");
    equal("the same id again, pending", await store.add({ ...waiting, notification: "{}" }), "duplicate");
    equal("the first notification is kept", (await get(waiting)).notification, waiting.notification);

    const claim = await claimOne();
    equal("the same id again, processing", await store.add(waiting), "duplicate");
    equal("its state", (await get(waiting)).state, "processing");
    await settle(claim, failed(LONG));
    equal("the same id again, retrying", await store.add(waiting), "duplicate");
    equal("its state", (await get(waiting)).state, "retrying");

    const handled = await add("booking:B");
    await done(await claimOne(), "Confirmed");
    equal("the same id again, done", await store.add(handled), "duplicate");
    equal("its state", (await get(handled)).state, "done");

    const given = await add(null);
    await settle(await claimOne(), parked());
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
