import { randomBytes } from "node:crypto";
import type { Outcome } from "../event-store.ts";

/** What is remembered of calls without an answer, at most. */
const MOST = 1000;

/**
 * Calls that got no answer: they may have been done, or will be. A settling that is made once more goes by the
 * name of the first, so that it is known as the same; what a claim has leased is given back at the next one.
 */
export class Retold {
  readonly #settling = new Map<string, { readonly outcome: string; readonly name: string }>();
  readonly #claims = new Map<string, number>();

  /** The name of this settling: the same for a lease and an outcome, until an answer came. */
  nameOf(lease: string, outcome: Outcome): string {
    const told = JSON.stringify(outcome);
    const known = this.#settling.get(lease);
    if (known?.outcome === told) return known.name;
    const name = randomBytes(8).toString("base64url");
    this.#settling.set(lease, { outcome: told, name });
    forgetOldest(this.#settling);
    return name;
  }

  answered(lease: string): void {
    this.#settling.delete(lease);
  }

  /** A claim without an answer; it may still be on its way to Redis. */
  claimLost(name: string, leaseDuration: number): void {
    this.#claims.set(name, performance.now() + leaseDuration);
    forgetOldest(this.#claims);
  }

  /** Names of claims whose leases may not have ended yet. */
  lostClaims(): string[] {
    for (const [name, until] of this.#claims) if (until < performance.now()) this.#claims.delete(name);
    return [...this.#claims.keys()];
  }
}

function forgetOldest(map: Map<string, unknown>): void {
  const [oldest] = map.keys();
  if (map.size > MOST && oldest !== undefined) map.delete(oldest);
}
