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
import {
  advance,
  clientOf,
  handlerOf,
  notificationOf,
  platformOf,
  recordingLogger,
  useFakeTime,
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

const failure = (promise: Promise<unknown>): Promise<ProcessingError> =>
  promise.then(
    () => Promise.reject(new Error("did not fail")),
    (error) => {
      expect(error).toBeInstanceOf(ProcessingError);
      return error;
    },
  );

describe("forwardTo", () => {
  test("hands the event over before the answer, and processes nothing itself", async () => {
    let taken: (() => void) | undefined;
    const sent: NewEvent[] = [];
    const { webhooks, platform, deliver } = forwarding({
      send: (event) => {
        sent.push(event);
        return new Promise<void>((resolve) => {
          taken = resolve;
        });
      },
    });
    let answered = false;
    const notification = notificationOf({ bookingCode: "A1" });
    const delivery = deliver(notification).then((response) => {
      answered = true;
      return response;
    });
    await advance(1000);
    expect(answered).toBe(false);
    taken?.();
    expect((await delivery).status).toBe(200);
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

  test("runs the callback each time, whatever `skipUnchanged` says, and touches no store", async () => {
    const callback = vi.fn();
    const { webhooks, platform, store } = handlerOf({
      skipUnchanged: true,
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

  test.each([
    ["no JSON", "{"],
    ["no object", "[]"],
    ["no id", { timestamp: "2026-01-01T00:00:00Z" }],
    ["nothing", undefined],
    [
      "a cycle",
      (() => {
        const circle: Record<string, unknown> = {};
        circle.circle = circle;
        return circle;
      })(),
    ],
  ])("what is no notification (%s) is invalid, and not to be tried again", async (_, given) => {
    const { webhooks } = forwarding();
    expect(await failure(webhooks.process(given as never))).toMatchObject({
      name: "ProcessingError",
      reason: "invalid",
      retryable: false,
      cause: expect.any(InvalidArgumentError),
    });
  });

  test("a failed callback is retryable until maxAttempts", async () => {
    const thrown = new Error("no calendar");
    const { webhooks } = forwarding({ maxAttempts: 4, on: { unknown: () => Promise.reject(thrown) } });
    const attempt = async (n?: number) =>
      failure(webhooks.process(notificationOf(), n === undefined ? undefined : { attempt: n }));
    expect(await attempt()).toMatchObject({ reason: "callback", retryable: true, cause: thrown });
    expect(await attempt(3)).toMatchObject({ retryable: true });
    expect(await attempt(4)).toMatchObject({ retryable: false });
    expect((await attempt()).message).toMatch(/no record\) failed: Error: no calendar/);
  });

  test.each([
    [404, "not-found"],
    [410, "not-found"],
    [403, "denied"],
    [422, "denied"],
  ])("%i is %s, for five attempts", async (status, reason) => {
    const { webhooks, platform } = forwarding();
    platform.answer("A1", { status });
    const attempt = (n: number) =>
      failure(webhooks.process(notificationOf({ bookingCode: "A1" }), { attempt: n }));
    expect(await attempt(4)).toMatchObject({ reason, retryable: true });
    const last = await attempt(5);
    expect(last).toMatchObject({ reason, retryable: false });
    if (status === 404) expect(last.cause).toBeInstanceOf(NotFoundError);
  });

  test("a maxAttempts below five limits unknown records, too", async () => {
    const { webhooks, platform } = forwarding({ maxAttempts: 2 });
    platform.answer("A1", { status: 404 });
    const attempt = (n: number) =>
      failure(webhooks.process(notificationOf({ bookingCode: "A1" }), { attempt: n }));
    expect(await attempt(1)).toMatchObject({ retryable: true });
    expect(await attempt(2)).toMatchObject({ retryable: false });
  });

  test.each([
    [{ status: 503 }, undefined],
    [{ status: 429, headers: { "retry-after": "90" } }, 90],
    [{ status: 401 }, undefined],
    [new TypeError("fetch failed"), undefined],
  ])(
    "out of reach (%j) is always worth another attempt, after what the platform asks",
    async (answer, seconds) => {
      const { webhooks, platform } = forwarding();
      platform.answer("A1", answer);
      expect(
        await failure(webhooks.process(notificationOf({ bookingCode: "A1" }), { attempt: 99 })),
      ).toMatchObject({
        reason: "unavailable",
        retryable: true,
        retryAfter: seconds,
      });
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
    const slow = failure(webhooks.process(notificationOf()));
    await advance(5000);
    expect(aborted).toMatchObject([{ name: "TimeoutError" }]);
    await advance(3000);
    expect(await slow).toMatchObject({ reason: "callback", retryable: true });

    const controller = new AbortController();
    const ended = failure(webhooks.process(notificationOf(), { signal: controller.signal }));
    await advance(100);
    controller.abort(new Error("worker stops"));
    await advance(3000);
    expect(await ended).toMatchObject({
      reason: "callback",
      retryable: true,
      cause: new Error("worker stops"),
    });
    expect(aborted.length).toBe(2);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("an aborted signal is respected, and no listener stays on the caller's signal", async () => {
    const reason = new Error("worker stops");
    const { webhooks } = forwarding({ on: { unknown: () => new Promise(() => {}) } });
    const ended = failure(webhooks.process(notificationOf(), { signal: AbortSignal.abort(reason) }));
    await advance(3000);
    expect(await ended).toMatchObject({ cause: reason });

    const { signal } = new AbortController();
    await forwarding().webhooks.process(notificationOf(), { signal });
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  test("a bad attempt is refused by name", async () => {
    const { webhooks } = forwarding();
    await expect(webhooks.process(notificationOf(), { attempt: 0 })).rejects.toThrow(/attempt: must be/);
  });
});
