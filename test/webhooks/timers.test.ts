import { memoryStore } from "stayhook";
import { describe, expect, test, vi } from "vitest";
import type { EventTimers } from "../../src/webhooks/timers.ts";
import {
  advance,
  HOUR,
  handlerOf,
  heldCallback,
  MINUTE,
  notificationOf,
  useFakeTime,
  watch,
} from "./support.ts";

const START = new Date("2026-05-01T12:00:00Z");
const at = (hours: number) => new Date(START.getTime() + hours * HOUR);
/** A failed event is retried after a minute. */
const retried = { maxAttempts: 3, backoff: () => MINUTE };

useFakeTime(START);

type Options = NonNullable<Parameters<typeof handlerOf>[0]>;
type Act = (event: { timers: EventTimers; status: string; eventId: string }) => unknown;

/** Makes a handler whose callback for booking A1 calls `act`, and records the timers that fire. */
function withTimers(act: Act = () => {}, { on, ...options }: Options = {}) {
  const fired: { name: string; at: Date; now: Date; status: string; attempt: number; changed: boolean }[] =
    [];
  const changed: string[] = [];
  type Fired = { timer: { name: string; at: Date }; status: string; attempt: number; changed: boolean };
  const note = ({ timer, status, attempt, changed }: Fired) => {
    fired.push({ ...timer, now: new Date(), status, attempt, changed });
  };
  const handler = handlerOf({
    recheckAfter: false,
    on: {
      "booking.Confirmed": (event) => {
        changed.push("Confirmed");
        return act(event);
      },
      "booking.Cancelled": ({ timers }) => {
        changed.push("Cancelled");
        timers.clear();
      },
      "booking.timer.door-code": note,
      "booking.timer.arrival-mail": note,
      ...on,
    },
    ...options,
  });
  handler.platform.booking("A1", "Confirmed");
  const deliver = async () => {
    await handler.notify("A1");
  };
  const timers = handler.webhooks.timers("booking:A1");
  return { ...handler, fired, changed, deliver, timers, list: () => timers.list() };
}

/** Handles a notification of A1, whose callback sets door-code to `hours`, until `sets` chooses another time. */
async function booked(hours: number, options?: Options) {
  let time = at(hours);
  const it = withTimers(({ timers }) => timers.set("door-code", time), options);
  await it.deliver();
  const sets = (other: number) => {
    time = at(other);
  };
  return { ...it, sets };
}

/** Makes a callback that fails. */
const failing = () =>
  vi.fn(() => {
    throw new Error("no");
  });

/** Returns the message of the error that each call throws. */
const messagesOf = (...calls: (() => void)[]) =>
  calls.map((call) => {
    try {
      call();
    } catch (error) {
      return (error as Error).message;
    }
    return undefined;
  });

const scheduled = (name: string, time: Date) => ({ name, at: time, state: "scheduled" });

