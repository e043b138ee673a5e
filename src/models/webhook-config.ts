import type { ZodBoolean, ZodObject, ZodOptional, ZodType } from "zod";
import * as z from "zod";

/** The topics that the platform names. It may have more. */
export const topics = ["bookings", "listings", "messages"] as const;
/** One of {@link topics}. */
export type Topic = (typeof topics)[number];

/** The URLs that notifications go to, by topic. A topic without a URL is absent. */
export interface Endpoints {
  /** The URL that notifications about bookings go to. */
  bookings?: string | undefined;
  /** The URL that notifications about listings go to. */
  listings?: string | undefined;
  /** The URL that notifications about messages go to. */
  messages?: string | undefined;
}

/**
 * The webhook configuration of the account.
 *
 * The object also has every further field that the platform sent.
 */
export interface WebhookConfig {
  /** Whether the platform sends notifications. */
  isActive: boolean;
  /** The URLs of the topics that this package knows. */
  endpoints: Endpoints;
  /** The URLs of further topics. Absent where there is none. */
  otherEndpoints?: Record<string, string | null> | undefined;
}

// See `BookingSchema`.
type WebhookConfigSchema = ZodObject<{
  isActive: ZodBoolean;
  endpoints: ZodType<Endpoints>;
  otherEndpoints: ZodOptional<ZodType<Record<string, string | null>>>;
}>;

/**
 * The zod schema of the webhook configuration, as the platform sends it: all topics stand in `endpoints`. A topic
 * whose URL is `null` or `""` is unset, and left out.
 */
export const WebhookConfig: WebhookConfigSchema = z
  .looseObject({
    isActive: z.boolean(),
    endpoints: z.record(z.string(), z.unknown()).nullable(),
    otherEndpoints: z.record(z.string(), z.unknown()).optional(),
  })
  // Not `transform`, whose result has no `extend`.
  .overwrite(({ otherEndpoints, ...config }) => {
    const urls = Object.entries({ ...otherEndpoints, ...config.endpoints });
    const set = urls.filter(([, url]) => url !== null && url !== undefined && url !== "");
    const others = set.filter(([topic]) => !isTopic(topic));
    return {
      ...config,
      endpoints: Object.fromEntries(set.filter(([topic]) => isTopic(topic))),
      ...(others.length > 0 && { otherEndpoints: Object.fromEntries(others) }),
    };
  }) as unknown as WebhookConfigSchema;

export function isTopic(name: string): name is Topic {
  return (topics as readonly string[]).includes(name);
}
