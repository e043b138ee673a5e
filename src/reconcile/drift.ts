import type { WebhookConfig } from "../models/webhook-config.ts";
import type { ReconcilerAlarm } from "../webhooks/observe.ts";
import type { Settings } from "./options.ts";

type Drift = Extract<ReconcilerAlarm, { kind: "drift" }>;

/**
 * Compares the platform's webhook configuration with the expected one.
 *
 * @param config - `undefined` where the platform has none
 * @returns `undefined` where it is on and each expected topic has its URL
 */
export function driftOf(config: WebhookConfig | undefined, expect: Settings["expect"]): Drift | undefined {
  const isActive = config?.isActive ?? false;
  const urls: Readonly<Record<string, unknown>> = { ...config?.endpoints };
  const topics = Object.keys(expect).filter(
    (topic) => normalized(urls[topic]) !== normalized(expect[topic] ?? undefined),
  );
  return isActive && topics.length === 0 ? undefined : { kind: "drift", isActive, topics };
}

function normalized(url: unknown): unknown {
  return typeof url === "string" && URL.canParse(url) ? new URL(url).href : (url ?? undefined);
}
