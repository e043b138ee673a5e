// typescript-eslint's strictest rules find nothing here but what a comment `finds:` names on the line above.
import { createServer } from "node:http";
import {
  createWebhookHandler,
  memoryStore,
  StayhookClient,
  type WebhookEvent,
  WebhookNotification,
} from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { createSandbox } from "stayhook/testing";

function look(event: WebhookEvent): string {
  if ("booking" in event) {
    const code: string = event.booking.bookingCode;
    // finds: @typescript-eslint/no-unnecessary-condition
    return event.booking ? code : "never";
  }
  if ("listing" in event) return event.listing.listingId.toFixed();
  return event.type;
}

const sandbox = createSandbox();
const webhooks = createWebhookHandler({
  client: new StayhookClient({
    baseUrl: "https://sandbox.example",
    accessToken: "token",
    fetch: sandbox.fetch,
  }),
  store: memoryStore(),
  on: {
    booking: (event) => {
      console.log(event.stayChange.changed);
    },
    fallback: (event) => {
      console.log(look(event));
    },
  },
});

const { fetch, receive } = webhooks;
sandbox.deliverTo(webhooks.fetch);
export const handle = { fetch, receive };

// finds: @typescript-eslint/unbound-method
export const { drain } = webhooks;

createServer(toNodeHandler(webhooks)).listen(3000, "127.0.0.1");
// finds: @typescript-eslint/no-misused-promises
createServer(async () => {
  await webhooks.drain();
});

await webhooks.process(WebhookNotification.parse({}));
