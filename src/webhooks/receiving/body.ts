import { inNextTurn } from "../../async.ts";
import { StayhookError } from "../../errors.ts";
import { withoutRounded } from "../../models/exact-json.ts";
import { ALREADY_READ, invalidBody, Refused } from "./answers.ts";
import {
  type BodyStream,
  isNodeStream,
  isStream,
  isWebStream,
  type NodeStream,
  readStream,
  toBytes,
} from "./body-stream.ts";
import { headerOf, type ReceiveRequest } from "./request.ts";

const encoder = new TextEncoder();

/** The body of a request: its bytes, or its text if the server has already decoded it. */
export type Content = Uint8Array | string;

/** Reads the body of a request, at most once, for `verify` and for the handler. */
export class RequestBody {
  readonly #request: Pick<ReceiveRequest, "body" | "headers" | "isBase64Encoded">;
  readonly #maxBytes: number;
  #content: Content | Promise<Content> | undefined;
  #stop: ((refused: Refused) => void) | undefined;
  /** Why the body could not be read. `verify` may have caught this refusal, or failed because of it. */
  refused: Refused | undefined;

  constructor(request: Pick<ReceiveRequest, "body" | "headers" | "isBase64Encoded">, maxBytes: number) {
    this.#request = request;
    this.#maxBytes = maxBytes;
  }

  /**
   * Returns a promise only for a stream. In the turn in which a request arrives, Node reads its body at less cost.
   *
   * @throws Refused
   */
  read(): Content | Promise<Content> {
    if (this.refused) throw this.refused;
    try {
      this.#content ??= this.#readNow();
    } catch (error) {
      if (error instanceof Refused) this.refused = error;
      throw error;
    }
    return this.#content;
  }

  /** Resolves to the bytes of the body, for `verify`. Rejects if the body cannot be read. */
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

  async #bytes(): Promise<Uint8Array> {
    const { body } = this.#request;
    if (isParsed(body)) throw new StayhookError(`rawBody(): ${ALREADY_READ}`);
    try {
      const content = await this.read();
      return typeof content === "string" ? encoder.encode(content) : content;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const tooLarge = `the body is larger than ${this.#maxBytes} bytes`;
      throw new StayhookError(`rawBody(): ${error.reason === "too-large" ? tooLarge : error.line}`);
    }
  }

  #readNow(): Content | Promise<Content> {
    const { body, isBase64Encoded } = this.#request;
    if (body === undefined || body === null) return "";
    if (typeof body === "string") return isBase64Encoded === true ? this.#decode(body) : this.#sized(body);
    const bytes = toBytes(body);
    if (bytes !== undefined) return this.#sized(bytes);
    return isParsed(body) ? this.#reserialise(body) : this.#readStream(body as BodyStream);
  }

  #readStream(stream: BodyStream): Content | Promise<Content> {
    const { readableDidRead, readableEnded } = stream as NodeStream;
    if (isWebStream(stream) ? stream.locked : readableDidRead === true) throw new Refused("already-read");
    // An unread stream that has ended is empty, and emits no further event.
    if (readableEnded === true) return "";
    if ((this.#contentLength() ?? 0) > this.#maxBytes) throw new Refused("too-large");
    return new Promise((resolve, reject) => {
      this.#stop = readStream(stream, this.#maxBytes, (body) => {
        if (body instanceof Refused) {
          this.refused = body;
          reject(body);
        } else if (isNodeStream(stream)) afterThisTurn(() => resolve(body));
        else resolve(body);
      });
    });
  }

  #decode(base64: string): Content {
    // Check the length before decoding, so that a body that is too large takes no memory.
    if (decodedLength(base64) > this.#maxBytes) throw new Refused("too-large");
    if (!/^[A-Za-z0-9+/]*={0,2}$/.test(base64) || base64.length % 4 !== 0)
      throw invalidBody("is not base64", base64);
    const { Buffer } = globalThis;
    return this.#sized(
      Buffer ? Buffer.from(base64, "base64") : Uint8Array.from(atob(base64), (char) => char.charCodeAt(0)),
    );
  }

  // Checks `content-length`. If that header is missing or counts compressed bytes, checks the size of the JSON text.
  #reserialise(parsed: unknown): Content {
    const { headers } = this.#request;
    const isCompressed = headerOf(headers ?? {}, "content-encoding") !== undefined;
    const length = isCompressed ? undefined : this.#contentLength();
    if ((length ?? 0) > this.#maxBytes) throw new Refused("too-large");
    const text = serialise(parsed, 8 * this.#maxBytes);
    if (text === undefined) throw invalidBody("is not JSON");
    const given = withoutRounded(text);
    return length === undefined ? this.#sized(given) : given;
  }

  #sized<C extends Content>(content: C): C {
    const fits =
      typeof content === "string" ? textFits(content, this.#maxBytes) : content.length <= this.#maxBytes;
    if (!fits) throw new Refused("too-large");
    return content;
  }

  #contentLength(): number | undefined {
    const header = headerOf(this.#request.headers ?? {}, "content-length");
    return header !== undefined && /^\d+$/.test(header) ? Number(header) : undefined;
  }
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
  return encoder.encode(text).length <= maxBytes;
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
