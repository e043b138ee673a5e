import { splitFrames } from "../error-text.ts";
import type { AttemptEntry } from "../stores/stored-event.ts";

/** What a page shows of an attempt's error. */
interface ShownError {
  readonly text: string;
  /** The lines of the user's own code. They have no personal data. */
  readonly frames: readonly string[];
  /** Whether a part of the error is hidden, because it may have personal data. */
  readonly isCut: boolean;
}

/**
 * Returns the first line of an attempt's error, but only the class of an error that a callback threw, because its message
 * may have personal data. `undefined` if nothing is left. No stored error has words of the platform.
 */
export function impersonalError({
  reason,
  error = "",
}: Pick<AttemptEntry, "reason" | "error">): ShownError | undefined {
  const { text: whole, frames } = splitFrames(error);
  const line = whole.split(/\n| <- /, 1)[0]!;
  const text = reason === "callback" ? /^\w*(?:Error|Exception)(?=: |$)/.exec(line)?.[0] : line;
  return text ? { text, frames, isCut: text !== whole } : undefined;
}
