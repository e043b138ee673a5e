import { idleTimer, ResettableTimer, withTimeout } from "../async.ts";
import type { Log } from "../logger.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { ClaimedEvent } from "../stores/stored-event.ts";

/** How long a callback may run after its signal aborts, ms. The record stays locked during this time. */
export const GRACE = 3000;
/** The longest wait after a failed renewal, ms. */
const RENEW_AGAIN = 1000;
/** The alarm rings at least this often while the process holds leases, ms, so that it notices a blocked event loop. */
const HEARTBEAT = 1000;

interface LeaseEvents {
  /** Called shortly before the lease ends, if no renewal has succeeded. */
  readonly onExpiring?: () => void;
  /** Called when the store says that the lease is lost. */
  readonly onLost?: () => void;
}

/**
 * A lease, timed by the monotonic clock of this process. The time starts before this process sends the claim. So the
 * lease ends no later in this process than in the store. After its end, only the store knows whether it still holds.
 */
export class Lease {
  claim: ClaimedEvent;
  /** When the lease ends, on the monotonic clock. */
  endsAt: number;
  /** When the last successful renewal was sent, on the monotonic clock. */
  renewedAt = Number.NEGATIVE_INFINITY;
  /** Whether `onExpiring` was called since the last renewal. */
  expiring = false;
  /** `true` while the store records the attempt's end. During this time, a missing lease does not count as lost. */
  ending = false;
  /** Whether the store has said that the lease is lost. */
  lost = false;
  readonly #events: LeaseEvents;
  /** The end by the system clock, which a store on this machine reads. */
  #endsAtDate: number;

  constructor(claim: ClaimedEvent, endsAt: number, events: LeaseEvents = {}) {
    this.claim = claim;
    this.endsAt = endsAt;
    this.#endsAtDate = Date.now() + endsAt - performance.now();
    this.#events = events;
  }

  /** Whether the lease has not ended by the monotonic clock. */
  get held(): boolean {
    return !this.lost && performance.now() < this.endsAt;
  }

  /** Whether the lease has ended by the monotonic clock or by the system clock. */
  hasEndedAt(now: number, date: number): boolean {
    return this.endsAt <= now || this.#endsAtDate <= date;
  }

  renewed(sentAt: number, duration: number): void {
    // An answer may arrive after the answer to a later renewal.
    if (sentAt <= this.renewedAt) return;
    this.renewedAt = sentAt;
    this.endsAt = sentAt + duration;
    this.#endsAtDate = Date.now() + this.endsAt - performance.now();
    this.expiring = false;
  }

  /** Goes on with a new claim of the same event. */
  replace(claim: ClaimedEvent, endsAt: number): void {
    this.claim = claim;
    this.renewed(performance.now(), endsAt - performance.now());
  }

  expire(): void {
    this.expiring = true;
    this.#events.onExpiring?.();
  }

  lose(): void {
    this.lost = true;
    this.#events.onLost?.();
  }
}

/** Renews the leases of this process after a third of their duration. Reports leases that expire or are lost. */
export class Leases<Tx> {
  readonly #store: EventStore<Tx>;
  readonly #duration: number;
  readonly #log: Log;
  readonly #leases = new Set<Lease>();
  readonly #timer = new ResettableTimer(() => this.#tick());
  /** When to renew, on the monotonic clock. It is Infinity while a renewal is in flight. */
  #renewAt = 0;
  /** When the alarm rings, on the monotonic clock. */
  #alarmAt = Number.POSITIVE_INFINITY;
  /** When the event loop was last seen running, on the monotonic clock. */
  #seenAt = 0;
  /** No lease expires before this time on the monotonic clock. */
  #expireFrom = Number.NEGATIVE_INFINITY;
  #renewing: Promise<void> | undefined;

  constructor(store: EventStore<Tx>, duration: number, log: Log) {
    this.#store = store;
    this.#duration = duration;
    this.#log = log;
  }

