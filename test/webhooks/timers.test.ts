import { memoryStore } from "stayhook";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { EventTimers } from "../../src/webhooks/timers.ts";
import { handlerOf, heldCallback, notificationOf } from "./support.ts";

const START = new Date("2026-05-01T12:00:00Z");
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const at = (hours: number) => new Date(START.getTime() + hours * HOUR);
const advance = (ms = 0) => vi.advanceTimersByTimeAsync(ms);
/** Every event that this suite looks at is retried after a minute. */
const retried = { maxAttempts: 3, backoff: () => MINUTE };

beforeEach(() => {
  vi.useFakeTimers({ now: START });
});
afterEach(() => {
  vi.useRealTimers();
});

type Options = NonNullable<Parameters<typeof handlerOf>[0]>;
type Act = (event: { timers: EventTimers; status: string; eventId: string }) => unknown;

/** Makes a handler whose callback for a booking calls `act`, and records the timers that fire. */
function withTimers(act: Act, { on, ...options }: Options = {}) {
  const fired: { name: string; at: Date; now: Date; status: string; attempt: number }[] = [];
  const changed: string[] = [];
  const note = (event: { timer: { name: string; at: Date }; status: string; attempt: number }) => {
    const { timer, status, attempt } = event;
    fired.push({ ...timer, now: new Date(), status, attempt });
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
    await handler.deliver(notificationOf({ bookingCode: "A1" }));
    await advance();
  };
  const list = () => handler.webhooks.timers("booking:A1").list();
  return { ...handler, fired, changed, deliver, list };
}

const scheduled = (name: string, time: Date) => ({ name, at: time, state: "scheduled" });

