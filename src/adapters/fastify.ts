import type { IncomingMessage, ServerResponse } from "node:http";
import { type AdapterOptions, answerWith, startServing, type Webhooks } from "./exchange.ts";
import { endpointOf, type FetchHandler } from "./handlers.ts";

export type { AdapterOptions, Webhooks } from "./exchange.ts";
export type { FetchHandler } from "./handlers.ts";

/** The part of a Fastify instance that the plugin uses. */
type FastifyLike = {
  /** Removes the body parsers of the plugin's context. */
  removeAllContentTypeParsers(): void;
  /** Adds a body parser to the plugin's context. */
  addContentTypeParser(
    contentType: string,
    parser: (
      request: unknown,
      payload: IncomingMessage,
      done: (error: Error | null, body?: unknown) => void,
    ) => void,
  ): unknown;
  /** Adds a hook to the plugin's context. */
  addHook(
    name: "onRequest",
    hook: (request: FastifyRequestLike, reply: FastifyReplyLike, next: () => void) => void,
  ): unknown;
  /** Adds a route for all methods. */
  all(path: string, handler: (request: FastifyRequestLike, reply: FastifyReplyLike) => void): unknown;
};

/** The part of Fastify's request that the plugin uses. */
type FastifyRequestLike = {
  /** Node's request. */
  readonly raw: IncomingMessage;
  /** The original URL, including a prefix that a router has removed from Node's `url`. */
  readonly originalUrl: string;
  /** The output of the body parser. */
  readonly body: unknown;
};

/** The request that a function of the option `account` gets. */
type FastifyRouteRequest = FastifyRequestLike & {
  /** The parameters of the path, such as those of the plugin's `prefix`. */
  readonly params: Readonly<Record<string, string>>;
};

/** The part of Fastify's reply that the plugin uses. */
type FastifyReplyLike = {
  /** Node's response. */
  readonly raw: ServerResponse;
  /** Keeps Fastify from sending an answer of its own. */
  hijack(): unknown;
};

/** A plugin for `app.register`. */
export type FastifyPlugin = (app: FastifyLike, options: unknown, done: (error?: Error) => void) => void;

/**
 * Makes a Fastify plugin from a webhook handler or a console. The plugin handles all requests below its prefix. The
 * handler reads each body, so the handler's limits apply, and Fastify's limits do not apply. `toFastifyPlugin` also
 * starts the processing, unless the handler has `autoStart: false`.
 *
 * @throws InvalidArgumentError if `handler` is not a webhook handler or a console, or an option is invalid
 * @example
 * ```ts
 * await app.register(toFastifyPlugin(webhooks), { prefix: "/hooks" });
 * ```
 */
export function toFastifyPlugin<
  R extends Pick<FastifyRequestLike, "raw" | "originalUrl"> = FastifyRouteRequest,
>(handler: Webhooks | FetchHandler, options?: AdapterOptions<R>): FastifyPlugin {
  startServing(handler, options);
  return (app, _options, done) => {
    // Removes only the parsers of this plugin's context. The parsers of the app stay.
    app.removeAllContentTypeParsers();
    app.addContentTypeParser("*", (_request, payload, parsed) => parsed(null, payload));
    // Fastify rejects an invalid content type before it calls a parser. Hide the content type until the handler runs.
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
      // Fastify must not answer: the adapter writes the answer, and ends the connection if the body was not read.
      reply.hijack();
      const { raw } = request;
      const type = types.get(raw);
      if (type !== undefined) raw.headers["content-type"] = type;
      // `request.body` is Node's stream, unless a hook of the app replaced it.
      void answerWith(handler, {
        request,
        response: reply.raw,
        endpoint: endpointOf(options, request as unknown as R),
      });
    };
    app.all("/", handle);
    app.all("/*", handle);
    done();
  };
}
