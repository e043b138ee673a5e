import type { StayhookClient } from "../../client/client.ts";
import { AuthenticationError, NotFoundError, PermissionDeniedError } from "../../client/errors.ts";
import type { WebhookConfig } from "../../models/webhook-config.ts";
import { type Check, failed, passed, skipped, warned } from "./check.ts";

/** How far the clocks may be apart, ms. A slow answer explains less; more makes deadlines wrong. */
const TOLERANCE = 60_000;

export interface PlatformChecks {
  readonly checks: readonly Check[];
  readonly config: WebhookConfig | undefined;
}

/** Checks the token, the configuration and the clocks with one request that changes nothing. */
export async function checkPlatform(client: StayhookClient, signal: AbortSignal): Promise<PlatformChecks> {
  try {
    const { data, response } = await client.webhookConfig.get({ signal }).withResponse();
    return {
      checks: [
        passed("access token", "the platform takes it"),
        checkClock(response.headers),
        ...checkConfig(data),
      ],
      config: data,
    };
  } catch (error) {
    signal.throwIfAborted();
    // This platform answers 404 where there is no configuration.
    if (error instanceof NotFoundError)
      return {
        checks: [
          passed("access token", "the platform takes it"),
          checkClock(error.headers),
          ...checkConfig(undefined),
        ],
        config: undefined,
      };
    return { checks: [failed(...trouble(error))], config: undefined };
  }
}

function trouble(error: unknown): [check: string, detail: string] {
  const said = error instanceof Error ? error.message : String(error);
  if (error instanceof AuthenticationError || error instanceof PermissionDeniedError)
    return ["access token", `the platform refuses it: ${said}`];
  return ["platform", said];
}

function checkConfig(config: WebhookConfig | undefined): Check[] {
  if (!config) return [failed("configuration", "there is none: make one with stayhook config ensure")];
  const topics = Object.keys(config.endpoints);
  const missing = ["bookings", "listings"].filter((topic) => !topics.includes(topic));
  return [
    config.isActive
      ? passed("configuration", "it is on")
      : failed(
          "configuration",
          "it is off, so the platform sends nothing: switch it on with stayhook config on",
        ),
    ...(topics.length === 0 ? [failed("endpoints", "none is configured: stayhook config ensure")] : []),
    ...(topics.length > 0 && missing.length > 0
      ? [warned("endpoints", `the platform sends nothing for ${missing.join(" and ")}, which have no URL`)]
      : []),
  ];
}

function checkClock(headers: Headers): Check {
  const date = Date.parse(headers.get("date") ?? "");
  if (Number.isNaN(date)) return skipped("clock", "the platform's answer has no Date header to compare with");
  const apart = Math.round((Date.now() - date) / 1000);
  if (Math.abs(apart) * 1000 <= TOLERANCE) return passed("clock", "it agrees with the platform's");
  const direction = apart > 0 ? "ahead of" : "behind";
  return failed(
    "clock",
    `this machine is ${Math.abs(apart)} s ${direction} the platform: deadlines would be wrong`,
  );
}
