// A subscriber on Cloudflare Workers, with its events in a Durable Object.
//   npm install stayhook wrangler
//   npx wrangler secret put STAYHOOK_ACCESS_TOKEN; npx wrangler secret put WEBHOOK_SECRET
//   npx wrangler deploy
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { durableObjectStore, type Events } from "./durable-object-store.ts";

export { Events } from "./durable-object-store.ts";

interface Env {
  readonly EVENTS: DurableObjectNamespace<Events>;
  readonly STAYHOOK_BASE_URL: string;
  readonly STAYHOOK_ACCESS_TOKEN: string;
  readonly WEBHOOK_SECRET: string;
}

// Stands for your calendar. It keeps one stay for each booking code, so that a moved stay replaces the old one.
const calendar = {
  set: (bookingCode: string, stay: unknown) => console.log("block", bookingCode, JSON.stringify(stay)),
  delete: (bookingCode: string) => console.log("release", bookingCode),
};

/**
 * Makes a handler for one request. Workers cancel a request that waits for a promise which only another request can
 * settle.
 */
function webhooksOf(env: Env, retentions = {}) {
  return createWebhookHandler({
    client: new StayhookClient({ baseUrl: env.STAYHOOK_BASE_URL, accessToken: env.STAYHOOK_ACCESS_TOKEN }),
    store: durableObjectStore(env.EVENTS.getByName("events")),
    verify: sharedSecret({ query: "key", secret: env.WEBHOOK_SECRET }),
    on: {
      "booking.Confirmed": ({ booking, stayChange }) => calendar.set(booking.bookingCode, stayChange.to),
      "booking.Cancelled": ({ booking }) => calendar.delete(booking.bookingCode),
      "booking.Declined": ({ booking }) => calendar.delete(booking.bookingCode),
      "booking.gone": ({ booking }) => calendar.delete(booking.bookingCode),
      "listing.Published": ({ listing }) => console.log("live", listing.listingId),
    },
    ...retentions,
  });
}

/** Requests do not prune. `scheduled` does. */
const forEver = { retention: Infinity, parkedRetention: Infinity, snapshotRetention: Infinity };

export default {
  async fetch(request: Request, env: Env, context: ExecutionContext): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname !== "/hooks") return new Response("Not found\n", { status: 404 });
    return webhooksOf(env, forEver).fetch(request, { waitUntil: (work) => context.waitUntil(work) });
  },

  /** Runs each minute, see wrangler.jsonc. Processes due retries and events that an ended Worker left behind. */
  async scheduled(_controller: ScheduledController, env: Env): Promise<void> {
    const { done, failed } = await webhooksOf(env).drain({ timeout: 50_000 });
    if (done + failed > 0) console.log("drained:", done, "done,", failed, "to be tried again or parked");
  },
};
