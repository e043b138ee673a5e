import { Alarm, idleTimer, withTimeout } from "../async.ts";
import type { Log } from "../logger.ts";
import type { ClaimedEvent, EventStore } from "../stores/event-store.ts";

/** How long a callback may run after its signal aborts, ms. The record stays locked during this time. */
export const GRACE = 3000;
/** The longest wait after a failed renewal, ms. */
const RENEW_AGAIN = 1000;
/** A timer that comes later than this, ms, shows that the event loop was blocked or the process was frozen. */
const BLOCKED = 1000;

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
  readonly claim: ClaimedEvent;
  endsAt: number;
  /** The end by the system clock, which a store on this machine reads. */
  endsAtDate: number;
  /** When the last successful renewal was sent, on the monotonic clock. */
  renewedAt = Number.NEGATIVE_INFINITY;
  /** Whether `onExpiring` was called since the last renewal. */
  expiring = false;
  /** `true` while the store records the attempt's end. During this time, a missing lease does not count as lost. */
  ending = false;
  readonly #events: LeaseEvents;
  lost = false;
  abandoned = false;

  constructor(claim: ClaimedEvent, endsAt: number, events: LeaseEvents) {
    this.claim = claim;
    this.endsAt = endsAt;
    this.endsAtDate = Date.now() + endsAt - performance.now();
    this.#events = events;
  }

  /** Whether the lease has not ended by the monotonic clock. */
  get held(): boolean {
    return !this.lost && performance.now() < this.endsAt;
  }

  renewed(sentAt: number, duration: number): void {
    this.renewedAt = sentAt;
    this.endsAt = sentAt + duration;
    this.endsAtDate = Date.now() + this.endsAt - performance.now();
    this.expiring = false;
  }

  expire(): void {
    this.expiring = true;
    this.#events.onExpiring?.();
  }

  lose(): void {
    this.lost = true;
    this.#events.onLost?.();
  }

  /** Lets the lease end: it is renewed no more. */
  abandon(): void {
    this.abandoned = true;
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
  #renewing: Promise<void> | undefined;

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

  /**
   * Renews leases that have ended by a clock of this process, because the event loop was blocked or the system clock
   * jumped. A claim that follows would take their events, which this process still handles.
   */
  async renewEnded(): Promise<void> {
    const [now, date] = [performance.now(), Date.now()];
    for (const { endsAt, endsAtDate, abandoned } of this.#leases) {
      if (abandoned || (endsAt > now && endsAtDate > date)) continue;
      if (this.#renewing === undefined) this.#renew(now);
      await withTimeout(this.#patience, this.#renewing!);
      return;
    }
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
    if (this.#leases.size === 0) return;
    if (late > BLOCKED) this.#tellBlocked(late);
    if (now >= this.#renewAt) this.#renew(now);
    // After a blocked event loop, a renewal first shows whether the leases still hold.
    if (late <= BLOCKED) {
      for (const lease of [...this.#leases])
        if (!lease.expiring && now >= lease.endsAt - this.#grace) lease.expire();
    }
    this.#schedule(late > BLOCKED ? now + this.#patience : now);
  }

  #tellBlocked(late: number): void {
    const seconds = Math.round(late / 1000);
    this.#log.limited(
      "blocked",
      "warn",
      `the event loop was blocked for ${seconds} s, so leases were not renewed in time. Move long computations out of callbacks, or raise leaseDuration`,
    );
  }

  /** @param from - when leases may be looked at again */
  #schedule(from: number): void {
    let next = this.#renewAt;
    for (const { expiring, endsAt } of this.#leases)
      if (!expiring) next = Math.min(next, Math.max(from, endsAt - this.#grace));
    if (next < Number.POSITIVE_INFINITY) this.#wakeAt(next);
  }

  #wakeAt(at: number): void {
    if (at >= this.#alarmAt) return;
    this.#alarmAt = at;
    this.#alarm.set(Math.max(1, at - performance.now()));
  }

  #renew(sentAt: number): void {
    const leases = [...this.#leases].filter(({ abandoned }) => !abandoned);
    this.#renewAt = Number.POSITIVE_INFINITY;
    let waiting = true;
    const renewAt = (at: number): void => {
      if (!waiting) return;
      waiting = false;
      clearTimeout(timer);
      this.#renewAt = at;
      this.#schedule(performance.now());
    };
    const timer = idleTimer(() => {
      const ms = Math.round(this.#patience);
      if (this.#leases.size > 0)
        this.#log.warn(`the store did not renew leases within ${ms} ms. Trying again`);
      renewAt(performance.now());
    }, this.#patience);
    const renewing = this.#send(leases, sentAt).then(renewAt);
    this.#renewing = renewing;
    void renewing.finally(() => {
      if (this.#renewing === renewing) this.#renewing = undefined;
    });
  }

  /** Never rejects. @returns when to renew the next time */
  async #send(leases: readonly Lease[], sentAt: number): Promise<number> {
    try {
      const claims = leases.map(({ claim }) => claim);
      const held = new Set((await this.#store.renew(claims, this.#duration)).map(({ lease }) => lease));
      for (const lease of leases) {
        if (held.has(lease.claim.lease)) lease.renewed(sentAt, this.#duration);
        else if (this.#leases.has(lease) && !lease.ending) this.#lose(lease);
      }
      return sentAt + this.#duration / 3;
    } catch (error) {
      // If this process holds no lease, do not log: the user may have closed the store, so the error is expected.
      if (this.#leases.size > 0) this.#log.warn("the store could not renew leases. Trying again", { error });
      return performance.now() + Math.min(RENEW_AGAIN, this.#patience);
    }
  }

  #lose(lease: Lease): void {
    this.#leases.delete(lease);
    lease.lose();
  }
}
