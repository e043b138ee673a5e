// Turns thrown values into text: for messages and log lines, and for the history of events.

import { StayhookError } from "./errors.ts";

/** Other copies of this package read it, too. */
const LOGGED = Symbol.for("stayhook.logged");

/** What logs show of an error in place of its own fields. */
type Logged = { readonly message: string } & Readonly<Record<string, unknown>>;

/**
 * Sets what logs, histories and traces show in place of an error's message, and of other fields that loggers show. They have
 * words of the platform, which may name a guest.
 */
export function setLogged(error: Error, logged: Logged): void {
  Object.defineProperty(error, LOGGED, { value: logged });
}

const loggedOf = (error: Error) => (error as { readonly [LOGGED]?: Logged })[LOGGED];

const loggedMessage = (error: Error): unknown => loggedOf(error)?.message ?? error.message;

/**
 * Returns an error as a log or a trace may have it: a copy without the words of the platform, or the error itself if it has
 * none. Copies only errors of this package, because those of users may have private fields.
 */
export function withoutWords(error: unknown): unknown {
  if (!(error instanceof StayhookError)) return error;
  const logged = loggedOf(error) ?? { message: error.message };
  const cause = withoutWords(error.cause);
  if (logged.message === error.message && cause === error.cause) return error;
  const stack = error.stack?.replace(error.message, () => logged.message);
  const changed = { ...logged, stack, ...("cause" in error && { cause }) };
  const copy = Object.create(Object.getPrototypeOf(error), Object.getOwnPropertyDescriptors(error));
  for (const [name, value] of Object.entries(changed))
    Object.defineProperty(copy, name, {
      ...{ value, configurable: true, writable: true },
      enumerable: Object.getOwnPropertyDescriptor(error, name)?.enumerable ?? false,
    });
  return copy;
}

const maxBytes = 2048;
const maxErrors = 10;
const maxOwnFrames = 3;
const maxFrameBytes = 200;

/**
 * Describes a thrown value, its causes, and the errors in an `AggregateError`, without words of the platform. Gives at most 2 KiB of UTF-8: if there are
 * causes, the message takes at most half, so that a long message hides no cause. Replaces lone surrogates and NUL, because
 * some databases reject them. Never throws.
 */
export function errorText(thrown: unknown): string {
  return fitted(partsOf(thrown, "", new Set()), maxBytes);
}

/** The text of {@link errorText} and, in lines below, the first frames of the user's own code. Gives at most 2 KiB. */
export function errorTextWithFrames(thrown: unknown): string {
  const parts = partsOf(thrown, "", new Set());
  const frames = parts.map(({ error }) => userFrames(error)).find(({ length }) => length > 0) ?? [];
  const below = frames.map((frame) => `\n    ${frame}`).join("");
  return fitted(parts, maxBytes - bytesOf(below)) + below;
}

/** Splits a text of {@link errorTextWithFrames} into the text of the error and the frames. */
export function splitFrames(text: string): { readonly text: string; readonly frames: readonly string[] } {
  const [below = ""] = /(?:\n {4}at [^\n]+)+$/.exec(text) ?? [];
  return {
    text: text.slice(0, text.length - below.length),
    frames: below
      .split("\n")
      .slice(1)
      .map((frame) => frame.trim()),
  };
}

/** A piece of a text: one error of a tree of errors. */
interface Part {
  /** What stands between this error and the one before. */
  readonly mark: string;
  readonly text: string;
  readonly error?: unknown;
}

/** The parts of an error, its members and its causes. All of them share one limit, so that a large tree costs little time. */
function partsOf(thrown: unknown, mark: string, seen: Set<unknown>): readonly Part[] {
  seen.add(thrown);
  const more = (error: unknown): boolean => !seen.has(error) && seen.size < maxErrors;
  try {
    if (!(thrown instanceof Error)) return [{ mark, text: storable(plainText(thrown)) }];
    const { name, code, errors, cause } = thrown as Error & Readonly<Record<string, unknown>>;
    const message = loggedMessage(thrown);
    // Use the code if the message is empty, as in Node's error for a refused connection.
    const text = storable([name, message || code].filter(Boolean).join(": "));
    const parts: Part[] = [{ mark, text, error: thrown }];
    let isFirst = true;
    for (const each of Array.isArray(errors) ? errors : []) {
      if (!more(each)) continue;
      parts.push(...partsOf(each, isFirst ? " [" : "; ", seen));
      isFirst = false;
    }
    if (!isFirst) parts.push({ mark: "]", text: "" });
    // Omit the cause if the error's text already ends with the cause's message, as in store errors.
    const isRepeated =
      cause instanceof Error && cause.cause == null && text.endsWith(`: ${loggedMessage(cause)}`);
    if (cause != null && !isRepeated && more(cause)) parts.push(...partsOf(cause, " <- ", seen));
    return parts;
  } catch {
    return [{ mark, text: "a value that cannot be shown" }];
  }
}

