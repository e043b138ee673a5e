import { HISTORY_LENGTH } from "../stores/outcomes.ts";
import type { AttemptEntry, StoredEvent } from "../stores/stored-event.ts";

/** One step in the life of an event. The command line prints a line for it, and the console an item of a list. */
export type Step =
  | { readonly step: "received"; readonly at: Date }
  /** The store keeps only the last attempts. Earlier attempts may be missing. */
  | { readonly step: "cut" }
  /** `number` is `undefined` if earlier attempts may be missing. */
  | {
      readonly step: "attempt";
      readonly number: number | undefined;
      readonly entry: AttemptEntry;
      /** The attempts before this one that failed with the same error, if {@link newestFirst} folded them into it. */
      readonly same?: readonly AttemptEntry[] | undefined;
    }
  /** The event waits, or an attempt is under way, or the event has ended. */
  | { readonly step: StoredEvent["state"] | "discarded"; readonly at: Date | null };

/** The steps of an event, the oldest first. */
export function timelineOf({ state, reason, receivedAt, dueAt, doneAt, history }: StoredEvent): Step[] {
  const isFull = history.length >= HISTORY_LENGTH;
  const attempts = history.map(
    (entry, index): Step => ({ step: "attempt", number: isFull ? undefined : index + 1, entry }),
  );
  const isDiscarded = state === "done" && reason === "discarded";
  return [
    { step: "received", at: receivedAt },
    ...(isFull ? [{ step: "cut" } as const] : []),
    ...attempts,
    { step: isDiscarded ? "discarded" : state, at: state === "done" ? doneAt : dueAt },
  ];
}

/** The steps, the newest first. Attempts that failed one after the other with the same error are one step. */
export function newestFirst(steps: readonly Step[]): Step[] {
  const folded: Step[] = [];
  for (const step of steps.toReversed()) {
    const newer = folded.at(-1);
    const isSame =
      step.step === "attempt" &&
      newer?.step === "attempt" &&
      step.entry.error !== undefined &&
      step.entry.error === newer.entry.error;
    if (isSame) folded[folded.length - 1] = { ...newer, same: [...(newer.same ?? []), step.entry] };
    else folded.push(step);
  }
  return folded;
}

/**
 * Says what changed: `status Request -> Confirmed, checkIn 2027-01-02 -> 2027-01-03`.
 *
 * @param isShown - whether the values of a field may be shown
 */
export function describeChanges(
  changes: { readonly [name: string]: { readonly from?: unknown; readonly to?: unknown } | undefined },
  isShown: (name: string) => boolean = () => true,
): string {
  return Object.entries(changes)
    .map(([name, change]) =>
      isShown(name)
        ? `${name} ${change?.from ?? "unknown"} -> ${change?.to ?? "unknown"}`
        : `${name} (hidden)`,
    )
    .join(", ");
}
