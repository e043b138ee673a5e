import type { Issue } from "../../errors.ts";
import { parseNotification } from "../../models/notification.ts";
import type { NewEvent } from "../../stores/event-store.ts";
import { refOf } from "../ref.ts";

export type ParsedBody =
  | { readonly ok: true; readonly event: NewEvent }
  | { readonly ok: false; readonly issues: readonly Issue[] };

// Invalid UTF-8 is refused: replacing what cannot be read might make another booking's code of it.
const decoder = new TextDecoder("utf-8", { fatal: true });

/** Makes of a body the event to record, or says what is wrong with it. Does not throw. */
export function parseBody(content: Uint8Array | string, topic: string | undefined): ParsedBody {
  const text = typeof content === "string" ? withoutMark(content) : decode(content);
  if (text === undefined) return refuse("is not UTF-8");
  const json = parseJson(text);
  if (json === undefined) return refuse(text.trim() === "" ? "is empty" : "is not JSON");
  const parsed = parseNotification(json.value);
  if (!parsed.ok) return parsed;
  return {
    ok: true,
    event: {
      eventId: parsed.eventId,
      ref: refOf(parsed.bookingCode, parsed.listingId),
      source: "webhook",
      topic: topic ?? null,
      timestamp: parsed.timestamp.toISOString(),
      notification: wellFormed(text),
    },
  };
}

/** About the whole body. */
export function refuse(message: string): { readonly ok: false; readonly issues: readonly Issue[] } {
  return { ok: false, issues: [{ path: [], message }] };
}

/** Without a byte order mark, as the decoder drops it. */
function decode(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

function withoutMark(text: string): string {
  return text.startsWith("\uFEFF") ? text.slice(1) : text;
}

/**
 * JSON that any store can keep: a lone surrogate has no UTF-8, so that it is escaped, as JSON allows. Not before it
 * was found to be JSON: behind a stray backslash the escape would mend it.
 */
function wellFormed(json: string): string {
  if (json.isWellFormed()) return json;
  return json.replace(/\p{Cs}/gu, (surrogate) => `\\u${surrogate.charCodeAt(0).toString(16)}`);
}

function parseJson(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}
