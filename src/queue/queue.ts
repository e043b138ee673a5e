import { withTimeout } from "../async.ts";
import { onClockMoved } from "../clock.ts";
import type { NewEvent } from "../stores/stored-event.ts";
import type { AttemptEnd } from "./attempt.ts";
import { ChangeSignal } from "./change-signal.ts";
import { CircuitBreaker } from "./circuit-breaker.ts";
import { Claims } from "./claims.ts";
import { Drain, type DrainOptions, type DrainResult, Stop } from "./drain.ts";
import { GRACE, Leases } from "./leases.ts";
import { Loop } from "./loop.ts";
import { Pruner } from "./pruner.ts";
import { PutBacks } from "./put-backs.ts";
import { ReadLimits } from "./refused-reads.ts";
import { RunningAttempts } from "./running-attempts.ts";
import { Shares } from "./shares.ts";
import { Unrecorded } from "./unrecorded.ts";
import { Witnesses } from "./witnesses.ts";
import type { Pause, QueueOptions } from "./work.ts";

/** How often an inline request tries to claim its event, ms. */
const LOOK_AGAIN = 250;
/** How long `close` waits for the store to release leases, ms. An orchestrator soon kills the process. */
const LAST_GIVE_BACK = 1000;

/** Handles the events of a store: in the loop, in drains, and inline. All of them claim by `Claims.fill`. */
export class Queue<Tx> {
  readonly breaker: CircuitBreaker;
  readonly #options: QueueOptions<Tx>;
  readonly #readLimits: ReadLimits;
  readonly #unrecorded = new Unrecorded(() => {
    this.#claims.startWaiting();
    this.#changes.tell();
  });
  readonly #shares: Shares;
  readonly #changes = new ChangeSignal(() => this.#running.size);
  readonly #running: RunningAttempts<Tx>;
  readonly #claims: Claims<Tx>;
  readonly #loop: Loop<Tx>;
  readonly #pruner: Pruner<Tx>;
  #drains = 0;
  #unsubscribe: (() => void) | undefined;
  #unwatchClock: (() => void) | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: QueueOptions<Tx>) {
    const { store, logger, policy, readWitness } = options;
    const { concurrency, backoff, leaseDuration } = policy;
    this.#options = options;
    const changes = this.#changes;
    const unrecorded = this.#unrecorded;
    const shares = new Shares(concurrency);
    const putBacks = new PutBacks(options, () => this.#mayBeDue());
    const breaker = new CircuitBreaker({
      concurrency,
      backoff,
      witnesses: readWitness && new Witnesses(store, options.laneOf, readWitness),
      onPause: (pause) => {
        options.observe({ kind: "paused", ...pause });
        this.#claims.startWaiting();
        changes.tell();
      },
      onResume: (scope, account) => {
        options.observe({ kind: "resumed", scope, ...(account !== undefined && { account }) });
        this.#mayBeDue();
      },
      onRelease: (account, wasLong) => void putBacks.release(account, wasLong),
      onFoundOpen: (account) => void putBacks.releaseOnce(account),
      onChange: () => this.#mayBeDue(),
    });
    const readLimits = new ReadLimits(logger, () => this.#loop.wake());
    const leases = new Leases(store, leaseDuration, logger, () => unrecorded.tryNow());
    const running = new RunningAttempts(options, {
      breaker,
      readLimits,
      unrecorded,
      leases,
      shares,
      onSettling: () => {
        this.#claims.startWaiting();
        changes.tell();
      },
      onEnded: (end) => this.#ended(end),
    });
    const claims = new Claims(options, {
      breaker,
      readLimits,
      unrecorded,
      leases,
      running,
      putBacks,
      shares,
      onFilled: () => changes.tell(),
    });
    this.breaker = breaker;
    this.#shares = shares;
    this.#readLimits = readLimits;
    this.#running = running;
    this.#claims = claims;
    this.#loop = new Loop(options, { breaker, claims, changes });
    this.#pruner = new Pruner(options);
  }

  get state(): "idle" | "running" | "paused" | "stopped" {
    if (this.#closing) return "stopped";
    if (this.breaker.pause) return "paused";
    return this.#loop.started ? "running" : "idle";
  }

  /** The error of the store that keeps this process from recording results, or the loop from claiming. */
  get failure(): unknown {
    return this.#unrecorded.failure ?? this.#loop.failure;
  }

  /** Why this process could not delete old events when it last tried. */
  get retentionError(): unknown {
    return this.#pruner.failure;
  }

  /** Whether this process handles due events now, in its loop or in a drain. */
  get handles(): boolean {
    return !this.#closing && (this.#loop.started || this.#drains > 0);
  }

  get pause(): Pause | undefined {
    return this.breaker.pause;
  }

  /** The accounts with a shut lane, the one that is paused longest first. */
  get pausedAccounts(): readonly Pause[] {
    return this.breaker.pausedAccounts;
  }

  /** Starts the loop, which handles events as they become due. Does not keep the process alive. */
  start(): void {
    if (this.#closing || this.#loop.started) return;
    this.#unsubscribe = this.#options.store.subscribe?.(() => this.#loop.wake());
    this.#unwatchClock = onClockMoved(() => this.#loop.wake());
    this.#pruner.start();
    this.#loop.start();
  }

  /** Makes the loop look for due events, after this process has added one. */
  wake(event: Pick<NewEvent, "ref" | "eventId">): void {
    this.#shares.see(this.#options.laneOf(event).account, performance.now());
    // A store with `subscribe` has already woken the loop.
    if (!this.#unsubscribe) this.#loop.wake();
  }

  /** Handles the due events at the user's request. During a pause without `Retry-After`, tries the platform at once. */
  drain(options: DrainOptions, then?: () => Promise<void>): Promise<DrainResult> {
    this.breaker.tryNow();
    return this.push(options, then);
  }

  /**
   * Handles the due events. Does not shorten a pause.
   *
   * @param then - runs afterwards, within the limits of the drain
   */
  async push(options: DrainOptions = {}, then?: () => Promise<void>): Promise<DrainResult> {
    if (this.#closing) return { done: 0, failed: 0 };
    const stop = new Stop(options);
    this.#drains += 1;
    try {
      const { breaker } = this;
      const [readLimits, unrecorded] = [this.#readLimits, this.#unrecorded];
      const [changes, running, claims] = [this.#changes, this.#running, this.#claims];
      const parts = { breaker, readLimits, unrecorded, changes, running, claims };
      const result = await new Drain(stop, parts).run();
      await Promise.race([Promise.all([this.#pruner.runIfDue(stop), then?.()]), stop.requested]);
      return result;
    } finally {
      this.#drains -= 1;
      stop.clear();
    }
  }

  /**
   * Claims one event and handles it. Then handles the events that the attempt has added. Resolves when the attempts
   * end, or at `deadline` on the monotonic clock.
   */
  async runNow(eventId: string, deadline: number): Promise<void> {
    await withTimeout(deadline - performance.now(), this.#runNow(eventId, deadline));
  }

  async #runNow(eventId: string, deadline: number): Promise<void> {
    for (;;) {
      const now = performance.now();
      if (this.#closing || now >= deadline) return;
      const { limit, wait = LOOK_AGAIN } = this.#claims.roomAt(now);
      const attempt =
        this.#running.of(eventId) ??
        (limit > 0 ? (await this.#claims.fill({ limit: 1, eventId })).started[0] : undefined);
      if (attempt) {
        await attempt.ended;
        for (const added of attempt.added) await this.#runNow(added, deadline);
        return;
      }
      if (this.breaker.isAllShut) return;
      if (limit === 0) {
        await withTimeout(Math.min(wait, LOOK_AGAIN), this.#changes.next);
        continue;
      }
      const event = await this.#options.store.get(eventId);
      if (event?.state !== "pending" && event?.state !== "processing") return;
      if (this.breaker.isPaused(this.#options.laneOf(event))) return;
      const before = this.#running.ofSameRecord(event);
      await (before
        ? withTimeout(LOOK_AGAIN, before.ended)
        : new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN)));
    }
  }

  /** Starts no new attempt. Waits up to `timeout` ms for running attempts. Then aborts and releases them, within 4 s. */
  close(timeout: number): Promise<void> {
    this.#closing ??= this.#close(timeout);
    return this.#closing;
  }

  async #close(timeout: number): Promise<void> {
    this.#loop.stop();
    this.#claims.close();
    this.#unwatchClock?.();
    this.breaker.close();
    this.#changes.tell();
    const ends = this.#running.all.map(({ ended }) => ended);
    await Promise.all([
      withTimeout(timeout, Promise.all([...ends, this.#claims.inFlight()])),
      withTimeout(timeout, this.#pruner.close()),
    ]);
    const end = performance.now() + GRACE + LAST_GIVE_BACK;
    await this.#running.end(LAST_GIVE_BACK);
    await withTimeout(end - performance.now(), this.#claims.settled());
    this.#unsubscribe?.();
  }

  /**
   * Lets others go on after an attempt. If another event of the record waits, a store with `subscribe` wakes the loop when
   * it has recorded the end. It has not recorded the end of a lost attempt.
   */
  #ended(end: AttemptEnd): void {
    if (this.#unsubscribe === undefined || end === "lost" || this.breaker.pause !== undefined) {
      this.#mayBeDue();
      return;
    }
    this.#claims.startWaiting();
    this.#changes.looks += 1;
    this.#changes.tell();
  }

  /** Makes the loop and the drains look for events: another event of a record may be due. */
  #mayBeDue(): void {
    this.#claims.startWaiting();
    this.#changes.looks += 1;
    this.#loop.wake();
  }
}
