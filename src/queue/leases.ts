import { Alarm, idleTimer } from "../async.ts";
import type { Log } from "../logger.ts";
import type { ClaimedEvent, EventStore } from "../stores/event-store.ts";

/** How long a callback may run after its signal aborts, ms. The record stays locked during this time. */
export const GRACE = 3000;
/** The longest wait after a failed renewal, ms. */
const RENEW_AGAIN = 1000;

interface LeaseEvents {
  /** Called shortly before the lease ends, if no renewal has succeeded. */
  readonly onExpiring?: () => void;
  readonly onLost?: () => void;
}

/**
 * A lease, timed by the monotonic clock of this process. The time starts before this process sends the claim. So the
 * lease ends no later in this process than in the store.
 */
export class Lease {
  claim: ClaimedEvent;
  endsAt: number;
  /** Whether `onExpiring` was called since the last renewal. */
  expiring = false;
  /** `true` while the store records the attempt's end. During this time, a missing lease does not count as lost. */
  ending = false;
  readonly #events: LeaseEvents;
  #lost = false;

  constructor(claim: ClaimedEvent, endsAt: number, events: LeaseEvents) {
    this.claim = claim;
    this.endsAt = endsAt;
    this.#events = events;
  }

  get held(): boolean {
    return !this.#lost && performance.now() < this.endsAt;
  }

  renewed(claim: ClaimedEvent, endsAt: number): void {
    if (endsAt <= this.endsAt) return;
    this.claim = claim;
    this.endsAt = endsAt;
    this.expiring = false;
  }

  expire(): void {
    this.expiring = true;
    this.#events.onExpiring?.();
  }

  lose(): void {
    if (this.#lost) return;
    this.#lost = true;
    this.#events.onLost?.();
  }
}

/** Renews the leases of this process after a third of their duration. Reports leases that expire or are lost. */
export class Leases<Tx> {
  readonly #store: EventStore<Tx>;
  readonly #duration: number;
  readonly #log: Log;
  readonly #leases = new Set<Lease>();
  readonly #alarm = new Alarm(() => this.#tick());
  /** When to renew, on the monotonic clock. It is Infinity while a renewal is in flight. */
  #renewAt = 0;
  /** When the alarm rings, on the monotonic clock. */
  #alarmAt = Number.POSITIVE_INFINITY;

  constructor(store: EventStore<Tx>, duration: number, log: Log) {
    this.#store = store;
    this.#duration = duration;
    this.#log = log;
  }

  add(lease: Lease): void {
    if (this.#leases.size === 0) this.#renewAt = performance.now() + this.#duration / 3;
    this.#leases.add(lease);
    // Do not set a timer or scan all leases for each attempt, because many attempts take less than 1 ms.
    this.#wakeAt(Math.min(this.#renewAt, lease.endsAt - this.#grace));
  }

  delete(lease: Lease): void {
    this.#leases.delete(lease);
  }

  /** The signal aborts this many ms before the lease ends, so that a callback can clean up before the next attempt. */
  get #grace(): number {
    return Math.min(GRACE, this.#duration / 3);
  }

  #tick(): void {
    const now = performance.now();
    this.#alarmAt = Number.POSITIVE_INFINITY;
    for (const lease of [...this.#leases]) {
      if (!lease.held) this.#lose(lease);
      else if (!lease.expiring && now >= lease.endsAt - this.#grace) lease.expire();
    }
    if (this.#leases.size === 0) return;
    if (now >= this.#renewAt) this.#renew(now);
    this.#schedule();
  }

  #schedule(): void {
    let next = this.#renewAt;
    for (const { expiring, endsAt } of this.#leases) {
      next = Math.min(next, expiring ? endsAt : endsAt - this.#grace);
    }
    this.#wakeAt(next);
  }

  #wakeAt(at: number): void {
    if (at >= this.#alarmAt) return;
    this.#alarmAt = at;
    this.#alarm.set(Math.max(1, at - performance.now()));
  }

  #renew(sentAt: number): void {
    const leases = [...this.#leases];
    const patience = this.#duration / 6;
    this.#renewAt = Number.POSITIVE_INFINITY;
    let waiting = true;
    const renewAt = (at: number): void => {
      if (!waiting) return;
      waiting = false;
      clearTimeout(timer);
      this.#renewAt = at;
      this.#schedule();
    };
    const timer = idleTimer(() => {
      const ms = Math.round(patience);
      if (this.#leases.size > 0)
        this.#log.warn(`the store did not renew leases within ${ms} ms. Trying again`);
      renewAt(performance.now());
    }, patience);
    this.#store
      .renew(
        leases.map((lease) => lease.claim),
        this.#duration,
      )
      .then(
        (claims) => {
          this.#renewed(leases, claims, sentAt);
          renewAt(sentAt + this.#duration / 3);
        },
        (error) => {
          // If this process holds no lease, do not log: the user may have closed the store, so the error is expected.
          if (this.#leases.size > 0)
            this.#log.warn("the store could not renew leases. Trying again", { error });
          renewAt(performance.now() + Math.min(RENEW_AGAIN, patience));
        },
      );
  }

  #renewed(leases: readonly Lease[], claims: readonly ClaimedEvent[], sentAt: number): void {
    const held = new Map(claims.map((claim) => [claim.eventId, claim]));
    for (const lease of leases) {
      const claim = held.get(lease.claim.eventId);
      if (claim) lease.renewed(claim, sentAt + this.#duration);
      else if (this.#leases.has(lease) && !lease.ending) this.#lose(lease);
    }
  }

  #lose(lease: Lease): void {
    this.#leases.delete(lease);
    lease.lose();
  }
}