describe("a timer", () => {
  test("fires at its time, once, although its callback is run again for the same stay", async () => {
    const { deliver, fired, list } = withTimers(({ timers }) => {
      timers.set("arrival-mail", at(1));
      timers.set("door-code", at(2));
    });
    await deliver();
    expect(await list()).toEqual([scheduled("arrival-mail", at(1)), scheduled("door-code", at(2))]);
    await advance(HOUR - 1);
    expect(fired).toEqual([]);
    await advance(1);
    expect(fired).toMatchObject([{ name: "arrival-mail", at: at(1), now: at(1), status: "Confirmed" }]);
    await deliver();
    await advance(10 * HOUR);
    await deliver();
    await advance(10 * HOUR);
    expect(fired.map(({ name, now }) => [name, now])).toEqual([
      ["arrival-mail", at(1)],
      ["door-code", at(2)],
    ]);
  });

  test("has fired for good, also after the retention of done events", async () => {
    const { deliver, fired } = await booked(1, { retention: 2 * HOUR });
    await advance(48 * HOUR);
    await deliver();
    await advance(HOUR);
    expect(fired).toHaveLength(1);
  });

  test("is moved by another time, fired or not", async () => {
    const { deliver, fired, sets } = await booked(2);
    sets(5);
    await deliver();
    await advance(5 * HOUR);
    expect(fired).toMatchObject([{ at: at(5), now: at(5) }]);
    sets(7);
    await deliver();
    await advance(2 * HOUR);
    expect(fired).toMatchObject([{ at: at(5) }, { at: at(7), now: at(7) }]);
  });

  test("has an event of its own: freshly read, unchanged, with the time as its timestamp", async () => {
    const seen: object[] = [];
    const { platform } = await booked(1, {
      on: { "booking.timer.door-code": (event) => void seen.push(event) },
      track: { booking: ({ status }) => ({ state: status }) },
    });
    platform.booking("A1", "Confirmed", { guestName: "Ada" });
    await advance(HOUR);
    expect(seen).toMatchObject([
      {
        type: "booking.timer.door-code",
        eventId: "stayhook:timer:booking:A1:door-code:2026-05-01T13:00:00.000Z",
        source: "timer",
        status: "Confirmed",
        booking: { bookingCode: "A1", guestName: "Ada" },
        timer: { name: "door-code", at: at(1) },
        timestamp: at(1),
        receivedAt: START,
        changed: false,
        changes: {},
        notification: undefined,
      },
    ]);
  });

  test("fires at its time although the callback goes on after it has set the timer", async () => {
    const { deliver, fired } = withTimers(async ({ timers }) => {
      timers.set("door-code", at(1));
      await new Promise((resolve) => setTimeout(resolve, 2 * MINUTE));
    });
    await deliver();
    await advance(2 * HOUR);
    expect(fired).toMatchObject([{ at: at(1), now: at(1) }]);
  });

  test("keeps the time that was set although the callback changes the Date afterwards", async () => {
    const { deliver, fired } = withTimers(({ timers }) => {
      const time = at(1);
      timers.set("door-code", time);
      time.setTime(at(5).getTime());
    });
    await deliver();
    await advance(2 * HOUR);
    expect(fired).toMatchObject([{ at: at(1), now: at(1) }]);
  });

  test("belongs to a listing, too", async () => {
    const fire = vi.fn();
    const { webhooks, platform } = handlerOf({ on: { "listing.timer.photos": fire } });
    platform.listing(7, "Published");
    webhooks.start();
    await webhooks.timers("listing:7").set("photos", at(1));
    await advance(HOUR);
    expect(fire.mock.calls).toMatchObject([[{ listing: { listingId: 7 }, timer: { name: "photos" } }]]);
  });

  test("that a replay names runs at once, with the time that was set", async () => {
    const { fired, store } = await booked(9);
    expect(await store.replay({ ref: "booking:A1" })).toBe(1); // the notification, not the timer
    await advance(MINUTE);
    expect(fired).toEqual([]);
    await store.replay({ eventId: "stayhook:timer:booking:A1:door-code" });
    await advance(MINUTE);
    expect(fired).toMatchObject([{ at: at(9) }]);
  });

  test("that no process was there to fire is fired by the next process, which observes its lateness", async () => {
    const store = memoryStore();
    const one = await booked(2, { store });
    await one.webhooks.close();
    await advance(5 * HOUR);
    const other = withTimers(undefined, { store });
    other.webhooks.start();
    await advance(100);
    expect(other.fired).toMatchObject([{ at: at(2) }]);
    const lateness = ({ observed }: typeof other) =>
      observed.flatMap((event) => (event.kind === "started" ? [event.lateness] : []));
    expect([lateness(one), lateness(other)]).toEqual([[undefined], [3 * HOUR]]);
  });

  test("is not early on a clock that is set back", async () => {
    const { fired } = await booked(2);
    vi.setSystemTime(at(-10));
    await advance(12 * HOUR - 1);
    expect(fired).toEqual([]);
    await advance(HOUR);
    expect(fired).toHaveLength(1);
  });
});

describe("clear forgets a timer that has fired", () => {
  test.each<[string, (t: EventTimers) => void]>([
    ["by its name", (t) => t.clear("door-code")],
    ["with all timers", (t) => t.clear()],
  ])(
    "%s: after a cancellation and a new confirmation for the same dates, it fires again",
    async (_, clear) => {
      const it = withTimers(({ timers }) => timers.set("door-code", at(1)), {
        on: { "booking.Cancelled": ({ timers }) => clear(timers) },
      });
      await it.deliver();
      await advance(2 * HOUR);
      expect(it.fired.length).toBe(1);
      it.platform.booking("A1", "Cancelled");
      await it.deliver();
      expect(await it.list()).toEqual([]);
      it.platform.booking("A1", "Confirmed");
      await it.deliver();
      await advance(MINUTE);
      expect(it.fired).toMatchObject([{ at: at(1) }, { at: at(1), now: at(2) }]);
    },
  );

  test("outside of a callback, too", async () => {
    const it = withTimers();
    await it.deliver();
    await it.timers.set("door-code", at(1));
    await advance(2 * HOUR);
    await it.timers.clear();
    expect(await it.list()).toEqual([]);
    await it.timers.set("door-code", at(1));
    await advance(MINUTE);
    expect(it.fired.length).toBe(2);
  });
});

