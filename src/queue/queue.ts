import { atMost } from "../async.ts";
import { CircuitBreaker, Refusals } from "./circuit-breaker.ts";
import { type DrainOptions, type DrainResult, drain, Loop, Stop } from "./claiming.ts";
import { Pruner } from "./pruner.ts";
import type { Pause, QueueOptions } from "./work.ts";
import { Workers } from "./workers.ts";

/** How often an inline request tries to claim its event, ms. */
const LOOK_AGAIN = 250;
/** The log line at startup counts at most this many leased events. */
const MOST_HELD = 1000;

/** Handles the events of a store. The workers get events from the loop, from drains and from inline requests. */
export class Queue<Tx> {
  readonly #options: QueueOptions<Tx>;
  readonly #breaker: CircuitBreaker;
  readonly #workers: Workers<Tx>;
  readonly #loop: Loop<Tx>;
  readonly #pruner: Pruner<Tx>;
  #closing: Promise<void> | undefined;

  constructor(options: QueueOptions<Tx>) {
    const { concurrency, backoff } = options.policy;
    this.#options = options;
    this.#breaker = new CircuitBreaker({
      concurrency,
      backoff,
      onPause: (pause) => options.observe({ kind: "paused", ...pause }),
      onResume: () => {
        options.observe({ kind: "resumed" });
        this.#loop.wake();
      },
    });
    const refusals = new Refusals(options.logger, () => this.#loop.wake());
    this.#workers = new Workers(options, this.#breaker, refusals);
    this.#loop = new Loop(options, this.#workers);
    this.#pruner = new Pruner(options);
  }

  get state(): "idle" | "running" | "paused" | "stopped" {
    if (this.#closing) return "stopped";
    if (this.#breaker.pause) return "paused";
    return this.#loop.started ? "running" : "idle";
  }

  get pause(): Pause | undefined {
    return this.#breaker.pause;
  }

  /** Starts the loop, which handles events as they become due. */
  start(): void {
    if (this.#closing || this.#loop.started) return;
    this.#pruner.start();
    this.#loop.start();
    void this.#tellHeld();
  }

  /** Wakes the loop after this process has added an event. */
  added(): void {
    // A store with `subscribe` has already woken the loop.
    if (!this.#options.store.subscribe) this.#loop.wake();
  }

  /** Handles the due events at the user's request. During a pause without `Retry-After`, tries the platform at once. */
  drain(options: DrainOptions): Promise<DrainResult> {
    this.#breaker.tryNow();
    return this.push(options);
  }

  /** Handles the due events. Does not shorten a pause. */
  async push(options: DrainOptions = {}): Promise<DrainResult> {
    if (this.#closing) return { done: 0, failed: 0 };
    const stop = new Stop(options);
    try {
      const result = await drain(this.#workers, stop);
      await Promise.race([this.#pruner.runIfDue(stop), stop.requested]);
      return result;
    } finally {
      stop.clear();
    }
  }

  /** Claims one event and handles it. Resolves when the attempt ends, or at `deadline` on the monotonic clock. */
  async runNow(eventId: string, deadline: number): Promise<void> {
    while (!this.#closing) {
      const now = performance.now();
      const left = deadline - now;
      if (left <= 0) return;
      const running = this.#workers.running.includes(eventId);
      const { limit, wait } = this.#workers.roomAt(now);
      const [claim] = running || limit <= 0 ? [] : await this.#workers.claim({ limit: 1, eventId });
      if (claim) return atMost(deadline - performance.now(), [this.#workers.start(claim)]);
      if (this.#breaker.pause && !running) return;
      if (!running && limit > 0 && !(await this.#waitsForItsTurn(eventId))) return;
      const within = Math.min(left, LOOK_AGAIN, limit > 0 ? LOOK_AGAIN : (wait ?? LOOK_AGAIN));
      await this.#workers.nextChange({ noSlot: limit <= 0, within });
    }
  }

  /** Starts no new attempt. Waits up to `timeout` ms for running attempts. Then aborts and releases them. */
  close(timeout: number): Promise<void> {
    this.#closing ??= this.#close(timeout);
    return this.#closing;
  }

  async #close(timeout: number): Promise<void> {
    this.#loop.stop();
    await Promise.all([this.#workers.close(timeout), atMost(timeout, [this.#pruner.close()])]);
  }

  async #waitsForItsTurn(eventId: string): Promise<boolean> {
    const event = await this.#options.store.get(eventId);
    return event?.state === "pending" || event?.state === "processing";
  }

  /**
   * Logs the time at which the last lease of another process ends. Events of a crashed process wait until their
   * leases end.
   */
  async #tellHeld(): Promise<void> {
    const { store, logger } = this.#options;
    const own = new Set(this.#workers.running);
    const stop = this.#workers.listen({ started: (eventId) => own.add(eventId) });
    try {
      const leased = await store.list({ state: "processing", limit: MOST_HELD });
      await this.#workers.claimedByOthers();
      const ends = leased
        .filter(({ eventId }) => !own.has(eventId))
        .map(({ dueAt }) => dueAt?.getTime() ?? 0)
        .filter((endsAt) => endsAt > Date.now());
      if (ends.length === 0) return;
      const until = new Date(Math.max(...ends)).toISOString();
      const many = leased.length < MOST_HELD ? String(ends.length) : `${ends.length} or more`;
      logger.info(
        `other processes hold the leases of ${many} events. The last lease ends at ${until}, unless it is renewed`,
      );
    } catch {
      // The loop logs failures of the store.
    } finally {
      stop();
    }
  }
}
