// The health of the handler, as Prometheus reads it. The gauges of the store are the same on each process that shares it,
// so alert on their `max`. For counters and histograms of attempts, see examples/prometheus.
import type { Health } from "stayhook";

/** Returns the metrics in the text format of Prometheus. */
export function metricsOf(health: Health): string {
  const isAvailable = health.state !== "unavailable";
  const counts = Object.entries(health.counts ?? {});
  return [
    ...gauge("stayhook_store_available", "1: the store answers.", [["", isAvailable ? 1 : 0]]),
    ...gauge(
      "stayhook_events",
      "Events in the store by state.",
      counts.map(([state, count]) => [`{state="${state}"}`, count]),
    ),
    ...gauge("stayhook_oldest_waiting_seconds", "Age of the oldest event that waits to be handled.", [
      ["", (health.oldestWaitingAge ?? 0) / 1000],
    ]),
    ...gauge("stayhook_paused", "1: the platform is out of reach.", [
      ["", health.state === "paused" ? 1 : 0],
    ]),
    ...gauge("stayhook_paused_accounts", "Accounts with a pause of their own, such as a revoked token.", [
      ["", health.pausedAccounts?.count ?? 0],
    ]),
    "",
  ].join("\n");
}

function gauge(name: string, help: string, samples: [labels: string, value: number][]): string[] {
  if (samples.length === 0) return [];
  const lines = samples.map(([labels, value]) => `${name}${labels} ${value}`);
  return [`# HELP ${name} ${help}`, `# TYPE ${name} gauge`, ...lines];
}