describe('ifPassed: "skip"', () => {
  test("sets nothing for a time that has passed, and sets one to come", async () => {
    const it = withTimers(({ timers }) => {
      timers.set("door-code", at(-1), { ifPassed: "skip" });
      timers.set("arrival-mail", at(1), { ifPassed: "skip" });
    });
    await it.deliver();
    await advance(2 * HOUR);
    expect(it.fired.map(({ name }) => name)).toEqual(["arrival-mail"]);
    await it.timers.set("door-code", at(-1), { ifPassed: "skip" });
    await advance(MINUTE);
    expect(it.fired.length).toBe(1);
  });

  test.each([true, false])(
    "deletes a timer that waits for another time (in a callback: %s)",
    async (inside) => {
      let act: (timers: EventTimers) => void = (timers) => timers.set("door-code", at(9));
      const it = withTimers(({ timers }) => act(timers));
      await it.deliver();
      act = (timers) => timers.set("door-code", at(-1), { ifPassed: "skip" });
      if (inside) await it.deliver();
      else await it.timers.set("door-code", at(-1), { ifPassed: "skip" });
      expect(await it.list()).toEqual([]);
      await advance(10 * HOUR);
      expect(it.fired).toEqual([]);
    },
  );

  test("deletes a timer that has fired for another time, after clear() in the same attempt", async () => {
    let act: (timers: EventTimers) => void = (timers) => timers.set("door-code", at(1));
    const it = withTimers(({ timers }) => act(timers));
    await it.deliver();
    await advance(2 * HOUR);
    expect(it.fired.length).toBe(1);
    act = (timers) => {
      timers.clear();
      timers.set("door-code", at(-1), { ifPassed: "skip" });
    };
    await it.deliver();
    expect(await it.list()).toEqual([]);
  });

  test("leaves a timer of the same time that has not fired yet", async () => {
    const it = withTimers(({ timers }) => timers.set("door-code", at(1), { ifPassed: "skip" }), {
      concurrency: 1,
      on: {
        "booking.timer.arrival-mail": async ({ timers }) => {
          await new Promise((resolve) => setTimeout(resolve, 2 * MINUTE));
          timers.set("door-code", at(1), { ifPassed: "skip" });
        },
      },
    });
    await it.deliver();
    await it.timers.set("arrival-mail", new Date(at(1).getTime() - MINUTE));
    await advance(2 * HOUR);
    expect(it.fired).toMatchObject([{ name: "door-code", at: at(1) }]);
  });

  test("a misspelt option is refused", async () => {
    const it = withTimers();
    const options = { ifPassed: "never" } as unknown as { ifPassed: "skip" };
    await expect(it.timers.set("door-code", at(1), options)).rejects.toThrow('must be "fire" or "skip"');
    const misspelt = { ifPast: "skip" } as object;
    await expect(it.timers.set("door-code", at(1), misspelt)).rejects.toThrow("ifPast");
  });
});

test("list gives all timers, however many", async () => {
  const it = withTimers();
  const count = 1203;
  for (let n = 0; n < count; n += 1) {
    const name = `t-${n}`;
    const event = {
      eventId: `stayhook:timer:booking:A1:${name}`,
      ref: "booking:A1",
      source: "timer",
      topic: null,
    };
    const notification = JSON.stringify({ name });
    const timestamp = at(n).toISOString();
    await it.store.add({ ...event, source: "timer", timestamp, notification }, { dueIn: HOUR });
  }
  expect(new Set((await it.list()).map(({ name }) => name)).size).toBe(count);
});

