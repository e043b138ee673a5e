import { ResettableTimer, realPause } from "../async.ts";
import type { FailureReason } from "../stores/event-states.ts";
import { answerOf } from "./store-call.ts";
import type { QueueOptions } from "./work.ts";

const HOUR = 60 * 60_000;
/** How many rows a batch deletes. A large batch would delay new notifications. */
const BATCH = 200;

/** Deletes events and snapshots after their retention. */
export class Pruner<Tx> {
  readonly #options: QueueOptions<Tx>;
  readonly #every: number;
  readonly #timer = new ResettableTimer(() => void this.#tick());
  #last = Number.NEGATIVE_INFINITY;
  #started = false;
  #closed = false;
  #running: Promise<void> | undefined;
  /** Why the last run failed. It is `undefined` if it succeeded, or if there was none. */
  failure: unknown;

  constructor(options: QueueOptions<Tx>) {
    const { retention, parkedRetention, snapshotRetention } = options.policy;
    this.#options = options;
    this.#every = Math.min(HOUR, Math.max(1000, Math.min(retention, parkedRetention, snapshotRetention) / 4));
  }

  start(): void {
    this.#started = true;
    void this.#tick();
  }

  /** Starts no new batch. Resolves when the current batch has ended. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#timer.clear();
    await this.#running;
  }

  /** Prunes if the last run is long enough ago. A drain calls this method, because its process may have no loop. */
  async runIfDue(stop: { readonly asked: boolean } = { asked: false }): Promise<void> {
    if (this.#closed || stop.asked || performance.now() - this.#last < this.#every) return;
    this.#last = performance.now();
    this.#running ??= this.#prune(stop).finally(() => {
      this.#running = undefined;
    });
    await this.#running;
  }

  async #prune(stop: { readonly asked: boolean }): Promise<void> {
    try {
      await this.#run(() => this.#closed || stop.asked);
      this.failure = undefined;
    } catch (error) {
      this.failure = error;
      const message = "the store could not delete old events. Trying again later";
      this.#options.logger.limited("prune", "warn", message, { error });
    }
  }

  async #tick(): Promise<void> {
    await this.runIfDue();
    if (this.#started && !this.#closed) this.#timer.set(this.#every);
  }

  async #run(isOver: () => boolean): Promise<void> {
    const { store, policy } = this.#options;
    const inBatches = async (age: number, batch: () => Promise<number>): Promise<void> => {
      // `Infinity` means that rows are never deleted. Databases do not accept `Infinity` as an age.
      if (!Number.isFinite(age)) return;
      while (!isOver() && (await batch()) >= BATCH) await realPause(0);
    };
    const prune = (state: "done" | "parked", age: number, reason?: FailureReason) =>
      inBatches(age, () => answerOf("prune", async () => store.prune({ state, reason, age, limit: BATCH })));
    await prune("done", policy.retention);
    // Do not keep a `not-found` event for `parkedRetention`: its record probably never existed.
    await prune("parked", policy.retention, "not-found");
    await prune("parked", policy.parkedRetention);
    const age = policy.snapshotRetention;
    await inBatches(age, () =>
      answerOf("pruneSnapshots", async () => store.pruneSnapshots({ age, limit: BATCH })),
    );
  }
}
