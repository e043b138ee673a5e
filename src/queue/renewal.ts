import type { Log } from "../logger.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { Lease } from "./lease.ts";
import { Alarm } from "./timer.ts";

/** Keeps the leases of one process: renews all of them at a third of their time, and says which are lost. */
export class Renewal<Tx> {
  readonly #store: EventStore<Tx>;
  readonly #leaseDuration: number;
  readonly #logger: Log;
  readonly #leases = new Set<Lease>();
  readonly #alarm = new Alarm(() => this.#tick());
  #renewAt = 0;
  #renewing = false;

  constructor(store: EventStore<Tx>, leaseDuration: number, logger: Log) {
    this.#store = store;
    this.#leaseDuration = leaseDuration;
    this.#logger = logger;
  }

  add(lease: Lease): void {
    this.#leases.add(lease);
    if (this.#alarm.isSet) return;
    this.#renewAt = performance.now() + this.#third;
    this.#alarm.set(this.#third);
  }

  delete(lease: Lease): void {
    this.#leases.delete(lease);
  }

  get #third(): number {
    return this.#leaseDuration / 3;
  }

  #tick(): void {
    for (const lease of [...this.#leases]) {
      if (!lease.held) this.#lose(lease);
    }
    if (this.#leases.size === 0) return;
    const now = performance.now();
    if (now >= this.#renewAt) {
      this.#renewAt = now + this.#third;
      // A store that hangs must not pile up calls; the leases end by themselves.
      if (!this.#renewing) void this.#renew();
    }
    let next = this.#renewAt;
    for (const lease of this.#leases) next = Math.min(next, lease.endsAt);
    this.#alarm.set(Math.max(1, next - now));
  }

  async #renew(): Promise<void> {
    const leases = [...this.#leases];
    const sentAt = performance.now();
    this.#renewing = true;
    try {
      const claims = await this.#store.renew(
        leases.map((lease) => lease.claim),
        this.#leaseDuration,
      );
      const held = new Map(claims.map((claim) => [claim.eventId, claim]));
      for (const lease of leases) {
        const claim = held.get(lease.claim.eventId);
        if (claim) lease.renewed(claim, sentAt + this.#leaseDuration);
        else if (this.#leases.has(lease) && !lease.ending) this.#lose(lease);
      }
    } catch (error) {
      // With nothing left to keep, the store may have been closed.
      if (this.#leases.size > 0) this.#logger.warn("leases could not be renewed; trying again", { error });
    } finally {
      this.#renewing = false;
    }
  }

  #lose(lease: Lease): void {
    this.#leases.delete(lease);
    lease.lose();
  }
}