describe("set and clear in one attempt", () => {
  test.each<[string, (timers: EventTimers) => void, Date | undefined]>([
    ["set, clear", (t) => [t.set("door-code", at(2)), t.clear("door-code")], undefined],
    ["set, clear all", (t) => [t.set("door-code", at(2)), t.clear()], undefined],
    ["clear, set", (t) => [t.clear("door-code"), t.set("door-code", at(2))], at(2)],
    ["clear all, set", (t) => [t.clear(), t.set("door-code", at(2))], at(2)],
    ["set, set", (t) => [t.set("door-code", at(2)), t.set("door-code", at(3))], at(3)],
    ["clear another", (t) => t.clear("arrival-mail"), at(9)],
  ])("the last call wins: %s", async (_, act, expected) => {
    const { deliver, list, timers } = withTimers((event) => act(event.timers));
    await timers.set("door-code", at(9));
    await deliver();
    expect(await list()).toEqual(expected ? [scheduled("door-code", expected)] : []);
  });

  test("an attempt that fails has set and cleared nothing", async () => {
    const act: Act = ({ timers }) => {
      timers.clear();
      timers.set("arrival-mail", at(2));
      throw new Error("no");
    };
    const { deliver, list, timers } = withTimers(act, retried);
    await timers.set("door-code", at(9));
    await deliver();
    await advance(10 * MINUTE);
    expect(await list()).toEqual([scheduled("door-code", at(9))]);
  });

  test("clear and set in one attempt change nothing if the time is that of a timer that has fired", async () => {
    const it = withTimers(({ timers }) => {
      timers.clear();
      timers.set("door-code", at(1));
    });
    await it.deliver();
    await advance(2 * HOUR);
    expect(it.fired.length).toBe(1);
    await it.deliver();
    await advance(HOUR);
    expect(it.fired.length).toBe(1);
    expect(await it.list()).toMatchObject([{ name: "door-code", at: at(1), state: "done" }]);
  });

  test("list has a timer whose change fails, and one that was discarded before its time", async () => {
    const on = { "booking.Cancelled": () => Promise.reject(new Error("no")) };
    const it = await booked(1, { on });
    it.platform.booking("A1", "Cancelled");
    await advance(HOUR);
    expect(await it.list()).toMatchObject([{ name: "door-code", at: at(1), state: "retrying" }]);
    await it.timers.set("arrival-mail", at(9));
    await it.store.discard({ state: "scheduled" });
    expect(await it.list()).toMatchObject([
      { name: "door-code", state: "retrying" },
      { name: "arrival-mail", at: at(9), state: "done" },
    ]);
  });

  test("both throw after the callback has returned, and in process(), which has no store", async () => {
    const calls = (timers: EventTimers) =>
      messagesOf(
        () => timers.set("door-code", at(1)),
        () => timers.clear(),
      );
    const seen: EventTimers[] = [];
    const inCallback: unknown[] = [];
    const { deliver, webhooks } = withTimers(({ timers }) => {
      if (seen.push(timers) === 2) inCallback.push(...calls(timers));
    });
    await deliver();
    const late = expect.stringContaining("was called after the callback had returned");
    expect(calls(seen[0]!)).toEqual([late, late]);
    await webhooks.process(notificationOf({ bookingCode: "A1" }));
    expect(inCallback).toEqual([
      "event.timers.set(): process() has no store, so it has no timers.",
      "event.timers.clear(): process() has no store, so it has no timers.",
    ]);
  });

  test("a callback gets the error of a wrong call", async () => {
    const furthest = new Date(START.getTime() + 365_250 * 24 * HOUR);
    const wrong: [name: string, at: Date, message: string][] = [
      [
        "door-cod",
        at(1),
        "`on` has no callback booking.timer.door-cod and no fallback; did you mean door-code?",
      ],
      ["Door", at(1), "lower-case letters, digits and hyphens, 64 characters at most"],
      ["x".repeat(65), at(1), "lower-case letters"],
      ["door-code", new Date(Number.NaN), "the time of the timer door-code must be a valid Date"],
      ["door-code", "2026-05-01" as unknown as Date, "must be a valid Date"],
      ["door-code", new Date(furthest.getTime() + 1), "more than 1,000 years away: 3026-05-09T12:00:00.001Z"],
    ];
    const errors: unknown[] = [];
    const { deliver, list } = withTimers(({ timers }) => {
      errors.push(
        ...messagesOf(
          ...wrong.map(
            ([name, time]) =>
              () =>
                timers.set(name, time),
          ),
        ),
      );
      timers.set("door-code", furthest);
    });
    await deliver();
    expect(errors).toEqual(wrong.map(([, , message]) => expect.stringContaining(message)));
    expect(await list()).toEqual([scheduled("door-code", furthest)]);
  });

  test("with a fallback, every name can be set, and its event goes there", async () => {
    const fallback = vi.fn();
    const { deliver } = withTimers(({ timers }) => timers.set("anything", at(1)), { on: { fallback } });
    await deliver();
    await advance(HOUR);
    expect(fallback.mock.calls).toMatchObject([
      [{ type: "booking.timer.anything", timer: { name: "anything" } }],
    ]);
  });
});

test.each<[what: string, act: (timers: EventTimers, runs: number) => unknown, times: Date[]]>([
  ["sets itself again", (t, runs) => runs < 3 && t.set("door-code", at(1 + runs)), [at(1), at(2), at(3)]],
  ["is done if it sets itself to the same time", (t) => t.set("door-code", at(1)), [at(1)]],
  ["is done if it clears itself", (t) => t.clear(), [at(1)]],
])("in its own callback, a timer %s", async (_, act, expected) => {
  const times: Date[] = [];
  const { list } = await booked(1, {
    on: { "booking.timer.door-code": ({ timers }) => act(timers, times.push(new Date())) },
  });
  await advance(24 * HOUR);
  expect(times).toEqual(expected);
  expect(await list()).toEqual([{ name: "door-code", at: expected.at(-1), state: "done" }]);
});

