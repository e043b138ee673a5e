import type { IncomingMessage, ServerResponse } from "node:http";
import { type AdapterOptions, exchange, startProcessing, type Webhooks } from "./exchange.ts";

export type { AdapterOptions, Webhooks } from "./exchange.ts";

/** What of a Fastify instance is used here. */
export interface FastifyLike {
  removeAllContentTypeParsers(): void;
  addContentTypeParser(
    contentType: string,
    parser: (
      request: unknown,
      payload: IncomingMessage,
      done: (error: Error | null, body?: unknown) => void,
    ) => void,
  ): unknown;
  addHook(
    name: "onRequest",
    hook: (request: FastifyRequestLike, reply: FastifyReplyLike, next: () => void) => void,
  ): unknown;
  all(path: string, handler: (request: FastifyRequestLike, reply: FastifyReplyLike) => void): unknown;
}

interface FastifyRequestLike {
  readonly raw: IncomingMessage;
  readonly originalUrl: string;
  readonly body: unknown;
}

interface FastifyReplyLike {
  readonly raw: ServerResponse;
  hijack(): unknown;
}

/** Fits `app.register`. */
export type FastifyPlugin = (app: FastifyLike, options: unknown, done: (error?: Error) => void) => void;

/**
 * A webhook handler as a Fastify plugin. It takes all that is below its prefix, with a body parser of its own,
 * so that any content type arrives and the limits are the handler's. Processing begins when it is made, unless
 * the handler has `autoStart: false`.
 *
 * @example
 * ```ts
 * await app.register(toFastifyPlugin(webhooks), { prefix: "/hooks" });
 * ```
 */
export function toFastifyPlugin(webhooks: Webhooks, options?: AdapterOptions): FastifyPlugin {
  startProcessing(webhooks, options);
  const topic = options?.topic;
  return (app, _options, done) => {
    // In this plugin's own context: the parsers of the app around it stay as they are.
    app.removeAllContentTypeParsers();
    app.addContentTypeParser("*", (_request, payload, parsed) => parsed(null, payload));
    // Even one parser for all is not asked about what is no media type: Fastify is shown another meanwhile.
    const types = new WeakMap<IncomingMessage, string>();
    app.addHook("onRequest", ({ raw }, _reply, next) => {
      const type = raw.headers["content-type"];
      if (type !== undefined) {
        types.set(raw, type);
        raw.headers["content-type"] = "application/octet-stream";
      }
      next();
    });
    const handle = (request: FastifyRequestLike, reply: FastifyReplyLike): void => {
      // What is answered, and when a connection ends whose body nobody reads, is the handler's.
      reply.hijack();
      const { raw, originalUrl: url } = request;
      const type = types.get(raw);
      if (type !== undefined) raw.headers["content-type"] = type;
      // A hook in front may have put another stream in the place of Node's.
      const body = request.body === raw ? undefined : request.body;
      void exchange(webhooks, raw, reply.raw, { url, body, topic });
    };
    app.all("/", handle);
    app.all("/*", handle);
    done();
  };
}
