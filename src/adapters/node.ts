import { Buffer } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import { refused } from "../webhooks/receiving/answer.ts";
import type { ReceiveRequest, ReceiveResult } from "../webhooks/receiving/receive.ts";

/** What of a webhook handler is used here. */
export interface NodeWebhooks {
  receive(request: ReceiveRequest): Promise<ReceiveResult>;
  start(): void;
  readonly autoStart: boolean;
}

export interface NodeHandlerOptions {
  /** Which topic's endpoint this is; becomes `event.topic`. */
  readonly topic?: string | undefined;
}

/** Fits `http.createServer`, Express and Connect. It answers every request, and never calls `next`. */
export type NodeHandler = (request: IncomingMessage, response: ServerResponse, next?: unknown) => void;

/** A request as frameworks extend it. */
interface FrameworkRequest extends IncomingMessage {
  /** Express: the URL before it was mounted. */
  readonly originalUrl?: string;
  /** What a body parser made of the body. */
  readonly body?: unknown;
  /** Firebase and Google Cloud Functions: the bytes beside it. */
  readonly rawBody?: unknown;
}

/** How long a client that still sends may take to notice that it was answered, in ms. */
const LINGER = 1_000;

/**
 * A webhook handler for node:http, Express 4 and 5, and Connect. Mount it for POST on a path of its own; a body
 * parser in front is no problem. Processing begins when it is made, unless the handler has `autoStart: false`.
 *
 * @example
 * ```ts
 * createServer(toNodeHandler(webhooks)).listen(3000);
 * // or, in Express:
 * app.post("/hooks/bookings", toNodeHandler(webhooks, { topic: "bookings" }));
 * ```
 */
export function toNodeHandler(webhooks: NodeWebhooks, { topic }: NodeHandlerOptions = {}): NodeHandler {
  if (webhooks.autoStart) webhooks.start();
  return (request, response) => {
    webhooks.receive({ ...toReceiveRequest(request), topic }).then(
      (result) => send(request, response, result),
      // It does not reject; if it did, the platform should come again.
      () => send(request, response, refused("internal")),
    );
  };
}

function toReceiveRequest(request: FrameworkRequest): ReceiveRequest {
  const { method = "", originalUrl, url = "", headers } = request;
  return { method, url: originalUrl ?? url, headers, body: bodyOf(request) };
}

/** Whatever still has the body: the stream, the bytes that a platform has kept, or what a parser made of them. */
function bodyOf(request: FrameworkRequest): ReceiveRequest["body"] {
  const { body, rawBody, readableDidRead } = request;
  if (!readableDidRead && isUnparsed(body)) return request;
  if (ArrayBuffer.isView(rawBody)) return rawBody;
  // Read, and nothing made of it: the handler says what to do about it.
  return body === undefined ? request : (body as ReceiveRequest["body"]);
}

/** Express 4's parsers leave `{}` on a request that is not theirs to parse. */
function isUnparsed(body: unknown): boolean {
  if (body === undefined) return true;
  if (typeof body !== "object" || body === null || ArrayBuffer.isView(body)) return false;
  return !Array.isArray(body) && Object.keys(body).length === 0;
}

function send(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers, body }: ReceiveResult,
): void {
  // The client has gone, or something in front has answered: a timeout, say.
  if (response.headersSent || response.writableEnded || response.destroyed) return;
  if (request.complete || request.httpVersionMajor > 1) {
    response.writeHead(status, headers).end(body);
    return;
  }
  response.writeHead(status, {
    ...headers,
    connection: "close",
    "content-length": String(Buffer.byteLength(body)),
  });
  response.write(body);
  closeSoon(request, response);
}

/**
 * Ends a connection on which a body still arrives that nobody will read. Ended at once, it would be reset, and
 * the answer lost with what the client has not read yet. The answer is whole without the end, by its length.
 */
function closeSoon(request: IncomingMessage, response: ServerResponse): void {
  const end = (): void => void response.end();
  const timer = setTimeout(end, LINGER);
  timer.unref();
  request.once("close", () => {
    clearTimeout(timer);
    end();
  });
}
