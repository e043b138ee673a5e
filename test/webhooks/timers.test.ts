import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { handlerOf, notificationOf } from "./support.ts";

const START = new Date("2026-05-01T12:00:00Z");
const HOUR = 3_600_000;
const at = (hours: number) => new Date(START.getTime() + hours * HOUR);
const advance = (ms = 0) => vi.advanceTimersByTimeAsync(ms);

beforeEach(() => {
  vi.useFakeTimers({ now: START });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Makes a handler whose callback for a booking calls `act`, and records the timers that fire. */
function withTimers(
  act: (event: { timers: import("../../src/webhooks/timers.ts").EventTimers }) => unknown,
  options: Parameters<typeof handlerOf>[0] = {},
) {
  const fired: { name: string; at: Date; now: Date; status: string }[] = [];
  const changed: string[] = [];
  const note = ({ timer, status }: { timer: { name: string; at: Date }; status: string }) =>
    void fired.push({ ...timer, now: new Date(), status });
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
    },
    ...options,
  });
  handler.platform.booking("A1", "Confirmed");
  const deliver = async () => {
    await handler.deliver(notificationOf({ bookingCode: "A1" }));
    await advance();
  };
  return { ...handler, fired, changed, deliver };
}

describe("a timer", () => {
  test("fires at its time, once, although its callback is run again for the same stay", async () => {
    const { deliver, fired, webhooks } = withTimers(({ timers }) => {
      timers.set("door-code", at(2));
      timers.set("arrival-mail", at(1));
    });
    await deliver();
    expect(await webhooks.timers("booking:A1").list()).toEqual([
      { name: "arrival-mail", at: at(1), state: "scheduled" },
      { name: "door-code", at: at(2), state: "scheduled" },
    ]);
    await advance(HOUR - 1);
    expect(fired).toEqual([]);
    await advance(1);
    expect(fired).toEqual([{ name: "arrival-mail", at: at(1), now: at(1), status: "Confirmed" }]);
    await deliver();
    await advance(10 * HOUR);
    await deliver();
    await advance(10 * HOUR);
    expect(fired.map(({ name, now }) => [name, now])).toEqual([
      ["arrival-mail", at(1)],
      ["door-code", at(2)],
    ]);
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

  test("waits for a change that nobody notified, whose callback clears it", async () => {
    const { deliver, fired, platform, changed, webhooks } = withTimers(({ timers }) =>
      timers.set("door-code", at(2)),
    );
    await deliver();
    platform.booking("A1", "Cancelled");
    await advance(3 * HOUR);
    expect(changed).toEqual(["Confirmed", "Cancelled"]);
    expect(fired).toEqual([]);
    expect(await webhooks.timers("booking:A1").list()).toEqual([]);
  });

  test("fires although the change's callback keeps failing", async () => {
    const fail = vi.fn(() => {
      throw new Error("no");
    });
    const { deliver, fired, platform } = withTimers(({ timers }) => timers.set("door-code", at(2)), {
      maxAttempts: 3,
      backoff: () => 60_000,
    });
    await deliver();
    platform.booking("A1", "Declined");
    void fail;
    await advance(3 * HOUR);
    expect(fired).toMatchObject([{ status: "Declined" }]);
  });

  test("is set from outside, and a misspelt name is an error with the nearest one", async () => {
    const { webhooks, fired } = withTimers(() => {});
    const timers = webhooks.timers("booking:A1");
    await expect(timers.set("door-cod", at(1))).rejects.toThrow(/did you mean door-code\?/);
    await timers.set("door-code", at(-1));
    webhooks.start();
    await advance(100);
    expect(fired).toMatchObject([{ name: "door-code", at: at(-1) }]);
    expect(() => webhooks.timers("door")).toThrow("booking:<code> or listing:<id>");
  });
});
