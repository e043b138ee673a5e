// Finds Node's request and response in the objects that frameworks pass in their place.

import type { IncomingMessage, Server, ServerResponse } from "node:http";

/** Members under which frameworks keep Node's objects, or objects that hold them. */
interface Wrapper {
  readonly raw?: unknown;
  readonly req?: unknown;
  readonly res?: unknown;
  readonly node?: unknown;
  readonly ctx?: unknown;
}

/**
 * Returns Node's request. Fastify keeps it as `raw`, Koa as `req`, hapi as `raw.req`, and h3 as `node.req`. Also
 * returns an object that only has a method and headers, as mocks do.
 */
export function nodeRequestIn(given: unknown): IncomingMessage | undefined {
  return find(given, "req", isEmitter) ?? find(given, "req", hasHeaders);
}

/** Returns Node's response. Looks into the request, too, because Express, Koa and hapi keep the response there. */
export function nodeResponseIn(response: unknown, request: unknown): ServerResponse | undefined {
  return find(response, "res", isWritable) ?? find(request, "res", isWritable);
}

function find<T>(given: unknown, name: "req" | "res", fits: (value: unknown) => boolean): T | undefined {
  if (fits(given)) return given as T;
  const { raw, node, [name]: own } = wrapper(given);
  return [raw, own, wrapper(raw)[name], wrapper(node)[name]].find(fits) as T | undefined;
}

function wrapper(value: unknown): Wrapper {
  return Object(value) as Wrapper;
}

function isEmitter(value: unknown): boolean {
  return hasHeaders(value) && typeof (value as { readonly on?: unknown }).on === "function";
}

function hasHeaders(value: unknown): boolean {
  const { method, headers } = Object(value) as { readonly method?: unknown; readonly headers?: unknown };
  return typeof method === "string" && typeof headers === "object" && headers !== null;
}

function isWritable(value: unknown): boolean {
  const { end, writeHead, setHeader } = Object(value) as Readonly<Record<string, unknown>>;
  return typeof end === "function" && (typeof writeHead === "function" || typeof setHeader === "function");
}

/** Tells the framework of these objects, which are not Node's, that it must not answer. */
export function takeOver(request: unknown, response: unknown): void {
  const { hijack } = Object(response) as { readonly hijack?: unknown };
  if (typeof hijack === "function") hijack.call(response);
  const { ctx } = wrapper(request);
  const context = wrapper(ctx === undefined ? request : ctx) as { respond?: unknown };
  if (wrapper(context).req !== undefined && wrapper(context).res !== undefined) context.respond = false;
}

/** Node sets this property, but does not document it. Other runtimes do not have it, and mocks have no socket. */
export function serverOf({ socket }: { readonly socket?: unknown }): Server | undefined {
  return (socket as { readonly server?: Server | null } | null | undefined)?.server ?? undefined;
}

/** Whether the client is still sending its body. It is `false` for a request without a connection, as in a test. */
export function isStillSent(request: IncomingMessage): boolean {
  const { complete, httpVersionMajor, readableEnded, socket } = request;
  if (complete !== false || httpVersionMajor !== 1 || readableEnded || socket?.destroyed !== false)
    return false;
  // The socket of a mock has no server and no address. That of a Unix domain socket has a server, but no address.
  return serverOf(request) !== undefined || Boolean(socket.remoteAddress);
}
