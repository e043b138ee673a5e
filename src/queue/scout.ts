import type { OutageGate } from "./outage.ts";
import type { QueueOptions } from "./policy.ts";
import { Alarm } from "./timer.ts";
import type { Workers } from "./workers.ts";

/** How often one is tried, ms. */
const EVERY = 100;
/** How many arrivals are remembered. */
const MOST = 10_000;

/**
 * Looks after what arrives while the loop pauses because record after record is refused. If that is a flood of
 * forged notifications, a real one must not wait behind it at the pace of probes: the newest arrival is tried,
 * then the next, and the first that is answered ends the pause.
 */
export class Scout<Tx> {
  readonly #options: QueueOptions<Tx>;
  readonly #workers: Workers<Tx>;
  readonly #gate: OutageGate;
  readonly #alarm = new Alarm(() => void this.#look());
  /** In the order of their arrival; those that were begun meanwhile are in here still. */
  readonly #arrivals: string[] = [];
  readonly #notBegun = new Set<string>();
  #looking = false;

  constructor(options: QueueOptions<Tx>, workers: Workers<Tx>, gate: OutageGate) {
    this.#options = options;
    this.#workers = workers;
    this.#gate = gate;
    workers.listen({ started: (eventId) => this.#begun(eventId) });
  }

  /** Also without a pause: the next one may begin before the event has had its turn. */
  arrived(eventId: string): void {
    if (this.#arrivals.length === MOST) this.#notBegun.delete(this.#arrivals.shift()!);
    this.#arrivals.push(eventId);
    this.#notBegun.add(eventId);
    this.paused();
  }

  /** A pause has begun, or goes on. */
  paused(): void {
    const idle = !this.#looking && !this.#alarm.isSet;
    if (idle && this.#gate.refusing && this.#notBegun.size > 0) this.#alarm.set(EVERY);
  }

  stop(): void {
    this.#arrivals.length = 0;
    this.#notBegun.clear();
    this.#alarm.clear();
  }

  #begun(eventId: string): void {
    if (this.#notBegun.delete(eventId) && this.#notBegun.size === 0) this.#arrivals.length = 0;
  }

  async #look(): Promise<void> {
    if (!this.#gate.refusing) return;
    const eventId = this.#workers.slots > 0 ? this.#newest() : undefined;
    if (eventId !== undefined) await this.#try(eventId);
    this.paused();
  }

  #newest(): string | undefined {
    for (;;) {
      const eventId = this.#arrivals.pop();
      if (eventId === undefined || this.#notBegun.delete(eventId)) return eventId;
    }
  }

  async #try(eventId: string): Promise<void> {
    this.#looking = true;
    try {
      const [claim] = await this.#workers.claim({ limit: 1, eventId, outOfTurn: true });
      if (claim) void this.#workers.start(claim);
    } catch (error) {
      this.#options.logger.warn("the store failed", { error });
    } finally {
      this.#looking = false;
    }
  }
}
