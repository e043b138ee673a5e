import * as z from "zod";

/** The topics that the platform names. It may have more. */
export const topics = ["bookings", "listings", "messages"] as const;
/** One of {@link topics}. */
export type Topic = (typeof topics)[number];

/** Where notifications go: a URL for each topic. */
export interface Endpoints {
  bookings?: string | undefined;
  listings?: string | undefined;
  messages?: string | undefined;
  [topic: string]: string | undefined;
}

/** The webhook configuration of the account, as the platform answers it. Further fields are kept. */
export const WebhookConfig = z.looseObject({
  /** Whether notifications are sent. */
  isActive: z.boolean(),
  /** A topic that is `null` in the answer is left out. */
  endpoints: z
    .record(z.string(), z.unknown())
    .nullable()
    .transform((urls): Endpoints => Object.fromEntries(Object.entries(urls ?? {}).filter(isSet))),
});
export type WebhookConfig = z.output<typeof WebhookConfig>;

// A URL that is no string is passed on as it came, with a warning by the client.
function isSet(entry: [string, unknown]): entry is [string, string] {
  return entry[1] !== null && entry[1] !== undefined;
}
