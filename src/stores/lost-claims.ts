import type { ClaimCall, Claimed } from "./store-steps.ts";

interface GiveBack {
  /** Returns the claims that the calls made. */
  find(calls: readonly ClaimCall[]): Promise<readonly Claimed[]>;
  release(claimed: Claimed): Promise<unknown>;
}

/**
 * Gives back the claims that got no answer. No process got their events, so the attempts do not count, and no event waits
 * for the end of a lease that nobody holds.
 */
export class LostClaims {
  readonly #calls = new Set<ClaimCall>();
  readonly #steps: GiveBack;

  constructor(steps: GiveBack) {
    this.#steps = steps;
  }

  /** Runs `claim`, and remembers the call if its answer gets lost. */
  async watch<T>(call: ClaimCall, claim: () => Promise<T>): Promise<T> {
    try {
      return await claim();
    } catch (error) {
      this.#calls.add(call);
      throw error;
    }
  }

  /** Releases the events of lost claims. Until it succeeds, each later call tries again. */
  async giveBack(): Promise<void> {
    if (this.#calls.size === 0) return;
    const calls = [...this.#calls];
    const claims = await this.#steps.find(calls);
    await Promise.all(claims.map((claimed) => this.#steps.release(claimed)));
    for (const call of calls) this.#calls.delete(call);
  }
}
