import { AccessTokenError } from "stayhook";
import { describe, expect, test, vi } from "vitest";
import * as z from "zod";
import {
  type Answer,
  advance,
  clientOf,
  delivered,
  HOUR,
  handlerOf,
  notificationOf,
  useFakeTime,
} from "../support.ts";

useFakeTime();

async function failing(answer: Answer, options: Parameters<typeof handlerOf>[0] = {}) {
  const handler = handlerOf(options);
  handler.platform.answer("A1", answer);
  const eventId = await handler.notify("A1");
  return { ...handler, event: () => handler.store.get(eventId) };
}

describe("the recorded error of a callback", () => {
  const cause = Object.assign(new Error("connect ECONNREFUSED 10.0.0.7:5432"), { code: "ECONNREFUSED" });
  const saveStay = () => {
    throw new Error("Invalid invocation ".repeat(200), { cause });
  };
  test("has the cause behind a long message, and the frames of the user's code", async () => {
    const { event } = await failing(
      { status: 200, body: { bookingCode: "A1", status: "Request" } },
      {
        on: { booking: () => saveStay() },
      },
    );
    const { error = "" } = (await event())?.history[0] ?? {};
    expect(error).toMatch(/^Error: Invalid .*… <- Error: connect ECONNREFUSED 10\.0\.0\.7:5432\n/);
    expect(error).toMatch(/\n {4}at saveStay \(\S*failures\.test\.ts:\d+:\d+\)\n/);
    expect(error).not.toMatch(/node_modules|src\/|node:/);
  });

  test("of a failed read has no frames", async () => {
    const { event } = await failing({ status: 404 });
    expect((await event())?.history[0]?.error).not.toContain("\n");
  });
});

describe("a record that the platform refuses", () => {
  const bodies: [string, object][] = [
    ["not-found", { code: 404, message: "no such booking" }],
    ["not-found", { data: null }],
    ["denied", { success: false, message: "not yours" }],
    ["denied", { data: null, error: "not yours" }],
  ];
  test.each<[reason: string, answer: Answer]>([
    ...[404, 410].map((status): [string, Answer] => ["not-found", { status }]),
    ...[400, 402, 403, 406, 409, 422, 451].map((status): [string, Answer] => ["denied", { status }]),
    ...bodies.map(([reason, body]): [string, Answer] => [reason, { status: 200, body }]),
  ])("is %s after five refusals: %j", async (reason, answer) => {
    const { event, platform, observed } = await failing(answer);
    expect(await event()).toMatchObject({ state: "retrying", attempts: 0, refusals: 1, reason });
    await advance(24 * HOUR);
    expect(platform.reads.length).toBe(5);
    expect(await event()).toMatchObject({ state: "parked", attempts: 0, refusals: 5, reason });
    expect(observed.at(-1)).toMatchObject({ kind: "parked", ref: "booking:A1", reason });
  });

  test("maxAttempts does not limit these", async () => {
    const { event, platform } = await failing({ status: 404 }, { maxAttempts: 2 });
    await advance(24 * HOUR);
    expect(platform.reads.length).toBe(5);
    expect(await event()).toMatchObject({ state: "parked", reason: "not-found" });
  });

  test("a record that appears later is handled", async () => {
    const callback = vi.fn();
    const { platform, event } = await failing({ status: 404 }, { on: { "booking.Request": callback } });
    platform.booking("A1", "Request");
    await advance(5100);
    expect(callback).toHaveBeenCalledTimes(1);
    expect((await event())?.state).toBe("done");
  });
});

