// Answers a request of Node's http module, for all adapters: reads the body in any form, and sends the answer.

import { Buffer } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
// Use imported timers: a test's fake timers replace the globals, and would hold the answer back.
import { clearTimeout, setTimeout } from "node:timers";
import { StayhookError } from "../errors.ts";
import { Log } from "../logger.ts";
import { checkNoUnknown } from "../option-names.ts";
import { internalsOf } from "../webhooks/internals.ts";
import { type ReceiveResult, Refused } from "../webhooks/receiving/answers.ts";
import { type BodyCarrier, findBody } from "../webhooks/receiving/found-body.ts";
import type { ReceiveRequest } from "../webhooks/receiving/request.ts";
import { assertHandler, type Endpoint, type FetchHandler, isFetchHandler, withEndpoint } from "./handlers.ts";
import { isStillSent, nodeRequestIn, nodeResponseIn, serverOf, takeOver } from "./node-objects.ts";

/** The part of a webhook handler that the adapters use. */
export type Webhooks = {
  /** Takes a notification, and returns the HTTP answer to send. */
  receive(request: ReceiveRequest): Promise<ReceiveResult>;
};

/** Finds the account in a request of the framework. */
export type AccountFinder<R> = {
  /** Finds the account. A method, so that the parameter may have the framework's own type of requests. */
  find(request: R): string | readonly string[] | undefined;
}["find"];

/** The options of the adapters. */
export interface AdapterOptions<R = never> {
  /** The topic of the endpoint: `bookings`, `listings` or `messages`. Callbacks get the topic as `event.topic`. */
  readonly topic?: string | undefined;
  /**
   * The account of the endpoint, or a function that finds it in the framework's request, for a handler with `accountFrom`.
   * If the function returns `undefined`, `accountFrom` finds the account. If it throws, the answer is 503.
   */
  readonly account?: string | AccountFinder<R> | undefined;
}

/** The members that frameworks add to a request. */
interface FrameworkRequest extends BodyCarrier {
  readonly originalUrl?: string | undefined;
}

/** A request in the framework's form, with the details that the adapter knows. */
export interface Given {
  /** Default: an endpoint without topic and account. */
  readonly endpoint?: Endpoint;
  /** The framework's request: Node's request, or an object that holds it. */
  readonly request: unknown;
  /** The framework's response: Node's response, or an object that holds it. */
  readonly response: unknown;
}

/** Node's request and response, with what the framework has added. */
interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The original URL, including a prefix that a router has removed from Node's `url`. */
  readonly url: string;
  readonly body: ReceiveRequest["body"];
  readonly endpoint: Endpoint;
}

/** How long the connection stays open after the answer if the client is still sending its body, ms. */
const LINGER = 1_000;

/** Passes a request to the webhook handler, and sends the answer. */
async function exchange(webhooks: Pick<Webhooks, "receive">, given: Exchange): Promise<void> {
  const { request, response, url, body, endpoint } = given;
  const { method = "", headers } = request;
  const server = serverOf(request);
  if (server) internalsOf(webhooks)?.serves(server);
  let result: ReceiveResult;
  try {
    result = await webhooks.receive(withEndpoint({ method, url, headers, body }, endpoint));
  } catch {
    // `receive` should never reject. If it does, answer 500, so that the platform sends the notification again.
    result = new Refused("internal").answer;
  }
  await send(request, response, result);
}

/** Resolves when the answer is sent, or when the client has disconnected. */
async function send(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers, body }: ReceiveResult,
): Promise<void> {
  // Send nothing if the client has disconnected, or if a timeout middleware has already answered.
  if (response.headersSent || response.writableEnded || response.destroyed) return;
  // Without `content-length`, Node sends chunks. HTTP/1.0 has no chunks, so Node would have to close the connection.
  const sized: Record<string, string> = { ...headers, "content-length": String(Buffer.byteLength(body)) };
  // A server that was closed keeps its connections for further requests, unless it is told to end them.
  if (serverOf(request)?.listening === false && request.httpVersionMajor === 1) sized.connection = "close";
  const sent = untilSent(response);
  if (isStillSent(request)) {
    writeHead(response, status, { ...sized, connection: "close" });
    response.write(body);
    closeSoon(request, response);
  } else {
    writeHead(response, status, sized);
    response.end(body);
  }
  // The response of a mock may emit no event.
  if (response.writableFinished === false) await sent;
}

function untilSent(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    for (const event of ["finish", "close", "error"] as const) response.on?.(event, () => resolve());
  });
}

/** Sends the head, even if a middleware has replaced `writeHead` by a function that throws. */
function writeHead(
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string | string[]>>,
): void {
  try {
    response.writeHead(status, headers);
  } catch (error) {
    if (response.headersSent) return;
    log.limited("head", "error", "writeHead of a response threw, so its original is called", { error });
    const { writeHead: original } = Object.getPrototypeOf(response) as Partial<ServerResponse>;
    if (original) return void original.call(response, status, headers);
    response.statusCode = status;
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  }
}

/**
 * Closes a connection on which part of the request's body is still unread. Waits a moment first, because an immediate
 * close would reset the connection, and the client would lose the answer.
 */
