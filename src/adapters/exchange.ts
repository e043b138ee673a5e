import { Buffer } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import { refused } from "../webhooks/receiving/answer.ts";
import type { ReceiveRequest, ReceiveResult } from "../webhooks/receiving/receive.ts";
import { assertHandler } from "./assert-handler.ts";

/** The part of a webhook handler that the adapters use. */
export interface Webhooks {
  receive(request: ReceiveRequest): Promise<ReceiveResult>;
  /** Absent in the type of a handler whose store is `forwardTo`. */
  start?(): void;
  readonly autoStart: boolean;
}

/** The options of the adapters. */
export interface AdapterOptions {
  /** The topic of the endpoint. Callbacks get it as `event.topic`. */
  readonly topic?: string | undefined;
}

/** What a framework knows of a request beside Node's own. */
export interface FrameworkRequest {
  /** The URL before a router has cut it. */
  readonly url?: string | undefined;
  /** What a body parser has made of the body. */
  readonly body?: unknown;
  /** The bytes that were kept beside it. */
  readonly rawBody?: unknown;
}

/** How long a client that still sends may take to notice that it was answered, in ms. */
const LINGER = 1_000;

/**
 * Starts the processing, unless the handler has `autoStart: false`.
 *
 * @throws InvalidArgumentError where `webhooks` is not a handler, or an option is misspelt
 */
export function startProcessing(webhooks: Webhooks, options: AdapterOptions | undefined): void {
  assertHandler(webhooks, ["receive"], options);
  if (webhooks.autoStart) webhooks.start?.();
}

/** Hands a request of Node's to the handler, and its answer to the response. Does not reject. */
export async function exchange(
  webhooks: Pick<Webhooks, "receive">,
  request: IncomingMessage,
  response: ServerResponse,
  given: FrameworkRequest & AdapterOptions,
): Promise<void> {
  const { method = "", headers } = request;
  const url = given.url ?? request.url ?? "";
  const arrived = { method, url, headers, body: bodyOf(request, given), topic: given.topic };
  // It does not reject; if it did, the platform should come again.
  const result = await webhooks.receive(arrived).catch(() => refused("internal"));
  send(request, response, result);
}

/** Whatever still has the body: the stream, the bytes that a platform has kept, or what a parser made of them. */
function bodyOf(request: IncomingMessage, { body, rawBody }: FrameworkRequest): ReceiveRequest["body"] {
  if (!request.readableDidRead && isUnparsed(body)) return request;
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
  // Without it Node would answer in chunks, which HTTP/1.0 has not: such a connection could not be kept.
  const sized = { ...headers, "content-length": String(Buffer.byteLength(body)) };
  if (request.complete || request.httpVersionMajor > 1) {
    response.writeHead(status, sized).end(body);
    return;
  }
  response.writeHead(status, { ...sized, connection: "close" });
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
