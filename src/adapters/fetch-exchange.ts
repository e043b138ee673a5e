import type { IncomingMessage, ServerResponse } from "node:http";
import { checkNoUnknown } from "../options.ts";
import {
  type AdapterOptions,
  closeSoon,
  exchange,
  type FrameworkRequest,
  isUnparsed,
  startProcessing,
  type Webhooks,
} from "./exchange.ts";
import { type FetchHandler, isFetchHandler } from "./fetch-handler.ts";

/** Starts the processing of a webhook handler. Other handlers, such as the console, have no processing. */
export function startServing(handler: Webhooks | FetchHandler, options: AdapterOptions | undefined): void {
  if (isFetchHandler(handler)) checkNoUnknown(options, []);
  else startProcessing(handler, options);
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
    await write(request, response, answer);
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
  const body = method === "GET" || method === "HEAD" ? null : bodyOf(request, given);
  try {
    return new Request(url, { method, headers, body, duplex: "half" } as RequestInit);
  } catch {
    // Such as TRACE, which a web request cannot have.
    return undefined;
  }
}

/** The body: the unread stream, or the output of a body parser turned back into text. */
function bodyOf(request: IncomingMessage, { body, rawBody }: FrameworkRequest): BodyInit {
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

async function write(request: IncomingMessage, response: ServerResponse, answer: Response): Promise<void> {
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
