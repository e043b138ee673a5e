// The console of your events, behind your app's login. mounts.ts serves it in each framework.
//   npm install stayhook
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { createConsole } from "stayhook/console";
import { sqliteStore } from "stayhook/sqlite";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET } = process.env;

export const store = sqliteStore(process.env.EVENTS_DB ?? "events.db");
export const webhooks = createWebhookHandler({
  client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
  store,
  verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
  on: { "booking.Confirmed": ({ booking }) => console.log("block", booking.bookingCode) },
  observe: (event) => {
    if (event.kind !== "operated") return;
    const { action, user, eventId, ref, filter, count } = event;
    console.log(JSON.stringify({ at: new Date(), action, user, eventId, ref, filter, count }));
  },
});

/** Sessions that your login page starts, by the value of their cookie. */
export const sessions = new Map<string, { readonly role: string; readonly email: string }>();

export const inbox = createConsole(webhooks, {
  basePath: "/ops/console",
  authorize: (request) => {
    const id = /(?:^|; )session=([^;]+)/.exec(request.headers.get("cookie") ?? "")?.[1];
    const session = sessions.get(id ?? "");
    return session?.role === "support" && { user: session.email };
  },
});
