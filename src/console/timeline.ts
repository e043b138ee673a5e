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
  /** Somebody replayed the event after it had ended. The store does not keep when. */
  | { readonly step: "replayed" }
  /** The event waits, or an attempt is under way, or the event has ended. */
  | { readonly step: StoredEvent["state"] | "discarded"; readonly at: Date | null };

/** The steps of an event, the oldest first. */
export function timelineOf(event: StoredEvent): Step[] {
  const { state, reason, receivedAt, dueAt, doneAt, history } = event;
  const isFull = history.length >= HISTORY_LENGTH;
  const attempts = history.flatMap((entry, index): Step[] => {
    const attempt: Step = { step: "attempt", number: isFull ? undefined : index + 1, entry };
    return wasReplayed(event, index) ? [attempt, { step: "replayed" }] : [attempt];
  });
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
 * Whether the event was replayed after an attempt: the attempt ended the event, but another attempt followed or follows.
 * An event that was recorded again after the attempt was not replayed.
 */
function wasReplayed({ state, history, receivedAt }: StoredEvent, index: number): boolean {
  const { outcome, at } = history[index]!;
  if ((outcome !== "done" && outcome !== "parked") || at < receivedAt) return false;
  return index < history.length - 1 || (state !== "done" && state !== "parked");
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
