import type { IncomingMessage, ServerResponse } from "node:http";
import { type AdapterOptions, answerWith, startServing, type Webhooks } from "./exchange.ts";
import { endpointOf, type FetchHandler } from "./handlers.ts";

export type { AdapterOptions, Webhooks } from "./exchange.ts";
export type { FetchHandler } from "./handlers.ts";

/** The part of a Koa context that the middleware uses. */
type KoaContextLike = {
  /** Node's request. */
  readonly req: IncomingMessage;
  /** Node's response. */
  readonly res: ServerResponse;
  /** The original URL, including a prefix that a router has removed from Node's `url`. */
  readonly originalUrl: string;
  /** Koa's own request object, to which body parsers add their output. */
  readonly request: object;
  /** `false` keeps Koa from writing the answer. */
  respond?: boolean | undefined;
};

/** The context that a function of the option `account` gets. */
type KoaRouterContext = KoaContextLike & {
  /** The parameters of the path, as a router adds them. */
  readonly params: Readonly<Record<string, string>>;
};

/** Middleware for `app.use` and for a router's routes. */
export type KoaMiddleware = (context: KoaContextLike) => Promise<void>;

/**
 * Makes Koa middleware from a webhook handler or a console. A body parser may run before the middleware. Mount the
 * middleware on its own path, because it answers every request. `toKoaMiddleware` also starts the processing, unless
 * the handler has `autoStart: false`.
 *
 * @throws InvalidArgumentError if `handler` is not a webhook handler or a console, or an option is invalid
 * @example
 * ```ts
 * router.post("/hooks", toKoaMiddleware(webhooks));
 * ```
 */
export function toKoaMiddleware<R extends Pick<KoaContextLike, "req" | "res"> = KoaRouterContext>(
  handler: Webhooks | FetchHandler,
  options?: AdapterOptions<R>,
): KoaMiddleware {
  startServing(handler, options);
  return async (context) => {
    // Koa must not answer: the adapter writes the answer, and ends the connection if the body was not read.
    context.respond = false;
    await answerWith(handler, {
      request: context.request,
      response: context.res,
      endpoint: endpointOf(options, context as unknown as R),
    });
  };
}
