import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { Observation, WebhookHandler } from "stayhook";

/** Makes the metrics of a handler. No label holds an id, because each value of a label is a new time series. */
export function createMetrics(registry: Registry) {
  const registers = [registry];
  const requests = new Counter({
    name: "stayhook_requests_total",
    help: "Requests to the endpoint: received, duplicate, invalid or refused.",
    labelNames: ["result", "reason"],
    registers,
  });
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
    help: "Time from the receipt of an event to the end of its handling.",
    buckets: [0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 21_600, 86_400],
    registers,
  });
  const alarms = new Counter({
    name: "stayhook_alarms_total",
    help: "Alarms: missed and drift of the reconciler, and silent.",
    labelNames: ["kind"],
    registers,
  });
  // Start alert counters at 0. Otherwise Prometheus would not see their first increase.
  for (const kind of ["missed", "drift", "silent"]) alarms.inc({ kind }, 0);

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
        if (event.kind === "done") delay.observe((Date.now() - event.receivedAt.getTime()) / 1000);
        break;
      case "missed":
      case "drift":
      case "silent":
        alarms.inc({ kind: event.kind });
    }
  };
}

/** Makes the gauges. The returned function sets them: call it before each scrape. */
export function createGauges(registry: Registry, webhooks: Pick<WebhookHandler, "health">) {
  const gauge = <L extends string = never>(name: string, help: string, labelNames: L[] = []) =>
    new Gauge({ name, help, labelNames, registers: [registry] });
  const available = gauge("stayhook_store_available", "1: the store answers.");
  const events = gauge("stayhook_events", "Events in the store by state.", ["state"]);
  const oldest = gauge(
    "stayhook_oldest_waiting_seconds",
    "Age of the oldest event that waits to be handled.",
  );
  const paused = gauge("stayhook_paused", "1: the platform is out of reach, and this process waits for it.");
  const accounts = gauge(
    "stayhook_paused_accounts",
    "Accounts with a pause of their own, in a handler with accountFrom, such as after a revoked token.",
  );
  const received = gauge(
    "stayhook_last_received_timestamp_seconds",
    "When a notification was last recorded, by any process.",
  );

  return async function setGauges(): Promise<void> {
    const health = await webhooks.health();
    available.set(health.state === "unavailable" ? 0 : 1);
    // A store that is unavailable may still tell these, and then an alert on parked events goes on.
    for (const [state, count] of Object.entries(health.counts ?? {})) events.set({ state }, count);
    if (health.state !== "unavailable" || health.oldestWaitingAge !== undefined)
      oldest.set((health.oldestWaitingAge ?? 0) / 1000);
    if (health.state === "unavailable") return;
    paused.set(health.state === "paused" ? 1 : 0);
    accounts.set(health.pausedAccounts?.count ?? 0);
    if (health.lastReceivedAt) received.set(health.lastReceivedAt.getTime() / 1000);
  };
}
