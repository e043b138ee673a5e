import { StayhookError } from "../../errors.ts";
import { ALREADY_READ } from "./answers.ts";
import {
  type BodyFailure,
  type BodyLimits,
  type BodyStream,
  isNodeStream,
  isWebStream,
  type NodeStream,
  type ReadBody,
  readStream,
  toBytes,
} from "./body-stream.ts";
import { headerOf, type ReceiveRequest, type RequestHeaders } from "./request.ts";

const encoder = new TextEncoder();

/** Reads the body of a request, at most once. The body is a stream, bytes, text, or an object from a body parser. */
export class RequestBody {
  readonly #body: unknown;
  readonly #isBase64: boolean;
  readonly #headers: RequestHeaders;
  readonly #limits: BodyLimits;
  #read: ReadBody | Promise<ReadBody> | undefined;
  #failed = false;
  #stop: (() => void) | undefined;

  constructor(
    { body, headers, isBase64Encoded }: Omit<ReceiveRequest, "method" | "url">,
    limits: BodyLimits,
  ) {
    this.#body = body;
    this.#isBase64 = isBase64Encoded === true;
    this.#headers = headers ?? {};
    this.#limits = limits;
  }

  get hasFailed(): boolean {
    return this.#failed;
  }

  read(): ReadBody | Promise<ReadBody> {
    if (this.#read === undefined) {
      const read = this.#start();
      this.#read = read;
      if (!(read instanceof Promise)) this.#failed = read.failure !== undefined;
    }
    return this.#read;
  }

  /** Resolves to the bytes of the body, for `verify`. Rejects if the body cannot be read. */
  raw(): Promise<Uint8Array> {
    const bytes = this.#bytes();
    // If `verify` ignores the promise, a rejection must not end the process.
    bytes.catch(() => {});
    return bytes;
  }

  stop(): void {
    this.#stop?.();
  }

  async #bytes(): Promise<Uint8Array> {
    if (isParsed(this.#body)) throw new StayhookError(`rawBody(): ${ALREADY_READ}`);
    const read = await this.read();
    if (read.failure !== undefined) throw new StayhookError(`rawBody(): ${this.#describe(read.failure)}`);
    return typeof read.content === "string" ? encoder.encode(read.content) : read.content;
  }

  #describe(failure: BodyFailure): string {
    if (failure === "too-large") return `the body is larger than ${this.#limits.maxBodyBytes} bytes`;
    if (failure === "not-base64") return "the body is not base64";
    if (failure === "body-timeout") return "the body did not arrive in time";
    return failure === "already-read" ? ALREADY_READ : "the request ended before its body was complete";
  }

  #start(): ReadBody | Promise<ReadBody> {
    const body = this.#body;
    if (body === undefined || body === null) return { content: "" };
    if (typeof body === "string") return this.#isBase64 ? this.#decode(body) : this.#sized(body);
    const bytes = toBytes(body);
    if (bytes !== undefined) return this.#sized(bytes);
    return isStream(body) ? this.#readStream(body) : this.#reserialise(body);
  }

  #readStream(stream: BodyStream): ReadBody | Promise<ReadBody> {
    if (wasRead(stream)) return { failure: "already-read" };
    if (hasEnded(stream)) return { content: "" };
    if ((this.#contentLength() ?? 0) > this.#limits.maxBodyBytes) return { failure: "too-large" };
    return new Promise((resolve) => {
      this.#stop = readStream(stream, this.#limits, (body) => {
        this.#failed = body.failure !== undefined;
        resolve(body);
      });
    });
  }

  #decode(base64: string): ReadBody {
    // Check the length before decoding, so that a body that is too large takes no memory.
    if (decodedLength(base64) > this.#limits.maxBodyBytes) return { failure: "too-large" };
    if (!/^[A-Za-z0-9+/]*={0,2}$/.test(base64) || base64.length % 4 !== 0) {
      return { failure: "not-base64", content: base64 };
    }
    const { Buffer } = globalThis;
    return this.#sized(
      Buffer ? Buffer.from(base64, "base64") : Uint8Array.from(atob(base64), (char) => char.charCodeAt(0)),
    );
  }

  // Checks `content-length`. If that header is missing or counts compressed bytes, checks the size of the JSON text.
  #reserialise(parsed: unknown): ReadBody {
    const length =
      headerOf(this.#headers, "content-encoding") === undefined ? this.#contentLength() : undefined;
    const { maxBodyBytes } = this.#limits;
    if ((length ?? 0) > maxBodyBytes) return { failure: "too-large" };
    const text = serialise(parsed, 8 * maxBodyBytes);
    if (text === undefined) return { failure: "not-json" };
    return length === undefined ? this.#sized(text) : { content: text };
  }

  #sized(content: string | Uint8Array): ReadBody {
    const { maxBodyBytes } = this.#limits;
    const fits =
      typeof content === "string" ? textFits(content, maxBodyBytes) : content.length <= maxBodyBytes;
    return fits ? { content } : { failure: "too-large" };
  }

  #contentLength(): number | undefined {
    const header = headerOf(this.#headers, "content-length");
    return header !== undefined && /^\d+$/.test(header) ? Number(header) : undefined;
  }
}

function decodedLength(base64: string): number {
  const padding = base64.endsWith("==") ? 2 : base64.endsWith("=") ? 1 : 0;
  return Math.floor((base64.length * 3) / 4) - padding;
}

function textFits(text: string, maxBytes: number): boolean {
  // A UTF-16 unit takes at most 3 bytes in UTF-8, so most texts need not be encoded.
  if (3 * text.length <= maxBytes) return true;
  return encoder.encode(text).length <= maxBytes;
}

/** Whether `body` is an object that a body parser made. */
function isParsed(body: unknown): boolean {
  if (body === undefined || body === null || typeof body === "string") return false;
  return toBytes(body) === undefined && !isStream(body);
}

function isStream(body: unknown): body is BodyStream {
  if (typeof body !== "object" || body === null) return false;
  return isWebStream(body) || isNodeStream(body) || Symbol.asyncIterator in body;
}

function wasRead(stream: BodyStream): boolean {
  if (isWebStream(stream)) return stream.locked;
  return (stream as NodeStream).readableDidRead === true;
}

/** Whether an unread stream has already ended. Such a stream is empty, and emits no further event. */
function hasEnded(stream: BodyStream): boolean {
  return (stream as NodeStream).readableEnded === true;
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
