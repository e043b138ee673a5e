import type { IncomingMessage, ServerResponse } from "node:http";
import { All, Controller, type OnApplicationShutdown, Req, Res } from "@nestjs/common";
import { createWebhookHandler, StayhookClient, sharedSecret } from "stayhook";
import { type NodeHandler, toNodeHandler } from "stayhook/node";
import { sqliteStore } from "stayhook/sqlite";
import { Calendar } from "./calendar.js";

const { STAYHOOK_BASE_URL = "", STAYHOOK_ACCESS_TOKEN = "", WEBHOOK_SECRET, EVENTS_DB } = process.env;

/** Receives the notifications. Its callbacks use other services of the app. */
@Controller("hooks")
export class WebhooksController implements OnApplicationShutdown {
  readonly #store = sqliteStore(EVENTS_DB ?? "events.db");
  readonly #webhooks;
  readonly #take: NodeHandler;

  constructor(calendar: Calendar) {
    this.#webhooks = createWebhookHandler({
      client: new StayhookClient({ baseUrl: STAYHOOK_BASE_URL, accessToken: STAYHOOK_ACCESS_TOKEN }),
      store: this.#store,
      verify: sharedSecret({ query: "key", secret: WEBHOOK_SECRET }),
      on: {
        "booking.Confirmed": ({ stayChange }) => calendar.set(stayChange),
        "booking.Cancelled": ({ booking }) => calendar.delete(booking),
        "booking.Declined": ({ booking }) => calendar.delete(booking),
        "booking.gone": ({ booking }) => calendar.delete(booking),
        "listing.Published": ({ listing }) => console.log("live", listing.listingId),
      },
    });
    this.#take = toNodeHandler(this.#webhooks);
  }

  @All()
  take(@Req() request: IncomingMessage, @Res() response: ServerResponse): void {
    this.#take(request, response);
  }

  async onApplicationShutdown(): Promise<void> {
    await this.#webhooks.close(); // waits for the callbacks that run
    await this.#store.close();
  }
}
