import { getEventListeners } from "node:events";
import {
  createWebhookHandler,
  forwardTo,
  InvalidArgumentError,
  memoryStore,
  NotFoundError,
  ProcessingError,
  type WebhookEvent,
  type WebhookHandler,
} from "stayhook";
import type { NewEvent } from "stayhook/store";
import { describe, expect, test, vi } from "vitest";
import { gate } from "../queue/support.ts";
import {
  advance,
  clientOf,
  handlerOf,
  notificationOf,
  platformOf,
  recordingLogger,
  useFakeTime,
  watch,
} from "./support.ts";

useFakeTime();

/** Makes a handler that forwards its notifications to an array, which stands for a queue. */
function forwarding(options: { send?: (event: NewEvent) => unknown } & Record<string, unknown> = {}) {
  const platform = platformOf();
  const sent: NewEvent[] = [];
  const { send = (event: NewEvent) => void sent.push(event), ...more } = options;
  const webhooks = createWebhookHandler({
    client: clientOf(platform),
    store: forwardTo(send),
    on: {},
    logger: recordingLogger(),
    ...more,
    // At run time, JavaScript users can call functions that the type leaves out.
  }) as WebhookHandler;
  const deliver = (body: unknown) =>
    webhooks.fetch(new Request("https://example.com", { method: "POST", body: JSON.stringify(body) }));
  return { webhooks, platform, sent, deliver };
}

/** Processes a value, and returns the error. */
const failure = (
  webhooks: WebhookHandler,
  given: unknown,
  options?: Parameters<typeof webhooks.process>[1],
) =>
  webhooks.process(given as never, options).then(
    () => Promise.reject(new Error("did not fail")),
    (error: ProcessingError) => {
      expect(error).toBeInstanceOf(ProcessingError);
      return error;
    },
  );

describe("forwardTo", () => {
  test("hands the event over before the answer, and processes nothing itself", async () => {
    const taken = gate();
    const sent: NewEvent[] = [];
    const send = (event: NewEvent) => {
      sent.push(event);
      return taken.opened;
    };
    const { webhooks, platform, deliver } = forwarding({ send });
    const notification = notificationOf({ bookingCode: "A1" });
    const delivery = watch(deliver(notification));
    await advance(1000);
    expect(delivery.settled).toBe(false);
    taken.open();
    await advance();
    expect(delivery.result?.status).toBe(200);
    expect(sent).toMatchObject([
      { eventId: notification.eventId, ref: "booking:A1", notification: JSON.stringify(notification) },
    ]);
    webhooks.start();
    await advance(60_000);
    expect(platform.reads).toEqual([]);
    expect(await webhooks.drain()).toEqual({ done: 0, failed: 0 });
    expect(await webhooks.health()).toMatchObject({ state: "idle", counts: { pending: 0 } });
    await webhooks.close();
    expect((await webhooks.health()).state).toBe("stopped");
    void deliver(notification);
    await advance();
    expect(sent).toHaveLength(2);
  });

  test.each([
    () => Promise.reject(new Error("queue full")),
    () => {
      throw new Error("queue full");
    },
  ])("what the queue does not take is answered 503", async (send) => {
    const { deliver } = forwarding({ send });
    expect((await deliver(notificationOf())).status).toBe(503);
  });

  test("takes a function", () => {
    expect(() => forwardTo("queue" as never)).toThrow(InvalidArgumentError);
  });
});

