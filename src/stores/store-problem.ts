/** A finding about a store's server, for `stayhook doctor --store`. */
export interface StoreProblem {
  /** Whether calls of the store fail. If `false`, the setting only risks a loss of events. */
  readonly fails: boolean;
  /** What is wrong, and what to do. */
  readonly detail: string;
}

/** A store that can check its server. */
export interface Checkable {
  /** Adds, claims, settles and removes an event that no other process sees. Leaves nothing behind. */
  problems(): Promise<readonly StoreProblem[]>;
}

export function isCheckable(store: object): store is Checkable {
  return typeof (store as Partial<Checkable>).problems === "function";
}
