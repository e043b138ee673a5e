import type { ClaimedEvent, ClaimOptions as StoreClaimOptions } from "../stores/event-store.ts";
import { Attempt, type AttemptEnd } from "./attempt.ts";
import { GRACE } from "./cancellable-run.ts";
import { Lease } from "./lease.ts";
import type { OutageGate } from "./outage.ts";
import type { QueueOptions } from "./policy.ts";
import { Renewal } from "./renewal.ts";
import { atMost } from "./timer.ts";

/** How long the store may take to take leases back, ms. */
const GIVE_BACK = 5000;

export interface WorkersListener {
  started?(eventId: string): void;
  ended?(eventId: string, end: AttemptEnd): void;
  /** A slot has become free. */
  freed?(): void;
}

/** A claim with the time at which its lease ends here. */
export interface Claim {
  readonly event: ClaimedEvent;
  readonly leaseEndsAt: number;
  readonly outOfTurn: boolean;
}

export interface ClaimOptions {
  readonly limit: number;
  readonly eventId?: string;
  readonly order?: StoreClaimOptions["order"];
  /** Though the loop pauses: for what may end the pause. */
  readonly outOfTurn?: boolean;
}

/** All attempts that run in this process, whoever started them: the loop, a drain, or an inline request. */
export class Workers<Tx> {
  readonly #options: QueueOptions<Tx>;
  readonly #gate: OutageGate;
  readonly #renewal: Renewal<Tx>;
  readonly #running = new Set<Attempt<Tx>>();
  readonly #listeners = new Set<WorkersListener>();
  /** Slots promised to claims that are on their way to the store. */
  #reserved = 0;
  readonly #claiming = new Set<Promise<readonly Claim[]>>();
  #closing = false;

  constructor(options: QueueOptions<Tx>, gate: OutageGate) {
    this.#options = options;
    this.#gate = gate;
    this.#renewal = new Renewal(options.store, options.policy.leaseDuration, options.logger);
  }

  /** How many attempts may begin now. */
  get free(): number {
    return this.#gate.allowance(this.#running.size + this.#reserved);
  }

  /** How many could run beside those that do, pause or not. */
  get slots(): number {
    return this.#options.policy.concurrency - this.#running.size - this.#reserved;
  }

  get running(): readonly string[] {
    return [...this.#running].map((attempt) => attempt.claim.eventId);
  }

  listen(listener: WorkersListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Claims what is due, as much as may begin; every claim is then to be started or held. */
  async claim(options: ClaimOptions): Promise<Claim[]> {
    const limit = Math.min(options.limit, options.outOfTurn ? this.slots : this.free);
    if (limit <= 0 || this.#closing) return [];
    this.#reserved += limit;
    const claiming = this.#claim({ ...options, limit });
    this.#claiming.add(claiming);
    // What was claimed keeps its slot until it is started or held.
    let kept = 0;
    try {
      const claims = await claiming;
      kept = claims.length;
      return claims;
    } finally {
      this.#claiming.delete(claiming);
      this.#reserved -= limit - kept;
      if (kept < limit) this.#freed();
    }
  }

  /** Waits for the claims that are on their way to the store. Resolves to whether they have got anything. */
  async claimedByOthers(): Promise<boolean> {
    const claimed = await Promise.allSettled(this.#claiming);
    return claimed.some((each) => each.status === "fulfilled" && each.value.length > 0);
  }

  async #claim({ outOfTurn = false, ...options }: ClaimOptions): Promise<Claim[]> {
    const { worker, policy } = this.#options;
    const { leaseDuration } = policy;
    const sentAt = performance.now();
    const events = await this.#options.store.claim({ ...options, leaseDuration, worker });
    const leaseEndsAt = sentAt + leaseDuration;
    if (!this.#closing) return events.map((event) => ({ event, leaseEndsAt, outOfTurn }));
    await Promise.all(events.map((event) => this.#giveBack(event)));
    return [];
  }

  start({ event, leaseEndsAt, outOfTurn }: Claim): Promise<AttemptEnd> {
    const record = event.ref ?? event.eventId;
    const evidence = outOfTurn ? this.#gate.beginOutOfTurn(record) : this.#gate.begin(record);
    const attempt = new Attempt(event, leaseEndsAt, this.#options, evidence);
    this.#reserved -= 1;
    this.#running.add(attempt);
    this.#renewal.add(attempt.lease);
    for (const listener of this.#listeners) listener.started?.(event.eventId);
    return attempt.ended.then((end) => {
      this.#running.delete(attempt);
      this.#renewal.delete(attempt.lease);
      for (const listener of [...this.#listeners]) listener.ended?.(event.eventId, end);
      this.#freed();
      return end;
    });
  }

  /** Keeps a claim without working on it; the returned function gives it back, not counted. */
  hold({ event, leaseEndsAt }: Claim): () => Promise<void> {
    const lease = new Lease(event, leaseEndsAt, () => {});
    this.#reserved -= 1;
    this.#renewal.add(lease);
    this.#freed();
    return async () => {
      this.#renewal.delete(lease);
      await this.#giveBack(lease.claim);
    };
  }

  /**
   * Resolves when an attempt has ended; for who found no slot, also when one has become free because somebody's
   * claim found less than it had room for. (Told of that, two who found nothing due would wake each other for ever.)
   */
  nextChange({ noSlot }: { readonly noSlot: boolean }): Promise<void> {
    return new Promise((resolve) => {
      const changed = (): void => {
        stop();
        resolve();
      };
      const stop = this.listen(noSlot ? { freed: changed } : { ended: changed });
    });
  }

  #freed(): void {
    for (const listener of [...this.#listeners]) listener.freed?.();
  }

  /** Begins nothing more, lets what runs finish for `timeout` ms, then cuts it off and gives the leases back. */
  async close(timeout: number): Promise<void> {
    this.#closing = true;
    await atMost(timeout, [this.#idle()]);
    await this.release();
    await atMost(GRACE, [Promise.allSettled(this.#claiming)]);
  }

  async #idle(): Promise<void> {
    while (this.#running.size > 0) await this.nextChange({ noSlot: false });
  }

  /** Cuts off what runs (all, or what `which` picks), and gives the leases back. */
  async release(which: (eventId: string) => boolean = () => true): Promise<void> {
    const picked = [...this.#running].filter((attempt) => which(attempt.claim.eventId));
    for (const attempt of picked) attempt.release();
    // A store that hangs must not hold up the end of the process: the leases end by themselves.
    await atMost(GRACE + GIVE_BACK, [Promise.all(picked.map((attempt) => attempt.ended))]);
  }

  async #giveBack(claim: ClaimedEvent): Promise<void> {
    try {
      await this.#options.store.settle(claim, { state: "released" });
    } catch (error) {
      this.#options.logger.warn(
        `event ${claim.eventId} could not be given back; it is free when its lease ends`,
        { eventId: claim.eventId, error },
      );
    }
  }
}
