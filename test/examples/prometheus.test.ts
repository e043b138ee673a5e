import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Registry } from "prom-client";
import type { Observation } from "stayhook";
import { expect, onTestFinished, test, vi } from "vitest";
import { choosePort } from "../../examples/day/port.ts";
import { createGauges, createMetrics } from "../../examples/prometheus/metrics.ts";
import { installed } from "../package/support/consumer.ts";
import { eventually } from "../support/eventually.ts";
import { serve } from "../support/serve.ts";
import { handlerOf, notificationOf } from "../webhooks/support.ts";
import { expectRefusals, platform, subscribe } from "./support/drive.ts";
import { startExample } from "./support/example.ts";
import { checkExpressions, hasPrometheus, rulesFile, startPrometheus } from "./support/prometheus.ts";

const rules = readFileSync(rulesFile, "utf8");
const dashboard: {
  readonly panels: readonly {
    readonly title: string;
    readonly targets: readonly { readonly expr: string }[];
  }[];
} = JSON.parse(readFileSync(join(import.meta.dirname, "../../examples/prometheus/dashboard.json"), "utf8"));
const panels = dashboard.panels.flatMap(({ title, targets }) => targets.map(({ expr }) => ({ title, expr })));

type Sample = readonly [name: string, labels: Readonly<Record<string, string>>, value: number];

/** Parses the samples of a scrape. */
function samplesOf(text: string): Sample[] {
  return [...text.matchAll(/^(stayhook_\w+)(?:\{(.*)\})? (\S+)$/gm)].map(
    ([, name = "", labels = "", value]) => [
      name,
      Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, label, text]) => [label, text])),
      Number(value),
    ],
  );
}

function sumOf(samples: readonly Sample[], name: string, labels: object = {}): number {
  const matching = samples.filter(
    ([each, own]) => each === name && Object.entries(labels).every(([label, value]) => own[label] === value),
  );
  return matching.reduce((sum, [, , value]) => sum + value, 0);
}

const attempt = {
  eventId: "7c1f0d7e-3f0a-4d8e-9d8e-0f6f2b3c4d5e",
  ref: "booking:HX3K9",
  attempt: 1,
  // A timer that was set 60 days ago.
  receivedAt: new Date(Date.now() - 60 * 86_400_000),
  firstDueAt: new Date(),
  type: "booking.Confirmed",
  duration: 250,
};
const error = new Error("no calendar");
const observations: Observation[] = [
  { kind: "received", eventId: attempt.eventId, ref: attempt.ref, topic: null },
  { kind: "refused", topic: null, status: 401, reason: "verify" },
  { kind: "started", lateness: undefined, ...attempt },
  { kind: "done", status: "Confirmed", ...attempt },
  { kind: "failed", reason: "callback", error, retryIn: 5000, ...attempt },
  { kind: "parked", reason: "callback", error, ...attempt },
  { kind: "parked", reason: "denied", error, ...attempt, type: undefined },
  { kind: "missed", ref: attempt.ref, changes: {} },
  { kind: "drift", isActive: false, topics: [] },
  { kind: "silent", lastReceivedAt: undefined },
  { kind: "resumed", scope: "everything" },
  { kind: "operated", action: "discard", user: "bo", filter: { state: "parked" }, count: 40 },
];

async function measured() {
  const registry = new Registry();
  const observe = createMetrics(registry);
  for (const observation of observations) observe(observation);
  const counts = { scheduled: 0, pending: 3, processing: 1, retrying: 2, done: 9, parked: 4 };
  const health = vi.fn(async () => ({
    ...{ state: "paused" as const, counts, oldestWaitingAge: 42_000, lastReceivedAt: new Date(5000) },
    ...{ pausedSince: new Date(0), pauseReason: "503", pausedAccounts: { count: 2, first: [] } },
    ...{ pauseScope: "everything" as const, pauseRef: "booking:HX3K9", nextTryAt: new Date() },
  }));
  const list = vi.fn(async ({ state }: { readonly state?: string | undefined }) => [
    { state, type: "booking.Confirmed" },
    ...(state === "retrying" ? [{ state, type: "booking.thing.door-code" }] : []),
    ...(state === "parked"
      ? [
          { state, type: "booking.Confirmed" },
          { state, type: null },
        ]
      : []),
  ]);
  const setGauges = createGauges(registry, { health }, { list } as never);
  await setGauges();
  const text = await registry.metrics();
  return { registry, health, list, setGauges, text, samples: samplesOf(text) };
}

