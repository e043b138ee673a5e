import { createBookings, type SandboxBookings } from "./bookings.ts";
import { createListings, type SandboxListings } from "./listings.ts";
import { createRandom } from "./random.ts";
import { answer, type PlatformRequest, type PlatformResponse } from "./routes.ts";
import type { SandboxWebhookConfig } from "./webhook-config.ts";

/** A notification in the form in which the platform sends it. */
export interface SandboxNotification {
  readonly eventId: string;
  readonly timestamp: string;
  readonly bookingCode: string | null;
  readonly listingId: number | null;
}

/** The platform itself, in memory: no network in it, and nothing that waits. */
export interface Platform {
  readonly bookings: SandboxBookings;
  readonly listings: SandboxListings;
  readonly webhookConfig: SandboxWebhookConfig | undefined;
  answer(request: PlatformRequest): PlatformResponse;
  /** The URL for a topic, by the configuration of this moment; `undefined` where nothing is delivered. */
  endpointOf(topic: string): string | undefined;
}

export function createPlatform(options: {
  readonly seed: number;
  readonly accessToken: string;
  /** ms since 1970 */
  readonly now: () => number;
  /** Takes each notification that the platform sends, at the moment of its event. */
  readonly deliver: (topic: string, url: string, notification: SandboxNotification) => void;
}): Platform {
  const ids = createRandom(options.seed, "eventId");

  const endpointOf = (topic: string): string | undefined => {
    const { isActive = false, endpoints = {} } = state.webhookConfig ?? {};
    return isActive && Object.hasOwn(endpoints, topic) ? endpoints[topic] : undefined;
  };

  const notify = (topic: string, bookingCode: string | null, listingId: number | null): void => {
    // Drawn whether somebody is told or not, so that a seed's ids do not hang on the configuration.
    const timestamp = new Date(options.now()).toISOString();
    const notification = { eventId: ids.uuid(), timestamp, bookingCode, listingId };
    const url = endpointOf(topic);
    if (url !== undefined) options.deliver(topic, url, notification);
  };

  const listings = createListings(createRandom(options.seed, "listings"), (id) =>
    notify("listings", null, id),
  );
  const bookings = createBookings(createRandom(options.seed, "bookings"), listings, (code) =>
    notify("bookings", code, null),
  );
  const state = {
    accessToken: options.accessToken,
    bookings,
    listings,
    webhookConfig: undefined as SandboxWebhookConfig | undefined,
  };

  return {
    bookings,
    listings,
    get webhookConfig() {
      return state.webhookConfig;
    },
    answer: (request) => answer(state, request),
    endpointOf,
  };
}
