// Long work in parts: lists and changes of many events or records.

/** Selects a part of the events. The events are sorted from newest to oldest. */
export interface Slice {
  /** Only events with an arrival number below `before`. If `undefined`, the slice starts at the newest event. */
  readonly before: number | undefined;
  /** The maximum number of events to return or change. */
  readonly limit: number;
}

/** The result of a method that reads or changes one {@link Slice}. */
export interface Sliced<T, Place = number> {
  readonly found: T;
  /** Where the next slice begins: its value of `before`. It is `undefined` after the last slice. */
  readonly next: Place | undefined;
}

/** Runs a step for one slice after the other, until nothing is left or the caller has enough. */
export async function* slices<T, Place = number>(
  step: (place: Place | undefined) => Promise<Sliced<T, Place>>,
  from?: Place,
): AsyncGenerator<T> {
  let place = from;
  do {
    const { found, next } = await step(place);
    yield found;
    place = next;
  } while (place !== undefined);
}
