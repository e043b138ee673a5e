// Decides what the body of a request is, for the adapters, `receive`, `fetch` and Lambda alike.

import { isStream, isWebStream, type NodeStream, toBytes } from "./body-stream.ts";

/** A request of a framework, or Node's request, to which a host or a body parser may have added the body. */
export interface BodyCarrier {
  /** The body as it was sent: bytes or text. */
  readonly rawBody?: unknown;
  /** The output of a body parser. */
  readonly body?: unknown;
}

/**
 * Returns the first place that holds a body:
 *
 * | Place | Who leaves a body there | Holds one if it is |
 * |---|---|---|
 * | `rawBody` | Google Cloud Functions, `express.json({ verify })`, NestJS's `rawBody: true`, fastify-raw-body | bytes or text that are not empty, an object with a key |
 * | `body` | body parsers, serverless hosts, hooks that replace the stream | the same, or a number, a boolean, an unread stream |
 * | the stream | nobody has read the request | unread |
 * | `body` | a body parser that found nothing: `{}`, `null` or an empty text | not `undefined` |
 * | the stream | somebody has read the request, and kept nothing | always, so that the answer is `already-read` |
 *
 * `rawBody` comes before `body`, because `verify` may need the bytes.
 */
export function findBody(
  stream: object,
  ...carriers: readonly BodyCarrier[]
): object | string | null | undefined {
  for (const { rawBody } of carriers) if (holdsBytes(rawBody)) return rawBody as object | string;
  for (const { body } of carriers) if (body !== stream && holdsBody(body)) return body as object | string;
  if (isStream(stream) && !isRead(stream)) return stream;
  const empty = carriers.find(({ body }) => body !== undefined && !isStream(Object(body)));
  if (empty) return empty.body as object | string | null;
  return isStream(stream) ? stream : undefined;
}

/** Whether somebody reads a stream, or has read it. */
export function isRead(stream: object): boolean {
  return isWebStream(stream) ? stream.locked : (stream as NodeStream).readableDidRead === true;
}

function holdsBytes(value: unknown): boolean {
  if (typeof value === "string") return value !== "";
  return typeof value === "object" && holdsBody(value);
}

function holdsBody(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return false;
  if (typeof value !== "object") return typeof value !== "function";
  const bytes = toBytes(value);
  if (bytes) return bytes.length > 0;
  if (isStream(value)) return !isRead(value);
  return isBlob(value) || isForm(value) || Object.keys(value).length > 0;
}

/** Converts the forms of a body that are neither text, bytes, a stream, nor the output of a JSON parser. */
export function plainBody(body: unknown): unknown {
  if (typeof body !== "object" || body === null) return body;
  if (isBlob(body)) return body.stream();
  if (isForm(body)) return Object.fromEntries(body);
  const { type, data } = body as { readonly type?: unknown; readonly data?: unknown };
  // A `Buffer` that was sent as JSON, for example from one Lambda function to another.
  return type === "Buffer" && Array.isArray(data) ? Uint8Array.from(data as number[]) : body;
}

function isBlob(value: object): value is Blob {
  const { arrayBuffer, stream } = value as Partial<Blob>;
  return typeof arrayBuffer === "function" && typeof stream === "function";
}

/** Whether a value is a `URLSearchParams` or a `FormData`. */
function isForm(value: object): value is URLSearchParams {
  return typeof (value as Partial<URLSearchParams>).getAll === "function" && Symbol.iterator in value;
}

/**
 * Returns the JSON text from which a form parser has made an object, or `undefined`. The parser has split the text at
 * `&` and `=`, so most JSON becomes a single key with an empty value.
 */
export function jsonOfForm(parsed: object): string | undefined {
  if (!/^\s*\{/.test(Object.keys(parsed)[0] ?? "")) return undefined;
  const fields = Object.entries(parsed);
  if (!fields.every(([, value]) => typeof value === "string")) return undefined;
  const text = fields.map(([key, value]) => (value === "" ? key : `${key}=${value}`)).join("&");
  // A form parser also replaces `+`. Put it back into the offset of a time.
  const json = text.replace(/(T\d\d:\d\d(?::\d\d(?:\.\d+)?)?) (\d\d:?\d\d")/g, "$1+$2");
  try {
    JSON.parse(json);
    return json;
  } catch {
    return undefined;
  }
}
