import type { OutageGate } from "./outage.ts";
import type { QueueOptions } from "./policy.ts";
import { Alarm } from "./timer.ts";
import type { Workers } from "./workers.ts";

/** Every so many claims, retries go before new events, so that a flood of new ones does not starve them. */
const RETRIES_FIRST_EVERY = 10;
/** What a store that cannot notify of other processes' events is asked at the least, ms. */
const POLL = 1000;
/** A store that says "now" and then gives nothing is not asked again at once, ms. */
const NOTHING_AFTER_ALL = 25;
/** Waits after a store's failure, ms. */
const STORE_FAILED = [200, 1000, 5000] as const;

/** Takes up what is due, as it becomes due, until it is stopped. Sleeps in between, and holds no process open. */
export class Loop<Tx> {
  readonly #options: QueueOptions<Tx>;
  readonly #workers: Workers<Tx>;
  readonly #gate: OutageGate;
  readonly #alarm = new Alarm(() => this.wake());
  #started = false;
  #pumping = false;
  #woken = false;
  /** It found none free, though one may only be kept for somebody else's claim. */
  #wantsSlot = false;
  #claims = 0;
  #storeFailures = 0;
  #endings: (() => void)[] = [];

  constructor(options: QueueOptions<Tx>, workers: Workers<Tx>, gate: OutageGate) {
    this.#options = options;
    this.#workers = workers;
    this.#gate = gate;
  }

  get started(): boolean {
    return this.#started;
  }

  start(): void {
    if (this.#started) return;
    this.#started = true;
    const freed = (): void => {
      if (this.#wantsSlot) this.wake();
    };
    this.#endings = [this.#workers.listen({ ended: () => this.wake(), freed })];
    const unsubscribe = this.#options.store.subscribe?.(() => this.wake());
    if (unsubscribe) this.#endings.push(unsubscribe);
    this.wake();
  }

  stop(): void {
    this.#started = false;
    this.#alarm.clear();
    for (const end of this.#endings.splice(0)) end();
  }

  /** Something may be due. */
  wake(): void {
    this.#woken = true;
    // After a failure of the store only the alarm wakes, or each new event would hammer it.
    if (this.#pumping || !this.#started || (this.#storeFailures > 0 && this.#alarm.isSet)) return;
    void this.#pump();
  }

  async #pump(): Promise<void> {
    this.#pumping = true;
    this.#alarm.clear();
    try {
      while (this.#started && this.#woken) {
        this.#woken = false;
        await this.#takeAllDue();
      }
      this.#storeFailures = 0;
    } catch (error) {
      this.#storeFailed(error);
    } finally {
      this.#pumping = false;
    }
  }

  async #takeAllDue(): Promise<void> {
    while (this.#started) {
      const free = this.#workers.free;
      // A slot that becomes free wakes; the end of a pause has to be waited for.
      this.#wantsSlot = free <= 0;
      if (this.#wantsSlot) {
        if (this.#gate.wait > 0) this.#alarm.set(this.#gate.wait);
        return;
      }
      this.#claims += 1;
      const order = this.#claims % RETRIES_FIRST_EVERY === 0 ? "retries" : "oldest";
      const claims = await this.#workers.claim({ limit: free, order });
      for (const claim of claims) void this.#workers.start(claim);
      if (claims.length < free) return this.#sleep(claims.length > 0);
    }
  }

  async #sleep(gotSome: boolean): Promise<void> {
    const next = await this.#options.store.nextDue();
    if (!this.#started || this.#woken) return;
    const soonest = gotSome ? 0 : NOTHING_AFTER_ALL;
    const waits = next === undefined ? [] : [Math.max(next, soonest)];
    if (!this.#options.store.subscribe) waits.push(POLL);
    if (waits.length > 0) this.#alarm.set(Math.max(this.#gate.wait, Math.min(...waits)));
  }

  #storeFailed(error: unknown): void {
    if (!this.#started) return;
    const wait = STORE_FAILED[this.#storeFailures] ?? STORE_FAILED[2];
    this.#storeFailures += 1;
    this.#options.logger.error(`the store failed; trying again in ${wait} ms`, { error });
    this.#alarm.set(wait);
  }
}
