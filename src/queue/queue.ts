import { atMost } from "../async.ts";
import { CircuitBreaker, Refusals } from "./circuit-breaker.ts";
import { type DrainOptions, type DrainResult, drain, Loop, Stop } from "./claiming.ts";
import { Pruner } from "./pruner.ts";
import type { Pause, QueueOptions } from "./work.ts";
import { Workers } from "./workers.ts";

/** How often to look at an event that waits for another process or for another event of its record, ms. */
const LOOK_AGAIN = 250;
/** The most leased events that the log line at the start counts. */
const MOST_HELD = 1000;

/** The queue: workers, and the loop, drains and inline requests that give them work. */
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

  /** The current pause; `undefined` if there is none. */
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

  /** Call it after this process has added an event. */
  added(): void {
    // A store that notifies has already woken the loop.
    if (!this.#options.store.subscribe) this.#loop.wake();
  }

  /** Handles the events that are due, at the request of the user. Cuts a pause short. */
  drain(options: DrainOptions): Promise<DrainResult> {
    this.#breaker.tryNow();
    return this.push(options);
  }

  /** Handles the events that are due. Leaves a pause as it is. */
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

  /** Handles one event as soon as it can be claimed. Resolves when its attempt has ended, or at `deadline` on the monotonic clock. */
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

  /** Begins no further attempt, waits `timeout` ms for those that run, then cuts them off and gives their leases back. */
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

  /** Logs until when other processes hold events. After a crash, their events wait until those leases end. */
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
        `other processes hold ${many} events. Their last lease ends at ${until}, unless they renew it`,
      );
    } catch {
      // The loop logs failures of the store.
    } finally {
      stop();
    }
  }
}
