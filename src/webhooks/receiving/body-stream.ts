import { idleTimer, realPause } from "../../async.ts";
import { Refused } from "./answers.ts";

/** The members of a Node stream that this module uses. Declared here, so that the module needs no import from Node. */
export interface NodeStream {
  on(event: string, listener: (argument: unknown) => void): unknown;
  removeListener(event: string, listener: (argument: unknown) => void): unknown;
  pause(): unknown;
  resume?(): unknown;
  read?(): unknown;
  listenerCount?(event: string): number;
  readonly readable?: boolean;
  readonly readableFlowing?: boolean | null;
  readonly readableDidRead?: boolean;
  readonly readableEnded?: boolean;
  readonly destroyed?: boolean;
}

export type BodyStream = ReadableStream<unknown> | NodeStream | AsyncIterable<unknown>;

/** Receives the chunks of a source. The source must stop after it calls `fail`, or when `chunk` returns `false`. */
interface Sink {
  chunk(value: unknown): boolean;
  end(): void;
  fail(error: unknown): void;
}

/** Releases a source. `ended` is `true` if the source was read to its end. */
type Release = (ended: boolean) => void;

/**
 * Reads a stream until it ends or is larger than `maxBytes`.
 *
 * @param settled - called once, with the body or the refusal
 * @returns a function that stops reading, with a refusal
 */
export function readStream(
  stream: BodyStream,
  maxBytes: number,
  settled: (body: Uint8Array | Refused) => void,
): (refused: Refused) => void {
  const chunks: Uint8Array[] = [];
  let size = 0;
  let ended: boolean | undefined;
  let release: Release | undefined;

  const finish = (body: Uint8Array | Refused): void => {
    if (ended !== undefined) return;
    ended = !(body instanceof Refused);
    letGo(ended);
    settled(body);
  };
  const letGo = (whole: boolean): void => {
    try {
      release?.(whole);
    } catch {
      // An error of the source must not prevent the answer.
    }
  };
  release = open(stream, {
    chunk(value) {
      const bytes = toBytes(value);
      if (bytes === undefined)
        finish(new Refused("aborted", new TypeError("a chunk of the body is neither bytes nor text")));
      else if (size + bytes.length > maxBytes) finish(new Refused("too-large"));
      else {
        size += bytes.length;
        chunks.push(bytes);
      }
      return ended === undefined;
    },
    end: () => finish(joined(chunks, size)),
    fail: (error) => finish(new Refused("aborted", error)),
  });
  if (ended !== undefined) letGo(ended);
  return finish;
}

/** Returns the bytes of a text or a binary value, even from another realm. Returns `undefined` for other values. */
export function toBytes(value: unknown): Uint8Array | undefined {
  if (value instanceof Uint8Array) return value;
  if (typeof value === "string") return new TextEncoder().encode(value);
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  const isBuffer = Object.prototype.toString.call(value) === "[object ArrayBuffer]";
  return isBuffer ? new Uint8Array(value as ArrayBuffer) : undefined;
}

/** Puts the chunks of a body together, whose sizes add up to `size`. */
export function joined(chunks: readonly Uint8Array[], size: number): Uint8Array {
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
    if (isNodeStream(stream)) return listen(stream, sink);
    if (!isWebStream(stream)) {
      const iterator = stream[Symbol.asyncIterator]();
      void pump(() => iterator.next(), sink);
      return (ended) => ended || afterTheAnswer(() => iterator.return?.());
    }
    const reader = stream.getReader();
    void pump(() => reader.read(), sink);
    return (ended) => {
      // Do not release the lock of an ended stream: Node would then make an error with a stack trace, which is slow.
      if (ended) return;
      reader.releaseLock();
      afterTheAnswer(() => (stream.locked ? undefined : stream.cancel()));
    };
  } catch (error) {
    sink.fail(error);
    return () => {};
  }
}

export function isStream(body: object): body is BodyStream {
  return isWebStream(body) || isNodeStream(body) || Symbol.asyncIterator in body;
}

export function isWebStream(value: object): value is ReadableStream<unknown> {
  return typeof (value as { getReader?: unknown }).getReader === "function";
}

export function isNodeStream(value: object): value is NodeStream {
  const { on, pause } = value as Partial<NodeStream>;
  return typeof on === "function" && typeof pause === "function" && !isWebStream(value);
}

/** Listens to the stream's events, because `for await` would take twice as long. */
function listen(stream: NodeStream, sink: Sink): Release {
  const data = (chunk: unknown): void => void sink.chunk(chunk);
  // Do not remove the listener of `error` on release, because an error without a listener ends the process.
  stream.on("error", sink.fail);
  stream.on("close", () => sink.fail(undefined));
  stream.on("end", sink.end);
  stream.on("data", data);
  const stopReading = stream.readableFlowing === true ? undefined : setFlowing(stream);
  if (stream.destroyed && !stream.readableEnded) sink.fail(undefined);
  return (ended) => {
    if (ended) return;
    stream.removeListener("data", data);
    stopReading?.();
    stream.pause();
  };
}

/**
 * Lets a stream flow that somebody has paused. A listener of `readable` keeps a stream from flowing, so that somebody
 * has to read it.
 */
function setFlowing(stream: NodeStream): (() => void) | undefined {
  stream.resume?.();
  if (!stream.listenerCount?.("readable")) return undefined;
  let isOver = false;
  const read = (): void => {
    while (!isOver && stream.read?.() != null);
  };
  stream.on("readable", read);
  return () => {
    isOver = true;
    stream.removeListener("readable", read);
  };
}

/** How many chunks are read before the event loop can run other work. */
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
      // Without this wait, a source that always has a chunk ready would block timers and other requests.
      if (count % CHUNKS_PER_TURN === 0) await realPause(0);
    }
  } catch (error) {
    sink.fail(error);
  }
}

/**
 * Cancels a source one second later, so that the server can write the answer first. On Node, most servers that use
 * `Request` destroy the socket when the source is canceled.
 */
function afterTheAnswer(cancel: () => unknown): void {
  idleTimer(async () => {
    try {
      await cancel();
    } catch {
      // Ignore the error, because the request already has its answer.
    }
  }, 1_000);
}
