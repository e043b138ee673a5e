import type { ClaimedEvent, NewEvent } from "../../stores/event-store.ts";
import { eventType } from "../event-type.ts";
import { parseRef } from "../ref.ts";

/**
 * What the reconciler has written down as a record's status, without a callback. Every store can do it, as the end
 * of an event; any process may be the one to end it, so that all there is to know stands in the event.
 */
export interface Note {
  /** The record's sequence number when it was written: where that has moved on, the note is void. */
  readonly sequence: number;
  readonly status: string;
}

export function topicOf({ sequence, status }: Note): string {
  return `note:${sequence}:${status}`;
}

/** The note that an event carries, if it does. */
export function noteIn({ source, topic }: Pick<NewEvent, "source" | "topic">): Note | undefined {
  const match = source === "reconcile" ? /^note:(\d+):(.*)$/s.exec(topic ?? "") : null;
  return match ? { sequence: Number(match[1]), status: match[2]! } : undefined;
}

/** How the event of a note ends, whoever has claimed it. */
export function endOfNote(claim: ClaimedEvent, note: Note) {
  const status = claim.sequence === note.sequence ? note.status : claim.previousStatus;
  const subject = parseRef(claim.ref);
  const type = subject ? eventType(subject.kind, note.status) : "reconcile";
  return { state: "done", type, status } as const;
}
