/** How often to look for the leases of a claim without an answer, which may still be on its way, ms. */
const AGAIN = 1000;
/** How many commands without an answer are remembered of each kind. */
const MOST = 10_000;

/** Remembers commands whose answers were lost with their connection: the server may have run them, or still may. */
export class Lost {
  readonly #claims = new Map<string, number>();
  readonly #settlings = new Set<string>();
  #askedAt = Number.NEGATIVE_INFINITY;

  /** A claim without an answer. After its lease its events are free anyway. */
  claim(token: string, leaseDuration: number): void {
    this.#claims.set(token, performance.now() + leaseDuration);
    forgetOldest(this.#claims);
    this.#askedAt = Number.NEGATIVE_INFINITY;
  }

  /** The tokens of claims whose leases are to be looked for now. */
  claims(): string[] {
    const now = performance.now();
    if (this.#claims.size === 0 || now - this.#askedAt < AGAIN) return [];
    this.#askedAt = now;
    for (const [token, until] of this.#claims) if (until <= now) this.#claims.delete(token);
    return [...this.#claims.keys()];
  }

  released(tokens: readonly string[]): void {
    for (const token of tokens) this.#claims.delete(token);
  }

  /** The end of a lease without an answer. */
  settling(lease: string): void {
    this.#settlings.add(lease);
    forgetOldest(this.#settlings);
  }

  isUnsure(lease: string): boolean {
    return this.#settlings.has(lease);
  }

  settled(lease: string): void {
    this.#settlings.delete(lease);
  }
}

function forgetOldest(memory: Map<string, unknown> | Set<string>): void {
  if (memory.size <= MOST) return;
  for (const oldest of memory.keys()) {
    memory.delete(oldest);
    return;
  }
}
