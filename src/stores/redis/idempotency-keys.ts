import { randomBytes } from "node:crypto";

/** How many calls are remembered at most. */
const MOST = 1000;

/**
 * Keys of calls that got no answer. Redis may have done them, or may still do them. A repeated settle has the key of
 * the first one, so that Redis knows it as the same. The next claim gives back the leases of a claim without an answer.
 */
export class IdempotencyKeys {
  readonly #settling = new Map<string, { readonly outcome: string; readonly key: string }>();
  readonly #claims = new Map<string, number>();

  /** The key of this settle: the same for a lease and an outcome, until an answer came. */
  keyOf(lease: string, outcome: string): string {
    const known = this.#settling.get(lease);
    if (known?.outcome === outcome) return known.key;
    const key = randomBytes(8).toString("base64url");
    this.#settling.set(lease, { outcome, key });
    forgetOldest(this.#settling);
    return key;
  }

  answered(lease: string): void {
    this.#settling.delete(lease);
  }

  /** Remembers a claim without an answer. It may still be on its way to Redis. */
  claimLost(key: string, leaseDuration: number): void {
    this.#claims.set(key, performance.now() + leaseDuration);
    forgetOldest(this.#claims);
  }

  /** Keys of claims whose leases may not have ended yet. */
  lostClaims(): string[] {
    for (const [key, until] of this.#claims) if (until < performance.now()) this.#claims.delete(key);
    return [...this.#claims.keys()];
  }
}

function forgetOldest(map: Map<string, unknown>): void {
  const [oldest] = map.keys();
  if (map.size > MOST && oldest !== undefined) map.delete(oldest);
}
