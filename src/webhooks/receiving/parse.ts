import { inAccount, messagesOf } from "../../account.ts";
import type { Issue } from "../../errors.ts";
import type { Log } from "../../logger.ts";
import { parseExactly } from "../../models/exact-json.ts";
import { type ParsedNotification, parseNotification } from "../../models/notification.ts";
import type { NewEvent } from "../../stores/stored-event.ts";
import { bookingRef, listingRef } from "../refs.ts";

/** A part of a notification that the handler had to guess. */
export type Doubt =
  | "timestamp"
  | "references"
  | NonNullable<ParsedNotification["unusable"]>
  | NonNullable<ParsedNotification["misspelt"]>;

export interface ValidBody {
  readonly ok: true;
  readonly event: NewEvent;
  readonly doubts: readonly Doubt[];
}

export interface InvalidBody {
  readonly ok: false;
  readonly issues: readonly Issue[];
  /** Whether the body has bytes that are not JSON as UTF-8. */
  readonly isNoJson?: boolean;
}

export type ParsedBody = ValidBody | InvalidBody;

const DOUBTS: Readonly<Record<Extract<Doubt, string>, string>> = {
  timestamp: "has no readable timestamp, so event.timestamp is the time of arrival",
  references:
    "refers to a booking and a listing. The handler reads only the booking. Add topic=<topic> to the endpoint's URL",
  bookingCode: "has a bookingCode that is unusable. The handler reads the listing",
  listingId: "has a listingId that is unusable. The handler reads the booking",
};

export function logDoubts({ eventId, ref }: NewEvent, doubts: readonly Doubt[], log: Log): void {
  for (const doubt of doubts) {
    const [kind, line] =
      typeof doubt === "string"
        ? [doubt, DOUBTS[doubt]]
        : [
            "misspelt",
            `names no record, but has the key \`${doubt.key}\`. Is this \`${doubt.meant}\`, misspelt?`,
          ];
    log.limited(kind, "warn", `the notification ${eventId} ${line}`, { eventId, ref });
  }
}

// Refuses invalid UTF-8. A replacement character could turn a booking's code into the code of another booking.
let decoder: TextDecoder | undefined;

/** Returns the event to record, or the issues of an invalid body. Never throws. */
export function parseBody(
  content: Uint8Array | string,
  topic: string | undefined,
  account?: string,
): ParsedBody {
  const text = typeof content === "string" ? withoutMark(content) : decode(content);
  if (text === undefined) return invalidBody("is not UTF-8");
  const json = parseJson(text);
  if (json === undefined) return invalidBody(text.trim() === "" ? "is empty" : "is not JSON");
  const parsed = parseNotification(json.value, { isMessage: topic === "messages" });
  if (!parsed.ok) return parsed;
  const { eventId, timestamp, bookingCode, listingId, unusable, misspelt } = parsed;
  const isDoubtful =
    bookingCode !== null && listingId !== null && topic !== "bookings" && topic !== "listings";
  return {
    ok: true,
    event: {
      eventId: inAccount(account, eventId),
      ref: refOf(parsed, topic, account),
      source: "webhook",
      topic: topic ?? null,
      timestamp: timestamp ?? new Date().toISOString(),
      notification: wellFormed(text),
    },
    doubts: [
      ...(timestamp ? [] : ["timestamp" as const]),
      ...(isDoubtful ? ["references" as const] : []),
      ...(unusable ? [unusable] : []),
      ...(misspelt ? [misspelt] : []),
    ],
  };
}

/** Returns an issue about the whole body. */
function invalidBody(message: string): InvalidBody {
  return { ok: false, issues: [{ path: [], message }], isNoJson: message !== "is empty" };
}

/**
 * If a notification has a booking and a listing, the booking counts, unless the topic is `listings`. The messages about a
 * booking are a record of their own, because they are not read, and need not wait for the events of the booking.
 */
function refOf(
  { bookingCode, listingId }: ParsedNotification,
  topic: string | undefined,
  account: string | undefined,
): string | null {
  if (listingId !== null && (bookingCode === null || topic === "listings"))
    return listingRef(listingId, account);
  if (bookingCode === null) return null;
  const ref = bookingRef(bookingCode, account);
  return topic === "messages" ? messagesOf(ref)! : ref;
}

/** Returns the text without a byte order mark, or `undefined` if the bytes are not UTF-8. */
function decode(bytes: Uint8Array): string | undefined {
  try {
    decoder ??= new TextDecoder("utf-8", { fatal: true });
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

function withoutMark(text: string): string {
  return text.startsWith("\uFEFF") ? text.slice(1) : text;
}

/**
 * Escapes lone surrogates, because UTF-8 cannot encode them. `json` must be valid JSON: in invalid JSON, a backslash
 * may stand before a surrogate. With the escape, the text would be `\\ud800`, which is valid JSON but wrong.
 */
function wellFormed(json: string): string {
  if (json.isWellFormed()) return json;
  return json.replace(/\p{Cs}/gu, (surrogate) => `\\u${surrogate.charCodeAt(0).toString(16)}`);
}

function parseJson(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: parseExactly(text) };
  } catch {
    return undefined;
  }
}
