// Compares the platform's webhook configuration with what the app needs.

import { untilAborted } from "../async.ts";
import type { WebhookConfig } from "../models/records.ts";
import type { DriftObservation } from "../webhooks/observability.ts";
import type { ExpectedUrls, Settings } from "./options.ts";
import type { PassContext } from "./records.ts";

export async function checkWebhookConfig(pass: PassContext): Promise<void> {
  const { client, stop, findings } = pass;
  const expected = await expectedEndpoints(pass);
  try {
    // Do not use the reader: an answer about the configuration says nothing about records.
    const config = await client.webhookConfig.get({ signal: stop.signal, maxRetries: 0 });
    warnOf(pass, config, expected);
    const drift = driftOf(config, expected ?? {});
    if (drift) findings.alarm(drift);
  } catch {
    // Report no drift: the configuration could not be read, and may be right.
  }
}

/** Returns `undefined` if the user's function fails. The pass goes on. */
async function expectedEndpoints({
  account,
  expectedEndpoints,
  log,
  stop: { signal },
}: PassContext): Promise<ExpectedUrls | undefined> {
  try {
    return await untilAborted(expectedEndpoints(), signal);
  } catch (error) {
    if (signal.aborted) return undefined;
    const whose = account === undefined ? "" : ` for account ${account}`;
    const message = `\`expectedEndpoints\` failed${whose}, so the webhook configuration was not compared`;
    log.limited("expected", "error", message, { error, account, fromUserCode: true });
    return undefined;
  }
}

/** Warns if the platform sends no notifications, or none for a topic for which the handler has callbacks. */
function warnOf(
  { account, internals, log }: Settings,
  config: WebhookConfig | undefined,
  expected: ExpectedUrls | undefined,
): void {
  // Tests and first steps may have no configuration on purpose.
  if (!config && Object.keys(expected ?? {}).length === 0) return;
  const urls: Readonly<Record<string, unknown>> = { ...config?.endpoints };
  const missing = internals.topics.filter((topic) => urls[topic] === undefined).join(" and ");
  const nothing = "so the platform sends no notifications";
  let problem: string | undefined;
  if (!config) problem = `there is no webhook configuration, ${nothing}`;
  else if (!config.isActive) problem = `the webhook configuration is off, ${nothing}`;
  else if (missing !== "")
    problem = `the webhook configuration has no URL for ${missing}, ${nothing} of ${missing}`;
  if (problem === undefined) return;
  const [whose, option] =
    account === undefined ? ["", ""] : [`account ${account}: `, ` --account ${account}`];
  log.limited("config", "warn", `${whose}${problem}. Run: npx stayhook config ensure${option}`, { account });
}

/**
 * @param config - `undefined` if the platform has no configuration
 * @returns `undefined` if the configuration is active and each expected topic has its URL
 */
function driftOf(config: WebhookConfig | undefined, expected: ExpectedUrls): DriftObservation | undefined {
  const isActive = config?.isActive ?? false;
  const urls: Readonly<Record<string, unknown>> = { ...config?.endpoints };
  const topics = Object.keys(expected).filter(
    (topic) => normalized(urls[topic]) !== normalized(expected[topic]),
  );
  return isActive && topics.length === 0 ? undefined : { kind: "drift", isActive, topics };
}

function normalized(url: unknown): unknown {
  return typeof url === "string" && URL.canParse(url) ? new URL(url).href : (url ?? undefined);
}