  add(lease: Lease): void {
    const now = performance.now();
    if (this.#leases.size === 0) this.#renewAt = now + this.#duration / 3;
    this.#leases.add(lease);
    this.#seenAt = now;
    // Do not set a timer or scan all leases for each attempt, because many attempts take less than 1 ms.
    this.#wakeAt(Math.min(this.#renewAt, lease.endsAt - this.#grace, now + HEARTBEAT));
  }

  delete(lease: Lease): void {
    this.#leases.delete(lease);
  }

  /**
   * Whether a lease has ended by a clock of this process, because the event loop was blocked or the system clock jumped.
   * A claim would then take an event that this process still handles.
   */
  get anyEnded(): boolean {
    const [now, date] = [performance.now(), Date.now()];
    for (const lease of this.#leases) if (lease.hasEndedAt(now, date)) return true;
    return false;
  }

  /** Renews all leases now, or waits for the renewal in flight. Resolves to `false` if the store does not answer. */
  async renew(): Promise<boolean> {
    if (!this.#renewing) this.#send(performance.now());
    const renewing = this.#renewing!;
    await withTimeout(this.#patience, renewing);
    return this.#renewing !== renewing;
  }

  /** The signal aborts this many ms before the lease ends, so that a callback can clean up before the next attempt. */
  get #grace(): number {
    return Math.min(GRACE, this.#duration / 3);
  }

  /** How long a renewal may take before the next one, ms. */
  get #patience(): number {
    return this.#duration / 6;
  }

  #tick(): void {
    const now = performance.now();
    const late = now - this.#alarmAt;
    this.#alarmAt = Number.POSITIVE_INFINITY;
    // The attempts may have ended by now, because the callback that blocked the event loop has returned.
    if (late > this.#duration / 3) this.#tellBlocked(now - this.#seenAt);
    if (this.#leases.size === 0) return;
    // After a blocked event loop, a renewal first shows whether the leases still hold.
    if (late > Math.min(HEARTBEAT, this.#patience)) this.#expireFrom = now + this.#patience;
    this.#seenAt = now;
    if (now >= this.#renewAt) this.#send(now);
    for (const lease of [...this.#leases])
      if (!lease.expiring && now >= this.#expiresAt(lease)) lease.expire();
    this.#schedule();
  }

  #tellBlocked(ms: number): void {
    this.#log.limited(
      "blocked",
      "warn",
      `the event loop was blocked for ${Math.max(1, Math.round(ms / 1000))} s, so leases may end while their callbacks run. Move long computations out of callbacks, or raise leaseDuration`,
    );
  }

  #expiresAt({ endsAt }: Lease): number {
    return Math.max(this.#expireFrom, endsAt - this.#grace);
  }

  #schedule(): void {
    let next = Math.min(this.#renewAt, performance.now() + HEARTBEAT);
    for (const lease of this.#leases) if (!lease.expiring) next = Math.min(next, this.#expiresAt(lease));
    this.#wakeAt(next);
  }

  #wakeAt(at: number): void {
    if (at >= this.#alarmAt) return;
    this.#alarmAt = at;
    this.#timer.set(Math.max(1, at - performance.now()));
  }

  #send(sentAt: number): void {
    this.#renewAt = Number.POSITIVE_INFINITY;
    const renewAt = (at: number): void => {
      // The patience has ended, and another renewal was sent or will be.
      if (this.#renewing !== renewing) return;
      this.#renewing = undefined;
      clearTimeout(timer);
      this.#renewAt = at;
      this.#schedule();
    };
    const timer = idleTimer(() => {
      const ms = Math.round(this.#patience);
      if (this.#leases.size > 0)
        this.#log.limited("renew", "warn", `the store did not renew leases within ${ms} ms. Trying again`);
      renewAt(performance.now());
    }, this.#patience);
    const renewing = this.#renewed(sentAt).then(renewAt);
    this.#renewing = renewing;
  }

  /** Never rejects. @returns when to renew the next time */
  async #renewed(sentAt: number): Promise<number> {
    const leases = [...this.#leases];
    try {
      const claims = leases.map(({ claim }) => claim);
      const renewed = claims.length === 0 ? [] : await this.#store.renew(claims, this.#duration);
      const held = new Set(renewed.map(({ lease }) => lease));
      for (const lease of leases) {
        if (held.has(lease.claim.lease)) lease.renewed(sentAt, this.#duration);
        else if (this.#leases.has(lease) && !lease.ending) this.#lose(lease);
      }
      return sentAt + this.#duration / 3;
    } catch (error) {
      // If this process holds no lease, do not log: the user may have closed the store, so the error is expected.
      if (this.#leases.size > 0)
        this.#log.limited("renew", "warn", "the store could not renew leases. Trying again", { error });
      return performance.now() + Math.min(RENEW_AGAIN, this.#patience);
    }
  }

  #lose(lease: Lease): void {
    this.#leases.delete(lease);
    lease.lose();
  }
}
