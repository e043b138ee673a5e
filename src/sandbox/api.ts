// The sandbox's server, its faults, and the list of requests. platform.ts has the routes.

import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { untilAborted } from "../async.ts";
import { isLoopback, parseUrl } from "../client/urls.ts";
import type { Log } from "../logger.ts";
import type { Clock } from "./clock.ts";
import type { FaultInjector, SandboxFault } from "./faults.ts";
import type { SandboxRequest } from "./observations.ts";
import { failure, type Platform, type PlatformRequest, type PlatformResponse } from "./platform.ts";
import { isOf, Recent } from "./sandbox-records.ts";

/** A request by HTTP or `sandbox.fetch`. `body` is `undefined` if the request's body was too large. */
type ApiRequest = Omit<PlatformRequest, "body"> & { readonly body: string | undefined };

interface ApiResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** The body. It is `undefined` if the answer has no body. */
  readonly text: string | undefined;
  /** Whether the connection breaks: halfway through the body, or before the headers if there is no body. */
  readonly cutOff: boolean;
}

/** Answers requests as the platform's API, and applies the faults. */
export interface Api {
  answer(request: ApiRequest): Promise<ApiResponse>;
  /** Returns the last `limit` answered requests, the oldest first. With an account, only those of this account. */
  requests(limit?: number, account?: string): SandboxRequest[];
}

/** One account of the platform. A sandbox without accounts has one, without an id. */
export interface ApiAccount {
  readonly accountId: string | undefined;
  readonly platform: Platform;
  readonly faults: FaultInjector;
}

const maxBodyBytes = 1_048_576;

export function createApi(options: {
  readonly accounts: readonly [ApiAccount, ...ApiAccount[]];
  /** The faults of every request, which come before those of the request's account. */
  readonly faults: FaultInjector;
  readonly clock: Clock;
  readonly log: Log;
  readonly observe: (request: SandboxRequest) => void;
}): Api {
  const { accounts, faults, clock, log, observe } = options;
  const requests = new Recent<SandboxRequest>();
  let count = 0;

  return {
    async answer(request) {
      const id = `req_${++count}`;
      const { method, target: path } = request;
      const receivedAt = new Date(clock.now());
      const account = accounts.find(({ platform }) => platform.knows(request.authorization));
      const { platform } = account ?? accounts[0];
      const route = path.split("?", 1)[0] ?? "";
      const strike = faults.strike(method, route) ?? account?.faults.strike(method, route);
      if (strike && strike.delay > 0) await clock.wait(strike.delay);
      const { status, headers, body } = respond(platform, request, strike?.fault);
      const answered = {
        account: account?.accountId,
        method,
        path,
        receivedAt,
        status,
        fault: strike?.fault,
      };
      requests.add(answered);
      observe(answered);
      log.debug(
        `${account?.accountId === undefined ? "" : `${account.accountId}: `}${method} ${path}: ${status}`,
      );
      const cutOff = strike?.fault.cutOff === true;
      const type = body === undefined ? {} : { "content-type": "application/json" };
      const text = body === undefined ? undefined : JSON.stringify(body);
      return { status, headers: { "x-request-id": id, ...type, ...headers }, text, cutOff };
    },
    requests: (limit, account) => requests.list(limit, isOf(account)),
  };
}

function respond(platform: Platform, request: ApiRequest, fault: SandboxFault | undefined): PlatformResponse {
  if (fault?.status !== undefined) {
    const { status, retryAfter } = fault;
    const headers = retryAfter === undefined ? undefined : { "retry-after": String(retryAfter) };
    return { ...failure(status, "fault", `The sandbox answers ${status}, because a fault is set.`), headers };
  }
  const { body } = request;
  if (body !== undefined) return platform.answer({ ...request, body });
  return {
    ...failure(413, "too_large", `The body of a request may have at most ${maxBodyBytes} bytes.`),
    headers: { connection: "close" },
  };
}

/**
 * Serves the API over HTTP, and the sandbox's web page at `/`. Resolves when the server listens.
 *
 * @param page - makes the page; called at the first request for the page
 */
export async function serve(
  answer: Api["answer"],
  page: () => Promise<RequestListener>,
  { port, host }: { readonly port: number; readonly host: string },
): Promise<{ readonly url: string; close(): Promise<void> }> {
  const localOnly = isLoopbackHost(host);
  let listener: Promise<RequestListener> | undefined;
  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const refused = refusalOf(request, localOnly);
    if (refused) return send(response, refused);
    if (/^\/(?:\?|$)/.test(request.url ?? "")) {
      listener ??= page();
      return (await listener)(request, response);
    }
    if (ownToBrowsers.test(request.url ?? ""))
      return send(response, plainText(404, "The sandbox has no such file."));
    const { method = "", url: target = "/", headers } = request;
    const body = await readBody(request);
    send(response, await answer({ method, target, authorization: headers.authorization, body }));
  };
  const server = createServer((request, response) => {
    // `respond` may reject: for example, if the client disconnects before it has sent the whole body.
    respond(request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ port, host }, () => {
      server.off("error", reject);
      resolve();
    });
  });
  return { url: urlOf(server), close: () => close(server) };
}

