import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { Observation, WebhookHandler } from "stayhook";
import type { EventStore } from "stayhook/store";

/** How long a scrape waits for the store, ms. Prometheus itself gives up after 10 s, and then has no sample at all. */
const STORE_LIMIT = 4000;
/** How many events the gauge by type reads for each state. */
const NEWEST = 100;

/** Counters of the requests begin at 0, because `increase` does not see the step from no series to 1. */
const refusals = Object.keys({
  method: 0,
  account: 0,
  "account-failed": 0,
  "secret-failed": 0,
  verify: 0,
  "verify-timeout": 0,
  "too-large": 0,
  encoding: 0,
  "body-timeout": 0,
  aborted: 0,
  "already-read": 0,
  store: 0,
  "store-timeout": 0,
  backlog: 0,
  internal: 0,
} satisfies Record<Extract<Observation, { kind: "refused" }>["reason"], 0>);

/** Makes the metrics of a handler. No label holds an id, because each value of a label is a new time series. */
export function createMetrics(registry: Registry) {
  const registers = [registry];
  const requests = new Counter({
    name: "stayhook_requests_total",
    help: "Requests to the endpoint: received, duplicate, invalid or refused.",
    labelNames: ["result", "reason"],
    registers,
  });
  for (const result of ["received", "duplicate", "invalid"]) requests.inc({ result }, 0);
  for (const reason of refusals) requests.inc({ result: "refused", reason }, 0);
  const attempts = new Counter({
    name: "stayhook_attempts_total",
    help: "Attempts by their end: done, failed or parked.",
    labelNames: ["result", "type", "reason"],
    registers,
  });
  const duration = new Histogram({
    name: "stayhook_attempt_duration_seconds",
    help: "How long an attempt took, with the read of its record and the callback.",
    labelNames: ["result"],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 300],
    registers,
  });
  const delay = new Histogram({
    name: "stayhook_delay_seconds",
    help: "Time from when an event was first due, or was replayed, to the end of its handling.",
    buckets: [0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 21_600, 86_400],
    registers,
  });
  const alarms = new Counter({
    name: "stayhook_alarms_total",
    help: "Alarms: missed and drift of the reconciler, and silent.",
    labelNames: ["kind"],
    registers,
  });
  for (const kind of ["missed", "drift", "silent"]) alarms.inc({ kind }, 0);
  // The first pass of the reconciler may end before the first scrape, which would miss the step of the counter.
  const lastAlarm = new Gauge({
    name: "stayhook_last_alarm_timestamp_seconds",
    help: "When this process last had an alarm: missed, drift or silent.",
    labelNames: ["kind"],
    registers,
  });
  const operations = new Counter({
    name: "stayhook_operations_total",
    help: "Events that people replayed, ran early, discarded or erased in the console.",
    labelNames: ["action"],
    registers,
  });
  for (const action of ["replay", "run now", "discard", "erase"]) operations.inc({ action }, 0);

  return function observe(event: Observation): void {
    switch (event.kind) {
      case "received":
      case "duplicate":
      case "invalid":
        requests.inc({ result: event.kind });
        break;
      case "refused":
        requests.inc({ result: "refused", reason: event.reason });
        break;
      case "done":
      case "failed":
      case "parked":
        attempts.inc({
          result: event.kind,
          type: event.type ?? "unread",
          ...(event.kind !== "done" && { reason: event.reason }),
        });
        duration.observe({ result: event.kind }, event.duration / 1000);
        if (event.kind === "done") delay.observe((Date.now() - event.firstDueAt.getTime()) / 1000);
        break;
      case "missed":
      case "drift":
      case "silent":
        alarms.inc({ kind: event.kind });
        lastAlarm.set({ kind: event.kind }, Date.now() / 1000);
        break;
      case "operated":
        operations.inc({ action: event.action }, event.count);
    }
  };
}

/** Makes the gauges. The returned function sets them within 5 seconds: call it before each scrape. */
export function createGauges(
  registry: Registry,
  webhooks: Pick<WebhookHandler, "health">,
  store: Pick<EventStore<never>, "list">,
) {
  const gauge = <L extends string = never>(name: string, help: string, labelNames: L[] = []) =>
    new Gauge({ name, help, labelNames, registers: [registry] });
  const available = gauge("stayhook_store_available", "1: the store answers.");
  const events = gauge("stayhook_events", "Events in the store by state.", ["state"]);
  const failing = gauge(
    "stayhook_failing_events",
    "Events that wait for a retry or are parked, by type, among the 100 newest of each state.",
    ["state", "type"],
  );
  const oldest = gauge(
    "stayhook_oldest_waiting_seconds",
    "Time since the oldest waiting event was first due, or was replayed.",
  );
  const paused = gauge("stayhook_paused", "1: the platform is out of reach, and this process waits for it.");
  const accounts = gauge(
    "stayhook_paused_accounts",
    "Accounts with a pause of their own, in a handler with accountFrom, such as after a revoked token.",
  );
  // Made with the first notification, because a gauge without a label begins at 0, which would be a time in 1970.
  let received: Gauge | undefined;

  return async function setGauges(): Promise<void> {
    const [health, failures] = await Promise.all([
      withinLimit(webhooks.health()),
      withinLimit(failuresOf(store)),
    ]);
    available.set(health === undefined || health.state === "unavailable" ? 0 : 1);
    if (failures) {
      failing.reset();
      for (const { state, type } of failures) failing.inc({ state, type: type ?? "unread" });
    }
    // While the store is silent, the other gauges keep their last values, so an alert on parked events goes on.
    if (health === undefined) return;
    for (const [state, count] of Object.entries(health.counts ?? {})) events.set({ state }, count);
    if (health.state !== "unavailable" || health.oldestWaitingAge !== undefined)
      oldest.set((health.oldestWaitingAge ?? 0) / 1000);
    if (health.state === "unavailable") return;
    paused.set(health.state === "paused" ? 1 : 0);
    accounts.set(health.pausedAccounts?.count ?? 0);
    if (!health.lastReceivedAt) return;
    received ??= gauge(
      "stayhook_last_received_timestamp_seconds",
      "When a notification was last recorded, by any process. Absent until there is one.",
    );
    received.set(health.lastReceivedAt.getTime() / 1000);
  };
}

async function failuresOf(store: Pick<EventStore<never>, "list">) {
  const states = ["retrying", "parked"] as const;
  return (await Promise.all(states.map((state) => store.list({ state, limit: NEWEST })))).flat();
}

/** Resolves to `undefined` if the answer is late or an error: the next scrape asks again. */
async function withinLimit<T>(answer: Promise<T>): Promise<T | undefined> {
  const late = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => late.resolve(undefined), STORE_LIMIT);
  return Promise.race([answer.catch(() => undefined), late.promise]).finally(() => clearTimeout(timer));
}