function closeSoon(request: IncomingMessage, response: ServerResponse): void {
  const end = (): void => void response.end();
  const timer = setTimeout(end, LINGER);
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
export function startServing(
  handler: Webhooks | FetchHandler,
  options: AdapterOptions<never> | undefined,
): void {
  if (isFetchHandler(handler)) {
    checkNoUnknown(options, []);
  } else {
    assertHandler(handler, ["receive"], options, ", or a console from createConsole");
    internalsOf(handler)?.start();
  }
}

const log = new Log();

/**
 * Passes a request to the handler, and writes the handler's answer. Resolves when the answer is sent.
 *
 * @throws StayhookError if the framework's objects do not hold Node's response. If nobody waits for the promise, the
 * rejection does not end the process
 */
export function answerWith(handler: Webhooks | FetchHandler, given: Given): Promise<void> {
  const answered = answer(handler, given);
  // A request of a stranger must not end the process, so the rejection has a listener.
  answered.catch(() => {});
  return answered;
}

async function answer(handler: Webhooks | FetchHandler, given: Given): Promise<void> {
  const { request, response } = given;
  const ownLog = internalsOf(handler)?.log ?? log;
  const nodeRequest = nodeRequestIn(request);
  const nodeResponse = nodeResponseIn(response, request);
  if (!nodeResponse) {
    const error = new StayhookError(NOT_NODES);
    ownLog.limited("not-node", "error", error.message);
    throw error;
  }
  try {
    if (request !== nodeRequest || response !== nodeResponse) takeOver(request, response);
    if (!nodeRequest) throw new StayhookError(NOT_NODES);
    const exchanged = exchangeOf(nodeRequest, nodeResponse, given);
    if (isFetchHandler(handler)) await exchangePage(handler, exchanged);
    else await exchange(handler, exchanged);
  } catch (error) {
    ownLog.limited("adapter", "error", "a request could not be answered", { error });
    abandon(nodeResponse);
  }
}

const NOT_NODES =
  "the adapter got an object that is not the request or response of node:http, and holds none. Pass Node's objects, " +
  "or pass a web Request to webhooks.fetch";

function exchangeOf(request: IncomingMessage, response: ServerResponse, given: Given): Exchange {
  const framework = Object(given.request) as FrameworkRequest;
  const added = request as FrameworkRequest;
  return {
    request,
    response,
    url: framework.originalUrl ?? added.originalUrl ?? request.url ?? "",
    body: framework === added ? findBody(request, added) : findBody(request, framework, added),
    endpoint: given.endpoint ?? { topic: undefined, account: undefined },
  };
}

/** Answers 500 if that is still possible. Otherwise closes the connection, so that the platform does not wait. */
function abandon(response: ServerResponse): void {
  ignoring(() => {
    if (response.headersSent || response.writableEnded) return void response.destroy?.();
    response.statusCode = 500;
    response.end();
  });
  if (!response.writableEnded) ignoring(() => response.destroy?.());
}

async function exchangePage(handler: FetchHandler, exchanged: Exchange): Promise<void> {
  const { request, response } = exchanged;
  try {
    const made = toWebRequest(exchanged);
    const page = made ? await handler.fetch(made) : new Response(null, { status: 400 });
    // If the handler left the body unread, drop the body as it arrives. Do not wait for that: somebody may hold a copy.
    if (made?.body && !made.body.locked) made.body.cancel().catch(() => {});
    await writePage(request, response, page);
  } catch {
    // The client has disconnected, or the stream of the answer failed.
    response.destroy();
  }
}

/** Makes a web `Request`, or returns `undefined` if that is impossible, for example because the URL is invalid. */
function toWebRequest({ request, url: path, body: found }: Exchange): Request | undefined {
  const { method = "GET" } = request;
  const { encrypted } = Object(request.socket) as { readonly encrypted?: boolean };
  const scheme = encrypted ? "https" : "http";
  const { host = "localhost" } = request.headers;
  // Such a character ends the host in a URL, so that the client would choose the path or query that `authorize` sees.
  if (/[/?#@\\]/.test(host)) return undefined;
  const url = `${scheme}://${host}${path.startsWith("/") ? path : "/"}`;
  if (!URL.canParse(url)) return undefined;
  const headers = new Headers();
  for (const [name, value = ""] of Object.entries(request.headers))
    if (!name.startsWith(":")) for (const each of [value].flat()) headers.append(name, each);
  const body = method === "GET" || method === "HEAD" ? null : webBodyOf(request, found);
  try {
    return new Request(url, { method, headers, body, duplex: "half" } as RequestInit);
  } catch {
    return undefined;
  }
}

/** Returns the request's body: the unread stream, the raw bytes, or the parsed body converted back to text. */
function webBodyOf(request: IncomingMessage, body: unknown): BodyInit {
  if (body === request) return streamOf(request);
  if (ArrayBuffer.isView(body)) return body as Uint8Array<ArrayBuffer>;
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
  const isUnread = isStillSent(request);
  writeHead(response, answer.status, isUnread ? { ...headers, connection: "close" } : headers);
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
