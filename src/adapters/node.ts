import type { IncomingMessage, ServerResponse } from "node:http";
import { type AdapterOptions, answerWith, startServing, type Webhooks } from "./exchange.ts";
import type { FetchHandler } from "./handlers.ts";

export type { AdapterOptions, Webhooks } from "./exchange.ts";
export type { FetchHandler } from "./handlers.ts";

/** A listener for `http.createServer`, Express and Connect. Answers every request, and never calls `next`. */
export type NodeHandler = (request: IncomingMessage, response: ServerResponse, next?: unknown) => void;

/** The properties that Express and Google Cloud Functions add to a request. */
interface Extensions {
  readonly originalUrl?: string;
  readonly body?: unknown;
  readonly rawBody?: unknown;
}

/**
 * Makes a listener from a webhook handler or a console, for node:http, Express 4 and 5, and Connect. Mount the
 * listener on its own path, because it answers every request. A body parser may run before the listener.
 * `toNodeHandler` also starts the processing, unless the handler has `autoStart: false`.
 *
 * @throws InvalidArgumentError if `handler` is not a webhook handler or a console, or an option is invalid
 * @example
 * ```ts
 * createServer(toNodeHandler(webhooks)).listen(3000);
 * // or, in Express:
 * app.post("/hooks/bookings", toNodeHandler(webhooks, { topic: "bookings" }));
 * ```
 */
export function toNodeHandler(handler: Webhooks | FetchHandler, options?: AdapterOptions): NodeHandler {
  startServing(handler, options);
  const topic = options?.topic;
  return (request, response) => {
    const { originalUrl: url, body, rawBody } = request as Extensions;
    void answerWith(handler, request, response, { url, body, rawBody, topic });
  };
}
