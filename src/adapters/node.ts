import type { IncomingMessage, ServerResponse } from "node:http";
import { type AdapterOptions, answerWith, startServing, type Webhooks } from "./exchange.ts";
import type { FetchHandler } from "./handlers.ts";

export type { AdapterOptions, Webhooks } from "./exchange.ts";
export type { FetchHandler } from "./handlers.ts";

/** A listener for `http.createServer`, Express and Connect. It answers every request, and never calls `next`. */
export type NodeHandler = (request: IncomingMessage, response: ServerResponse, next?: unknown) => void;

/** The properties that Express and Google's functions add to a request. */
interface Extensions {
  readonly originalUrl?: string;
  readonly body?: unknown;
  readonly rawBody?: unknown;
}

/**
 * Makes a listener of a webhook handler or a console, for node:http, Express 4 and 5, and Connect. Mount it for POST on its own path.
 * It works with and without a body parser in front. Making it starts the processing, unless the handler has
 * `autoStart: false`.
 *
 * @throws InvalidArgumentError where `handler` is neither a handler nor a console, or an option is misspelled
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
