import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import { type AdapterOptions, answerWith, startServing, type Webhooks } from "./exchange.ts";
import { endpointOf, type FetchHandler } from "./handlers.ts";

export type { AdapterOptions, Webhooks } from "./exchange.ts";
export type { FetchHandler } from "./handlers.ts";

/** Node's request, as `http` and `http2` make it. */
type Incoming = IncomingMessage | Http2ServerRequest;
/** Node's response, as `http` and `http2` make it. */
type Outgoing = ServerResponse | Http2ServerResponse;

/** The request or response of Fastify, which holds that of Node. */
type Raw<T> = {
  /** Node's own request or response. */
  readonly raw: T;
};

/** The request of Koa. */
type KoaRequest = {
  /** Node's own request. */
  readonly req: Incoming;
};

/** The response of Koa. */
type KoaResponse = {
  /** Node's own response. */
  readonly res: Outgoing;
};

/**
 * A listener for `http.createServer`, `http2.createServer`, Express and Connect. Also takes the request and response of
 * Fastify, which keeps those of Node as `raw`, and of Koa, which keeps them as `req` and `res`. Answers every request, and
 * never calls `next`. At run time, it returns a promise that settles when the answer is sent, for hosts that wait for it. Its type is `void`,
 * as the type of a listener of `createServer` is, so that the lint rule `no-misused-promises` takes it.
 */
export type NodeHandler = (
  request: Incoming | Raw<Incoming> | KoaRequest,
  response: Outgoing | Raw<Outgoing> | KoaResponse,
  next?: unknown,
) => void;

/** The request that a function of the option `account` gets. */
type NodeRequest = IncomingMessage & {
  /** The parameters of the path, as Express and other routers add them. */
  readonly params: Readonly<Record<string, string>>;
};

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
export function toNodeHandler<R extends Parameters<NodeHandler>[0] = NodeRequest>(
  handler: Webhooks | FetchHandler,
  options?: AdapterOptions<R>,
): NodeHandler {
  startServing(handler, options);
  // Some hosts, such as h3, take a listener without `next` for one that has answered when it returns.
  return (request, response, _next) =>
    answerWith(handler, { request, response, endpoint: endpointOf(options, request as R) });
}