test.each<[what: string, act: (timers: EventTimers) => void]>([
  ["clear()", (t) => t.clear()],
  ["clear() by its name", (t) => t.clear("door-code")],
])("after %s in a timer's own callback, the same time can be set again", async (_, act) => {
  let runs = 0;
  const { store, deliver, list, fired } = await booked(1, {
    on: {
      "booking.timer.door-code": ({ timers, eventId }) => {
        runs += 1;
        fired.push(eventId as never);
        if (runs === 1) act(timers);
      },
    },
  });
  await advance(2 * HOUR);
  const id = "stayhook:timer:booking:A1:door-code:2026-05-01T13:00:00.000Z";
  expect(await list()).toEqual([{ name: "door-code", at: at(1), state: "done" }]);
  expect(await store.get(id)).toMatchObject({ eventId: id, state: "done" });
  expect((await store.list({ eventId: id, limit: 9 })).map(({ eventId }) => eventId)).toEqual([id]);
  for (let times = 0; times < 3; times += 1) {
    await deliver();
    await advance(HOUR);
  }
  expect(fired).toEqual([id, id]);
  expect(await store.replay({ eventId: id })).toBe(1);
  await advance(HOUR);
  expect(fired).toEqual([id, id, id]);
});

describe("a timer that was set from outside, while the first event of its booking waits,", () => {
  /** The first event of A1 fails `fails` times. Meanwhile a timer is set from outside, whose time has passed. */
  async function setEarly(status: string, fails: number, options?: Options) {
    const order: string[] = [];
    const tried = (name: string) => (event: { timers: EventTimers; attempt: number }) => {
      order.push(`${name} ${event.attempt}`);
      if (name !== "timer" && event.attempt <= fails) throw new Error("no");
      if (name === "Cancelled") event.timers.clear();
    };
    const on = {
      "booking.Confirmed": tried("Confirmed"),
      "booking.Cancelled": tried("Cancelled"),
      "booking.timer.door-code": tried("timer"),
    };
    const it = withTimers(undefined, { ...retried, ...options, on });
    it.platform.booking("A1", status);
    await it.deliver();
    await it.timers.set("door-code", at(-1));
    await advance(HOUR);
    return { ...it, order };
  }

  test("is cleared by it", async () => {
    const { order, list } = await setEarly("Cancelled", 2);
    expect(order).toEqual(["Cancelled 1", "Cancelled 2", "Cancelled 3"]);
    expect(await list()).toEqual([]);
  });

  test("fires after it, without a counted attempt", async () => {
    const { order, store } = await setEarly("Confirmed", 2);
    expect(order).toEqual(["Confirmed 1", "Confirmed 2", "Confirmed 3", "timer 1"]);
    const [timer] = await store.list({ source: "timer", limit: 1 });
    expect(timer).toMatchObject({ state: "done", attempts: 1 });
  });

  test("fires after it is parked", async () => {
    const { order } = await setEarly("Cancelled", 3);
    expect(order).toEqual(["Cancelled 1", "Cancelled 2", "Cancelled 3", "timer 1"]);
  });

  test("fires at once if there is no such event", async () => {
    const it = withTimers();
    it.webhooks.start();
    await it.timers.set("door-code", at(-1));
    await it.timers.set("arrival-mail", at(-1));
    await advance(1);
    expect(it.fired.map(({ name }) => name)).toEqual(["door-code", "arrival-mail"]);
  });
});

