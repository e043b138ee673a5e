import { inNextTurn } from "../../async.ts";
import { StayhookError } from "../../errors.ts";
import { withoutRounded } from "../../models/exact-json.ts";
import { encodeUtf8 } from "../../utf8.ts";
import { ALREADY_READ, invalidBody, Refused } from "./answers.ts";
import {
  type BodyStream,
  isNodeStream,
  isStream,
  type NodeStream,
  readStream,
  toBytes,
} from "./body-stream.ts";
import { codingsOf, decodeBody, decodersOf, encodedLimit, unknownEncoding } from "./decode.ts";
import { findBody, isRead, jsonOfForm, plainBody } from "./found-body.ts";
import type { InvalidBody } from "./parse.ts";
import { headerOf, type ReceiveRequest } from "./request.ts";

/** The body of a request: its bytes, or its text if the server has already decoded it. */
export type Content = Uint8Array | string;

/** Reads the body of a request, at most once, for `verify` and for the handler. */
export class RequestBody {
  readonly #request: Pick<ReceiveRequest, "body" | "headers" | "isBase64Encoded">;
  readonly #maxBytes: number;
  #found: unknown;
  #sent: Content | Promise<Content> | undefined;
  #decoded: Content | Promise<Content> | undefined;
  #stop: ((refused: Refused) => void) | undefined;
  /** Why the body could not be read. `verify` may have caught this refusal, or failed because of it. */
  refused: Refused | undefined;

  constructor(request: Pick<ReceiveRequest, "body" | "headers" | "isBase64Encoded">, maxBytes: number) {
    const { headers } = request;
    // Node's own request, passed to `receive` or `fetch` as it is, is the stream of its body.
    this.#request = isNodeStream(request) ? { headers, body: findBody(request, request) } : request;
    this.#maxBytes = maxBytes;
  }

