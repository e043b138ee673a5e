import { withTimeout } from "../async.ts";
import { detached } from "../async-context.ts";
import { onClockMoved } from "../clock.ts";
import type { NewEvent } from "../stores/stored-event.ts";
import type { Attempt, AttemptEnd } from "./attempt.ts";
import { ChangeSignal } from "./change-signal.ts";
import { Claims } from "./claims.ts";
import { Drain, type DrainOptions, type DrainResult, Stop } from "./drain.ts";
import { Fairness } from "./fairness.ts";
import { Floods } from "./floods.ts";
import type { Gate } from "./gate.ts";
import { Gates, pauseOf } from "./gates.ts";
import { GRACE, Leases } from "./leases.ts";
import { Loop } from "./loop.ts";
import type { Parts } from "./parts.ts";
import { Pruner } from "./pruner.ts";
import { RunningAttempts } from "./running-attempts.ts";
import { Tries } from "./tries.ts";
import { Unrecorded } from "./unrecorded.ts";
import type { Lane, Pause, QueueOptions } from "./work.ts";

/** How often an inline request tries to claim its event, ms. */
const LOOK_AGAIN = 250;
/** How long `close` waits for the store to release leases, ms. An orchestrator soon kills the process. */
const LAST_GIVE_BACK = 1000;

type EventKey = Pick<NewEvent, "ref" | "eventId">;

