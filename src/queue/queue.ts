import { withTimeout } from "../async.ts";
import { detached } from "../async-context.ts";
import { onClockMoved } from "../clock.ts";
import type { NewEvent } from "../stores/stored-event.ts";
import type { Attempt, AttemptEnd } from "./attempt.ts";
import { ChangeSignal } from "./change-signal.ts";
import { Claims } from "./claims.ts";
import { Drain, type DrainOptions, type DrainResult, Stop } from "./drain.ts";
import { Driver } from "./driver.ts";
import { afterSeen, newFairness } from "./fairness.ts";
import { Floods } from "./floods.ts";
import type { Gate, GateNews } from "./gate.ts";
import { Gates } from "./gates.ts";
import { GRACE, Leases } from "./leases.ts";
import { FRESH, ownTurnAt } from "./plan.ts";
import { Pruner } from "./pruner.ts";
import { RunningAttempts } from "./running-attempts.ts";
import type { QueueState } from "./state.ts";
import { Strays } from "./strays.ts";
import type { Lane, Pause, QueueOptions } from "./work.ts";

/** How often an inline request tries to claim its event, ms. */
const LOOK_AGAIN = 250;
/** How long `close` waits for the store to release leases, ms. An orchestrator soon kills the process. */
const LAST_GIVE_BACK = 1000;

type EventKey = Pick<NewEvent, "ref" | "eventId">;

