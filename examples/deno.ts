// A subscriber on Deno.
//   deno add npm:stayhook
//   STAYHOOK_BASE_URL=… STAYHOOK_ACCESS_TOKEN=… WEBHOOK_SECRET=… deno run \
//     --allow-net --allow-read --allow-write --allow-env deno.ts
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { sqliteStore } from "stayhook/sqlite";

const setting = (name: string) => Deno.env.get(name);

// Stands for your calendar. It keeps one stay for each booking code, so that a moved stay replaces the old one.
const calendar = {
  set: (bookingCode: string, stay: unknown) => console.log("block", bookingCode, JSON.stringify(stay)),
  delete: (bookingCode: string) => console.log("release", bookingCode),
};

const store = sqliteStore(setting("EVENTS_DB") ?? "events.db");
const webhooks = createWebhookHandler({
  client: new StayhookClient({
    baseUrl: setting("STAYHOOK_BASE_URL") ?? "",
    accessToken: setting("STAYHOOK_ACCESS_TOKEN") ?? "",
  }),
  store,
  verify: sharedSecret({ query: "key", secret: setting("WEBHOOK_SECRET") }),
  on: {
    "booking.Confirmed": ({ booking, stayChange }) => calendar.set(booking.bookingCode, stayChange.to),
    "booking.Cancelled": ({ booking }) => calendar.delete(booking.bookingCode),
    "booking.Declined": ({ booking }) => calendar.delete(booking.bookingCode),
    "booking.gone": ({ booking }) => calendar.delete(booking.bookingCode),
    "listing.Published": ({ listing }) => console.log("live", listing.listingId),
  },
});

webhooks.start(); // processes events that a crash left behind

const hostname = setting("HOST") ?? "127.0.0.1";
const port = Number(setting("PORT") ?? 3000);
const server = Deno.serve({ hostname, port }, async (request) => {
  const { pathname } = new URL(request.url);
  if (pathname === "/hooks") return webhooks.fetch(request);
  if (pathname === "/echo") return Response.json(await request.json()); // the rest of your app
  return new Response("Not found\n", { status: 404 });
});

for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, stop);

async function stop() {
  await server.shutdown();
  await webhooks.close(); // waits for the callbacks that run
  await store.close();
  Deno.exit(); // the signal listener would keep the process alive
}