describe("a change that nobody notified comes before a timer", () => {
  const moved = { checkIn: "2026-06-01", checkOut: "2026-06-03" };

  test.each([false, MINUTE] as const)(
    "the cancellation clears it (recheckAfter: %s)",
    async (recheckAfter) => {
      const { fired, platform, changed, list } = await booked(2, { recheckAfter });
      platform.booking("A1", "Cancelled");
      await advance(3 * HOUR);
      expect(changed).toEqual(["Confirmed", "Cancelled"]);
      expect([fired, await list()]).toEqual([[], []]);
    },
  );

  test("a move moves it", async () => {
    const { fired, platform, sets } = await booked(2);
    platform.booking("A1", "Confirmed", moved);
    sets(30);
    await advance(30 * HOUR);
    expect(fired).toMatchObject([{ at: at(30), now: at(30) }]);
  });

  test("if the change's callback keeps the time, it fires without a counted attempt", async () => {
    const { fired, platform, changed } = await booked(2);
    platform.booking("A1", "Confirmed", moved);
    await advance(2 * HOUR + 1000);
    expect(changed).toEqual(["Confirmed", "Confirmed"]);
    expect(fired).toMatchObject([{ attempt: 1 }]);
    expect(fired[0]!.now.getTime() - at(2).getTime()).toBeLessThan(1000);
  });

  test("if the timer's own callback fails, the change's callback does not run again", async () => {
    let fails = 2;
    const seen: unknown[] = [];
    const { platform, changed, store } = await booked(2, {
      ...retried,
      on: {
        "booking.timer.door-code": ({ attempt, timer, changed: isChange, previous, receivedAt }) => {
          seen.push([attempt, timer, isChange, previous?.checkIn, receivedAt]);
          if (fails-- > 0) throw new Error("no");
        },
      },
    });
    platform.booking("A1", "Confirmed", moved);
    await advance(3 * HOUR);
    expect(changed).toEqual(["Confirmed", "Confirmed"]);
    const timer = { name: "door-code", at: at(2) };
    expect(seen).toEqual([1, 2, 3].map((attempt) => [attempt, timer, false, moved.checkIn, at(2)]));
    expect((await store.snapshotOf("booking:A1"))?.snapshot.fields).toMatchObject(moved);
  });

  test("a change that sets the same time, another one or a passed one", async () => {
    const clearThenSet = (timers: EventTimers) => {
      timers.clear();
      timers.set("door-code", at(2));
    };
    const plays: [string, (timers: EventTimers) => void, number][] = [
      ["the same time", (timers) => timers.set("door-code", at(2)), 1],
      ["the same time after clear", clearThenSet, 1],
      ["the same time, if not passed", (timers) => timers.set("door-code", at(2), { ifPassed: "skip" }), 1],
      ["another that has passed", (timers) => timers.set("door-code", at(1), { ifPassed: "skip" }), 0],
      ["another timer", (timers) => timers.clear("arrival-mail"), 1],
      ["none", (timers) => timers.clear("door-code"), 0],
    ];
    for (const [name, act, expected] of plays) {
      const { deliver, fired, platform, list } = withTimers(({ timers }) => {
        if (isMoved) act(timers);
        else timers.set("door-code", at(2));
      });
      let isMoved = false;
      vi.setSystemTime(START);
      await deliver();
      isMoved = true;
      platform.booking("A1", "Confirmed", moved);
      await advance(3 * HOUR);
      expect([name, fired.length, (await list()).length]).toEqual([name, expected, expected]);
    }
  });

  test("a drain does not count the waiting timer as failed", async () => {
    const { webhooks, platform, fired } = await booked(2, { autoStart: false });
    const one = { done: 1, failed: 0 };
    expect(await webhooks.drain()).toEqual(one);
    platform.booking("A1", "Confirmed", moved);
    await advance(2 * HOUR);
    expect(await webhooks.drain()).toEqual(one);
    await advance(1000);
    expect(await webhooks.drain()).toEqual(one);
    expect(fired).toHaveLength(1);
  });

  test("two timers fire although the change's callback keeps failing", async () => {
    const fail = failing();
    const { fired, platform, observed, timers, store } = await booked(2, {
      ...retried,
      on: { "booking.Declined": fail },
    });
    await timers.set("arrival-mail", at(2));
    platform.booking("A1", "Declined");
    await advance(2 * HOUR);
    expect(fired).toEqual([]);
    await advance(HOUR);
    expect(fired.map(({ name, status, changed }) => [name, status, changed]).sort()).toEqual([
      ["arrival-mail", "Declined", false],
      ["door-code", "Declined", false],
    ]);
    const failures = observed.filter(({ kind }) => kind === "failed" || kind === "parked");
    expect(failures.every((event) => "type" in event && event.type === "booking.Declined")).toBe(true);
    // Each timer has tried the change in all its attempts. Then the change has an event of its own, which is parked.
    expect(fail).toHaveBeenCalledTimes(9);
    expect(await store.list({ state: "parked", limit: 9 })).toMatchObject([
      { eventId: "stayhook:recheck:booking:A1", type: "booking.Declined", reason: "callback" },
    ]);
  });

  test("a change that fails comes before each time that is set, and leaves no snapshot", async () => {
    const fail = failing();
    const { fired, platform, timers, store } = await booked(2, {
      ...retried,
      on: { "booking.Declined": fail },
    });
    platform.booking("A1", "Declined");
    await advance(3 * HOUR);
    expect(fired).toHaveLength(1);
    expect((await store.snapshotOf("booking:A1"))?.snapshot.status).toBe("Confirmed");
    await timers.set("door-code", at(4));
    await advance(2 * HOUR);
    expect(fail).toHaveBeenCalledTimes(12);
    expect(fired).toHaveLength(2);
  });

  test("a second change, which follows while the first one is handled, comes before it, too", async () => {
    const { deliver, fired, platform, changed } = withTimers(({ timers }) => {
      timers.set("door-code", at(2));
      // The record that this callback got is older.
      if (changed.length === 2) platform.booking("A1", "Cancelled");
    });
    await deliver();
    platform.booking("A1", "Confirmed", moved);
    await advance(3 * HOUR);
    expect(changed).toEqual(["Confirmed", "Confirmed", "Cancelled"]);
    expect(fired).toEqual([]);
  });

  test("it fires all the same if the record differs at each read", async () => {
    let night = 1;
    const it = withTimers(({ timers }) => {
      timers.set("door-code", at(2));
      night += 1;
      it.platform.booking("A1", "Confirmed", { checkIn: "2026-06-01", checkOut: `2026-06-${night + 10}` });
    });
    await it.deliver();
    await advance(2 * HOUR + 10_000);
    expect(it.fired).toHaveLength(1);
    expect(it.changed.length).toBeLessThan(10);
  });

  test("one that was cleared and set to the same time again has all its attempts again", async () => {
    const fail = failing();
    const { fired, platform, timers } = await booked(2, { ...retried, on: { "booking.Declined": fail } });
    platform.booking("A1", "Declined");
    await advance(2 * HOUR + MINUTE / 2);
    expect(fail).toHaveBeenCalledTimes(1);
    await timers.clear();
    await timers.set("door-code", at(2));
    await advance(HOUR);
    expect(fail).toHaveBeenCalledTimes(7);
    expect(fired).toHaveLength(1);
  });

  test("the change's event has the time of the change, not that of an earlier notification", async () => {
    const seen: object[] = [];
    const on = { "booking.Request": (event: object) => void seen.push(event) };
    const { deliver, platform } = await booked(2, { recheckAfter: MINUTE, on });
    await deliver(); // unchanged, so it leaves a recheck
    await advance(HOUR);
    platform.booking("A1", "Request");
    await advance(2 * HOUR);
    expect(seen).toMatchObject([{ timestamp: at(2), decideBy: at(26), source: "recheck" }]);
  });

  test("without a snapshot, it runs", async () => {
    const { webhooks, fired, platform, timers } = withTimers();
    webhooks.start();
    await timers.set("door-code", at(1));
    platform.booking("A1", "Cancelled");
    await advance(HOUR);
    expect(fired).toMatchObject([{ status: "Cancelled" }]);
  });

  test("a notification in another process clears it in time", async () => {
    const store = memoryStore();
    const one = await booked(2, { store });
    const other = withTimers(undefined, { store });
    await advance(2 * HOUR - 1);
    for (const { platform } of [one, other]) platform.booking("A1", "Cancelled");
    await Promise.all([other.deliver(), advance(2)]);
    await advance(HOUR);
    expect([...one.fired, ...other.fired]).toEqual([]);
    expect([...one.changed, ...other.changed]).toEqual(["Confirmed", "Cancelled"]);
  });
});