/** Handles the events of a store: in the loop, in drains, and inline. All of them claim as plan.ts says. */
export class Queue<Tx> {
  readonly gates: Gates;
  readonly #options: QueueOptions<Tx>;
  readonly #state: QueueState;
  readonly #running: RunningAttempts<Tx>;
  readonly #claims: Claims<Tx>;
  readonly #changes: ChangeSignal;
  readonly #driver: Driver<Tx>;
  readonly #pruner: Pruner<Tx>;
  #drains = 0;
  #unsubscribe: (() => void) | undefined;
  #unwatchClock: (() => void) | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: QueueOptions<Tx>) {
    const { store, logger, policy, hasAccounts, laneOf, beginningOf } = options;
    const strays = new Strays(options);
    this.#options = options;
    this.gates = new Gates((gate, news, error) => this.#gateChanged(gate, news, error));
    const state: QueueState = {
      ...{ laneOf, beginningOf, hasAccounts, policy, gates: this.gates },
      floods: new Floods((lane, inRow, error) => this.#inFlood(lane, inRow, error)),
      fairness: newFairness(policy.concurrency, hasAccounts, performance.now()),
      slots: { running: 0, settling: 0, reserved: 0, freed: 0 },
      strays: () => strays.beginnings,
      isWoken: store.subscribe !== undefined,
      isClosed: false,
    };
    const leases = new Leases(store, policy.leaseDuration, logger);
    const changed = (): void => this.#changed();
    const parts = { ...options, state, leases, changed };
    this.#state = state;
    this.#changes = new ChangeSignal(() => state.slots.running);
    this.#running = new RunningAttempts({ ...parts, attemptEnded: (end) => this.#ended(end) });
    this.#claims = new Claims({ ...parts, running: this.#running }, strays);
    this.#driver = new Driver({ ...parts, claims: this.#claims, changes: this.#changes });
    this.#pruner = new Pruner(options);
  }

  get state(): "idle" | "running" | "paused" | "stopped" {
    if (this.#closing) return "stopped";
    if (this.gates.pause) return "paused";
    return this.#driver.isStarted ? "running" : "idle";
  }

  /** The error of the store that keeps this process from recording results, or the loop from claiming. */
  get failure(): unknown {
    return this.#running.failure ?? this.#driver.failure;
  }

  /** Why this process could not delete old events when it last tried. */
  get retentionError(): unknown {
    return this.#pruner.failure;
  }

  /** Whether this process handles due events now, in its loop or in a drain. */
  get handles(): boolean {
    return !this.#closing && (this.#driver.isStarted || this.#drains > 0);
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
    return this.#driver.check();
  }

  /** Starts the loop, which handles events as they become due. Does not keep the process alive. */
  start(): void {
    if (this.#closing || this.#driver.isStarted) return;
    this.#unsubscribe = this.#options.store.subscribe?.(() => {
      this.#driver.wake();
      this.#driver.lookAnew();
    });
    this.#unwatchClock = onClockMoved(() => this.#driver.wake());
    this.#pruner.start();
    this.#driver.start();
  }

  /** Makes the loop look for due events, after this process has added one. */
  wake(event: EventKey): void {
    const { fairness, laneOf } = this.#state;
    this.#state.fairness = afterSeen(fairness, laneOf(event).account, performance.now());
    this.#driver.arrived(event);
    // A store with `subscribe` has already woken the loop.
    if (!this.#unsubscribe) this.#driver.wake();
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
      const drain = new Drain(stop, {
        state: this.#state,
        running: this.#running,
        claims: this.#claims,
        driver: this.#driver,
        changes: this.#changes,
      });
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
    const lane = this.#state.laneOf(key);
    while (!this.#closing && performance.now() < deadline) {
      this.#state.floods.expire();
      const turn = ownTurnAt(this.#state, lane, performance.now());
      const attempt = this.#running.of(eventId) ?? (turn === "now" && (await this.#startNow(eventId, lane)));
      if (attempt) {
        await attempt.ended;
        for (const added of attempt.added) await this.#runNow(added, deadline);
        return;
      }
      if (turn === "shut" || ownTurnAt(this.#state, lane, performance.now()) === "shut") return;
      if (turn !== "now") {
        await withTimeout(Math.min(turn, LOOK_AGAIN), this.#changes.next);
        continue;
      }
      const event = await this.#options.store.get(eventId);
      if (event?.state !== "pending" && event?.state !== "processing") return;
      const before = this.#running.ofSameRecord(event);
      await (before
        ? withTimeout(LOOK_AGAIN, before.ended)
        : new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN)));
    }
  }

  /** Starts an attempt at an event whose turn it is, if it can be claimed now. */
  async #startNow(eventId: string, lane: Lane): Promise<Attempt<Tx> | undefined> {
    const { floods } = this.#state;
    // Takes nothing unless the lane is limited.
    const turn = floods.take(lane, performance.now());
    const filled = await this.#claims.fill({ ...FRESH, eventId });
    if (turn !== undefined && filled.started.length === 0) floods.giveBack(lane);
    return filled.started[0];
  }

  /** Starts no new attempt. Waits up to `timeout` ms for running attempts. Then aborts and releases them, within 4 s. */
  close(timeout: number): Promise<void> {
    this.#closing ??= this.#close(timeout);
    return this.#closing;
  }

  async #close(timeout: number): Promise<void> {
    this.#state.isClosed = true;
    this.#driver.stop();
    this.#claims.startWaiting();
    this.#unwatchClock?.();
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

  #gateChanged(gate: Gate, news: GateNews, error: unknown): void {
    const pause = this.gates.pauseOf(gate);
    if (news === "open") {
      const { scope, account } = pause;
      this.#options.observe({ kind: "resumed", scope, ...(account !== undefined && { account }) });
      this.#mayBeDue();
    } else {
      const wait = this.gates.waitAt(performance.now(), gate.lane);
      this.#options.observe({ kind: "paused", ...pause, wait, error });
    }
    this.#changed();
  }

  #inFlood({ account, kind }: Lane, inRow: number, error: unknown): void {
    const whose = account === undefined ? "" : ` of account ${account}`;
    this.#options.logger.limited(
      "refused",
      "warn",
      `the platform refused or did not find ${inRow} ${kind}${whose} in a row. Until enough reads succeed, the handler reads at most 80 of them a second. Check the base URL and the token. If strangers send notifications, set the option \`verify\``,
      { error, ...(account !== undefined && { account }) },
    );
  }

  /** Lets others begin: a slot is free, a claim has ended that had reserved slots, or other events may begin than before. */
  #changed(): void {
    this.#claims.startWaiting();
    this.#changes.tell();
  }

  /**
   * Lets others go on after an attempt. If another event of the record waits, a store with `subscribe` wakes the loop when
   * it has recorded the end. It has not recorded the end of a lost attempt.
   */
  #ended(end: AttemptEnd): void {
    if (this.#unsubscribe === undefined || end === "lost") this.#mayBeDue();
    else this.#changes.looks += 1;
    this.#changed();
  }

  /** Makes the loop and the drains look for events: another event of a record may be due. */
  #mayBeDue(): void {
    this.#changes.looks += 1;
    this.#driver.wake();
  }
}
