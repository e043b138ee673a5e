// Answers a request of Node's http module, for all adapters: reads the body in any form, and sends the answer.

import { Buffer } from "node:buffer";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { checkNoUnknown } from "../option-names.ts";
import { internalsOf } from "../webhooks/internals.ts";
import { type ReceiveResult, Refused } from "../webhooks/receiving/answers.ts";
import type { ReceiveRequest } from "../webhooks/receiving/request.ts";
import { assertHandler, type FetchHandler, isFetchHandler } from "./handlers.ts";

/** The part of a webhook handler that the adapters use. */
export interface Webhooks {
  /** Takes a notification, and returns the HTTP answer to send. */
  receive(request: ReceiveRequest): Promise<ReceiveResult>;
}

/** The options of the adapters. */
export interface AdapterOptions {
  /** The topic of the endpoint: `bookings`, `listings` or `messages`. Callbacks get the topic as `event.topic`. */
  readonly topic?: string | undefined;
}

/** The properties that a framework adds to Node's request. */
export interface FrameworkRequest {
  /** The original URL, including a prefix that a router has removed from Node's `url`. */
  readonly url?: string | undefined;
  /** The output of a body parser. */
  readonly body?: unknown;
  /** The bytes of the body, if the hosting platform passes them in addition to the parsed body. */
  readonly rawBody?: unknown;
}

/** How long the connection stays open after the answer if the client is still sending its body, ms. */
const LINGER = 1_000;

async function exchange(
  webhooks: Pick<Webhooks, "receive">,
  request: IncomingMessage,
  response: ServerResponse,
  given: FrameworkRequest & AdapterOptions,
): Promise<void> {
  const { method = "", headers } = request;
  const url = given.url ?? request.url ?? "";
  const server = serverOf(request);
  if (server) internalsOf(webhooks)?.serves(server);
  const arrived = { method, url, headers, body: bodyOf(request, given), topic: given.topic };
  let result: ReceiveResult;
  try {
    result = await webhooks.receive(arrived);
  } catch {
    // `receive` should never reject. If it does, answer 500, so that the platform sends the notification again.
    result = new Refused("internal").answer;
  }
  send(request, response, result);
}

/** Node sets this property, but does not document it. Other runtimes do not have it. */
function serverOf({ socket }: IncomingMessage): Server | undefined {
  return (socket as { readonly server?: Server }).server;
}

/** Returns the request's body: the unread stream, the raw bytes, or the output of a body parser. */
function bodyOf(request: IncomingMessage, { body, rawBody }: FrameworkRequest): ReceiveRequest["body"] {
  if (!request.readableDidRead && isUnparsed(body)) return request;
  if (ArrayBuffer.isView(rawBody)) return rawBody;
  // If a middleware read the stream and set no `body`, the handler gets the stream, and logs how to fix the problem.
  return body === undefined ? request : (body as ReceiveRequest["body"]);
}

/** Express 4's body parsers set `body` to `{}` on a request that they do not parse. */
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
  // Send nothing if the client has disconnected, or if a timeout middleware has already answered.
  if (response.headersSent || response.writableEnded || response.destroyed) return;
  // Without `content-length`, Node sends chunks. HTTP/1.0 has no chunks, so Node would have to close the connection.
  const sized: Record<string, string> = { ...headers, "content-length": String(Buffer.byteLength(body)) };
  // A server that was closed keeps its connections for further requests, unless it is told to end them.
  if (serverOf(request)?.listening === false && request.httpVersionMajor === 1) sized.connection = "close";
  if (request.complete || request.httpVersionMajor > 1) {
    response.writeHead(status, sized).end(body);
    return;
  }
  response.writeHead(status, { ...sized, connection: "close" });
  response.write(body);
  closeSoon(request, response);
}

/**
 * Closes a connection on which part of the request's body is still unread. Waits a moment first, because an immediate
 * close would reset the connection, and the client would lose the answer.
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

/**
 * Checks the arguments of an adapter. Starts the processing of a webhook handler, unless the handler has
 * `autoStart: false`. A console has no processing to start.
 *
 * @throws InvalidArgumentError if `handler` is not a webhook handler or a console, or an option is invalid
 */
export function startServing(handler: Webhooks | FetchHandler, options: AdapterOptions | undefined): void {
  if (isFetchHandler(handler)) {
    checkNoUnknown(options, []);
  } else {
    assertHandler(handler, ["receive"], options, ", or a console from createConsole");
    internalsOf(handler)?.start();
  }
}

/** Passes a Node request to the handler, and writes the handler's answer. Never rejects. */
export function answerWith(
  handler: Webhooks | FetchHandler,
  request: IncomingMessage,
  response: ServerResponse,
  given: FrameworkRequest & AdapterOptions,
): Promise<void> {
  const answer = isFetchHandler(handler) ? exchangePage : exchange;
  return answer(handler as Webhooks & FetchHandler, request, response, given);
}

