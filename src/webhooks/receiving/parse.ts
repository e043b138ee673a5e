import type { Issue } from "../../errors.ts";
import { type ParsedNotification, parseNotification } from "../../models/notification.ts";
import type { NewEvent } from "../../stores/event-store.ts";
import { bookingRef, listingRef } from "../events.ts";

/** A part of a notification that the handler had to guess. */
export type Doubt = "timestamp" | "references";

export interface ParsedEvent {
  readonly ok: true;
  readonly event: NewEvent;
  readonly doubts: readonly Doubt[];
}

export type ParsedBody = ParsedEvent | { readonly ok: false; readonly issues: readonly Issue[] };

// Refuses invalid UTF-8, because a replacement character could make the code of another booking.
const decoder = new TextDecoder("utf-8", { fatal: true });

/** Makes the event to record, or says what is wrong with the body. Never throws. */
export function parseBody(content: Uint8Array | string, topic: string | undefined): ParsedBody {
  const text = typeof content === "string" ? withoutMark(content) : decode(content);
  if (text === undefined) return refuse("is not UTF-8");
  const json = parseJson(text);
  if (json === undefined) return refuse(text.trim() === "" ? "is empty" : "is not JSON");
  const parsed = parseNotification(json.value, { references: topic !== "messages" });
  if (!parsed.ok) return parsed;
  const { eventId, timestamp, bookingCode, listingId } = parsed;
  const isDoubtful =
    bookingCode !== null && listingId !== null && topic !== "bookings" && topic !== "listings";
  return {
    ok: true,
    event: {
      eventId,
      ref: refOf(parsed, topic),
      source: "webhook",
      topic: topic ?? null,
      timestamp: timestamp ?? new Date().toISOString(),
      notification: wellFormed(text),
    },
    doubts: [...(timestamp ? [] : ["timestamp" as const]), ...(isDoubtful ? ["references" as const] : [])],
  };
}

/** Refuses the whole body. */
export function refuse(message: string): { readonly ok: false; readonly issues: readonly Issue[] } {
  return { ok: false, issues: [{ path: [], message }] };
}

/** If a notification has both references, the topic of the endpoint decides. Without one, the booking counts. */
function refOf({ bookingCode, listingId }: ParsedNotification, topic: string | undefined): string | null {
  if (listingId !== null && (bookingCode === null || topic === "listings")) return listingRef(listingId);
  return bookingCode === null ? null : bookingRef(bookingCode);
}

/** Drops a byte order mark. */
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
 * Escapes lone surrogates, which have no UTF-8, as JSON allows. Call it with valid JSON only: after a stray backslash
 * the escape would repair the text.
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
