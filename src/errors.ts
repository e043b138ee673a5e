import { brand } from "./shared.ts";

/** One problem with a value. */
export interface Issue {
  /** The property names and list indexes that lead to the wrong part. Empty if the whole value is wrong. */
  readonly path: readonly (string | number)[];
  /** What is wrong with the value, such as `must not be empty`. */
  readonly message: string;
}

/** The base class of every error that this package throws on purpose. */
export class StayhookError extends Error {
  static {
    brand(this, "StayhookError");
  }
  // Use a literal, because minifiers rename classes and so change `constructor.name`.
  override name = "StayhookError";
  /** The kind of error, such as `not_found`. Each class has its own code. */
  readonly code: string = "stayhook_error";
}

/**
 * An argument or option is not valid. Nothing was sent or stored.
 *
 * @example
 * ```ts
 * try {
 *   createWebhookHandler(options);
 * } catch (error) {
 *   if (error instanceof InvalidArgumentError) console.error(error.issues);
 * }
 * ```
 */
export class InvalidArgumentError extends StayhookError {
  static {
    brand(this, "InvalidArgumentError");
  }
  override name = "InvalidArgumentError";
  override readonly code = "invalid_argument" as const;
  /** The problems, one for each wrong field. An issue shows no value that may be a secret. */
  readonly issues: readonly Issue[];

  constructor(issues: Issue | readonly Issue[]) {
    const list = Array.isArray(issues) ? (issues as readonly Issue[]) : [issues as Issue];
    super(list.map(describeIssue).join("; "));
    this.issues = list;
  }
}

/**
 * A function that the callback passed to `event.atomically` broke a rule of the store. The function took too long,
 * ended the transaction, left the transaction unusable, or returned a promise to a synchronous store. The store's
 * `settle` rejects with this error, and the attempt fails.
 */
export class InvalidWriteError extends StayhookError {
  static {
    brand(this, "InvalidWriteError");
  }
  override name = "InvalidWriteError";
  override readonly code = "invalid_write" as const;
}

/** Returns the kind of a wrong value for a message, such as `a string` or `undefined`. Never shows the value itself. */
export function describeKind(value: unknown): string {
  if (value === undefined || value === null) return String(value);
  if (Array.isArray(value)) return "a list";
  if (value === "") return "an empty string";
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "an invalid Date" : "a Date";
  if (Number.isNaN(value)) return "NaN";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

/** Returns a text such as `endpoints.bookings: must be https`. Omits the field if the message already names it. */
export function describeIssue({ path, message }: Issue): string {
  const field = path.join(".");
  return field === "" || message.includes(`\`${field}\``) ? message : `${field}: ${message}`;
}

const maxBytes = 2048;
const maxErrors = 10;

/**
 * Describes a thrown value, its causes, and the errors in an `AggregateError`. Gives at most 2 KiB of UTF-8. Replaces
 * lone surrogates and NUL, because some databases reject them. Never throws.
 */
export function errorText(thrown: unknown): string {
  return cutToBytes(textOf(thrown, new Set()).toWellFormed().replaceAll("\0", "\uFFFD"), maxBytes);
}

function textOf(thrown: unknown, seen: Set<unknown>): string {
  seen.add(thrown);
  // All causes and aggregated errors share one limit, so that a large tree of errors costs little time.
  const more = (error: unknown): boolean => !seen.has(error) && seen.size < maxErrors;
  try {
    if (!(thrown instanceof Error)) return plainText(thrown);
    const { name, message, code, errors, cause } = thrown as Error & Readonly<Record<string, unknown>>;
    // Use the code if the message is empty, as in Node's error for a refused connection.
    const own = cutToBytes([name, message || code].filter(Boolean).join(": "), maxBytes);
    const members: string[] = [];
    for (const each of Array.isArray(errors) ? errors : []) if (more(each)) members.push(textOf(each, seen));
    const list = members.length > 0 ? ` [${members.join("; ")}]` : "";
    // Omit the cause if the error's text already ends with the cause's message, as in store errors.
    const isRepeated = cause instanceof Error && cause.cause == null && own.endsWith(`: ${cause.message}`);
    const hasMore = cause != null && !isRepeated && more(cause);
    return `${own}${list}${hasMore ? ` <- ${textOf(cause, seen)}` : ""}`;
  } catch {
    return "a value that cannot be shown";
  }
}

function plainText(thrown: unknown): string {
  const text = String(thrown);
  // A plain object with fields, such as `{ code: 7 }`, says more as JSON.
  return text === "[object Object]" ? JSON.stringify(thrown) : text;
}

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