test("observations become counters and histograms, health becomes gauges, and no id becomes a label", async () => {
  const { samples, text, health, setGauges, registry } = await measured();
  const value = (name: string, labels?: object) => sumOf(samples, `stayhook_${name}`, labels);
  expect(value("requests_total", { result: "received" })).toBe(1);
  expect(value("requests_total", { result: "refused", reason: "verify" })).toBe(1);
  expect(value("attempts_total", { result: "parked" })).toBe(2);
  expect(value("attempts_total", { result: "parked", type: "unread", reason: "denied" })).toBe(1);
  expect(value("attempt_duration_seconds_sum", { result: "done" })).toBe(0.25);
  expect(value("delay_seconds_count")).toBe(1);
  expect(value("delay_seconds_sum")).toBeLessThan(60);
  expect(value("events", { state: "retrying" })).toBe(2);
  expect([value("oldest_waiting_seconds"), value("paused"), value("store_available")]).toEqual([42, 1, 1]);
  expect(value("last_received_timestamp_seconds")).toBe(5);
  expect(value("paused_accounts")).toBe(2);
  for (const kind of ["missed", "drift", "silent"]) {
    expect(value("alarms_total", { kind })).toBe(1);
    expect(value("last_alarm_timestamp_seconds", { kind })).toBeCloseTo(Date.now() / 1000, -1);
  }
  expect(value("operations_total", { action: "discard" })).toBe(40);
  expect(value("failing_events", { state: "parked", type: "booking.Confirmed" })).toBe(2);
  expect(value("failing_events", { state: "parked", type: "unread" })).toBe(1);
  expect(value("failing_events", { state: "retrying", type: "booking.thing.door-code" })).toBe(1);
  expect(text).not.toMatch(/HX3K9|7c1f0d7e/);

  const counts = { parked: 7 };
  health.mockResolvedValueOnce({ state: "unavailable", error, counts, oldestWaitingAge: 43_000 } as never);
  await setGauges();
  const later = samplesOf(await registry.metrics());
  expect(sumOf(later, "stayhook_store_available")).toBe(0);
  expect(sumOf(later, "stayhook_events", { state: "parked" })).toBe(7);
  expect(sumOf(later, "stayhook_oldest_waiting_seconds")).toBe(43);
});

test("nothing has a sample before there is one, and each counter of requests begins at 0", async () => {
  const registry = new Registry();
  createMetrics(registry);
  const counts = { scheduled: 0, pending: 0, processing: 0, retrying: 0, done: 0, parked: 0 };
  const health = async () => ({ state: "running" as const, counts });
  await createGauges(registry, { health } as never, { list: async () => [] })();
  const samples = samplesOf(await registry.metrics());
  const names = new Set(samples.map(([name]) => name));
  expect(names).not.toContain("stayhook_last_received_timestamp_seconds");
  expect(names).not.toContain("stayhook_last_alarm_timestamp_seconds");
  expect(samples).toContainEqual(["stayhook_requests_total", { result: "refused", reason: "verify" }, 0]);
});

test("a store that hangs gives samples within 5 seconds, and the last known ones stay", async () => {
  const { registry, health, list, setGauges } = await measured();
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  for (const call of [health, list]) call.mockReturnValueOnce(new Promise<never>(() => {}));
  let isSet = false;
  const set = setGauges().then(() => {
    isSet = true;
  });
  await vi.advanceTimersByTimeAsync(4999);
  expect(isSet).toBe(true);
  await set;
  expect(vi.getTimerCount()).toBe(0);
  const samples = samplesOf(await registry.metrics());
  expect(sumOf(samples, "stayhook_store_available")).toBe(0);
  expect(sumOf(samples, "stayhook_events", { state: "parked" })).toBe(4);
  expect(sumOf(samples, "stayhook_failing_events", { state: "parked" })).toBe(3);
  list.mockResolvedValue([]);
  await setGauges();
  const later = samplesOf(await registry.metrics());
  expect(sumOf(later, "stayhook_store_available")).toBe(1);
  expect(sumOf(later, "stayhook_failing_events")).toBe(0);
});