describe("a timer", () => {
  test("fires at its time, once, although its callback is run again for the same stay", async () => {
    const { deliver, fired, list } = withTimers(({ timers }) => {
      timers.set("door-code", at(2));
      timers.set("arrival-mail", at(1));
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
    const { deliver, fired } = withTimers(({ timers }) => timers.set("door-code", at(1)), {
      retention: 2 * HOUR,
    });
    await deliver();
    await advance(48 * HOUR);
    await deliver();
    await advance(HOUR);
    expect(fired).toHaveLength(1);
  });

  test("is moved by another time, fired or not", async () => {
    let time = at(2);
    const { deliver, fired } = withTimers(({ timers }) => timers.set("door-code", time));
    await deliver();
    time = at(5);
    await deliver();
    await advance(4 * HOUR);
    expect(fired).toEqual([]);
    await advance(HOUR);
    expect(fired).toMatchObject([{ at: at(5), now: at(5) }]);
    time = at(7);
    await deliver();
    await advance(2 * HOUR);
    expect(fired).toMatchObject([{ at: at(5) }, { at: at(7), now: at(7) }]);
  });

  test("has an event of its own: freshly read, unchanged, with the time as its timestamp", async () => {
    const seen: object[] = [];
    const { deliver, platform } = withTimers(({ timers }) => timers.set("door-code", at(1)), {
      on: { "booking.timer.door-code": (event) => void seen.push(event) },
      track: { booking: ({ status }) => ({ state: status }) },
      skipUnchanged: true,
    });
    await deliver();
    platform.booking("A1", "Confirmed", { guestName: "Ada" });
    await advance(HOUR);
    expect(seen).toMatchObject([
      {
        type: "booking.timer.door-code",
        eventId: "stayhook:timer:booking:A1:door-code",
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

  test("belongs to a listing, too", async () => {
    const fire = vi.fn();
    const { webhooks, platform } = handlerOf({ on: { "listing.timer.photos": fire } });
    platform.listing(7, "Published");
    webhooks.start();
    await webhooks.timers("listing:7").set("photos", at(1));
    await advance(HOUR);
    expect(fire.mock.calls).toMatchObject([[{ listing: { listingId: 7 }, timer: { name: "photos" } }]]);
  });

  test("of a time that has passed fires at once, and those that are due fire in order of time", async () => {
    const { deliver, fired } = withTimers(({ timers }) => {
      timers.set("door-code", at(-1));
      timers.set("arrival-mail", at(-2));
    });
    await deliver();
    await advance(50);
    expect(fired.map(({ name }) => name).sort()).toEqual(["arrival-mail", "door-code"]);
  });
});

describe("set and clear in one attempt", () => {
  test.each<[string, (timers: EventTimers) => void, object[]]>([
    ["set, clear", (t) => [t.set("door-code", at(2)), t.clear("door-code")], []],
    ["set, clear all", (t) => [t.set("door-code", at(2)), t.clear()], []],
    ["clear, set", (t) => [t.clear("door-code"), t.set("door-code", at(2))], [scheduled("door-code", at(2))]],
    ["clear all, set", (t) => [t.clear(), t.set("door-code", at(2))], [scheduled("door-code", at(2))]],
    [
      "set, set",
      (t) => [t.set("door-code", at(2)), t.set("door-code", at(3))],
      [scheduled("door-code", at(3))],
    ],
    ["clear another", (t) => t.clear("arrival-mail"), [scheduled("door-code", at(9))]],
  ])("the last call wins: %s", async (_, act, expected) => {
    const { deliver, list, webhooks } = withTimers(({ timers }) => act(timers));
    await webhooks.timers("booking:A1").set("door-code", at(9));
    await deliver();
    expect(await list()).toEqual(expected);
  });

  test("an attempt that fails has set and cleared nothing", async () => {
    const { deliver, list, webhooks } = withTimers(({ timers }) => {
      timers.clear();
      timers.set("arrival-mail", at(2));
      throw new Error("no");
    }, retried);
    await webhooks.timers("booking:A1").set("door-code", at(9));
    await deliver();
    await advance(10 * MINUTE);
    expect(await list()).toEqual([scheduled("door-code", at(9))]);
  });

  test("clear keeps a timer that has fired, so that the same time does not fire it again", async () => {
    const { deliver, fired, list } = withTimers(({ timers }) => {
      timers.clear();
      timers.set("door-code", at(1));
    });
    await deliver();
    await advance(HOUR);
    await deliver();
    await advance(HOUR);
    expect(fired).toHaveLength(1);
    expect(await list()).toEqual([{ name: "door-code", at: at(1), state: "done" }]);
  });

  test("after the callback has returned, both throw", async () => {
    let kept: EventTimers | undefined;
    const { deliver } = withTimers(({ timers }) => {
      kept = timers;
    });
    await deliver();
    expect(() => kept?.set("door-code", at(1))).toThrow(/after the callback had returned/);
    expect(() => kept?.clear()).toThrow(/after the callback had returned/);
  });

  test("a callback gets the error of a wrong call", async () => {
    const errors: unknown[] = [];
    const { deliver } = withTimers(({ timers }) => {
      for (const [name, time] of [
        ["door-cod", at(1)],
        ["Door", at(1)],
        ["x".repeat(65), at(1)],
        ["door-code", new Date(Number.NaN)],
        ["door-code", "2026-05-01" as unknown as Date],
        ["door-code", new Date(START.getTime() + 1826 * 24 * HOUR + 1)],
      ] as const)
        try {
          timers.set(name, time);
        } catch (error) {
          errors.push((error as Error).message);
        }
      timers.set("door-code", new Date(START.getTime() + 1826 * 24 * HOUR));
    });
    await deliver();
    expect(errors).toEqual([
      expect.stringContaining(
        "`on` has no callback booking.timer.door-cod and no fallback; did you mean door-code?",
      ),
      expect.stringContaining("lower-case letters, digits and hyphens, 64 characters at most"),
      expect.stringContaining("lower-case letters"),
      expect.stringContaining("the time of the timer door-code must be a valid Date"),
      expect.stringContaining("must be a valid Date"),
      expect.stringContaining("more than 5 years away: 2031-05-01T12:00:00.001Z"),
    ]);
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

describe("in its own callback, a timer", () => {
  const own = (act: (timers: EventTimers, runs: number) => void) => {
    let runs = 0;
    const times: Date[] = [];
    const handler = withTimers(({ timers }) => timers.set("door-code", at(1)), {
      on: {
        "booking.timer.door-code": ({ timers }) => {
          times.push(new Date());
          runs += 1;
          act(timers, runs);
        },
      },
    });
    return { ...handler, times };
  };

  test("sets itself again", async () => {
    const { deliver, times } = own((timers, runs) => {
      if (runs < 3) timers.set("door-code", at(1 + runs));
    });
    await deliver();
    await advance(24 * HOUR);
    expect(times).toEqual([at(1), at(2), at(3)]);
  });

  test("is done if it sets itself to the same time", async () => {
    const { deliver, times, list } = own((timers) => timers.set("door-code", at(1)));
    await deliver();
    await advance(24 * HOUR);
    expect(times).toEqual([at(1)]);
    expect(await list()).toMatchObject([{ state: "done" }]);
  });

  test("is done if it clears itself, and clears the others", async () => {
    const { deliver, times, list, webhooks } = own((timers) => timers.clear());
    await webhooks.timers("booking:A1").set("arrival-mail", at(9));
    await deliver();
    await advance(24 * HOUR);
    expect(times).toEqual([at(1)]);
    expect(await list()).toEqual([{ name: "door-code", at: at(1), state: "done" }]);
  });
});

describe("a change that nobody notified comes before a timer", () => {
  const moved = { checkIn: "2026-06-01", checkOut: "2026-06-03" };

  test.each([false, MINUTE] as const)(
    "the cancellation clears it (recheckAfter: %s)",
    async (recheckAfter) => {
      const { deliver, fired, platform, changed, list } = withTimers(
        ({ timers }) => timers.set("door-code", at(2)),
        { recheckAfter },
      );
      await deliver();
      platform.booking("A1", "Cancelled");
      await advance(3 * HOUR);
      if (recheckAfter === false) expect(changed).toEqual(["Confirmed", "Cancelled"]);
      expect(fired).toEqual([]);
      expect(await list()).toEqual([]);
    },
  );

  test("a move moves it", async () => {
    let time = at(2);
    const { deliver, fired, platform } = withTimers(({ timers }) => timers.set("door-code", time));
    await deliver();
    platform.booking("A1", "Confirmed", moved);
    time = at(30);
    await advance(29 * HOUR);
    expect(fired).toEqual([]);
    await advance(HOUR);
    expect(fired).toMatchObject([{ at: at(30), now: at(30) }]);
  });

  test("if the change's callback keeps the time, it fires without a counted attempt", async () => {
    const { deliver, fired, platform, changed } = withTimers(({ timers }) => timers.set("door-code", at(2)));
    await deliver();
    platform.booking("A1", "Confirmed", moved);
    await advance(2 * HOUR + 1000);
    expect(changed).toEqual(["Confirmed", "Confirmed"]);
    expect(fired).toMatchObject([{ attempt: 1 }]);
    expect(fired[0]!.now.getTime() - at(2).getTime()).toBeLessThan(1000);
  });

  test("a drain does not count the waiting timer as failed", async () => {
    const { webhooks, deliver, platform, fired } = withTimers(
      ({ timers }) => timers.set("door-code", at(2)),
      {
        autoStart: false,
      },
    );
    await deliver();
    expect(await webhooks.drain()).toEqual({ done: 1, failed: 0 });
    platform.booking("A1", "Confirmed", moved);
    await advance(2 * HOUR);
    expect(await webhooks.drain()).toEqual({ done: 1, failed: 0 });
    await advance(1000);
    expect(await webhooks.drain()).toEqual({ done: 1, failed: 0 });
    expect(fired).toHaveLength(1);
  });

  test("two timers fire although the change's callback keeps failing", async () => {
    const fail = vi.fn(() => {
      throw new Error("no");
    });
    const { deliver, fired, platform, observed } = withTimers(
      ({ timers }) => {
        timers.set("door-code", at(2));
        timers.set("arrival-mail", at(2));
      },
      { ...retried, on: { "booking.Declined": fail } },
    );
    await deliver();
    platform.booking("A1", "Declined");
    await advance(2 * HOUR);
    expect(fired).toEqual([]);
    await advance(HOUR);
    expect(fail).toHaveBeenCalledTimes(3);
    expect(fired.map(({ name, status, attempt }) => [name, status, attempt]).sort()).toEqual([
      ["arrival-mail", "Declined", 1],
      ["door-code", "Declined", 1],
    ]);
    const failures = observed.filter(({ kind }) => kind === "failed" || kind === "parked");
    expect(failures.every((event) => "type" in event && event.type === "booking.Declined")).toBe(true);
  });

  test("it waits once for each time that was set, and writes no snapshot", async () => {
    const fail = vi.fn(() => {
      throw new Error("no");
    });
    const { deliver, fired, platform, webhooks, store } = withTimers(
      ({ timers }) => timers.set("door-code", at(2)),
      { ...retried, on: { "booking.Declined": fail } },
    );
    await deliver();
    platform.booking("A1", "Declined");
    await advance(3 * HOUR);
    expect(fired).toHaveLength(1);
    expect((await store.snapshotOf("booking:A1"))?.snapshot.status).toBe("Confirmed");
    await webhooks.timers("booking:A1").set("door-code", at(4));
    await advance(2 * HOUR);
    expect(fail).toHaveBeenCalledTimes(6);
    expect(fired).toHaveLength(2);
  });

  test("one that was cleared and set to the same time again waits for a recheck of its own", async () => {
    const fail = vi.fn(() => {
      throw new Error("no");
    });
    const { deliver, fired, platform, webhooks } = withTimers(
      ({ timers }) => timers.set("door-code", at(2)),
      { ...retried, on: { "booking.Declined": fail } },
    );
    await deliver();
    platform.booking("A1", "Declined");
    await advance(2 * HOUR + MINUTE / 2);
    expect(fail).toHaveBeenCalledTimes(1);
    await webhooks.timers("booking:A1").clear();
    await webhooks.timers("booking:A1").set("door-code", at(2));
    await advance(HOUR);
    expect(fail).toHaveBeenCalledTimes(4);
    expect(fired).toHaveLength(1);
  });

  test("the change's event has the time of the change, not that of an earlier notification", async () => {
    const seen: object[] = [];
    const { deliver, platform } = withTimers(({ timers }) => timers.set("door-code", at(2)), {
      recheckAfter: MINUTE,
      on: { "booking.Request": (event) => void seen.push(event) },
    });
    await deliver();
    await deliver(); // unchanged, so it leaves a recheck
    await advance(HOUR);
    platform.booking("A1", "Request");
    await advance(2 * HOUR);
    expect(seen).toMatchObject([{ timestamp: at(2), decideBy: undefined, source: "recheck" }]);
  });

  test("without a snapshot, it runs", async () => {
    const { webhooks, fired, platform } = withTimers(() => {});
    webhooks.start();
    await webhooks.timers("booking:A1").set("door-code", at(1));
    platform.booking("A1", "Cancelled");
    await advance(HOUR);
    expect(fired).toMatchObject([{ status: "Cancelled" }]);
  });

  test("a notification in another process clears it in time", async () => {
    const store = memoryStore();
    const one = withTimers(({ timers }) => timers.set("door-code", at(2)), { store });
    const other = withTimers(() => {}, { store });
    await one.deliver();
    await advance(2 * HOUR - 1);
    one.platform.booking("A1", "Cancelled");
    other.platform.booking("A1", "Cancelled");
    await Promise.all([other.deliver(), advance(2)]);
    await advance(HOUR);
    expect([...one.fired, ...other.fired]).toEqual([]);
    expect([...one.changed, ...other.changed]).toEqual(["Confirmed", "Cancelled"]);
  });
});

describe("a timer that fails", () => {
  test("is retried, parked, and replayed with the time that was set", async () => {
    const seen: number[] = [];
    let broken = true;
    const { deliver, list, webhooks, store, fired } = withTimers(
      ({ timers }) => timers.set("door-code", at(1)),
      {
        ...retried,
        on: {
          "booking.timer.door-code": ({ attempt, timer }) => {
            seen.push(attempt);
            if (broken) throw new Error("offline");
            fired.push({ ...timer, now: new Date(), status: "", attempt });
          },
        },
      },
    );
    await deliver();
    await advance(2 * HOUR);
    expect(seen).toEqual([1, 2, 3]);
    expect(await list()).toEqual([{ name: "door-code", at: at(1), state: "parked" }]);
    await deliver(); // the same time: still parked
    expect(await list()).toMatchObject([{ state: "parked" }]);
    broken = false;
    await store.replay({ state: "parked" });
    await advance(MINUTE);
    expect(fired).toMatchObject([{ at: at(1), now: at(2) }]);
    expect((await webhooks.health()).counts).toMatchObject({ parked: 0 });
  });

  test("is taken away by clear when it is parked", async () => {
    const { deliver, list, webhooks } = withTimers(({ timers }) => timers.set("door-code", at(1)), {
      maxAttempts: 1,
      on: {
        "booking.timer.door-code": () => {
          throw new Error("offline");
        },
      },
    });
    await deliver();
    await advance(HOUR);
    await webhooks.timers("booking:A1").clear();
    expect(await list()).toEqual([]);
  });

  test("is parked as not-found if the booking is gone", async () => {
    const { deliver, platform, store, fired } = withTimers(({ timers }) => timers.set("door-code", at(1)), {
      backoff: () => MINUTE,
    });
    await deliver();
    platform.answer("A1", { status: 404 });
    await advance(2 * HOUR);
    expect(await store.get("stayhook:timer:booking:A1:door-code")).toMatchObject({
      state: "parked",
      reason: "not-found",
    });
    expect(fired).toEqual([]);
  });

  test("whose name an older process does not know is retried, then parked, never done", async () => {
    const store = memoryStore();
    const newer = withTimers(() => {}, { store });
    await newer.webhooks.timers("booking:A1").set("arrival-mail", at(1));
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

describe("replay of a scheduled timer", () => {
  test("runs it now, with the time that was set", async () => {
    const { deliver, fired, store } = withTimers(({ timers }) => timers.set("door-code", at(9)));
    await deliver();
    expect(await store.replay({ ref: "booking:A1" })).toBe(1); // the notification, not the timer
    await advance(MINUTE);
    expect(fired).toEqual([]);
    await store.replay({ eventId: "stayhook:timer:booking:A1:door-code" });
    await advance(MINUTE);
    expect(fired).toMatchObject([{ at: at(9) }]);
  });
});

describe("a record that answers with another spelling", () => {
  test("gets the timer", async () => {
    const { webhooks, fired, platform } = withTimers(() => {});
    platform.answer("a1", { status: 200, body: { bookingCode: "A1", status: "Confirmed" } });
    webhooks.start();
    await webhooks.timers("booking:a1").set("door-code", at(1));
    await advance(HOUR + 100);
    expect(fired).toMatchObject([{ at: at(1) }]);
    expect(await webhooks.timers("booking:A1").list()).toMatchObject([{ state: "done" }]);
  });

  test("keeps its own timer if that was set later", async () => {
    const { webhooks, fired, platform } = withTimers(() => {});
    platform.answer("a1", { status: 200, body: { bookingCode: "A1", status: "Confirmed" } });
    webhooks.start();
    await webhooks.timers("booking:a1").set("door-code", at(1));
    await advance(MINUTE);
    await webhooks.timers("booking:A1").set("door-code", at(3));
    await advance(5 * HOUR);
    expect(fired).toMatchObject([{ at: at(3), now: at(3) }]);
  });
});

describe("webhooks.timers", () => {
  test("sets, and a misspelt name is an error with the nearest one", async () => {
    const { webhooks, fired } = withTimers(() => {});
    const timers = webhooks.timers("booking:A1");
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
      const { webhooks } = withTimers(() => {});
      expect(() => webhooks.timers(ref as string)).toThrow("booking:<code> or listing:<id>");
    },
  );

  test("set waits while the timer is processed, and keeps the time", async () => {
    const { callback, release } = heldCallback();
    const times: Date[] = [];
    const { webhooks, list } = withTimers(() => {}, {
      on: {
        "booking.timer.door-code": () => {
          times.push(new Date());
          return times.length === 1 ? callback() : undefined;
        },
      },
    });
    webhooks.start();
    const timers = webhooks.timers("booking:A1");
    await timers.set("door-code", at(1));
    await advance(HOUR);
    let isSet = false;
    const setting = timers.set("door-code", at(2)).then(() => {
      isSet = true;
    });
    await advance((20 * MINUTE) / 10);
    expect(isSet).toBe(false);
    await timers.set("door-code", at(1)); // the time that it has: nothing to write
    await timers.clear(); // skips what is processed
    release();
    await advance(1000);
    await setting;
    expect(await list()).toEqual([scheduled("door-code", at(2))]);
    await advance(HOUR);
    expect(times).toEqual([at(1), at(2)]);
  });

  test("erase deletes them", async () => {
    const { deliver, store, list } = withTimers(({ timers }) => timers.set("door-code", at(1)));
    await deliver();
    await store.erase("booking:A1");
    expect(await list()).toEqual([]);
  });
});

describe("without a store", () => {
  test("process() has no timers: both methods throw", async () => {
    const problems: string[] = [];
    const { webhooks } = withTimers(({ timers }) => {
      for (const call of [() => timers.set("door-code", at(1)), () => timers.clear()])
        try {
          call();
        } catch (error) {
          problems.push((error as Error).message);
        }
    });
    await webhooks.process(notificationOf({ bookingCode: "A1" }));
    expect(problems).toEqual([
      "event.timers.set(): process() has no store, so it has no timers.",
      "event.timers.clear(): process() has no store, so it has no timers.",
    ]);
  });
});

describe("across processes", () => {
  test("a timer that nobody was there to fire is fired by the next process", async () => {
    const store = memoryStore();
    const one = withTimers(({ timers }) => timers.set("door-code", at(2)), { store });
    await one.deliver();
    await one.webhooks.close();
    await advance(5 * HOUR);
    const other = withTimers(() => {}, { store });
    other.webhooks.start();
    await advance(100);
    expect(other.fired).toMatchObject([{ at: at(2) }]);
  });

  test("a clock that is set back makes no timer early", async () => {
    const { deliver, fired } = withTimers(({ timers }) => timers.set("door-code", at(2)));
    await deliver();
    vi.setSystemTime(at(-10));
    await advance(2 * HOUR);
    expect(fired).toEqual([]);
    await advance(11 * HOUR);
    expect(fired.every(({ now }) => now >= at(2))).toBe(true);
    expect(fired).toHaveLength(1);
  });
});

describe("telemetry", () => {
  test("the first attempt at a timer tells how late it started", async () => {
    const store = memoryStore();
    const one = withTimers(({ timers }) => timers.set("door-code", at(2)), { store });
    await one.deliver();
    await one.webhooks.close();
    await advance(5 * HOUR);
    const other = withTimers(() => {}, { store });
    other.webhooks.start();
    await advance(100);
    const lateness = ({ observed }: typeof one) =>
      observed.flatMap((event) => (event.kind === "started" ? [event.lateness] : []));
    expect(lateness(one)).toEqual([undefined]);
    expect(lateness(other)).toEqual([3 * HOUR]);
  });
});
