import { StayhookError } from "../../errors.ts";
import { headerOf, type RequestHeaders } from "./headers.ts";
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
} from "./read-stream.ts";
import { serialise } from "./serialise.ts";

const encoder = new TextEncoder();

interface BodySource {
  readonly body?: unknown;
  readonly headers: RequestHeaders;
  readonly isBase64Encoded?: boolean | undefined;
}

/** A request's body in whatever shape it was handed over, read at most once, however often it is asked for. */
export class RequestBody {
  readonly #body: unknown;
  readonly #isBase64: boolean;
  readonly #headers: RequestHeaders;
  readonly #limits: BodyLimits;
  #read: ReadBody | Promise<ReadBody> | undefined;
  #failed = false;
  #stop: (() => void) | undefined;

  constructor({ body, headers, isBase64Encoded }: BodySource, limits: BodyLimits) {
    this.#body = body;
    this.#isBase64 = isBase64Encoded === true;
    this.#headers = headers ?? {};
    this.#limits = limits;
  }

  /** Whether reading it was tried, and failed. */
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

  /** The bytes, for `verify`. Rejects where there are none to be had, and says why. */
  raw(): Promise<Uint8Array> {
    const bytes = this.#bytes();
    // Asked for and not awaited must not end the process.
    bytes.catch(() => {});
    return bytes;
  }

  /** Reads no further. */
  stop(): void {
    this.#stop?.();
  }

  async #bytes(): Promise<Uint8Array> {
    if (isParsed(this.#body)) throw new StayhookError(`rawBody(): ${EATEN}`);
    const read = await this.read();
    if (read.failure !== undefined) throw new StayhookError(`rawBody(): ${this.#describe(read.failure)}`);
    return typeof read.content === "string" ? encoder.encode(read.content) : read.content;
  }

  #describe(failure: BodyFailure): string {
    if (failure === "too-large") return `the body is larger than ${this.#limits.maxBodyBytes} bytes`;
    if (failure === "not-base64") return "the body is not base64";
    if (failure === "body-timeout") return "the body did not arrive in time";
    return failure === "already-read" ? EATEN : "the request ended before its body did";
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
    // By its length first, so that no memory is taken for a body that is too large.
    if (base64Bytes(base64) > this.#limits.maxBodyBytes) return { failure: "too-large" };
    if (!/^[A-Za-z0-9+/]*={0,2}$/.test(base64) || base64.length % 4 !== 0) return { failure: "not-base64" };
    const { Buffer } = globalThis;
    return this.#sized(
      Buffer ? Buffer.from(base64, "base64") : Uint8Array.from(atob(base64), (char) => char.charCodeAt(0)),
    );
  }

  // The length header is of what was sent. Where that was compressed, or of unknown length, the text counts.
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

/** How many bytes the base64 stands for. */
function base64Bytes(base64: string): number {
  const padding = base64.endsWith("==") ? 2 : base64.endsWith("=") ? 1 : 0;
  return Math.floor((base64.length * 3) / 4) - padding;
}

/** What to do where a body parser was there first. */
export const EATEN =
  "something in front, such as a body parser, has already read the body. " +
  "Mount the webhook handler before it, or pass on the bytes";

function textFits(text: string, maxBytes: number): boolean {
  // A UTF-16 unit is at most three bytes: nearly all are decided without counting.
  if (3 * text.length <= maxBytes) return true;
  return encoder.encode(text).length <= maxBytes;
}

/** Whether it is what a parser made of the bytes, and the bytes are gone. */
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

/** Ended with nothing in it. No event would tell any more. */
function hasEnded(stream: BodyStream): boolean {
  return (stream as NodeStream).readableEnded === true;
}
