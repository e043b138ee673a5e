import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import { type AdapterOptions, answerWith, startServing, type Webhooks } from "./exchange.ts";
import { endpointOf, type FetchHandler } from "./handlers.ts";

export type { AccountFinder, AdapterOptions, Webhooks } from "./exchange.ts";
export type { FetchHandler } from "./handlers.ts";

/**
 * A listener for `http.createServer`, `http2.createServer`, Express and Connect. Answers every request, and never calls
 * `next`. At run time, it returns a promise that settles when the answer is sent, for hosts that wait for it. Its type is `void`,
 * as the type of a listener of `createServer` is, so that the lint rule `no-misused-promises` takes it.
 */
export type NodeHandler = (
  request: IncomingMessage | Http2ServerRequest,
  response: ServerResponse | Http2ServerResponse,
  next?: unknown,
) => void;

/** The request that a function of the option `account` gets. */
export interface NodeRequest extends IncomingMessage {
  /** The parameters of the path, as Express and other routers add them. */
  readonly params: Readonly<Record<string, string>>;
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
 * app.post("/accounts/:account", toNodeHandler(webhooks, { account: (request) => request.params.account }));
 * ```
 */
export function toNodeHandler<R extends IncomingMessage = NodeRequest>(
  handler: Webhooks | FetchHandler,
  options?: AdapterOptions<R>,
): NodeHandler {
  startServing(handler, options);
  // Some hosts, such as h3, take a listener without `next` for one that has answered when it returns.
  return (request, response, _next) =>
    answerWith(handler, { request, response, endpoint: endpointOf(options, request as R) });
}
