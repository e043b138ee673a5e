import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SpanKind } from "@opentelemetry/api";
import {
  createWebhookHandler,
  InvalidArgumentError,
  memoryStore,
  StayhookClient,
  type WebhookHandlerOptions,
} from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { telemetry } from "stayhook/otel";
import { createReconciler } from "stayhook/reconcile";
import { sqliteStore } from "stayhook/sqlite";
import type { EventStore, NewEvent } from "stayhook/store";
import { createSandbox } from "stayhook/testing";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { alteredStore, first } from "../queue/support.ts";
import { eventually } from "../support/eventually.ts";
import { makeSdk, type SpanShown } from "./sdk.ts";

// The type of the store's transaction does not matter here.
type Store = EventStore;

/** Starts a platform and a subscriber. Their traces stay in memory. */
async function subscriber({ on = {}, ...options }: Partial<WebhookHandlerOptions> & { store?: Store } = {}) {
  const sdk = makeSdk();
  onTestFinished(() => sdk.end());
  const otel = telemetry(sdk.instruments);
  const platform = createSandbox({ seed: 1 });
  const { url: baseUrl } = await platform.listen();
  onTestFinished(() => platform.close());
  await platform.bookings.create({ bookingCode: "HX3K9", status: "Request" });
  const { accessToken } = platform;
  const client = new StayhookClient({ baseUrl, accessToken, telemetry: otel });
  const { store = memoryStore() as Store } = options;
  const webhooks = createWebhookHandler({
    client,
    on,
    telemetry: otel,
    logger: () => {},
    autoStart: false,
    ...options,
    store,
  });
  onTestFinished(() => webhooks.close({ timeout: 0 }));
  const server = createServer(toNodeHandler(webhooks)).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks?topic=bookings`;
  const deliver = (eventId: string, bookingCode: string) =>
    fetch(url, {
      method: "POST",
      body: JSON.stringify({ eventId, bookingCode, listingId: null, timestamp: "2026-05-01T12:00:00Z" }),
    });
  return { ...sdk, otel, platform, baseUrl, accessToken, client, webhooks, store, deliver };
}

/** Makes a SQLite store that is deleted after the test. */
function temporaryStore() {
  const directory = mkdtempSync(join(tmpdir(), "stayhook-otel-"));
  const path = join(directory, "events.db");
  const store = sqliteStore(path);
  onTestFinished(async () => {
    await store.close();
    rmSync(directory, { recursive: true, force: true });
  });
  return { path, store };
}

const eventId = "0b5a52f6-6f2f-4ed1-8f0b-0f2f4c2b8a01";
const another = "0b5a52f6-6f2f-4ed1-8f0b-0f2f4c2b8a02";

interface Histogram {
  readonly count: number;
  readonly sum: number;
  readonly buckets: { readonly boundaries: number[] };
}

const only = (spans: SpanShown[]): SpanShown => {
  expect(spans.map(({ name }) => name)).toHaveLength(1);
  return spans[0] as SpanShown;
};

describe("the spans of a notification", () => {
  test("are a producer, a consumer that is linked to it, and beneath it the read and the callback's own", async () => {
    const { tracer, spans, baseUrl, webhooks, deliver } = await subscriber({
      on: {
        "booking.Request": async () => {
          await new Promise((resolve) => setTimeout(resolve, 5));
          tracer.startSpan("own work").end();
        },
      },
    });
    expect((await deliver(eventId, "HX3K9")).status).toBe(200);
    await webhooks.drain();

    const messaging = {
      "messaging.system": "stayhook",
      "messaging.destination.name": "bookings",
      "messaging.message.id": eventId,
      "messaging.message.conversation_id": "booking:HX3K9",
    };
    const sent = only(spans("send bookings"));
    expect(sent).toMatchObject({ kind: SpanKind.PRODUCER, failed: false, links: [] });
    expect(sent.attributes).toEqual({
      ...messaging,
      "messaging.operation.name": "send",
      "messaging.operation.type": "send",
    });
    const processed = only(spans("process bookings"));
    expect(processed).toMatchObject({ kind: SpanKind.CONSUMER, parent: undefined, failed: false });
    expect(processed.attributes).toEqual({
      ...messaging,
      "messaging.operation.name": "process",
      "messaging.operation.type": "process",
      "stayhook.attempt": 1,
      "stayhook.outcome": "done",
      "stayhook.event.type": "booking.Request",
    });
    expect(processed.links).toMatchObject([{ traceId: sent.traceId, spanId: sent.spanId, isRemote: true }]);
    expect(processed.duration).toBeGreaterThanOrEqual(4);
    const read = only(spans("GET /v2/bookings/{bookingCode}"));
    expect(read).toMatchObject({ kind: SpanKind.CLIENT, parent: processed.spanId, failed: false });
    expect(read.attributes).toEqual({
      "http.request.method": "GET",
      "http.response.status_code": 200,
      "url.full": `${baseUrl}/v2/bookings/HX3K9`,
      "url.template": "/v2/bookings/{bookingCode}",
      "server.address": "127.0.0.1",
      "server.port": Number(new URL(baseUrl).port),
    });
    expect(only(spans("own work"))).toMatchObject({ parent: processed.spanId, traceId: processed.traceId });
  });

  test("are one trace for the request that brought it, and another for an attempt in another process", async () => {
    const { path, store } = temporaryStore();
    const { spans, baseUrl, accessToken, deliver } = await subscriber({ store: store as never });
    await deliver(eventId, "HX3K9");
    const sent = only(spans());
    const { traceparent } = (await store.get(eventId))!;
    expect(traceparent).toBe(`00-${sent.traceId}-${sent.spanId}-01`);

    const child = fork(
      join(import.meta.dirname, "other-process.ts"),
      [JSON.stringify({ path, baseUrl, accessToken })],
      { stdio: ["ignore", "inherit", "inherit", "ipc"] },
    );
    onTestFinished(() => void child.kill("SIGKILL"));
    const [said] = (await once(child, "message")) as [{ spans: SpanShown[]; active: boolean }];
    expect(said.active).toBe(false);
    const named = (name: string) => only(said.spans.filter((span) => span.name === name));
    const processed = named("process bookings");
    expect(processed.parent).toBeUndefined();
    expect(processed.traceId).not.toBe(named("a request").traceId);
    expect(processed.links).toMatchObject([{ traceId: sent.traceId, spanId: sent.spanId }]);
    expect(named("own work")).toMatchObject({ parent: processed.spanId, traceId: processed.traceId });
    expect(named("GET /v2/bookings/{bookingCode}").parent).toBe(processed.spanId);
  });

  test("have no producer for a duplicate, and say that the store failed", async () => {
    let broken = false;
    const failing = alteredStore(memoryStore(), {
      add: first(() => broken && Promise.reject(new RangeError("disk full"))),
    });
    const { spans, points, deliver } = await subscriber({ store: failing });
    await deliver(eventId, "HX3K9");
    await deliver(eventId, "HX3K9");
    expect(spans()).toHaveLength(1);
    broken = true;
    expect((await deliver(another, "HX3K9")).status).toBe(503);
    expect(spans()).toHaveLength(2);
    expect(spans()[1]).toMatchObject({ name: "send bookings", failed: true, exceptions: ["disk full"] });
    expect(spans()[1]?.attributes).toMatchObject({ "error.type": "RangeError" });
    const sent = await points("messaging.client.sent.messages");
    expect(sent.map(({ value, attributes }) => [value, attributes["error.type"]])).toEqual([
      [1, undefined],
      [1, "RangeError"],
    ]);
  });

  test("say why an attempt failed, each attempt with its own", async () => {
    const fallback = vi.fn().mockRejectedValueOnce(new TypeError("no calendar"));
    const { spans, webhooks, store, deliver } = await subscriber({ on: { fallback }, backoff: () => 0 });
    await deliver(eventId, "HX3K9");
    await webhooks.drain();
    await eventually(async () => {
      await webhooks.drain();
      expect(await store.get(eventId)).toMatchObject({ state: "done" });
    });
    const [failed, done] = spans("process bookings");
    expect(failed).toMatchObject({ failed: true, exceptions: ["no calendar"] });
    expect(failed?.attributes).toMatchObject({
      "error.type": "callback",
      "stayhook.outcome": "retrying",
      "stayhook.attempt": 1,
    });
    expect(done).toMatchObject({ failed: false, exceptions: [] });
    expect(done?.attributes).not.toHaveProperty("error.type");
    expect(done?.attributes).toMatchObject({ "stayhook.attempt": 2 });
    const [producer] = spans("send bookings");
    expect([failed, done].map((span) => span?.links[0]?.spanId)).toEqual([
      producer?.spanId,
      producer?.spanId,
    ]);
  });

  test("cover the user's writes, which run when the end of the event is recorded", async () => {
    const write = () => tracer.startSpan("a write").end();
    const { tracer, spans, webhooks, deliver } = await subscriber({
      store: temporaryStore().store as never,
      on: {
        fallback: (event) => (event as never as { atomically(write: () => void): void }).atomically(write),
      },
    });
    await deliver(eventId, "HX3K9");
    await webhooks.drain();
    expect(only(spans("a write")).parent).toBe(only(spans("process bookings")).spanId);
  });

  test("of the reconciler, and of a recheck, are linked to a producer as well", async () => {
    const { spans, platform, webhooks, deliver } = await subscriber({ recheckAfter: 1 });
    await deliver(eventId, "HX3K9");
    await deliver(another, "HX3K9");
    await webhooks.drain();
    await eventually(async () => {
      await webhooks.drain();
      expect(spans("process bookings")).toHaveLength(3);
    });
    const producers = spans("send bookings");
    expect(producers).toHaveLength(2);
    const consumers = spans("process bookings");
    expect(consumers).toHaveLength(3);
    // On a busy machine, the recheck after the first event comes before that after the second.
    expect(producers.map(({ spanId }) => spanId)).toContain(consumers[2]?.links[0]?.spanId);

    await platform.bookings.approve("HX3K9");
    const reconciler = createReconciler(webhooks, {});
    await reconciler.run();
    await webhooks.drain();
    const [reconciled] = spans("send bookings").slice(2);
    expect(reconciled?.attributes).toMatchObject({ "messaging.message.conversation_id": "booking:HX3K9" });
    expect(spans("process bookings").at(-1)?.links[0]?.spanId).toBe(reconciled?.spanId);
  });

  test("of process() belong to the job of the caller, and are linked to the event that was forwarded", async () => {
    const { tracer, spans, webhooks, deliver, store } = await subscriber();
    await deliver(eventId, "HX3K9");
    const { ref, source, topic, timestamp, notification, traceparent } = (await store.get(eventId))!;
    const event: NewEvent = { eventId, ref, source, topic, timestamp, notification, traceparent };
    await tracer.startActiveSpan("job", async (span) => {
      await webhooks.process(JSON.parse(JSON.stringify(event)));
      span.end();
    });
    const processed = only(spans("process bookings"));
    expect(processed.parent).toBe(only(spans("job")).spanId);
    expect(processed.links[0]?.spanId).toBe(only(spans("send bookings")).spanId);
    const gone = { eventId: another, bookingCode: "GONE", listingId: null };
    await expect(webhooks.process(gone as never)).rejects.toThrow("404");
    expect(spans("process bookings").at(-1)?.attributes).toMatchObject({
      "error.type": "not-found",
      "stayhook.outcome": "retrying",
    });
  });
});

describe("the span of a request", () => {
  test("counts how often it was sent, and shows neither query nor token", async () => {
    const { spans, platform, client, accessToken } = await subscriber();
    platform.faults.set([{ route: "GET /v2/bookings/{bookingCode}", status: 503, times: 1 } as never]);
    await client.bookings.get("HX3K9", { query: { secret: "a-secret" } });
    const reads = spans("GET /v2/bookings/{bookingCode}");
    expect(reads.map(({ attributes }) => attributes["http.response.status_code"])).toEqual([503, 200]);
    expect(reads.map(({ attributes }) => attributes["http.request.resend_count"])).toEqual([undefined, 1]);
    expect(reads.map(({ attributes }) => attributes["error.type"])).toEqual(["503", undefined]);
    expect(reads.map(({ failed }) => failed)).toEqual([true, false]);
    expect(JSON.stringify(spans())).not.toContain("a-secret");
    expect(JSON.stringify(spans())).not.toContain(accessToken);
  });

  test("names the error where there is no answer", async () => {
    const sdk = makeSdk();
    onTestFinished(() => sdk.end());
    const client = new StayhookClient({
      baseUrl: "https://platform.example",
      accessToken: "secret-token",
      maxRetries: 0,
      fetch: async () => Promise.reject(Object.assign(new Error("refused"), { code: "ECONNREFUSED" })),
      telemetry: telemetry(sdk.instruments),
    });
    await expect(client.listings.get(7)).rejects.toThrow("connection refused");
    const { attributes, failed, exceptions } = only(sdk.spans());
    expect(failed).toBe(true);
    expect(exceptions[0]).toContain("connection refused");
    expect(attributes).toEqual({
      "http.request.method": "GET",
      "url.full": "https://platform.example/v2/listings/7",
      "url.template": "/v2/listings/{listingId}",
      "server.address": "platform.example",
      "server.port": 443,
      "error.type": "ConnectionError",
    });
  });
});

describe("the metrics", () => {
  test("count and time the messages by topic, and name no event", async () => {
    const { points, webhooks, deliver } = await subscriber();
    await deliver(eventId, "HX3K9");
    await deliver(eventId, "HX3K9");
    await deliver(another, "GONE");
    await webhooks.drain();
    const operation = (name: string) => ({
      "messaging.system": "stayhook",
      "messaging.destination.name": "bookings",
      "messaging.operation.name": name,
      "messaging.operation.type": name,
    });
    expect(await points("messaging.client.sent.messages")).toEqual([
      { value: 2, attributes: operation("send"), unit: "{message}" },
    ]);
    const failed = { ...operation("process"), "error.type": "not-found" };
    const byError = <T extends { attributes: object }>(all: T[]) =>
      all.toSorted((one) => ("error.type" in one.attributes ? 1 : -1));
    expect(byError(await points("messaging.client.consumed.messages"))).toEqual([
      { value: 1, attributes: operation("process"), unit: "{message}" },
      { value: 1, attributes: failed, unit: "{message}" },
    ]);
    const durations = byError(await points("messaging.process.duration"));
    expect(durations.map(({ attributes, unit }) => [attributes, unit])).toEqual([
      [operation("process"), "s"],
      [failed, "s"],
    ]);
    const { count, sum, buckets } = durations[0]!.value as Histogram;
    expect(count).toBe(1);
    expect(sum).toBeGreaterThan(0);
    expect(sum).toBeLessThan(5);
    expect(buckets.boundaries).toEqual([
      0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
    ]);
    const observed = await points("stayhook.observations");
    const kinds = Object.fromEntries(observed.map(({ attributes, value }) => [attributes.kind, value]));
    expect(kinds).toEqual({ received: 2, duplicate: 1, started: 2, done: 1, failed: 1 });
    const all = [observed, durations, await points("messaging.client.sent.messages")];
    expect(JSON.stringify(all)).not.toMatch(/HX3K9|GONE|0b5a52f6/);
  });

  test("show how many events wait, the age of the oldest, and the parked ones, asking once a second", async () => {
    vi.useFakeTimers({ toFake: ["performance", "Date"] });
    onTestFinished(() => void vi.useRealTimers());
    const memory = memoryStore();
    let counted = 0;
    const store = alteredStore(memory, {
      counts: first(() => {
        counted += 1;
      }),
    });
    const { points, webhooks, deliver } = await subscriber({
      ...{ store, backoff: () => 0, maxBacklog: Infinity },
    });
    const gauges = async () => [
      (await points("stayhook.events.waiting"))[0]?.value,
      (await points("stayhook.events.oldest_age"))[0]?.value,
      (await points("stayhook.events.parked"))[0]?.value,
    ];
    expect(await gauges()).toEqual([0, 0, 0]);
    expect(counted).toBe(1);
    await deliver(eventId, "GONE");
    await deliver(another, "LOST");
    vi.advanceTimersByTime(5000);
    expect(await gauges()).toEqual([2, 5, 0]);
    expect(counted).toBe(2);
    for (let refusals = 0; refusals < 5; refusals += 1) await webhooks.drain();
    vi.advanceTimersByTime(1000);
    expect(await gauges()).toEqual([0, 0, 2]);
    const [{ attributes, unit } = {} as never] = await points("stayhook.events.oldest_age");
    expect([attributes, unit]).toEqual([{ "messaging.system": "stayhook" }, "s"]);
    await webhooks.close();
    counted = 0;
    vi.advanceTimersByTime(5000);
    await gauges();
    expect(counted).toBe(0);
  });
});

test("show what this process pauses", async () => {
  const { points, webhooks, deliver, platform } = await subscriber();
  platform.faults.set([{ route: "GET /v2/bookings/{bookingCode}", status: 429 }]);
  const paused = async () =>
    Object.fromEntries(
      (await points("stayhook.paused")).map(({ attributes, value }) => [
        attributes["stayhook.pause.scope"],
        value,
      ]),
    );
  expect(await paused()).toEqual({ everything: 0, bookings: 0, listings: 0 });
  await deliver(eventId, "LIMITED");
  await webhooks.drain();
  expect(await paused()).toEqual({ everything: 1, bookings: 0, listings: 0 });
});

test("count the accounts that this process has paused", async () => {
  const { points, otel } = await subscriber();
  const count = async () =>
    (await points("stayhook.paused.accounts")).map(({ value, attributes }) => {
      expect(JSON.stringify(attributes)).not.toContain("a17");
      return value;
    });
  const pause = { kind: "paused", since: new Date(), reason: "refused", wait: 1, error: undefined } as const;
  expect(await count()).toEqual([0]);
  otel.observe({ ...pause, scope: "bookings", account: "a17" } as never);
  otel.observe({ ...pause, scope: "listings", account: "a17" } as never);
  otel.observe({ ...pause, scope: "account", account: "b2" } as never);
  expect(await count()).toEqual([2]);
  expect((await points("stayhook.paused")).map(({ value }) => value)).toEqual([0, 0, 0]);
  otel.observe({ kind: "resumed", scope: "bookings", account: "a17" });
  otel.observe({ kind: "resumed", scope: "account", account: "b2" });
  expect(await count()).toEqual([1]);
});

test("without an SDK, no event has a traceparent", async () => {
  const { webhooks, store, deliver } = await subscriber({ telemetry: telemetry() });
  await deliver(eventId, "GONE");
  await webhooks.drain();
  expect(await store.get(eventId)).toMatchObject({ traceparent: null, state: "retrying" });
});

test("a traceparent that is none makes no link", async () => {
  const { spans, webhooks, store } = await subscriber();
  const base = { ref: null, source: "webhook", topic: "bookings", notification: "{}" } as const;
  const timestamp = "2026-05-01T12:00:00Z";
  for (const [index, traceparent] of ["", "00-zz", `00-${"0".repeat(32)}-${"0".repeat(16)}-01`].entries())
    await store.add({ ...base, timestamp, eventId: `e${index}`, traceparent } as NewEvent);
  await webhooks.drain();
  expect(spans("process bookings").map(({ links }) => links)).toEqual([[], [], []]);
});

test("a misspelled or wrong option throws", () => {
  expect(() => telemetry({ trace: {} } as never)).toThrow(InvalidArgumentError);
  expect(() => telemetry({ tracer: {} as never })).toThrow("tracer: must be an OpenTelemetry tracer");
  expect(() => telemetry({ meter: {} as never })).toThrow("meter: must be an OpenTelemetry meter");
  expect(() => telemetry(null as never)).toThrow(InvalidArgumentError);
});

test("a timer's lateness is measured, and a timer that meets a change is no error", async () => {
  const at = new Date(Date.now() - 5000);
  const { platform, webhooks, points, spans, deliver } = await subscriber({
    recheckAfter: false,
    on: {
      "booking.Confirmed": ({ timers }) => timers.set("door-code", at),
      "booking.timer.door-code": () => {},
    },
  });
  const { bookingCode } = await platform.bookings.create({ status: "Confirmed" });
  await deliver(crypto.randomUUID(), bookingCode);
  await webhooks.drain();
  const [point] = await points("stayhook.timer.lateness");
  expect(point).toMatchObject({ attributes: { "messaging.system": "stayhook" }, unit: "s" });
  const { count, sum } = point!.value as { count: number; sum: number };
  expect(count).toBe(1);
  expect(sum).toBeGreaterThan(4.9);
  await webhooks.timers(`booking:${bookingCode}`).set("door-code", new Date());
  await platform.bookings.alter(bookingCode, { checkIn: "2027-07-01", checkOut: "2027-07-05" });
  await webhooks.drain();
  expect(spans().filter(({ attributes }) => attributes["error.type"] !== undefined)).toEqual([]);
});
