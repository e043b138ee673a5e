import type { OutageGate } from "./outage.ts";
import { describeThrown } from "./outcome.ts";
import type { QueueOptions } from "./policy.ts";
import { Alarm } from "./timer.ts";
import type { Workers } from "./workers.ts";

/** How often one is tried, ms. */
const EVERY = 1000;
/** How many arrivals are remembered. */
const MOST = 1000;

/**
 * Looks after what arrives while the loop pauses because record after record is refused. If that is a flood of
 * forged notifications, a real one must not wait behind it at the pace of probes: the newest arrival is tried,
 * one at a time, and the first that is answered ends the pause.
 */
export class Scout<Tx> {
  readonly #options: QueueOptions<Tx>;
  readonly #workers: Workers<Tx>;
  readonly #gate: OutageGate;
  readonly #alarm = new Alarm(() => void this.#look());
  readonly #arrivals: string[] = [];
  #looking = false;

  constructor(options: QueueOptions<Tx>, workers: Workers<Tx>, gate: OutageGate) {
    this.#options = options;
    this.#workers = workers;
    this.#gate = gate;
  }

  arrived(eventId: string): void {
    if (!this.#gate.refusing) return;
    if (this.#arrivals.length === MOST) this.#arrivals.shift();
    this.#arrivals.push(eventId);
    if (!this.#looking && !this.#alarm.isSet) this.#alarm.set(EVERY);
  }

  stop(): void {
    this.#arrivals.length = 0;
    this.#alarm.clear();
  }

  async #look(): Promise<void> {
    const eventId = this.#arrivals.pop();
    if (eventId === undefined || !this.#gate.refusing) return this.stop();
    this.#looking = true;
    try {
      const [claim] = await this.#workers.claim({ limit: 1, eventId, outOfTurn: true });
      if (claim) await this.#workers.start(claim);
    } catch (error) {
      this.#options.logger.warn(`stayhook: the store failed (${describeThrown(error)})`);
    } finally {
      this.#looking = false;
    }
    if (this.#arrivals.length > 0) this.#alarm.set(EVERY);
  }
}