  /**
   * Returns the body without its content encoding. Returns a promise only for a stream or an encoded body. In the turn
   * in which a request arrives, Node reads its body at less cost.
   *
   * @throws Refused
   */
  read(): Content | Promise<Content> {
    if (this.refused) throw this.refused;
    if (this.#decoded !== undefined) return this.#decoded;
    const codings = this.#codings();
    this.#decoded = codings.length === 0 ? this.#asSent(codings) : this.#decode(codings);
    return this.#decoded;
  }

  /** Resolves to the bytes of the body as they were sent, for `verify`. Rejects if the body cannot be read. */
  raw(): Promise<Uint8Array> {
    const bytes = this.#bytes();
    // If `verify` ignores the promise, a rejection must not end the process.
    bytes.catch(() => {});
    return bytes;
  }

  /** Stops the reading of a stream. Does nothing if the body is not being read. */
  stop(reason: "aborted" | "body-timeout"): void {
    this.#stop?.(new Refused(reason));
  }

  /** Returns the refusal of a body that is no notification. */
  refusalOf(content: Content, { issues, isNoJson }: InvalidBody): Refused {
    const type = headerOf(this.#request.headers ?? {}, "content-type") ?? "";
    if (isNoJson === true && typeof content !== "string") {
      const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(type)?.[1];
      if (charset !== undefined && !/^utf-?8$/i.test(charset))
        return unknownEncoding("content-type", charset);
    }
    const isForm = /^\s*(application\/x-www-form-urlencoded|multipart\/)/i.test(type);
    if (!isForm || !isParsed(this.#found)) return new Refused("invalid", undefined, issues, content);
    return invalidBody(FORM, content);
  }

  async #bytes(): Promise<Uint8Array> {
    try {
      const codings = this.#codings();
      if (isParsed(this.#body())) throw new StayhookError(`rawBody(): ${ALREADY_READ}`);
      const content = await this.#asSent(codings);
      return typeof content === "string" ? encodeUtf8(content) : content;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const tooLarge = `the body is larger than ${this.#maxBytes} bytes`;
      throw new StayhookError(`rawBody(): ${error.reason === "too-large" ? tooLarge : error.line}`);
    }
  }

  #codings(): readonly string[] {
    return codingsOf(this.#request.headers ?? {});
  }

  /** The given body, in one of the forms that `#readNow` reads. A conversion is made once. */
  #body(): unknown {
    this.#found ??= plainBody(this.#request.body);
    return this.#found;
  }

  async #decode(codings: readonly string[]): Promise<Content> {
    try {
      const isEncoded = typeof this.#body() !== "string" && !isParsed(this.#body());
      if (isEncoded || this.#request.isBase64Encoded === true) decodersOf(codings);
      const sent = await this.#asSent(codings);
      // The server that made a text of the body has decoded it.
      if (typeof sent === "string") return this.#sized(sent);
      return this.#sized(await decodeBody(sent, codings, this.#maxBytes));
    } catch (error) {
      if (error instanceof Refused) this.refused = error;
      throw error;
    }
  }

  /** @throws Refused */
  #asSent(codings: readonly string[]): Content | Promise<Content> {
    if (this.#sent !== undefined) return this.#sent;
    if (this.refused) throw this.refused;
    try {
      this.#sent = this.#readNow(codings.length === 0 ? this.#maxBytes : encodedLimit(this.#maxBytes));
      return this.#sent;
    } catch (error) {
      if (error instanceof Refused) this.refused = error;
      throw error;
    }
  }

  #readNow(limit: number): Content | Promise<Content> {
    const body = this.#body();
    if (body === undefined || body === null || body === "") return this.#nothing("");
    if (typeof body === "string")
      return this.#request.isBase64Encoded === true ? fromBase64(body, limit) : sized(body, limit);
    const bytes = toBytes(body);
    if (bytes !== undefined) return sized(bytes, limit);
    return isParsed(body) ? this.#reserialise(body) : this.#readStream(body as BodyStream, limit);
  }

  #readStream(stream: BodyStream, limit: number): Content | Promise<Content> {
    if (isRead(stream)) throw new Refused("already-read");
    // An unread stream that has ended is empty, and emits no further event. So is the stream of a mock.
    const { readable, readableEnded, destroyed } = stream as NodeStream;
    if (readableEnded === true || (readable === false && destroyed === false)) return this.#nothing("");
    if ((this.#contentLength() ?? 0) > limit) throw new Refused("too-large");
    return new Promise((resolve, reject) => {
      this.#stop = readStream(stream, limit, (body) => {
        if (body instanceof Refused) {
          this.refused = body;
          reject(body);
        } else if (isNodeStream(stream)) afterThisTurn(() => resolve(body));
        else resolve(body);
      });
    });
  }

  // Checks `content-length`. If that header is missing or counts compressed bytes, checks the size of the JSON text.
  #reserialise(parsed: unknown): Content {
    const length = this.#decodedLength();
    if ((length ?? 0) > this.#maxBytes) throw new Refused("too-large");
    const text = jsonOfForm(Object(parsed)) ?? this.#textOf(parsed);
    if (text === undefined) throw invalidBody("is not JSON");
    if (text === "{}") return this.#nothing(text);
    return length === undefined ? this.#sized(text) : text;
  }

  #textOf(parsed: unknown): string | undefined {
    const text = serialise(parsed, 8 * this.#maxBytes);
    return text === undefined ? undefined : withoutRounded(text);
  }

  /** Returns the text, unless the client has sent more than that, so that something has read it and kept nothing. */
  #nothing(text: string): string {
    if ((this.#decodedLength() ?? 0) > LONGEST_EMPTY) throw new Refused("already-read");
    return text;
  }

  /** The length of the body without its content encoding, as far as the headers tell it. */
  #decodedLength(): number | undefined {
    return this.#codings().length > 0 ? undefined : this.#contentLength();
  }

  #sized<C extends Content>(content: C): C {
    return sized(content, this.#maxBytes);
  }

  #contentLength(): number | undefined {
    const header = headerOf(this.#request.headers ?? {}, "content-length");
    return header !== undefined && /^\d+$/.test(header) ? Number(header) : undefined;
  }
}

/** The longest body that may be an empty text, `null` or `{}`, bytes. A notification is longer. */
const LONGEST_EMPTY = 20;

const FORM =
  "was parsed as a form, because of its content type. Mount the webhook handler before the form parser, such as " +
  "express.urlencoded, or exclude the path of the handler from that parser";

/** @throws Refused if the content is larger than `limit` bytes */
function sized<C extends Content>(content: C, limit: number): C {
  const fits = typeof content === "string" ? textFits(content, limit) : content.length <= limit;
  if (!fits) throw new Refused("too-large");
  return content;
}

/** @throws Refused */
function fromBase64(base64: string, limit: number): Uint8Array {
  // Check the length before decoding, so that a body that is too large takes no memory.
  if (decodedLength(base64) > limit) throw new Refused("too-large");
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(base64) || base64.length % 4 !== 0)
    throw invalidBody("is not base64", base64);
  const { Buffer } = globalThis;
  const bytes = Buffer
    ? Buffer.from(base64, "base64")
    : Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  return sized(bytes, limit);
}

let waiting: (() => void)[] = [];

/**
 * Calls back when the event loop has read all sockets that have data. The requests of a turn then go on together: they
 * share a statement of the store, and Node sends their answers one after the other. If each request went on in its own
 * turn, the first one would get a statement to itself, and the others would wait for that statement.
 */
function afterThisTurn(callback: () => void): void {
  if (waiting.push(callback) > 1) return;
  inNextTurn(() => {
    const callbacks = waiting;
    waiting = [];
    for (const each of callbacks) each();
  });
}

/** Whether `body` is an object that a body parser made. */
function isParsed(body: unknown): boolean {
  if (body === undefined || body === null || typeof body === "string" || toBytes(body)) return false;
  return typeof body !== "object" || !isStream(body);
}

function decodedLength(base64: string): number {
  const padding = base64.endsWith("==") ? 2 : base64.endsWith("=") ? 1 : 0;
  return Math.floor((base64.length * 3) / 4) - padding;
}

function textFits(text: string, maxBytes: number): boolean {
  // A UTF-16 unit takes at most 3 bytes in UTF-8, so most texts need not be encoded.
  if (3 * text.length <= maxBytes) return true;
  return encodeUtf8(text).length <= maxBytes;
}

/**
 * Returns the JSON of a parsed value, at any depth of nesting.
 *
 * @param maxLength - the longest text for a value that is too deep for `JSON.stringify`. Other values have no limit
 * @returns `undefined` if the value has no JSON, or if the text would be longer than its limit
 */
export function serialise(value: unknown, maxLength: number): string | undefined {
  try {
    return JSON.stringify(value);
  } catch (error) {
    // `JSON.parse` reads any depth, but `JSON.stringify` fails after a few thousand levels.
    if (!(error instanceof RangeError)) return undefined;
  }
  try {
    return serialiseDeep(value, maxLength);
  } catch {
    return undefined;
  }
}

type Step = { readonly text: string } | { readonly value: unknown };

function serialiseDeep(root: unknown, maxLength: number): string | undefined {
  const steps: Step[] = [{ value: root }];
  let text = "";
  for (let step = steps.pop(); step !== undefined; step = steps.pop()) {
    if ("text" in step) text += step.text;
    else if (typeof step.value !== "object" || step.value === null) text += JSON.stringify(step.value);
    else for (const part of partsOf(step.value).reverse()) steps.push(part);
    if (text.length > maxLength) return undefined;
  }
  return text;
}

function partsOf(value: object): Step[] {
  const parts: Step[] = [];
  const isList = Array.isArray(value);
  for (const [key, member] of Object.entries(value)) {
    const before = parts.length === 0 ? "" : ",";
    parts.push({ text: isList ? before : `${before}${JSON.stringify(key)}:` }, { value: member });
  }
  return [{ text: isList ? "[" : "{" }, ...parts, { text: isList ? "]" : "}" }];
}
