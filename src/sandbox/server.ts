import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { isLoopback, parseUrl } from "../client/urls.ts";
import { type ApiRequest, type ApiResponse, maxBodyBytes } from "./api.ts";

type Answer = (request: ApiRequest) => Promise<ApiResponse>;

/**
 * Serves the API over HTTP, and the page of the platform at `/`. Resolves when it listens, and rejects if it cannot.
 *
 * @param page - called at the first request for the page
 */
export async function serve(
  answer: Answer,
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
    send(response, await answer(toApiRequest(request, await readBody(request))));
  };
  const server = createServer((request, response) => {
    // Rejects if the caller has hung up.
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

/** Whether a host name or address can be reached from this machine only. */
export function isLoopbackHost(host: string): boolean {
  const url = parseUrl(`http://${host.includes(":") ? `[${host}]` : host}`);
  return url !== undefined && isLoopback(url);
}

/**
 * The answer to a request that a foreign web page may have sent, or `undefined`. By DNS rebinding, such a page reaches
 * loopback under a host name of its own.
 *
 * @param localOnly - the server listens on loopback
 */
function refusalOf({ headers }: IncomingMessage, localOnly: boolean): ApiResponse | undefined {
  const { host = "", origin } = headers;
  const url = /^[^/?#@\\]+$/.test(host) ? parseUrl(`http://${host}`) : undefined;
  if (localOnly && !(url && isLoopback(url)))
    return plainText(
      421,
      "The sandbox listens on loopback and refuses this Host header. Call it as 127.0.0.1 or localhost.",
    );
  if (origin !== undefined && parseUrl(origin)?.host !== host.toLowerCase())
    return plainText(
      403,
      "The sandbox refuses requests from web pages of another origin. Call it from a server or a test.",
    );
  return undefined;
}

const plainText = (status: number, text: string): ApiResponse => ({
  status,
  headers: { "content-type": "text/plain; charset=utf-8", connection: "close" },
  text: `${text}\n`,
  cutOff: false,
});

const toApiRequest = (request: IncomingMessage, body: string | undefined): ApiRequest => ({
  method: request.method ?? "",
  target: request.url ?? "/",
  authorization: request.headers.authorization,
  body,
});

/** `undefined` if the body is too large. */
async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Uint8Array>) {
    size += chunk.byteLength;
    // Read to the end: a caller that is still sending does not read the answer.
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

/** A URL that reaches the server. The address of all interfaces does not work as one everywhere. */
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

/** Answers a web request without a server. Rejects as `fetch` does when the connection breaks or the signal aborts. */
export async function answerFetch(answer: Answer, request: Request): Promise<Response> {
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
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason);
  signal.addEventListener("abort", abort);
  try {
    return toResponse(await Promise.race([answered, aborted.promise]));
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

const brokenConnection = (): Error =>
  new TypeError("fetch failed", { cause: new Error("the sandbox broke the connection") });

// new Response() throws if one of these has a body, even an empty one.
const statusesWithoutBody = new Set([204, 205, 304]);

function toResponse({ status, headers, text, cutOff }: ApiResponse): Response {
  if (!cutOff)
    return new Response(statusesWithoutBody.has(status) ? null : (text ?? null), { status, headers });
  if (text === undefined || text === "") throw brokenConnection();
  const bytes = new TextEncoder().encode(text);
  const half = bytes.subarray(0, Math.ceil(bytes.byteLength / 2));
  // In two steps: a stream that fails drops the chunks that nobody has read.
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(half),
    pull: (controller) => controller.error(brokenConnection()),
  });
  return new Response(body, { status, headers });
}
