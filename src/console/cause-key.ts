// The cause of a parked event: the reason, and the first line of the last error without the ids in it.

import { splitKey } from "../account.ts";
import type { StoredEvent } from "../stores/stored-event.ts";

/** When the event parked: at the end of its last attempt. */
export function parkedAt({ history, receivedAt }: Pick<StoredEvent, "history" | "receivedAt">): Date {
  const last = history.at(-1);
  return last ? new Date(last.at.getTime() + last.duration) : receivedAt;
}

/** The first characters of an error tell its cause. To compare the whole of long errors would take seconds. */
const MOST_COMPARED = 300;

/** The first line of the event's last error. */
export function lineOf({ history }: Pick<StoredEvent, "history">): string {
  return (history.at(-1)?.error ?? "").split(/\n| <- /, 1)[0]!;
}

/** Puts dots in place of the event's account and record, of codes and of long numbers, so that equal errors are equal. */
export function withoutIds(line: string, { ref, eventId }: Pick<StoredEvent, "ref" | "eventId">): string {
  const { account, rest } = splitKey(ref ?? eventId);
  const ids = [rest.replace(/^\w+:/, ""), account ?? ""].filter((id) => id !== "" && line.includes(id));
  const patterns = ids.map((id) => id.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|");
  const isWord = new RegExp(`(?<![\\p{L}\\d])(?:${patterns})(?![\\p{L}\\d])`, "gu");
  return (ids.length === 0 ? line : line.replace(isWord, "…"))
    .replace(/[0-9a-f]{8}-[0-9a-f-]{27}/gi, "…")
    .replace(/\d{4,}/g, "…");
}

/** The key of an event's cause, for a URL. It is a hash, because an error may have personal data. */
export function causeOf(event: StoredEvent): string {
  // Cut again behind the ids, because the first cut may go through one.
  const line = withoutIds(lineOf(event).slice(0, 2 * MOST_COMPARED), event);
  return hash(`${event.reason} ${line.slice(0, MOST_COMPARED)}`);
}

/** FNV-1a with two seeds. A collision would only put two causes into one group. */
function hash(text: string): string {
  return [0x811c9dc5, 0x2f0b4c47]
    .map((seed) => {
      let value = seed;
      for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
      return (value >>> 0).toString(16).padStart(8, "0");
    })
    .join("");
}
