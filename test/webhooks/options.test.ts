import { createWebhookHandler, InvalidArgumentError, memoryStore, sharedSecret, type Verify } from "stayhook";
import { describe, expect, test, vi } from "vitest";
import { clientOf, handlerOf, notificationOf, platformOf } from "./support.ts";

describe("bad options", () => {
  const good = () => ({ client: clientOf(platformOf()), store: memoryStore(), on: {} });

  test.each([
    [{ client: undefined }, "client"],
    [{ store: undefined }, "store"],
    [{ on: undefined }, "on"],
    [{ on: { "booking.Confirmd": () => {} } }, "on.booking.Confirmd"],
    [{ on: { "booking.Confirmed": "callback" } }, "on.booking.Confirmed"],
    [{ verify: true }, "verify"],
    [{ processing: "foreground" }, "processing"],
    [{ autoStart: "no" }, "autoStart"],
    [{ concurrency: 0 }, "concurrency"],
    [{ concurrency: 1.5 }, "concurrency"],
    [{ maxAttempts: Number.NaN }, "maxAttempts"],
    [{ maxBodyBytes: "64kb" }, "maxBodyBytes"],
    [{ attemptTimeout: -1 }, "attemptTimeout"],
    [{ giveUpAfter: Number.NaN }, "giveUpAfter"],
    [{ attemptTimeout: 2 ** 31 }, "attemptTimeout"],
    [{ leaseDuration: 0 }, "leaseDuration"],
    [{ retention: -1 }, "retention"],
    [{ backoff: 5000 }, "backoff"],
    [{ observe: {} }, "observe"],
    [{ logger: { warn: () => {} } }, "logger"],
    [{ maxAttemps: 3 }, "maxAttemps"],
    [{ bodyTimeout: 5 }, "bodyTimeout"],
    [{ recordTimeout: 5 }, "recordTimeout"],
    [{ track: () => ({}) }, "track"],
    [{ track: { bookings: () => ({}) } }, "track.bookings"],
    [{ track: { booking: {} } }, "track.booking"],
    [{ recheckAfter: true }, "recheckAfter"],
    [{ recheckAfter: 0 }, "recheckAfter"],
    [{ recheckAfter: 1.5 }, "recheckAfter"],
    [{ maxBacklog: -1 }, "maxBacklog"],
    [{ silentAfter: 0 }, "silentAfter"],
  ])("%j is refused by its name", (wrong, field) => {
    try {
      createWebhookHandler({ ...good(), ...wrong } as never);
    } catch (error) {
      expect(error).toBeInstanceOf(InvalidArgumentError);
      expect((error as InvalidArgumentError).issues.map(({ path }) => path.join("."))).toEqual([field]);
      return;
    }
    throw new Error("was not refused");
  });

  test("the least and the most that an option takes", () => {
    const least = { replyWithin: 1, silentAfter: 1, attemptTimeout: 1, leaseDuration: 10, concurrency: 1 };
    const none = { giveUpAfter: 0, retention: 0, parkedRetention: 0, snapshotRetention: 0, maxBacklog: 0 };
    const most = { replyWithin: 2 ** 31 - 1, leaseDuration: 2 ** 31 - 1, concurrency: 10_000 };
    for (const options of [{ ...least, ...none, recheckAfter: 1, maxAttempts: 1, maxBodyBytes: 1 }, most])
      createWebhookHandler({ ...good(), verify: false, ...options });
  });

  test.each([
    [
      "booking.Confirmd",
      /^on\.booking\.Confirmd: is not a type of event; did you mean booking\.Confirmed\? The types are/,
    ],
    [
      "booking.timer.Clean",
      /^on\.booking\.timer\.Clean: does not end with the name of a timer: lower-case letters/,
    ],
    ["guest", /^on\.guest: is not a type of event\. The types are/],
  ])("an unknown key of `on`, %s, gets the nearest type", (key, message) => {
    expect(() => createWebhookHandler({ ...good(), on: { [key]: () => {} } } as never)).toThrow(message);
  });

  test.each([
    ["drain", { timeout: "5" }, "timeout"],
    ["drain", { timeout: -1 }, "timeout"],
    ["drain", { timeout: Number.NaN }, "timeout"],
    ["drain", { signal: {} }, "signal"],
    ["drain", null, ""],
    ["drain", { timeOut: 5 }, "timeOut"],
    ["process", { attemp: 2 }, "attemp"],
    ["process", { attempt: 0 }, "attempt"],
    ["close", { signal: undefined }, "signal"],
    ["process", { signal: "now" }, "signal"],
    ["close", { timeout: Number.NaN }, "timeout"],
    ["close", null, ""],
  ] as const)("of %s, %j is refused by its name, and nothing is done", async (method, wrong, field) => {
    const callback = vi.fn();
    const { deliver, webhooks } = handlerOf({ autoStart: false, on: { unknown: callback } });
    await deliver(notificationOf());
    const call =
      method === "process"
        ? webhooks.process(notificationOf(), wrong as never)
        : webhooks[method](wrong as never);
    const error = await call.then(
      () => undefined,
      (reason: unknown) => reason as InvalidArgumentError,
    );
    expect(error).toBeInstanceOf(InvalidArgumentError);
    expect(error?.issues.map(({ path }) => path.join("."))).toEqual([field]);
    expect(callback).not.toHaveBeenCalled();
    expect((await webhooks.health()).state).toBe("idle");
  });

  test("one error names all of them, and lists the types for a misspelled one", () => {
    expect(() =>
      createWebhookHandler({ ...good(), concurrency: 0, on: { "booking.Paid": 1 } } as never),
    ).toThrow(/on\.booking\.Paid: .*booking\.Confirmed.*concurrency/);
    expect(() => createWebhookHandler(undefined as never)).toThrow(InvalidArgumentError);
  });
});

test("the error for a misspelled option names the option that was probably meant", () => {
  expect(() => handlerOf({ maxAttemps: 3 } as never)).toThrow(/unknown option `maxAttemps`.*`maxAttempts`/);
  for (const name of ["retries", "maxRetries"])
    expect(() => handlerOf({ [name]: 3 } as never)).toThrow("did you mean `maxAttempts`?");
});

describe("a handler that strangers may get past warns when it is made", () => {
  const warningsOf = (verify: Verify | false | undefined) => {
    const warn = vi.fn<(message: string) => void>();
    const logger = { debug: () => {}, info: () => {}, warn, error: () => {} };
    createWebhookHandler({ client: clientOf(platformOf()), store: memoryStore(), on: {}, logger, verify });
    return warn.mock.calls.map(([message]) => message);
  };

  test("without verify, once", () => {
    expect(warningsOf(undefined)).toEqual([
      "stayhook: the handler has no `verify` option, so anyone who knows its URL can send notifications. " +
        "Set `verify: sharedSecret(...)`, or `verify: false` if a proxy checks the requests",
    ]);
  });

  test("with verify: false, or a function, it does not", () => {
    expect(warningsOf(false)).toEqual([]);
    expect(warningsOf(() => true)).toEqual([]);
  });

  test("a secret under 16 characters causes a warning that does not show it", () => {
    const secrets = ["a-long-enough-secret", "fifteen-letters"];
    const [warning, ...others] = warningsOf(sharedSecret({ query: "key", secret: secrets }));
    expect(warning).toMatch(/fewer than 16 characters.*openssl rand -hex 32/);
    expect(warning).not.toContain("fifteen");
    expect(others).toEqual([]);
    expect(warningsOf(sharedSecret({ query: "key", secret: "sixteen-letters!" }))).toEqual([]);
  });
});
