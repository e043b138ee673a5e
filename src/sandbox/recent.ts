/** A list that keeps its newest items only, so that a sandbox that runs for days does not fill the memory. */
export interface Recent<T> {
  add(item: T): void;
  /** The oldest first. */
  list(): T[];
}

export function createRecent<T>(max: number): Recent<T> {
  const items: T[] = [];
  return {
    add(item) {
      items.push(item);
      // Not one by one: shifting a long list costs as much as cutting off half of it.
      if (items.length >= 2 * max) items.splice(0, items.length - max);
    },
    list: () => items.slice(-max),
  };
}
