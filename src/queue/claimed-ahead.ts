// Keeps claims until a slot is free, so that a free slot does not wait for the store's answer to a claim.

import { ResettableTimer } from "../async.ts";
import type { ClaimedEvent } from "../stores/stored-event.ts";
import { Lease, type Leases } from "./leases.ts";

/** How long a claim may wait for a slot, ms. Another process may be free to handle its event. */
const LONGEST_WAIT = 250;

/**
 * The claims that wait for a slot. Their number is limited to the attempts that probably end during two claims, so it is 0 if
 * callbacks take long, or if the store answers at once.
 */
export class ClaimedAhead<Tx> {
  readonly #leases: Leases<Tx>;
  readonly #concurrency: number;
  readonly #giveBack: (claim: ClaimedEvent) => void;
  /** The leases with the time at which their wait began, on the monotonic clock. The oldest is first. */
  readonly #waiting = new Map<Lease, number>();
  readonly #timer = new ResettableTimer(() => this.#tick());
  /**
   * How many slots became free during each of the last two claims. One claim is not enough: if callbacks end together, no
   * slot becomes free during every second claim.
   */
  #freed: readonly number[] = [];

  constructor(leases: Leases<Tx>, concurrency: number, giveBack: (claim: ClaimedEvent) => void) {
    this.#leases = leases;
    this.#concurrency = concurrency;
    this.#giveBack = giveBack;
  }

  get size(): number {
    return this.#waiting.size;
  }

  /**
   * How many events to claim. Half of the claims that may wait are for the slots that become free during the next claim.
   * While more than this half waits, the room is 0, so that a claim gets several events.
   */
  get room(): number {
    const most = Math.min(2 * Math.max(0, ...this.#freed), this.#concurrency);
    return this.size * 2 > most ? 0 : most - this.size;
  }

  /** Notes how many slots became free during a claim. */
  noteFreed(slots: number): void {
    this.#freed = [...this.#freed.slice(-1), slots];
  }

  add(claim: ClaimedEvent, leaseEndsAt: number): void {
    const lease = new Lease(claim, leaseEndsAt);
    this.#waiting.set(lease, performance.now());
    this.#leases.add(lease);
    if (!this.#timer.isSet) this.#timer.set(LONGEST_WAIT);
  }

  /** Removes the claim that has waited longest. */
  take(): Lease | undefined {
    const [lease] = this.#waiting.keys();
    if (lease !== undefined) this.#remove(lease);
    return lease;
  }

  giveBackAll(): void {
    for (let lease = this.take(); lease !== undefined; lease = this.take()) this.#giveBack(lease.claim);
  }

  #remove(lease: Lease): void {
    this.#waiting.delete(lease);
    this.#leases.delete(lease);
    if (this.size === 0) this.#timer.clear();
  }

  /** Gives all claims back if one has waited too long, because callbacks then take longer than before. */
  #tick(): void {
    const [since = performance.now()] = this.#waiting.values();
    const left = since + LONGEST_WAIT - performance.now();
    if (left > 0) {
      if (this.size > 0) this.#timer.set(left);
      return;
    }
    this.giveBackAll();
  }
}