describe("a timer that fails", () => {
  test("is retried, parked, and replayed with the time that was set", async () => {
    const seen: [attempt: number, at: Date, now: Date][] = [];
    const { deliver, list, store } = await booked(1, {
      ...retried,
      on: {
        "booking.timer.door-code": ({ attempt, timer }) => {
          if (seen.push([attempt, timer.at, new Date()]) <= 3) throw new Error("offline");
        },
      },
    });
    await advance(2 * HOUR);
    const parked = [{ name: "door-code", at: at(1), state: "parked" }];
    expect(await list()).toEqual(parked);
    await deliver(); // the same time: still parked
    expect(await list()).toEqual(parked);
    await store.replay({ state: "parked" });
    await advance(MINUTE);
    expect(seen.map(([attempt]) => attempt).slice(0, 3)).toEqual([1, 2, 3]);
    expect(seen.slice(3)).toMatchObject([[expect.any(Number), at(1), at(2)]]);
    expect(await store.counts()).toMatchObject({ parked: 0 });
  });

  test("is parked as not-found if the booking is gone, and clear takes it away", async () => {
    const { platform, store, fired, timers, list } = await booked(1, {
      backoff: () => MINUTE,
      giveUpAfter: HOUR,
    });
    platform.answer("A1", { status: 404 });
    // Nothing else is known, so that the booking may only be hidden.
    await advance(3 * HOUR);
    expect(await store.get("stayhook:timer:booking:A1:door-code")).toMatchObject({
      state: "parked",
      reason: "not-found",
    });
    await timers.clear();
    expect([fired, await list()]).toEqual([[], []]);
  });

  test("whose name an older process does not know is retried, then parked, never done", async () => {
    const store = memoryStore();
    await withTimers(undefined, { store }).timers.set("arrival-mail", at(1));
    const older = handlerOf({ store, ...retried, on: { "booking.timer.door-code": () => {} } });
    older.platform.booking("A1", "Confirmed");
    older.webhooks.start();
    await advance(2 * HOUR);
    expect(await store.get("stayhook:timer:booking:A1:arrival-mail")).toMatchObject({
      state: "parked",
      reason: "callback",
      attempts: 3,
    });
    expect(older.logger.lines.join("\n")).toContain("`on` has no callback booking.timer.arrival-mail");
  });
});

