import type { NewEvent } from "../event-store.ts";

/** What PostgreSQL's text cannot hold, and what marks a text that was written otherwise. */
const ESCAPED = /^\\|\0|\p{Cs}/u;
const LONE = "\\event ";

/** As PostgreSQL can keep it: NUL and lone surrogates have no place in its UTF-8. Only then is it not the text itself. */
export function toText(text: string): string {
  return ESCAPED.test(text) ? `\\${JSON.stringify(text)}` : text;
}

export function fromText(text: string): string {
  return text.startsWith("\\") ? (JSON.parse(text.slice(1)) as string) : text;
}

/** The key of the row that locks an event: its record's `ref`, or one of its own. No text above begins like that one. */
export function toRecord({ ref, eventId }: Pick<NewEvent, "ref" | "eventId">): string {
  return ref === null ? `${LONE}${toText(eventId)}` : toText(ref);
}

/** `null` for the row of an event that has no record. */
export function toRef(record: string): string | null {
  return record.startsWith(LONE) ? null : fromText(record);
}
