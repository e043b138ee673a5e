// Long work in parts: lists and changes of many events, from the newest event to the oldest.

/** Selects a part of the events. The events are sorted from newest to oldest. */
export interface Slice {
  /** Only events with an arrival number below `before`. If `undefined`, the slice starts at the newest event. */
  readonly before: number | undefined;
  /** The maximum number of events to return or change. */
  readonly limit: number;
}

/** The result of a method that reads or changes one {@link Slice}. */
export interface Sliced<T> {
  readonly found: T;
  /** The value of `before` for the next slice. It is `undefined` after the last slice. */
  readonly next: number | undefined;
}

/** Runs a step for one slice after the other, until no event is left or the caller has enough. */
export async function* slices<T>(
  step: (before: number | undefined) => Promise<Sliced<T>>,
  from?: number,
): AsyncGenerator<T> {
  let before = from;
  do {
    const { found, next } = await step(before);
    yield found;
    before = next;
  } while (before !== undefined);
}
