import type { IncomingMessage, ServerResponse } from "node:http";
import { type AdapterOptions, exchange, startProcessing, type Webhooks } from "./exchange.ts";

export type { AdapterOptions, Webhooks } from "./exchange.ts";

/** What of a Koa context is used here. */
export interface KoaContextLike {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly originalUrl: string;
  /** What a body parser in front has left on it. */
  readonly request: object;
  respond?: boolean | undefined;
}

/** Fits `app.use` and a router's routes. */
export type KoaMiddleware = (context: KoaContextLike) => Promise<void>;

/**
 * A webhook handler as Koa middleware, with a body parser in front or without. Mount it on a path of its own: it
 * answers every request. Processing begins when it is made, unless the handler has `autoStart: false`.
 *
 * @example
 * ```ts
 * router.post("/hooks", toKoaMiddleware(webhooks));
 * ```
 */
export function toKoaMiddleware(webhooks: Webhooks, options?: AdapterOptions): KoaMiddleware {
  startProcessing(webhooks, options);
  const topic = options?.topic;
  return async (context) => {
    // What is answered, and when a connection ends whose body nobody reads, is the handler's.
    context.respond = false;
    const { body, rawBody } = context.request as { readonly body?: unknown; readonly rawBody?: unknown };
    await exchange(webhooks, context.req, context.res, { url: context.originalUrl, body, rawBody, topic });
  };
}
