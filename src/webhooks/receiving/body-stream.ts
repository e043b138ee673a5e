import { idleTimer } from "../../async.ts";
import { type Deadlines, now } from "./request-timers.ts";

/** Why a body could not be had. */
export type BodyFailure =
  | "too-large"
  | "body-timeout"
  | "aborted"
  | "already-read"
  | "not-json"
  | "not-base64";

/** A body, or why it could not be read. */
export type ReadBody =
  | { readonly content: Uint8Array | string; readonly failure?: undefined }
  | { readonly failure: BodyFailure; readonly error?: unknown };

export interface BodyLimits {
  readonly maxBodyBytes: number;
  /** ms that may pass between two chunks. */
  readonly bodyTimeout: number;
  /** The time of `now()` by which the whole body must have been read. */
  readonly replyBy: number;
  readonly deadlines: Deadlines;
}

/** The part of a Node stream that is used here, so that no import of Node is needed. */
export interface NodeStream {
  on(event: string, listener: (argument: unknown) => void): unknown;
  removeListener(event: string, listener: (argument: unknown) => void): unknown;
  pause(): unknown;
  readonly readableDidRead?: boolean;
  readonly readableEnded?: boolean;
  readonly destroyed?: boolean;
}

export type BodyStream = ReadableStream<unknown> | NodeStream | AsyncIterable<unknown>;

/** Takes the chunks of a source. After `fail`, or a `chunk` that returned `false`, the source must stop. */
interface Sink {
  chunk(value: unknown): boolean;
  end(): void;
  fail(error: unknown): void;
}

/** Releases a source. `ended`: the source was read to its end. */
type Release = (ended: boolean) => void;

/**
 * Reads a stream to its end or to a limit, and no chunk more.
 *
 * @param settled - called once
 * @returns a function that stops reading. The body then counts as aborted
 */
export function readStream(
  stream: BodyStream,
  limits: BodyLimits,
  settled: (body: ReadBody) => void,
): () => void {
  const { deadlines, maxBodyBytes, bodyTimeout, replyBy } = limits;
  const stallsAt = (): number => Math.min(now() + bodyTimeout, replyBy);
  const chunks: Uint8Array[] = [];
  let size = 0;
  let ended: boolean | undefined;
  let release: Release | undefined;

  const finish = (body: ReadBody): void => {
    if (ended !== undefined) return;
    ended = body.failure === undefined;
    deadlines.remove(deadline);
    letGo(ended);
    settled(body);
  };
  // A source that throws here must not prevent the answer.
  const letGo = (whole: boolean): void => {
    try {
      release?.(whole);
    } catch {
      // The body is settled already.
    }
  };
  const deadline = deadlines.add(stallsAt(), () => finish({ failure: "body-timeout" }));

  release = open(stream, {
    chunk(value) {
      const bytes = toBytes(value);
      if (bytes === undefined) finish({ failure: "aborted", error: new TypeError("a chunk is not bytes") });
      else if (size + bytes.length > maxBodyBytes) finish({ failure: "too-large" });
      else if (bytes.length > 0) {
        size += bytes.length;
        chunks.push(bytes);
        deadline.at = stallsAt();
      }
      return ended === undefined;
    },
    end: () => finish({ content: concatenate(chunks, size) }),
    fail: (error) => finish({ failure: "aborted", error }),
  });
  if (ended !== undefined) letGo(ended);
  return () => finish({ failure: "aborted" });
}

/** The bytes of any binary value or text, from any realm. `undefined` for other values. */
export function toBytes(value: unknown): Uint8Array | undefined {
  if (value instanceof Uint8Array) return value;
  if (typeof value === "string") return new TextEncoder().encode(value);
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  const isBuffer = Object.prototype.toString.call(value) === "[object ArrayBuffer]";
  return isBuffer ? new Uint8Array(value as ArrayBuffer) : undefined;
}

function concatenate(chunks: readonly Uint8Array[], size: number): Uint8Array {
  if (chunks.length === 1) return chunks[0] as Uint8Array;
  const whole = new Uint8Array(size);
  let offset = 0;
  for (const chunk of chunks) {
    whole.set(chunk, offset);
    offset += chunk.length;
  }
  return whole;
}

function open(stream: BodyStream, sink: Sink): Release {
  try {
    if (isWebStream(stream)) return openWebStream(stream, sink);
    if (isNodeStream(stream)) return openNodeStream(stream, sink);
    return openIterator(stream[Symbol.asyncIterator](), sink);
  } catch (error) {
    sink.fail(error);
    return () => {};
  }
}

export function isWebStream(value: object): value is ReadableStream<unknown> {
  return typeof (value as { getReader?: unknown }).getReader === "function";
}

export function isNodeStream(value: object): value is NodeStream {
  const { on, pause } = value as Partial<NodeStream>;
  return typeof on === "function" && typeof pause === "function";
}

function openWebStream(stream: ReadableStream<unknown>, sink: Sink): Release {
  const reader = stream.getReader();
  void pump(() => reader.read(), sink);
  return (ended) => {
    reader.releaseLock();
    if (!ended) afterTheAnswer(() => (stream.locked ? undefined : stream.cancel()));
  };
}

/** Listens to events, which is twice as fast as iterating. */
function openNodeStream(stream: NodeStream, sink: Sink): Release {
  const data = (chunk: unknown): void => void sink.chunk(chunk);
  // These listeners stay, because an error without a listener ends the process.
  stream.on("error", sink.fail);
  stream.on("close", () => sink.fail(undefined));
  stream.on("end", sink.end);
  stream.on("data", data);
  if (stream.destroyed && !stream.readableEnded) sink.fail(undefined);
  return (ended) => {
    if (ended) return;
    stream.removeListener("data", data);
    stream.pause();
  };
}

function openIterator(iterator: AsyncIterator<unknown>, sink: Sink): Release {
  void pump(() => iterator.next(), sink);
  return (ended) => {
    if (!ended) afterTheAnswer(() => iterator.return?.());
  };
}

/** How many chunks are read before other work gets a turn. */
const CHUNKS_PER_TURN = 1_000;

async function pump(
  next: () => Promise<{ readonly done?: boolean | undefined; readonly value?: unknown }>,
  sink: Sink,
): Promise<void> {
  try {
    for (let count = 1; ; count++) {
      const { done, value } = await next();
      if (done) return sink.end();
      if (!sink.chunk(value)) return;
      // A source that is always ready would hold up timers and other requests.
      if (count % CHUNKS_PER_TURN === 0) await new Promise((resolve) => setTimeout(resolve));
    }
  } catch (error) {
    sink.fail(error);
  }
}

/**
 * Cancels a source a second later. Behind most servers that use `Request` on Node, cancelling destroys the socket, and
 * with it the answer that is about to be written.
 */
function afterTheAnswer(cancel: () => unknown): void {
  idleTimer(async () => {
    try {
      await cancel();
    } catch {
      // The body is settled already.
    }
  }, 1_000);
}
