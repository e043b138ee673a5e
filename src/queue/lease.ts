import type { ClaimedEvent } from "../stores/event-store.ts";

/**
 * A lease as this process sees it. It ends on the process's own monotonic clock, counted from before the claim
 * was sent, so that it ends here no later than in the store.
 */
export class Lease {
  #claim: ClaimedEvent;
  #endsAt: number;
  #lost = false;
  #ending = false;
  readonly #onLost: () => void;

  constructor(claim: ClaimedEvent, endsAt: number, onLost: () => void) {
    this.#claim = claim;
    this.#endsAt = endsAt;
    this.#onLost = onLost;
  }

  get claim(): ClaimedEvent {
    return this.#claim;
  }

  get endsAt(): number {
    return this.#endsAt;
  }

  get held(): boolean {
    return !this.#lost && performance.now() < this.#endsAt;
  }

  /**
   * Its end is being recorded. From then on the store's answer to that says whether it was held: a renewal beside it may
   * find it gone because it has just been ended.
   */
  get ending(): boolean {
    return this.#ending;
  }

  end(): void {
    this.#ending = true;
  }

  renewed(claim: ClaimedEvent, endsAt: number): void {
    this.#claim = claim;
    this.#endsAt = endsAt;
  }

  lose(): void {
    if (this.#lost) return;
    this.#lost = true;
    this.#onLost();
  }
}
