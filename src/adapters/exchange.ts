import { Buffer } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { ReceiveResult } from "../webhooks/receiving/answers.ts";
import { refused } from "../webhooks/receiving/answers.ts";
import type { ReceiveRequest } from "../webhooks/receiving/request.ts";
import { assertHandler } from "./assert-handler.ts";

/** The part of a webhook handler that the adapters use. */
export interface Webhooks {
  /** Takes a notification, and gives the answer to send. */
  receive(request: ReceiveRequest): Promise<ReceiveResult>;
  /** Absent in the type of a handler whose store is `forwardTo`. */
  start?(): void;
  /** Whether the adapter starts the processing. */
  readonly autoStart: boolean;
}

/** The options of the adapters. */
export interface AdapterOptions {
  /** The topic of the endpoint. Callbacks get it as `event.topic`. */
  readonly topic?: string | undefined;
}

/** The facts that a framework adds to Node's request. */
export interface FrameworkRequest {
  /** The URL before a router cut its prefix off. */
  readonly url?: string | undefined;
  /** The output of a body parser. */
  readonly body?: unknown;
  /** The bytes of the body, where the platform kept them beside the parsed body. */
  readonly rawBody?: unknown;
}

/** How long a client that still sends may take to notice the answer, ms. */
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

/** Passes a Node request to the handler, and writes the handler's answer. Never rejects. */
export async function exchange(
  webhooks: Pick<Webhooks, "receive">,
  request: IncomingMessage,
  response: ServerResponse,
  given: FrameworkRequest & AdapterOptions,
): Promise<void> {
  const { method = "", headers } = request;
  const url = given.url ?? request.url ?? "";
  const arrived = { method, url, headers, body: bodyOf(request, given), topic: given.topic };
  let result: ReceiveResult;
  try {
    result = await webhooks.receive(arrived);
  } catch {
    // It never rejects. If it did, the platform should send the notification again.
    result = refused("internal");
  }
  send(request, response, result);
}

/** The body: the unread stream, the bytes that a platform kept, or the output of a parser. */
function bodyOf(request: IncomingMessage, { body, rawBody }: FrameworkRequest): ReceiveRequest["body"] {
  if (!request.readableDidRead && isUnparsed(body)) return request;
  if (ArrayBuffer.isView(rawBody)) return rawBody;
  // A middleware read the stream and kept nothing. The handler's log line says what to do.
  return body === undefined ? request : (body as ReceiveRequest["body"]);
}

/** Express 4's parsers leave `{}` on a request that is not theirs to parse. */
export function isUnparsed(body: unknown): boolean {
  if (body === undefined) return true;
  if (typeof body !== "object" || body === null || ArrayBuffer.isView(body)) return false;
  return !Array.isArray(body) && Object.keys(body).length === 0;
}

function send(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers, body }: ReceiveResult,
): void {
  // The client has gone, or a timeout in front of the handler has answered.
  if (response.headersSent || response.writableEnded || response.destroyed) return;
  // Without a length Node answers in chunks. HTTP/1.0 has none, so the connection could not be kept.
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
 * Ends a connection whose body still arrives and will not be read. An end at once would reset the connection, and the
 * client would lose the answer. The client knows the end of the answer by its length.
 */
export function closeSoon(request: IncomingMessage, response: ServerResponse): void {
  const end = (): void => void response.end();
  const timer = setTimeout(end, LINGER);
  timer.unref();
  request.once("close", () => {
    clearTimeout(timer);
    end();
  });
}
