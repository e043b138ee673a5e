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
