import { sharedSecret } from "stayhook";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { handlerOf, notificationOf } from "../support.ts";

let warned: ReturnType<typeof vi.spyOn>;
let errors: ReturnType<typeof vi.spyOn>;

beforeEach(() => {
  vi.useFakeTimers();
  warned = vi.spyOn(console, "warn").mockImplementation(() => {});
  errors = vi.spyOn(console, "error").mockImplementation(() => {});
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const advance = (ms = 0) => vi.advanceTimersByTimeAsync(ms);
const lines = (spy: ReturnType<typeof vi.spyOn>): string[] =>
  spy.mock.calls.map((call: unknown[]) => String(call[0]));

describe("by default, the console hears of", () => {
  test("a failed attempt, with the stack of what the callback threw, and of an event that is given up", async () => {
    const thrown = new Error("no calendar");
    const { deliver, platform } = handlerOf({
      logger: undefined,
      maxAttempts: 2,
      backoff: () => 90_000,
      on: { "booking.Confirmed": () => Promise.reject(thrown) },
    });
    platform.booking("A1", "Confirmed");
    const { eventId, ...notification } = notificationOf({ bookingCode: "A1" });
    await deliver({ eventId, ...notification });
    await advance();
    expect(warned).toHaveBeenCalledWith(
      `stayhook: booking:A1 (booking.Confirmed) of event ${eventId} failed (callback, attempt 1), the next attempt is in 1.5 min`,
      thrown,
    );
    await advance(90_000);
    expect(errors).toHaveBeenCalledWith(
      `stayhook: booking:A1 (booking.Confirmed) of event ${eventId} is given up (callback) and parked, until it is replayed`,
      thrown,
    );
  });

  test("a wrong token, and the platform's return", async () => {
    const { deliver, platform } = handlerOf({ logger: undefined });
    platform.answer("A1", { status: 401 });
    await deliver(notificationOf({ bookingCode: "A1" }));
    await advance();
    expect(lines(warned)).toContainEqual(
      expect.stringMatching(
        /out of reach; the next try is in \d(\.\d)? s, .*AuthenticationError: GET .* was answered 401/,
      ),
    );
    platform.booking("A1", "Confirmed");
    await advance(5000);
    expect(lines(warned)).toContain("stayhook: the platform answers again");
  });

  test("a base URL that may be wrong", async () => {
    const { deliver } = handlerOf({ logger: undefined, concurrency: 2 });
    for (const bookingCode of ["A", "B"]) await deliver(notificationOf({ bookingCode }));
    await advance();
    expect(lines(warned)).toContainEqual(expect.stringMatching(/is the base URL right\?.*NotFoundError/));
  });

  test("requests that are not let in, once a minute with their number", async () => {
    const { deliver } = handlerOf({ logger: undefined, verify: sharedSecret({ query: "key", secret: "s" }) });
    for (let n = 0; n < 30; n += 1) await deliver(notificationOf());
    expect(lines(warned)).toEqual(["stayhook: refused a request (401): verify said no"]);
    await advance(60_000);
    await deliver(notificationOf());
    expect(lines(warned)[1]).toBe(
      "stayhook: refused a request (401): verify said no (30 of them since it was last said)",
    );
  });

  test("nothing where all goes well", async () => {
    const { deliver, platform } = handlerOf({ logger: undefined, on: { fallback: () => {} } });
    platform.booking("A1", "Confirmed");
    await deliver(notificationOf({ bookingCode: "A1" }));
    await advance();
    expect(lines(warned).filter((line) => !line.includes("memoryStore"))).toEqual([]);
    expect(errors).not.toHaveBeenCalled();
  });
});
