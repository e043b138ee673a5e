import { atMost } from "../async.ts";
import type { ClaimedEvent } from "../stores/event-store.ts";
import { Attempt, type AttemptEnd } from "./attempt.ts";
import type { CircuitBreaker, Refusals } from "./circuit-breaker.ts";
import { GRACE, Lease, Leases } from "./leases.ts";
import type { QueueOptions } from "./work.ts";

/** How long to wait for the store to release leases, ms. */
const GIVE_BACK = 5000;
/** Every tenth claim takes retries first, so that a flood of new events does not starve the retries. */
const RETRIES_FIRST_EVERY = 10;

interface WorkersListener {
  started?(eventId: string): void;
  ended?(eventId: string, end: AttemptEnd): void;
  /** Called when a slot becomes free. */
  freed?(): void;
}

/** A claimed event, and the end of its lease on the monotonic clock of this process. */
export interface Claim {
  readonly event: ClaimedEvent;
  readonly leaseEndsAt: number;
}

/** Runs all attempts that the loop, drains and inline requests start in this process. */
export class Workers<Tx> {
  readonly breaker: CircuitBreaker;
  readonly refusals: Refusals;
  readonly #options: QueueOptions<Tx>;
  readonly #leases: Leases<Tx>;
  readonly #running = new Set<Attempt<Tx>>();
  /** The running attempts that only wait for the store to record their end. */
  readonly #settling = new Set<Attempt<Tx>>();
  /** The latest running attempt of each record. */
  readonly #byRecord = new Map<string, Attempt<Tx>>();
  readonly #listeners = new Set<WorkersListener>();
  /** How many slots are reserved for claims in flight and for claims that are not started yet. */
  #reserved = 0;
  #claims = 0;
  readonly #claiming = new Set<Promise<readonly Claim[]>>();
  #closing = false;

  constructor(options: QueueOptions<Tx>, breaker: CircuitBreaker, refusals: Refusals) {
    this.#options = options;
    this.breaker = breaker;
    this.refusals = refusals;
    this.#leases = new Leases(options.store, options.policy.leaseDuration, options.logger);
  }

