// A subscriber on Deno.
//   deno add npm:stayhook
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… deno run \
//     --allow-net --allow-read --allow-write --allow-env deno.ts
import { createWebhookHandler, StayhookClient, sharedSecret, stay } from "stayhook";
import { sqliteStore } from "stayhook/sqlite";

const setting = (name: string) => Deno.env.get(name);

const store = sqliteStore(setting("EVENTS_DB") ?? "events.db");
const webhooks = createWebhookHandler({
  client: new StayhookClient({
    baseUrl: setting("STAYHOOK_BASE_URL") ?? "",
    accessToken: setting("STAYHOOK_ACCESS_TOKEN") ?? "",
  }),
  store,
  verify: sharedSecret({ query: "key", secret: setting("WEBHOOK_SECRET") }),
  on: {
    "booking.Confirmed": ({ booking }) => console.log("block", booking.bookingCode, stay(booking)),
    "booking.Cancelled": ({ booking }) => console.log("release", booking.bookingCode, stay(booking)),
    "listing.Published": ({ listing }) => console.log("live", listing.listingId),
  },
});

webhooks.start(); // processes events that a crash left behind

const port = Number(setting("PORT") ?? 3000);
const server = Deno.serve({ hostname: "127.0.0.1", port }, async (request) => {
  const { pathname } = new URL(request.url);
  if (pathname === "/hooks") return webhooks.fetch(request);
  if (pathname === "/echo") return Response.json(await request.json()); // the rest of your app
  return new Response("Not found\n", { status: 404 });
});

Deno.addSignalListener("SIGTERM", async () => {
  await server.shutdown();
  await webhooks.close(); // waits for the callbacks that run
  await store.close();
  Deno.exit(); // the signal listener would keep the process alive
});