test("each alert and each panel asks for metrics, labels and values that there are", async () => {
  const { samples } = await measured();
  const alerts = [...rules.matchAll(/expr: (?:>-\n)?([\s\S]*?)\n {8}(?:for|labels):/g)].map(
    ([, text]) => text!,
  );
  expect(alerts).toHaveLength([...rules.matchAll(/- alert:/g)].length);
  expect(alerts.length).toBeGreaterThanOrEqual(8);
  expect(dashboard.panels.length).toBeGreaterThanOrEqual(12);
  const expressions = [...alerts, ...panels.map(({ expr }) => expr)];
  const selectors = expressions.flatMap((text) => [...text.matchAll(/(stayhook_\w+)(?:\{([^}]*)\})?/g)]);
  expect(selectors.length).toBeGreaterThanOrEqual(expressions.length);
  for (const [selector, name = "", matchers = ""] of selectors) {
    const labels = [...matchers.matchAll(/(\w+)(=~|=|!=)"([^"]*)"/g)];
    const fits = (own: string | undefined, operator = "", text = "") => {
      if (own === undefined) return false;
      return operator === "!="
        ? own !== text
        : new RegExp(`^(?:${text.replaceAll("\\\\", "\\")})$`).test(own);
    };
    const matching = samples.filter(
      ([each, own]) =>
        each === name && labels.every(([, label = "", operator, text]) => fits(own[label], operator, text)),
    );
    expect(matching, selector).not.toEqual([]);
  }
});

test.skipIf(!hasPrometheus)("each panel's expression is PromQL", () => {
  checkExpressions(panels.map(({ expr }) => expr));
});

test("the app is scraped, and shuts down", async () => {
  const peers = ["ky", "uuid", "zod", "prom-client", "tdigest", "bintrees", "@opentelemetry/api"];
  const project = await installed(peers);
  const sandbox = await platform();
  const port = await choosePort();
  const example = await startExample({
    ...{ project, sandbox, from: "prometheus", command: [process.execPath, "main.ts"] },
    env: { METRICS_PORT: String(port) },
  });
  await subscribe(sandbox, example);
  await expectRefusals(example);
  const { bookingCode } = await sandbox.bookings.instantBook();
  await example.said(`block ${bookingCode}`);
  const scraped = async () => {
    const response = await fetch(`http://127.0.0.1:${port}/metrics`);
    expect(response.headers.get("content-type")).toContain("text/plain");
    const samples = samplesOf(await response.text());
    expect(sumOf(samples, "stayhook_events", { state: "done" })).toBe(1);
    const attempts = { result: "done", type: "booking.Confirmed" };
    expect(sumOf(samples, "stayhook_attempts_total", attempts)).toBe(1);
    expect(sumOf(samples, "stayhook_requests_total", { result: "duplicate" })).toBe(1);
    expect(sumOf(samples, "stayhook_requests_total", { result: "refused" })).toBeGreaterThan(0);
    expect(sumOf(samples, "stayhook_store_available")).toBe(1);
  };
  await eventually(scraped);
  expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(404);
  expect(await example.stop()).toEqual([0, null]);
});

test.skipIf(!hasPrometheus)(
  "a real Prometheus scrapes it, and rings for the first event that is parked",
  async () => {
    const registry = new Registry();
    const { webhooks, platform, deliver, store } = handlerOf({
      autoStart: false,
      maxAttempts: 1,
      observe: createMetrics(registry),
      on: {
        "booking.Confirmed": () => {
          throw new Error("no calendar");
        },
      },
    });
    const setGauges = createGauges(registry, webhooks, store);
    const url = await serve(async (_request, response) => {
      await setGauges();
      response.setHeader("content-type", registry.contentType).end(await registry.metrics());
    });
    const prometheus = await startPrometheus(Number(new URL(url).port));
    const isUp = async () => expect(await prometheus.query("max(stayhook_store_available)")).toEqual([1]);
    await eventually(isUp);
    expect(await prometheus.firing()).toEqual([]);
    platform.booking("HX3K9", "Confirmed");
    await deliver(notificationOf({ bookingCode: "HX3K9" }));
    await webhooks.drain();
    const rings = async () => expect(await prometheus.firing()).toEqual(["StayhookParked"]);
    await eventually(rings);
    const failing = 'max(stayhook_failing_events{type="booking.Confirmed", state="parked"})';
    expect(await prometheus.query(failing)).toEqual([1]);
    for (const { expr } of panels) await prometheus.query(expr);
    await store.discard({ state: "parked" });
    const isQuiet = async () => expect(await prometheus.firing()).toEqual([]);
    await eventually(isQuiet);
  },
);