  /** Returns how many attempts may begin at `now`, a time on the monotonic clock. */
  roomAt(now: number): Room {
    const { concurrency } = this.#options.policy;
    // Up to `concurrency` attempts that only record their end take no slot. Without this limit, such attempts would
    // pile up if the store is slow.
    const recording = Math.min(this.#settling.size, concurrency);
    const slots = concurrency + recording - this.#running.size - this.#reserved;
    if (slots <= 0) return { limit: 0, wait: undefined };
    const pause = this.breaker.waitAt(now);
    if (pause > 0) return { limit: 0, wait: pause };
    const { reads, nextRead } = this.refusals.roomAt(now);
    return reads > 0 ? { limit: Math.min(slots, reads), wait: 0 } : { limit: 0, wait: nextRead };
  }

  get running(): readonly string[] {
    return [...this.#running].map((attempt) => attempt.claim.eventId);
  }

  listen(listener: WorkersListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Claims due events. `limit` must not exceed {@link roomAt}. Call `start` or `hold` with each claim afterwards. */
  async claim(options: { readonly limit: number; readonly eventId?: string }): Promise<Claim[]> {
    const { limit } = options;
    if (this.#closing) return [];
    this.#reserved += limit;
    const { limiting } = this.refusals;
    if (limiting) this.refusals.take(limit);
    const claiming = this.#claim(options);
    this.#claiming.add(claiming);
    // A claim keeps its slot until it is started or held.
    let kept = 0;
    try {
      const claims = await claiming;
      kept = claims.length;
      return claims;
    } finally {
      this.#claiming.delete(claiming);
      this.#reserved -= limit - kept;
      if (limiting) this.refusals.take(kept - limit);
      if (kept < limit) this.#freed();
    }
  }

  /** Waits for the claims in flight. Resolves to `true` if at least one of them got an event. */
  async claimedByOthers(): Promise<boolean> {
    const claimed = await Promise.allSettled(this.#claiming);
    return claimed.some((each) => each.status === "fulfilled" && each.value.length > 0);
  }

  async #claim(options: { readonly limit: number; readonly eventId?: string }): Promise<Claim[]> {
    const { store, worker, policy } = this.#options;
    const { leaseDuration } = policy;
    const order = options.eventId === undefined ? this.#nextOrder() : undefined;
    const sentAt = performance.now();
    const events = await store.claim({ ...options, ...(order && { order }), leaseDuration, worker });
    const leaseEndsAt = sentAt + leaseDuration;
    if (!this.#closing) return events.map((event) => ({ event, leaseEndsAt }));
    await Promise.all(events.map((event) => this.#giveBack(event)));
    return [];
  }

  #nextOrder() {
    if (this.refusals.limiting) return this.refusals.nextOrder();
    this.#claims += 1;
    return this.#claims % RETRIES_FIRST_EVERY === 0 ? "retries" : "oldest";
  }

  start({ event, leaseEndsAt }: Claim): Promise<AttemptEnd> {
    const record = event.ref ?? event.eventId;
    // If the store's clock jumps, the store may lease a record whose attempt still runs here. Wait for that attempt.
    const after = this.#byRecord.get(record)?.ended;
    const attempt: Attempt<Tx> = new Attempt(event, this.#options, {
      breaker: this.breaker,
      refusals: this.refusals,
      leaseEndsAt,
      after,
      onSettling: () => {
        this.#settling.add(attempt);
        this.#freed();
      },
    });
    this.#reserved -= 1;
    this.#running.add(attempt);
    this.#byRecord.set(record, attempt);
    this.#leases.add(attempt.lease);
    for (const listener of this.#listeners) listener.started?.(event.eventId);
    return attempt.ended.then((end) => {
      this.#running.delete(attempt);
      this.#settling.delete(attempt);
      if (this.#byRecord.get(record) === attempt) this.#byRecord.delete(record);
      this.#leases.delete(attempt.lease);
      for (const listener of [...this.#listeners]) listener.ended?.(event.eventId, end);
      this.#freed();
      return end;
    });
  }

  /** Holds a claim without starting an attempt. The returned function releases the claim and counts no attempt. */
  hold({ event, leaseEndsAt }: Claim): () => Promise<void> {
    const lease = new Lease(event, leaseEndsAt, {});
    this.#reserved -= 1;
    // A held claim reads no record, so it must not use up the limit of reads.
    this.refusals.take(-1);
    this.#leases.add(lease);
    this.#freed();
    return async () => {
      this.#leases.delete(lease);
      await this.#giveBack(lease.claim);
    };
  }

  /**
   * With `noSlot`, resolves when a slot becomes free. Without `noSlot`, resolves only when an attempt ends, and
   * ignores free slots. A claim that gets no event also frees its slots, so two drains that find no due event would
   * otherwise wake each other forever.
   */
  async nextChange({
    noSlot,
    within,
    or = [],
  }: {
    readonly noSlot: boolean;
    /** The longest wait, ms. */
    readonly within?: number | undefined;
    readonly or?: readonly Promise<unknown>[];
  }): Promise<void> {
    let stop = (): void => {};
    const changed = new Promise<void>((resolve) => {
      stop = this.listen(noSlot ? { freed: resolve } : { ended: () => resolve() });
    });
    try {
      await (within === undefined ? Promise.race([changed, ...or]) : atMost(within, [changed, ...or]));
    } finally {
      stop();
    }
  }

  #freed(): void {
    for (const listener of [...this.#listeners]) listener.freed?.();
  }

  /** Starts no new attempt. Waits up to `timeout` ms for running attempts. Then aborts and releases them. */
  async close(timeout: number): Promise<void> {
    this.#closing = true;
    await atMost(timeout, [this.#idle()]);
    await this.release();
    await atMost(GRACE, [Promise.allSettled(this.#claiming)]);
  }

  async #idle(): Promise<void> {
    while (this.#running.size > 0) await this.nextChange({ noSlot: false });
  }

  /** Aborts the attempts that `which` selects, and releases their leases. Default: all attempts. */
  async release(which: (eventId: string) => boolean = () => true): Promise<void> {
    const picked = [...this.#running].filter((attempt) => which(attempt.claim.eventId));
    for (const attempt of picked) attempt.release();
    // Do not wait longer: a store that hangs must not delay the end of the process. Unreleased leases expire.
    await atMost(GRACE + GIVE_BACK, [Promise.all(picked.map((attempt) => attempt.ended))]);
  }

  async #giveBack(claim: ClaimedEvent): Promise<void> {
    try {
      await this.#options.store.settle(claim, { state: "released" });
    } catch (error) {
      const { eventId } = claim;
      this.#options.logger.warn(
        `the store did not release event ${eventId}. Another process can handle the event when its lease ends`,
        { eventId, error },
      );
    }
  }
}

/** How many attempts may begin. */
interface Room {
  readonly limit: number;
  /** ms until there is room. It is `undefined` if only the end of an attempt or a claim makes room. */
  readonly wait: number | undefined;
}