describe("a platform that is out of reach", () => {
  const answers: [string, Answer][] = [
    ...[300, 301, 302, 401, 408, 429, 500, 502, 503, 504, 599].map((status): [string, Answer] => [
      String(status),
      { status },
    ]),
    ["a network error", new TypeError("fetch failed")],
  ];

  test.each(answers)("%s: not counted, and never parked by attempts", async (_, answer) => {
    const { event } = await failing(answer, { maxAttempts: 2, backoff: () => 1000 });
    expect(await event()).toMatchObject({ state: "retrying", attempts: 0, reason: "unavailable" });
    await advance(30_000);
    expect(await event()).toMatchObject({ state: "retrying", attempts: 0 });
  });

  test.each([429, 503])("%i with Retry-After waits for it, in seconds and as a date", async (status) => {
    for (const value of ["120", () => new Date(Date.now() + 120_000).toUTCString()]) {
      const retryAfter = typeof value === "string" ? value : value();
      const { platform, deliver } = await failing({ status, headers: { "retry-after": retryAfter } });
      platform.booking("A2", "Confirmed");
      await deliver(notificationOf({ bookingCode: "A2" }));
      await advance(118_000);
      expect(platform.reads).toEqual(["A1"]);
      await advance(3000);
      expect(platform.reads).toContain("A2");
    }
  });

  test.each<[string, Answer]>([
    ...[400, 403, 409, 422].map((status): [string, Answer] => [String(status), { status }]),
    ["200 with an error", { status: 200, body: { success: false, message: "slow down" } }],
    ["200 with an error code", { status: 200, body: { error: { code: 429, message: "too many requests" } } }],
  ])("%s with Retry-After is a rate limit", async (_, answer) => {
    const { platform, deliver, event, webhooks } = await failing({
      ...(answer as Exclude<Answer, Error>),
      headers: { "retry-after": "120" },
    });
    platform.booking("A2", "Confirmed");
    await deliver(notificationOf({ bookingCode: "A2" }));
    expect(await event()).toMatchObject({ state: "retrying", attempts: 0, reason: "unavailable" });
    expect(await webhooks.health()).toMatchObject({ state: "paused", pauseScope: "everything" });
    await advance(118_000);
    expect(platform.reads).toEqual(["A1"]);
    platform.booking("A1", "Confirmed");
    await advance(60_000);
    expect((await event())?.state).toBe("done");
  });

  test("is read once for each attempt, because the queue retries, and a 503 of one record does not pause", async () => {
    const { platform, deliver, webhooks } = await failing({ status: 503 });
    platform.booking("A2", "Confirmed");
    await deliver(notificationOf({ bookingCode: "A2" }));
    await advance(2000);
    expect(platform.reads).toEqual(["A1", "A2"]);
    expect((await webhooks.health()).state).toBe("running");
  });

  test("no access token: not counted, pauses at once", async () => {
    let broken = true;
    const accessToken = () => {
      if (broken) throw new Error("vault sealed");
      return "token";
    };
    const { webhooks, observed, event } = await delivered(
      { bookingCode: "A1" },
      { clientOf: (platform) => clientOf(platform, { accessToken }) },
    );
    expect((await webhooks.health()).state).toBe("paused");
    const error = expect.any(AccessTokenError);
    expect(observed.find(({ kind }) => kind === "paused")).toMatchObject({ error });
    expect(await event()).toMatchObject({ attempts: 0, reason: "unavailable" });
    broken = false;
    await advance(5100);
    expect((await event())?.state).toBe("done");
  });
});

test("a timeout aborts the read", async () => {
  let signal: AbortSignal | null | undefined;
  const client = clientOf({
    fetch: (_, init) => {
      signal = init.signal;
      return new Promise(() => {});
    },
  });
  const { deliver } = handlerOf({ client, attemptTimeout: 3000 });
  await deliver(notificationOf({ bookingCode: "A1" }));
  await advance(2999);
  expect(signal?.aborted).toBe(false);
  await advance(1);
  expect(signal?.aborted).toBe(true);
});

test("the beginning of an endless error message is kept", async () => {
  const { event } = await delivered(
    {},
    { on: { unknown: () => Promise.reject(new Error("no ".repeat(1e5))) } },
  );
  const lastError = (await event())?.history.at(-1)?.error;
  expect(lastError).toMatch(/^Error: no no /);
  expect(new TextEncoder().encode(String(lastError)).length).toBeLessThanOrEqual(2048);
});

describe("a record that does not validate", () => {
  test("is tried maxAttempts times, then parked as invalid-record", async () => {
    const { event, platform } = await failing(
      { status: 200, body: { bookingCode: "A1" } },
      { maxAttempts: 7 },
    );
    await advance(72 * HOUR);
    expect(platform.reads.length).toBe(7);
    expect(await event()).toMatchObject({ state: "parked", reason: "invalid-record" });
  });

  test("with a model of the user, too", async () => {
    const booking = z.looseObject({
      bookingCode: z.string(),
      status: z.string(),
      guest: z.string(),
    }) as never;
    const { event } = await delivered(
      { bookingCode: "A1" },
      { clientOf: (platform) => clientOf(platform, { models: { booking } }), maxAttempts: 1 },
    );
    expect(await event()).toMatchObject({ state: "parked", reason: "invalid-record" });
  });

  test("ends an outage, because it is an answer", async () => {
    const { platform, webhooks } = await failing({ status: 401 });
    expect((await webhooks.health()).state).toBe("paused");
    platform.answer("A1", { status: 200, body: { nothing: "useful" } });
    await advance(5100);
    expect((await webhooks.health()).state).toBe("running");
  });
});

test("the stored error shows no token, not even one that the platform echoes", async () => {
  const { event, observed, logger } = await failing({
    status: 403,
    body: { message: "token secret-token may not" },
  });
  const said =
    JSON.stringify([await event(), observed, logger.lines]) +
    String(observed.map((o) => "error" in o && o.error));
  expect(said).not.toMatch(/secret-token/);
  expect((await event())?.history.at(-1)?.error).toMatch(
    /PermissionDeniedError: GET .* was answered with 403/,
  );
});