/** Handles the events of a store: in the loop, in drains, and inline. All of them claim by `Claims.fill`. */
export class Queue<Tx> {
  readonly gates: Gates;
  readonly #parts: Parts<Tx>;
  readonly #loop: Loop<Tx>;
  readonly #pruner: Pruner<Tx>;
  #drains = 0;
  #unsubscribe: (() => void) | undefined;
  #unwatchClock: (() => void) | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: QueueOptions<Tx>) {
    const { store, logger, policy, hasAccounts } = options;
    this.gates = new Gates((gate, change, error) => this.#gateChanged(gate, change, error));
    const unrecorded = new Unrecorded(() => this.#slotFreed());
    const parts = {
      ...options,
      gates: this.gates,
      unrecorded,
      floods: new Floods(logger),
      fairness: new Fairness(policy.concurrency, hasAccounts),
      leases: new Leases(store, policy.leaseDuration, logger, () => unrecorded.tryNow()),
      changes: new ChangeSignal(() => this.#parts.running.size),
      slotFreed: () => this.#slotFreed(),
      attemptEnded: (end) => this.#ended(end),
    } as { -readonly [Part in keyof Parts<Tx>]: Parts<Tx>[Part] };
    parts.running = new RunningAttempts(parts);
    parts.claims = new Claims(parts);
    parts.tries = new Tries(parts);
    this.#parts = parts;
    this.#loop = new Loop(parts);
    this.#pruner = new Pruner(options);
  }

  get state(): "idle" | "running" | "paused" | "stopped" {
    if (this.#closing) return "stopped";
    if (this.gates.pause) return "paused";
    return this.#loop.started ? "running" : "idle";
  }

  /** The error of the store that keeps this process from recording results, or the loop from claiming. */
  get failure(): unknown {
    return this.#parts.unrecorded.failure ?? this.#loop.failure;
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
    return this.gates.pause;
  }

  /** The accounts with a shut gate, the one that is paused longest first. */
  get pausedAccounts(): readonly Pause[] {
    return this.gates.pausedAccounts;
  }

  /** Ends the pauses behind which nothing waits any more. @throws the error of the store */
  checkPauses(): Promise<void> {
    return this.#parts.tries.check();
  }

  /** Starts the loop, which handles events as they become due. Does not keep the process alive. */
  start(): void {
    if (this.#closing || this.#loop.started) return;
    this.#unsubscribe = this.#parts.store.subscribe?.(() => {
      this.#loop.wake();
      this.#parts.tries.lookAnew();
    });
    this.#unwatchClock = onClockMoved(() => this.#loop.wake());
    this.#pruner.start();
    this.#loop.start();
    this.#parts.tries.start();
  }

  /** Makes the loop look for due events, after this process has added one. */
  wake(event: EventKey): void {
    this.#parts.fairness.see(this.#parts.laneOf(event).account, performance.now());
    this.#parts.tries.arrived(event);
    // A store with `subscribe` has already woken the loop.
    if (!this.#unsubscribe) this.#loop.wake();
  }

  /**
   * Handles the due events.
   *
   * @param then - runs afterwards, within the limits of the drain
   */
  async drain(options: DrainOptions = {}, then?: () => Promise<void>): Promise<DrainResult> {
    if (this.#closing) return { done: 0, failed: 0 };
    const stop = new Stop(options);
    this.#drains += 1;
    try {
      const drain = new Drain(stop, this.#parts);
      // The caller may be a request, and most events are those of others.
      return await detached(async () => {
        const result = await drain.run();
        await Promise.race([Promise.all([this.#pruner.runIfDue(stop), then?.()]), stop.requested]);
        return result;
      });
    } finally {
      this.#drains -= 1;
      stop.clear();
    }
  }

  /**
   * Claims one event and handles it. Then handles the events that the attempt has added. Resolves when the attempts
   * end, or at `deadline` on the monotonic clock.
   */
  async runNow(event: EventKey, deadline: number): Promise<void> {
    await withTimeout(deadline - performance.now(), this.#runNow(event, deadline));
  }

  async #runNow(key: EventKey, deadline: number): Promise<void> {
    const { eventId } = key;
    const lane = this.#parts.laneOf(key);
    while (!this.#closing && performance.now() < deadline) {
      const { attempt, wait } = await this.#startNow(eventId, lane);
      if (attempt) {
        await attempt.ended;
        for (const added of attempt.added) await this.#runNow(added, deadline);
        return;
      }
      if (!this.gates.lets(lane, performance.now(), true)) return;
      if (wait !== undefined) {
        await withTimeout(Math.min(wait, LOOK_AGAIN), this.#parts.changes.next);
        continue;
      }
      const event = await this.#parts.store.get(eventId);
      if (event?.state !== "pending" && event?.state !== "processing") return;
      const before = this.#parts.running.ofSameRecord(event);
      await (before
        ? withTimeout(LOOK_AGAIN, before.ended)
        : new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN)));
    }
  }

  /** Starts an attempt at an event, if it can be claimed now. Otherwise, returns ms until there may be room for it. */
  async #startNow(
    eventId: string,
    lane: Lane,
  ): Promise<{ readonly attempt?: Attempt<Tx> | undefined; readonly wait?: number | undefined }> {
    const now = performance.now();
    const running = this.#parts.running.of(eventId);
    if (running || !this.gates.lets(lane, now, true)) return { attempt: running };
    const { slots, wait = LOOK_AGAIN } = this.#parts.claims.slotsAt(now);
    if (slots <= 0) return { wait };
    const isLimited = this.#parts.floods.isLimited(lane);
    if (isLimited && this.#parts.floods.take(lane, now) === undefined)
      return { wait: this.#parts.floods.waitAt(lane, now) };
    const filled = await this.#parts.claims.fill({ limit: 1, eventId, isFresh: true, isChosen: true });
    if (isLimited && filled.started.length === 0) this.#parts.floods.giveBack(lane);
    return { attempt: filled.started[0] };
  }

  /** Starts no new attempt. Waits up to `timeout` ms for running attempts. Then aborts and releases them, within 4 s. */
  close(timeout: number): Promise<void> {
    this.#closing ??= this.#close(timeout);
    return this.#closing;
  }

  async #close(timeout: number): Promise<void> {
    this.#loop.stop();
    this.#parts.claims.close();
    this.#parts.tries.stop();
    this.#unwatchClock?.();
    this.#parts.changes.tell();
    const ends = this.#parts.running.all.map(({ ended }) => ended);
    await Promise.all([
      withTimeout(timeout, Promise.all([...ends, this.#parts.claims.inFlight()])),
      withTimeout(timeout, this.#pruner.close()),
    ]);
    const end = performance.now() + GRACE + LAST_GIVE_BACK;
    await this.#parts.running.end(LAST_GIVE_BACK);
    await withTimeout(end - performance.now(), this.#parts.claims.settled());
    this.#unsubscribe?.();
  }

  #gateChanged(gate: Gate, change: "shut" | "waits" | "open", error: unknown): void {
    const pause = pauseOf(gate);
    if (change === "open") {
      const { scope, account } = pause;
      this.#parts.observe({ kind: "resumed", scope, ...(account !== undefined && { account }) });
      this.#mayBeDue();
    } else this.#parts.observe({ kind: "paused", ...pause, wait: gate.waitAt(performance.now()), error });
    this.#slotFreed();
  }

  /** Lets others begin: a slot is free, a claim has ended that had reserved slots, or other events may begin than before. */
  #slotFreed(): void {
    this.#parts.claims.startWaiting();
    this.#parts.changes.tell();
    this.#parts.tries.look();
  }

  /**
   * Lets others go on after an attempt. If another event of the record waits, a store with `subscribe` wakes the loop when
   * it has recorded the end. It has not recorded the end of a lost attempt.
   */
  #ended(end: AttemptEnd): void {
    if (this.#unsubscribe === undefined || end === "lost") this.#mayBeDue();
    else this.#parts.changes.looks += 1;
    this.#slotFreed();
  }

  /** Makes the loop and the drains look for events: another event of a record may be due. */
  #mayBeDue(): void {
    this.#parts.changes.looks += 1;
    this.#loop.wake();
  }
}