async function exchangePage(
  handler: FetchHandler,
  request: IncomingMessage,
  response: ServerResponse,
  given: FrameworkRequest,
): Promise<void> {
  try {
    const made = toWebRequest(request, given);
    const answer = made ? await handler.fetch(made) : new Response(null, { status: 400 });
    // If the handler left the body unread, drop the body as it arrives.
    if (made?.body && !made.body.locked) await made.body.cancel();
    await writePage(request, response, answer);
  } catch {
    // The client has disconnected, or the stream of the answer failed.
    response.destroy();
  }
}

/** Makes a web `Request`, or returns `undefined` if that is impossible, for example because the URL is invalid. */
function toWebRequest(request: IncomingMessage, given: FrameworkRequest): Request | undefined {
  const { method = "GET" } = request;
  const scheme = (request.socket as { readonly encrypted?: boolean }).encrypted ? "https" : "http";
  const path = given.url ?? request.url ?? "";
  const { host = "localhost" } = request.headers;
  // Such a character ends the host in a URL, so that the client would choose the path or query that `authorize` sees.
  if (/[/?#@\\]/.test(host)) return undefined;
  const url = `${scheme}://${host}${path.startsWith("/") ? path : "/"}`;
  if (!URL.canParse(url)) return undefined;
  const headers = new Headers();
  for (const [name, value = ""] of Object.entries(request.headers))
    if (!name.startsWith(":")) for (const each of [value].flat()) headers.append(name, each);
  const body = method === "GET" || method === "HEAD" ? null : webBodyOf(request, given);
  try {
    return new Request(url, { method, headers, body, duplex: "half" } as RequestInit);
  } catch {
    return undefined;
  }
}

/** Returns the request's body: the unread stream, the raw bytes, or the parsed body converted back to text. */
function webBodyOf(request: IncomingMessage, { body, rawBody }: FrameworkRequest): BodyInit {
  if (!request.readableDidRead && isUnparsed(body)) return streamOf(request);
  for (const bytes of [rawBody, body]) if (ArrayBuffer.isView(bytes)) return bytes as Uint8Array<ArrayBuffer>;
  if (typeof body !== "object") return typeof body === "string" ? body : "";
  const isForm = request.headers["content-type"]?.includes("urlencoded") ?? false;
  if (!isForm) return JSON.stringify(body);
  const fields = Object.entries(body ?? {}).flatMap(([name, values]) =>
    [values].flat().map((value): [string, string] => [name, String(value)]),
  );
  return String(new URLSearchParams(fields));
}

/**
 * Makes a web stream of the request's body. Does not use the request's own iterator: if the reader stops early, that
 * iterator closes the connection.
 */
function streamOf(request: IncomingMessage): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    start(controller) {
      request.pause();
      request.on("data", (chunk: Uint8Array) => {
        try {
          controller.enqueue(new Uint8Array(chunk));
          if ((controller.desiredSize ?? 0) <= 0) request.pause();
        } catch {
          // The stream was canceled, so drop the bytes.
        }
      });
      request.once("end", () => ignoring(() => controller.close()));
      request.once("error", (error) => ignoring(() => controller.error(error)));
      request.once("close", () =>
        ignoring(() => controller.error(new Error("The request ended before its body was complete"))),
      );
    },
    pull: () => void request.resume(),
    cancel: () => void request.resume(),
  });
}

/** Calls `act` and ignores its errors, because a web stream throws if it is ended twice. */
function ignoring(act: () => void): void {
  try {
    act();
  } catch {}
}

async function writePage(
  request: IncomingMessage,
  response: ServerResponse,
  answer: Response,
): Promise<void> {
  if (response.headersSent || response.writableEnded || response.destroyed) {
    await answer.body?.cancel();
    return;
  }
  const cookies = answer.headers.getSetCookie();
  const headers: Record<string, string | string[]> = Object.fromEntries(answer.headers);
  if (cookies.length > 0) headers["set-cookie"] = cookies;
  const isUnread = !request.complete && request.httpVersionMajor === 1;
  response.writeHead(answer.status, isUnread ? { ...headers, connection: "close" } : headers);
  const reader = answer.body?.getReader();
  if (reader) await pump(reader, response);
  if (!isUnread) return void response.end();
  request.resume();
  closeSoon(request, response);
}

/** Writes a whole stream to the response. Cancels the stream if the client disconnects. */
async function pump(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  response: ServerResponse,
): Promise<void> {
  response.flushHeaders();
  response.once("close", () => void reader.cancel().catch(() => {}));
  for (;;) {
    const { done, value } = await reader.read();
    if (done || response.destroyed) return;
    if (!response.write(value))
      await new Promise<void>((resume) => {
        response.once("drain", resume);
        response.once("close", resume);
      });
  }
}