/** The files that a browser asks for on its own. They are no requests to the API. */
const ownToBrowsers = /^\/(?:favicon\.ico|apple-touch-icon[\w-]*\.png|\.well-known\/)/;

/** Whether a server that listens on this host name or address is reachable from this machine only. */
export function isLoopbackHost(host: string): boolean {
  const url = parseUrl(`http://${host.includes(":") ? `[${host}]` : host}`);
  return url !== undefined && isLoopback(url);
}

/**
 * Returns an error answer if a web page of another site sent the request, else `undefined`. The check of `Host` stops
 * DNS rebinding: an attacker can make the host name of a web page resolve to loopback.
 *
 * @param localOnly - whether the server listens on loopback
 */
function refusalOf({ headers }: IncomingMessage, localOnly: boolean): ApiResponse | undefined {
  const { host = "", origin } = headers;
  const url = /^[^/?#@\\]+$/.test(host) ? parseUrl(`http://${host}`) : undefined;
  if (localOnly && !(url && isLoopback(url)))
    return plainText(
      421,
      "The sandbox listens on loopback and refuses this Host header. Use the host 127.0.0.1 or localhost.",
    );
  if (origin !== undefined && parseUrl(origin)?.host !== host.toLowerCase())
    return plainText(
      403,
      "The sandbox refuses requests from web pages of another origin. Call the sandbox from a server or a test.",
    );
  return undefined;
}

const plainText = (status: number, text: string): ApiResponse => ({
  status,
  headers: { "content-type": "text/plain; charset=utf-8", connection: "close" },
  text: `${text}\n`,
  cutOff: false,
});

/** Reads the request's body. Returns `undefined` if the body is too large. */
async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Uint8Array>) {
    size += chunk.byteLength;
    // Read an oversized body to its end, because many clients read the answer only after they have sent the body.
    if (size <= maxBodyBytes) chunks.push(chunk);
  }
  return size > maxBodyBytes ? undefined : Buffer.concat(chunks).toString("utf8");
}

function send(response: ServerResponse, { status, headers, text = "", cutOff }: ApiResponse): void {
  if (cutOff && text === "") return void response.destroy();
  const body = Buffer.from(text);
  const length = status === 204 || status === 304 ? {} : { "content-length": body.byteLength };
  response.writeHead(status, { ...headers, ...length });
  if (!cutOff) return void response.end(body);
  response.write(body.subarray(0, Math.ceil(body.byteLength / 2)), () => response.destroy());
}

/** Returns a URL for clients. Not every system can connect to `0.0.0.0` or `::`, so loopback replaces them. */
function urlOf(server: Server): string {
  const { address, port, family } = server.address() as AddressInfo;
  const host = address === "0.0.0.0" ? "127.0.0.1" : address === "::" ? "::1" : address;
  return `http://${family === "IPv6" ? `[${host}]` : host}:${port}`;
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

/** Answers a `Request` without a server. Like `fetch`, rejects if the connection breaks or the signal aborts. */
export async function answerFetch(answer: Api["answer"], request: Request): Promise<Response> {
  const { signal } = request;
  signal.throwIfAborted();
  const { pathname, search } = new URL(request.url);
  const body = await request.text();
  const answered = answer({
    method: request.method,
    target: pathname + search,
    authorization: request.headers.get("authorization") ?? undefined,
    body: new Blob([body]).size > maxBodyBytes ? undefined : body,
  });
  return toResponse(await untilAborted(answered, signal));
}

const brokenConnection = (): Error =>
  new TypeError("fetch failed", { cause: new Error("a fault with cutOff broke the connection") });

// With the statuses below, `new Response()` throws for any body, even an empty string.
const statusesWithoutBody = new Set([204, 205, 304]);

function toResponse({ status, headers, text, cutOff }: ApiResponse): Response {
  if (!cutOff)
    return new Response(statusesWithoutBody.has(status) ? null : (text ?? null), { status, headers });
  if (text === undefined || text === "") throw brokenConnection();
  const bytes = new TextEncoder().encode(text);
  const half = bytes.subarray(0, Math.ceil(bytes.byteLength / 2));
  // Break the stream only after the first chunk was read, because `controller.error()` discards unread chunks.
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(half),
    pull: (controller) => controller.error(brokenConnection()),
  });
  return new Response(body, { status, headers });
}
