import type { IncomingMessage, ServerResponse } from "node:http";
import { type AdapterOptions, answerWith, startServing, type Webhooks } from "./exchange.ts";
import type { FetchHandler } from "./handlers.ts";

export type { AdapterOptions, Webhooks } from "./exchange.ts";
export type { FetchHandler } from "./handlers.ts";

/** The part of a Koa context that the middleware uses. */
export interface KoaContextLike {
  /** Node's request. */
  readonly req: IncomingMessage;
  /** Node's response. */
  readonly res: ServerResponse;
  /** The URL before a router cut its prefix off. */
  readonly originalUrl: string;
  /** The request of Koa, on which body parsers put their output. */
  readonly request: object;
  /** `false` keeps Koa from writing the answer. */
  respond?: boolean | undefined;
}

/** Middleware for `app.use` and for a router's routes. */
export type KoaMiddleware = (context: KoaContextLike) => Promise<void>;

/**
 * Makes Koa middleware of a webhook handler or a console. It works with and without a body parser in front. Mount it on its own
 * path, because it answers every request. Making it starts the processing, unless the handler has `autoStart: false`.
 *
 * @throws InvalidArgumentError where `handler` is neither a handler nor a console, or an option is misspelled
 * @example
 * ```ts
 * router.post("/hooks", toKoaMiddleware(webhooks));
 * ```
 */
export function toKoaMiddleware(handler: Webhooks | FetchHandler, options?: AdapterOptions): KoaMiddleware {
  startServing(handler, options);
  const topic = options?.topic;
  return async (context) => {
    // The adapter writes the answer itself, and ends the connection when the body was not read.
    context.respond = false;
    const { body, rawBody } = context.request as { readonly body?: unknown; readonly rawBody?: unknown };
    await answerWith(handler, context.req, context.res, { url: context.originalUrl, body, rawBody, topic });
  };
}
