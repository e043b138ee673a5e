/** What the package's other parts may ask of a handler, and nobody else. */
export interface Inside {
  /** Its events go to a queue of the user's own: there are no statuses to compare with. */
  readonly forwards: boolean;
  /** How long its store keeps a record's last status, ms. */
  readonly recordRetention: number;
  /** Begins to process, unless the user starts the handler himself or nothing lives on. */
  begin(): void;
  /** An event was added to its store. */
  added(eventId: string): void;
  /** Resolves when what is due has had its attempt; at once where the user wants to start processing himself. */
  handleDue(): Promise<void>;
}

// Known to every copy of the package: `require` loads another one than `import`.
const INSIDE = Symbol.for("stayhook.inside");

export function withInside<T extends object>(handler: T, inside: Inside): T {
  return Object.defineProperty(handler, INSIDE, { value: inside });
}

/** `undefined` where it is no handler. */
export function insideOf(handler: unknown): Inside | undefined {
  if (typeof handler !== "object" || handler === null) return undefined;
  return (handler as { readonly [INSIDE]?: Inside })[INSIDE];
}
