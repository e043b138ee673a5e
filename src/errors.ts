/** One thing that is wrong with a value. */
export interface Issue {
  /** The property names and list indexes that lead to the wrong part. Empty for the value itself. */
  readonly path: readonly (string | number)[];
  /** The problem with that part. */
  readonly message: string;
}

/** The base class of every error that this package throws on purpose. */
export class StayhookError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    // Each class sets its name itself, because minifiers rename classes.
    this.name = "StayhookError";
  }
}

/**
 * An argument or option cannot be used. Nothing was sent or stored.
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
  /** Each field that is wrong. An issue never shows the value, which may be a secret. */
  readonly issues: readonly Issue[];

  constructor(issues: Issue | readonly Issue[]) {
    const list = Array.isArray(issues) ? (issues as readonly Issue[]) : [issues as Issue];
    super(list.map(describeIssue).join("; "));
    this.name = "InvalidArgumentError";
    this.issues = list;
  }
}

/**
 * A write that was given to `event.atomically` broke the rules of its store: it returned a promise where writes
 * are synchronous, ended the store's transaction or left it unusable, or took too long. `settle` rejects with this error,
 * and the attempt has failed.
 */
export class InvalidWriteError extends StayhookError {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "InvalidWriteError";
  }
}

/** Such as `endpoints.bookings: must be https`. The message alone if it names the field itself. */
export function describeIssue({ path, message }: Issue): string {
  const field = path.join(".");
  return field === "" || message.includes(`\`${field}\``) ? message : `${field}: ${message}`;
}

const maxBytes = 2048;
const maxErrors = 10;

/**
 * The message of a thrown value, the messages of its causes, and those of the errors in an `AggregateError`. At most
 * 2 KiB of UTF-8, without lone surrogates and NUL, which some databases refuse. Never throws.
 */
export function errorText(thrown: unknown): string {
  return cutToBytes(textOf(thrown, new Set()).toWellFormed().replaceAll("\0", "\uFFFD"), maxBytes);
}

function textOf(thrown: unknown, seen: Set<unknown>): string {
  seen.add(thrown);
  // One limit for all causes and members, so that the text of a wide tree of errors takes no time.
  const more = (error: unknown): boolean => !seen.has(error) && seen.size < maxErrors;
  try {
    if (!(thrown instanceof Error)) return plainText(thrown);
    const { name, message, code, errors, cause } = thrown as Error & Readonly<Record<string, unknown>>;
    // Node gives the error of a refused connection an empty message.
    const own = cutToBytes([name, message || code].filter(Boolean).join(": "), maxBytes);
    const members: string[] = [];
    for (const each of Array.isArray(errors) ? errors : []) if (more(each)) members.push(textOf(each, seen));
    const list = members.length > 0 ? ` [${members.join("; ")}]` : "";
    // Some errors, such as those of the stores, end with the text of their cause.
    const isRepeated = cause instanceof Error && cause.cause == null && own.endsWith(`: ${cause.message}`);
    const hasMore = cause != null && !isRepeated && more(cause);
    return `${own}${list}${hasMore ? ` <- ${textOf(cause, seen)}` : ""}`;
  } catch {
    return "something that cannot be shown";
  }
}

function plainText(thrown: unknown): string {
  const text = String(thrown);
  // A plain object with fields, such as `{ code: 7 }`, says more as JSON.
  return text === "[object Object]" ? JSON.stringify(thrown) : text;
}

/** Cuts a text to so many bytes of UTF-8. A text that was cut ends with an ellipsis. */
export function cutToBytes(text: string, bytes: number): string {
  // No character takes less than a byte, so that the rest of a huge text need not be encoded.
  const start = text.slice(0, bytes + 1);
  const encoder = new TextEncoder();
  if (encoder.encode(start).length <= bytes) return text;
  // The ellipsis takes three bytes. A character that does not fit is left out whole.
  const { read } = encoder.encodeInto(start, new Uint8Array(bytes - 3));
  return `${start.slice(0, read)}…`;
}
