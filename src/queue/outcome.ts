const LONGEST_MESSAGE = 1000;

/** A line about whatever was thrown: an `Error`, a string, `undefined`, or an object whose getters throw in turn. */
export function describeThrown(thrown: unknown): string {
  try {
    const text = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : `thrown: ${String(thrown)}`;
    return text.length > LONGEST_MESSAGE ? `${text.slice(0, LONGEST_MESSAGE)}…` : text;
  } catch {
    return "thrown: something that cannot be shown";
  }
}
