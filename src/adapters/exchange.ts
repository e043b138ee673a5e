import { Buffer } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import { checkNoUnknown } from "../option-names.ts";
import { type ReceiveResult, refused } from "../webhooks/receiving/answers.ts";
import type { ReceiveRequest } from "../webhooks/receiving/request.ts";
import { assertHandler, type FetchHandler, isFetchHandler } from "./handlers.ts";

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

async function exchange(
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
 * Starts the processing of a webhook handler, unless it has `autoStart: false`. Other handlers, such as the console, have
 * no processing.
 *
 * @throws InvalidArgumentError where `handler` is neither, or an option is misspelled
 */
export function startServing(handler: Webhooks | FetchHandler, options: AdapterOptions | undefined): void {
  if (isFetchHandler(handler)) {
    checkNoUnknown(options, []);
  } else {
    assertHandler(handler, ["receive"], options);
    if (handler.autoStart) handler.start?.();
  }
}

/** Passes a Node request to the handler, and writes its answer. Never rejects. */
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
    // The handler did not read the body to its end. Drop the rest as it arrives.
    if (made?.body && !made.body.locked) await made.body.cancel();
    await writePage(request, response, answer);
  } catch {
    // The client is gone, or the stream of the answer broke.
    response.destroy();
  }
}

/** `undefined` where the request has no usable URL. */
function toWebRequest(request: IncomingMessage, given: FrameworkRequest): Request | undefined {
  const { method = "GET" } = request;
  const scheme = (request.socket as { readonly encrypted?: boolean }).encrypted ? "https" : "http";
  const path = given.url ?? request.url ?? "";
  const url = `${scheme}://${request.headers.host ?? "localhost"}${path.startsWith("/") ? path : "/"}`;
  if (!URL.canParse(url)) return undefined;
  const headers = new Headers();
  for (const [name, value = ""] of Object.entries(request.headers))
    if (!name.startsWith(":")) for (const each of [value].flat()) headers.append(name, each);
  const body = method === "GET" || method === "HEAD" ? null : webBodyOf(request, given);
  try {
    return new Request(url, { method, headers, body, duplex: "half" } as RequestInit);
  } catch {
    // Such as TRACE, which a web request cannot have.
    return undefined;
  }
}

/** The body: the unread stream, or the output of a body parser turned back into text. */
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

/** Leaving the request's own iterator early would destroy the connection before the answer is sent. */
function streamOf(request: IncomingMessage): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    start(controller) {
      request.pause();
      request.on("data", (chunk: Uint8Array) => {
        try {
          controller.enqueue(new Uint8Array(chunk));
          if ((controller.desiredSize ?? 0) <= 0) request.pause();
        } catch {
          // The stream was cancelled: drop the bytes.
        }
      });
      request.once("end", () => ignoring(() => controller.close()));
      request.once("error", (error) => ignoring(() => controller.error(error)));
      request.once("close", () => ignoring(() => controller.error(new Error("The request ended early"))));
    },
    pull: () => void request.resume(),
    cancel: () => void request.resume(),
  });
}

/** A stream that was closed or cancelled throws at its second end. */
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

/** Writes all of a stream. Ends it when the client goes. */
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