describe("process", () => {
  test("warns once of a status that is unknown", async () => {
    const logger = recordingLogger();
    const { webhooks, platform } = forwarding({ on: {}, logger, verify: false });
    platform.booking("A1", "Pending");
    for (const _ of [1, 2]) await webhooks.process(notificationOf({ bookingCode: "A1" }));
    expect(logger.lines).toEqual([expect.stringContaining("the status `Pending`")]);
  });

  test("takes the event that forwardTo sent, JSON text, or a notification", async () => {
    const seen: WebhookEvent[] = [];
    const { webhooks, platform, sent, deliver } = forwarding({
      on: { fallback: (event: WebhookEvent) => void seen.push(event) },
    });
    platform.booking("A1", "Confirmed");
    const notification = notificationOf({ bookingCode: "A1", further: "kept" });
    await deliver(notification);
    const overTheWire = JSON.parse(JSON.stringify(sent[0]));
    for (const given of [overTheWire, JSON.stringify(sent[0]), JSON.stringify(notification), notification]) {
      expect(await webhooks.process(given, { attempt: 3 })).toEqual({
        eventId: notification.eventId,
        type: "booking.Confirmed",
        status: "Confirmed",
      });
    }
    expect(seen.length).toBe(4);
    for (const event of seen) {
      expect(event).toMatchObject({
        type: "booking.Confirmed",
        attempt: 3,
        notification,
        changed: true,
      });
    }
  });

  test("runs the callback each time, and touches no store", async () => {
    const callback = vi.fn();
    const { webhooks, platform, store } = handlerOf({
      on: { "booking.Confirmed": callback, unknown: callback },
    });
    platform.booking("A1", "Confirmed");
    for (const notification of [notificationOf({ bookingCode: "A1" }), notificationOf()]) {
      callback.mockClear();
      await webhooks.process(notification);
      await webhooks.process(notification);
      expect(callback).toHaveBeenCalledTimes(2);
    }
    expect(Object.values(await store.counts())).toEqual([0, 0, 0, 0, 0, 0]);
    expect(await store.snapshotOf("booking:A1")).toBeUndefined();
  });

  test("has an atomically that throws, even if the store has transactions", async () => {
    const callback = vi.fn();
    const transactional = Object.create(memoryStore(), { transactional: { value: true } });
    const handler = handlerOf({ store: transactional, on: { unknown: callback } });
    await handler.webhooks.process(notificationOf());
    const { atomically } = callback.mock.calls[0]?.[0] ?? {};
    expect(() => atomically(() => {})).toThrow(/needs a store with transactions/);
  });

  const circle: Record<string, unknown> = {};
  circle.circle = circle;
  test.each([
    ["no JSON", "{"],
    ["no object", "[]"],
    ["no id", { timestamp: "2026-01-01T00:00:00Z" }],
    ["nothing", undefined],
    ["a cycle", circle],
  ])("what is no notification (%s) is invalid, and not to be tried again", async (_, given) => {
    const { webhooks } = forwarding();
    expect(await failure(webhooks, given)).toMatchObject({
      name: "ProcessingError",
      reason: "invalid",
      retryable: false,
      cause: expect.any(InvalidArgumentError),
    });
  });

  const thrown = new Error("no calendar");
  const fails = () => Promise.reject(thrown);
  test.each([
    { what: "a failed callback", status: 200, reason: "callback", maxAttempts: 4, limit: 4, cause: thrown },
    { what: "404", status: 404, reason: "not-found", limit: 5, cause: expect.any(NotFoundError) },
    { what: "410", status: 410, reason: "not-found", limit: 5 },
    { what: "403", status: 403, reason: "denied", limit: 5 },
    { what: "422", status: 422, reason: "denied", limit: 5 },
    { what: "404 with a lower maxAttempts", status: 404, reason: "not-found", maxAttempts: 2, limit: 2 },
  ])("$what is retryable for $limit attempts", async ({ status, reason, maxAttempts = 12, limit, cause }) => {
    const { webhooks, platform } = forwarding({ maxAttempts, on: { fallback: fails } });
    platform.answer("A1", { status, body: { bookingCode: "A1", status: "Confirmed" } });
    const attempt = (n?: number) =>
      failure(webhooks, notificationOf({ bookingCode: "A1" }), n === undefined ? undefined : { attempt: n });
    expect(await attempt()).toMatchObject({ reason, retryable: true });
    expect(await attempt(limit - 1)).toMatchObject({ reason, retryable: true });
    const last = await attempt(limit);
    expect(last).toMatchObject({ reason, retryable: false, cause: cause ?? expect.any(Error) });
    expect(last.message).toMatch(/^Event .* \(booking:A1\) failed: /);
  });

  test.each([
    [{ status: 503 }, undefined],
    [{ status: 429, headers: { "retry-after": "90" } }, 90],
    [{ status: 401 }, undefined],
    [new TypeError("fetch failed"), undefined],
  ])(
    "out of reach (%j) is always worth another attempt, after what the platform asks",
    async (answer, retryAfter) => {
      const { webhooks, platform } = forwarding();
      platform.answer("A1", answer);
      const error = await failure(webhooks, notificationOf({ bookingCode: "A1" }), { attempt: 99 });
      expect(error).toMatchObject({ reason: "unavailable", retryable: true, retryAfter });
    },
  );

  test("attemptTimeout and the caller's signal abort the callback's signal, and the callback may clean up", async () => {
    const aborted: unknown[] = [];
    const { webhooks } = forwarding({
      attemptTimeout: 5000,
      on: {
        unknown: ({ signal }: WebhookEvent) =>
          new Promise(() => signal.addEventListener("abort", () => aborted.push(signal.reason))),
      },
    });
    const reason = new Error("worker stops");
    const attempt = (signal?: AbortSignal) => watch(failure(webhooks, notificationOf(), { signal }));
    const slow = attempt();
    await advance(5000);
    expect(aborted).toMatchObject([{ name: "TimeoutError" }]);
    await advance(3000);
    expect(slow.result).toMatchObject({ reason: "callback", retryable: true });

    const controller = new AbortController();
    const ended = attempt(controller.signal);
    await advance(100);
    controller.abort(reason);
    const before = attempt(AbortSignal.abort(reason));
    await advance(3000);
    for (const { result } of [ended, before])
      expect(result).toMatchObject({ reason: "callback", retryable: true, cause: reason });
    expect(aborted).toHaveLength(2);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("leaves no listener on the caller's signal", async () => {
    const { signal } = new AbortController();
    await forwarding().webhooks.process(notificationOf(), { signal });
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });
});