/** Joins the parts. The first takes at most half of the bytes if others follow, and these share the rest. */
function fitted(parts: readonly Part[], bytes: number): string {
  let left = bytes - parts.reduce((sum, { mark }) => sum + mark.length, 0);
  let open = parts.filter(({ text }) => text !== "").length;
  return parts
    .map(({ mark, text }, index) => {
      if (text === "") return mark;
      const share = index === 0 ? Math.min(2, open) : open;
      const cut = cutToBytes(text, Math.floor(left / share));
      left -= bytesOf(cut);
      open -= 1;
      return mark + cut;
    })
    .join("");
}

function plainText(thrown: unknown): string {
  const text = String(thrown);
  // A plain object with fields, such as `{ code: 7 }`, says more as JSON.
  return text === "[object Object]" ? JSON.stringify(thrown) : text;
}

/** A text without lone surrogates and NUL. Cut first, because the whole of a huge text is never shown. */
const storable = (text: string): string =>
  cutToBytes(text, maxBytes).toWellFormed().replaceAll("\0", "\uFFFD");

const bytesOf = (text: string): number => new TextEncoder().encode(text).length;

/** Cuts a text to at most `bytes` bytes of UTF-8. A shortened text ends with an ellipsis. */
export function cutToBytes(text: string, bytes: number): string {
  // Each character takes at least one byte, so the first `bytes + 1` characters show whether the text is too long. Do
  // not encode the rest of a huge text.
  const start = text.slice(0, bytes + 1);
  const encoder = new TextEncoder();
  if (encoder.encode(start).length <= bytes) return text;
  // The ellipsis takes three bytes. `encodeInto` omits a last character that does not fit.
  const { read } = encoder.encodeInto(start, new Uint8Array(bytes - 3));
  return `${start.slice(0, read)}…`;
}

/** The frames of an error's stack without those of this package, such as `at handle (/app/hooks.ts:12:5)`. */
export function framesOf(error: unknown): readonly string[] {
  if (!(error instanceof Error) || typeof error.stack !== "string") return [];
  // Skip the message: it may hold text from outside that looks like a frame.
  const { message, stack } = error;
  const frames = stack.slice(stack.indexOf(message) + message.length).match(/^ *at .+$/gm) ?? [];
  // If this file runs unbundled, as in tests, the first frame of a new error names the package's folder.
  const here = /^.*\n *at .*?((?:file:\/\/)?\/\S*\/)error-text\.ts:\d+/.exec(new Error().stack ?? "")?.[1];
  const isOwn = (frame: string): boolean =>
    /[\\/]node_modules[\\/]stayhook[\\/]/.test(frame) || (here !== undefined && frame.includes(here));
  return frames.filter((frame) => !isOwn(frame)).map((frame) => frame.trim());
}

/** The first frames of the user's own code: without packages, and without the runtime's own frames. */
function userFrames(error: unknown): readonly string[] {
  try {
    return framesOf(error)
      .filter((frame) => /:\d+:\d+\)?$/.test(frame))
      .filter((frame) => !/[\\/]node_modules[\\/]|[ (](?:node|bun|deno|ext|native|internal)[:/]/.test(frame))
      .slice(0, maxOwnFrames)
      .map((frame) =>
        cutFrame(storable(frame.replace("file://", "").replace(/\?[^:)]*(?=:\d+:\d+\)?$)/, ""))),
      );
  } catch {
    return [];
  }
}

/** Cuts the front of a long frame, because its end has the file's name and the line. */
function cutFrame(frame: string): string {
  let cut = frame;
  while (bytesOf(cut) > maxFrameBytes) cut = `at …${cut.slice(Math.ceil(cut.length / 10) + 4)}`;
  return cut;
}
