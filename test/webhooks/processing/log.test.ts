import { sharedSecret } from "stayhook";
import { beforeEach, describe, expect, test, vi } from "vitest";
import type { LogEntry } from "../../../src/logger.ts";
import { advance, delivered, handlerOf, notificationOf, useFakeTime } from "../support.ts";

useFakeTime();

let warned: ReturnType<typeof vi.spyOn>;
let errors: ReturnType<typeof vi.spyOn>;

beforeEach(() => {
  warned = vi.spyOn(console, "warn").mockImplementation(() => {});
  errors = vi.spyOn(console, "error").mockImplementation(() => {});
});

const lines = (spy: ReturnType<typeof vi.spyOn>): string[] =>
  spy.mock.calls.map((call: unknown[]) => String(call[0]));
const thrown = new Error("no calendar");
const failing = { "booking.Confirmed": () => Promise.reject(thrown) };

describe("by default, the console gets", () => {
  test("a failed attempt with the stack of the callback's error, and a parked event", async () => {
    const { notification } = await delivered(
      { bookingCode: "A1" },
      { logger: undefined, maxAttempts: 2, backoff: () => 90_000, on: failing },
    );
    const name = `event ${notification.eventId} (booking.Confirmed, booking:A1)`;
    const [line, ...frames] = lines(warned).at(-1)!.split("\n");
    expect(line).toBe(
      `stayhook: attempt 1 at ${name} failed (callback). The next attempt is in 1.5 min. Error: no calendar`,
    );
    expect(frames[0]).toContain("log.test.ts");
    await advance(90_000);
    expect(lines(errors)[0]).toMatch(
      `stayhook: gave up on ${name} (callback). The event is parked. To try again, replay the event. Error: no calendar\n`,
    );
  });

  test("a wrong token, and the end of the pause", async () => {
    const { platform, notify } = handlerOf({ logger: undefined });
    platform.answer("A1", { status: 401 });
    await notify("A1");
    expect(lines(warned)).toContainEqual(
      expect.stringMatching(
        /requests to the platform fail\. The next request is in (0\.9|1|1\.1) s\. .*AuthenticationError: GET .* was answered with 401/,
      ),
    );
    // The attempt does not count, so the line gives it no number.
    expect(lines(warned)).toContainEqual(
      expect.stringMatching(/^stayhook: an attempt at event .* failed \(unavailable\)/),
    );
    platform.booking("A1", "Confirmed");
    await advance(5000);
    expect(lines(warned)).toContain(
      "stayhook: the pause has ended, because the platform answers again or nothing waits for it",
    );
  });

  test("refused requests, once a minute with their number", async () => {
    const { deliver } = handlerOf({ logger: undefined, verify: sharedSecret({ query: "key", secret: "s" }) });
    for (let n = 0; n < 30; n += 1) await deliver(notificationOf());
    const line = "stayhook: refused a request (401): verify did not accept the request";
    expect(lines(warned).filter((each) => !each.includes("16"))).toEqual([line]);
    await advance(60_000);
    await deliver(notificationOf());
    expect(lines(warned).at(-1)).toBe(`${line} (29 similar lines were left out)`);
  });

  test.each([
    [404, "not-found"],
    [403, "denied"],
  ])(
    "attempts and parked events for forged ids (%i), once a minute with their number",
    async (status, reason) => {
      const { deliver, platform, webhooks } = handlerOf({
        logger: undefined,
        maxAttempts: 2,
        backoff: () => 1000,
      });
      platform.answer("*", { status });
      for (let n = 0; n < 4; n += 1) await deliver(notificationOf({ bookingCode: `F${n}` }));
      await advance(30_000);
      await webhooks.close();
      const suppressed = (spy: ReturnType<typeof vi.spyOn>) =>
        lines(spy).map((line) => [line.includes(`(${reason})`), /\((\d+) similar lines/.exec(line)?.[1]]);
      // These attempts are no calls of the callback, so the lines give them no number.
      expect(lines(warned).some((line) => /attempt \d/.test(line))).toBe(false);
      expect(suppressed(warned).filter(([isOfAttempt]) => isOfAttempt)).toEqual([
        [true, undefined],
        [true, "15"],
      ]);
      expect(suppressed(errors)).toEqual([
        [true, undefined],
        [true, "3"],
      ]);
      // No call of a callback has a number.
      expect(lines(warned).filter((line) => line.includes("attempt 1 at"))).toEqual([]);
    },
  );

  test("an error of `observe` with its stack", async () => {
    const observe = ({ kind }: { kind: string }) => {
      if (kind === "received") throw new Error("no metrics");
    };
    await delivered({}, { logger: undefined, observe });
    const line = lines(warned).find((each) => each.includes("no metrics"));
    expect(line).toMatch(/^stayhook: the `observe` function threw: Error: no metrics\n.*log\.test\.ts/);
  });

  test("nothing if nothing fails", async () => {
    await delivered({ bookingCode: "A1" }, { logger: undefined, on: { fallback: () => {} } });
    expect(lines(warned).filter((line) => !line.includes("memoryStore"))).toEqual([]);
    expect(errors).not.toHaveBeenCalled();
  });
});

test("a logger function gets the details of a failed attempt, and close logs the number of lines left out", async () => {
  const entries: LogEntry[] = [];
  const logger = (entry: LogEntry) => void entries.push(entry);
  const { deliver, webhooks, notification } = await delivered({ bookingCode: "A1" }, { logger, on: failing });
  expect(entries).toEqual([
    {
      level: "warn",
      message: expect.stringMatching(/^stayhook: attempt 1 at .*\. Error: no calendar$/),
      error: thrown,
      eventId: notification.eventId,
      ref: "booking:A1",
      type: "booking.Confirmed",
      attempt: 1,
      reason: "callback",
    },
  ]);
  entries.length = 0;
  for (const _ of [1, 2, 3]) await deliver("not JSON");
  expect(entries).toHaveLength(1);
  await webhooks.close();
  expect(entries[1]).toMatchObject({ level: "warn", suppressed: 2 });
});

test("an observe that throws, or rejects, is logged and changes nothing", async () => {
  const { store, logger } = await delivered(
    {},
    {
      observe: (event) => {
        if (event.kind === "received") throw new Error("first");
        return event.kind === "done" ? Promise.reject(new Error("second")) : undefined;
      },
    },
  );
  expect(await store.counts()).toMatchObject({ done: 1 });
  expect(logger.lines).toEqual([
    expect.stringContaining("the `observe` function threw: Error: first"),
    expect.stringContaining("the `observe` function threw: Error: second"),
  ]);
});
