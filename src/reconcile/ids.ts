import { v5 } from "uuid";

/** No other UUIDs are made in it. */
const NAMESPACE = "5b0f6a6e-3c0d-4b7e-9d43-1f5a2c8e7b91";

/** A record's status as the store has it, and the one that it has now. */
export interface Change {
  readonly ref: string;
  /** How often the status had changed until then: tells the second Hidden from the first. */
  readonly sequence: number;
  readonly from: string | undefined;
  readonly to: string;
}

/** The same on every machine that sees the change. `again`: how many events for it were done in vain before. */
export function changeId({ ref, sequence, from, to }: Change, again = 0): string {
  return idOf(again === 0 ? [ref, sequence, from ?? null, to] : [ref, sequence, from ?? null, to, again]);
}

/** Of what is written down without a callback. */
export function noteId({ ref, sequence, from, to }: Change, occasion: string | number): string {
  return idOf(["note", occasion, ref, sequence, from ?? null, to]);
}

function idOf(parts: readonly (string | number | null)[]): string {
  return v5(JSON.stringify(parts), NAMESPACE);
}