test.each([
  ["gets the timer", undefined, at(1)],
  ["keeps its own timer if that was set later", at(3), at(3)],
])("a record that answers with another spelling %s", async (_, own, expected) => {
  const { webhooks, fired, platform, timers, list } = withTimers();
  platform.answer("a1", { status: 200, body: { bookingCode: "A1", status: "Confirmed" } });
  webhooks.start();
  await webhooks.timers("booking:a1").set("door-code", at(1));
  await advance(MINUTE);
  if (own) await timers.set("door-code", own);
  await advance(5 * HOUR);
  expect(fired).toMatchObject([{ at: expected }]);
  expect(await list()).toMatchObject([{ at: expected, state: "done" }]);
});

describe("webhooks.timers", () => {
  test("sets, and a misspelt name is an error with the nearest one", async () => {
    const { webhooks, fired, timers } = withTimers();
    await expect(timers.set("door-cod", at(1))).rejects.toThrow(/did you mean door-code\?/);
    await expect(timers.clear("Door")).rejects.toThrow("lower-case letters");
    await timers.set("door-code", at(-1));
    webhooks.start();
    await advance(100);
    expect(fired).toMatchObject([{ name: "door-code", at: at(-1) }]);
  });

  test.each(["door", "booking:", "booking: A1", "listing:x", "listing:1.5", "message:1", undefined])(
    "refuses the ref %s",
    (ref) => {
      expect(() => withTimers().webhooks.timers(ref as string)).toThrow("booking:<code> or listing:<id>");
    },
  );

  test("set waits while the timer is processed, and keeps the time", async () => {
    const { callback, release } = heldCallback();
    const { webhooks, list, timers } = withTimers(undefined, { on: { "booking.timer.door-code": callback } });
    webhooks.start();
    await timers.set("door-code", at(1));
    await advance(HOUR);
    const setting = watch(timers.set("door-code", at(2)));
    await advance(2 * MINUTE);
    expect(setting.settled).toBe(false);
    await timers.set("door-code", at(1)); // the time that it has: nothing to write
    await timers.clear(); // skips what is processed
    release();
    await advance(1000);
    expect(setting.settled).toBe(true);
    expect(await list()).toEqual([scheduled("door-code", at(2))]);
    await advance(HOUR);
    expect(callback).toHaveBeenCalledTimes(2);
  });

  test("set rejects if the handler is closed while the timer is processed", async () => {
    const { callback, release } = heldCallback();
    const { webhooks, timers } = withTimers(undefined, { on: { "booking.timer.door-code": callback } });
    webhooks.start();
    await timers.set("door-code", at(1));
    await advance(HOUR);
    const failed = vi.fn();
    timers.set("door-code", at(2)).catch(failed);
    const closing = webhooks.close({ timeout: MINUTE });
    await advance(500);
    const message = expect.stringContaining("The timer door-code of booking:A1 was not set");
    expect(failed.mock.calls).toMatchObject([[{ message }]]);
    release();
    await closing;
  });
});

test("a timer is due at its time, however long the write beside it takes", async () => {
  const slow = () => new Promise<void>((resolve) => setTimeout(resolve, 5000));
  const store = memoryStore({ transaction: async (run: (tx: undefined) => unknown) => run(undefined) });
  const times: number[] = [];
  const set = (event: { timers: EventTimers }) => {
    (event as unknown as { atomically(write: () => Promise<void>): void }).atomically(slow);
    event.timers.set("door-code", at(times.length + 1));
  };
  const { deliver, list } = withTimers(set, {
    store,
    on: {
      "booking.timer.door-code": (event) => {
        times.push(Date.now());
        if (times.length < 3) set(event);
      },
    },
  } as Options);
  await deliver();
  await advance(5000);
  expect((await store.list({ source: "timer", limit: 10 }))[0]?.dueAt).toEqual(at(1));
  await advance(4 * HOUR);
  // A timer that sets itself is no later each time.
  expect(times).toEqual([1, 2, 3].map((hours) => Number(at(hours))));
  expect(await list()).toMatchObject([{ at: at(3), state: "done" }]);
});
