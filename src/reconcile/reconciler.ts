import { untilAborted } from "../async.ts";
import { StayhookError } from "../errors.ts";
import { abortSignal, check, optionsObject } from "../options.ts";
import type { WebhookHandler } from "../webhooks/handler.ts";
import { Changes } from "./changes.ts";
import { handleEvents } from "./handle-events.ts";
import { checkOptions, type ReconcileReport, type ReconcilerOptions, type Settings } from "./options.ts";
import { Pass } from "./pass.ts";
import { Reader, StopReason } from "./reader.ts";
import { type Made, Schedule } from "./schedule.ts";
import { Lock } from "./state.ts";
import { Watch } from "./watch.ts";

export type { DriftObservation, MissedObservation, ReconcilerAlarm } from "../webhooks/observability.ts";
export type {
  ChangedObservation,
  CheckedObservation,
  GoneObservation,
  Incomplete,
  LearnedObservation,
  PassFailedObservation,
  PassObservation,
  ReadFailedObservation,
  ReconcileObservation,
  ReconcileReport,
  ReconcilerOptions,
} from "./options.ts";

/** Finds changes that no notification reported. Made by {@link createReconciler}. The functions need no `this`. */
export interface Reconciler {
  /**
   * Makes a pass now, even if no pass is due yet. Call `run` from a cron job. Continues where the last incomplete pass
   * stopped. If this reconciler is already making a pass, waits for that pass. Resolves when each due
   * event has had an attempt. If the handler has `autoStart: false`, resolves when the pass ends.
   *
   * @throws an error of the store; StayhookError after `close`; InvalidArgumentError for an invalid `signal`
   */
  run(options?: {
    /**
     * When the signal aborts, the pass ends early, and `run` resolves to the report so far. A pass that began before
     * the call of `run` does not end early.
     */
    readonly signal?: AbortSignal | undefined;
  }): Promise<ReconcileReport>;
  /**
   * Makes a pass in each interval of `every`, until {@link close}. All machines that share the store make one pass
   * per interval in total. If the last pass is older than `every`, a pass begins within seconds. `observe` gets the
   * report of each pass. Also starts the handler, unless the handler has `autoStart: false`. Does not keep the
   * process alive.
   */
  start(): void;
  /**
   * Adds bookings that no notification has named. Each booking that is new to the handler gets an event. Later passes
   * read the booking again. Resolves when the events are in the store. One call for each booking is enough.
   *
   * @param bookingCodes - one code or several
   * @throws NotFoundError or another API error if the platform does not return a booking; InvalidArgumentError for an
   * invalid code; StayhookError after `close`; an error of the store. If one booking fails, still adds the other
   * bookings. Does not throw in an outage
   */
  watch(bookingCodes: string | readonly string[]): Promise<void>;
  /**
   * Stops the current pass and starts no new pass. A call of {@link watch} that has not ended rejects. Close the
   * handler and the store afterwards.
   *
   * @example
   * ```ts
   * server.close();
   * await reconciler.close();
   * await webhooks.close();
   * await store.close();
   * ```
   */
  close(): Promise<void>;
  /** Calls {@link close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Makes a reconciler, which finds changes whose notifications never arrived. It reads the list of listings and each
 * known booking that can still change. Each change becomes an event with `source: "reconcile"`, which the handler
 * handles like any other event. The reconciler uses the client and the store of the handler.
 *
 * @throws InvalidArgumentError naming each wrong argument, such as a handler with `forwardTo`
 * @example
 * ```ts
 * import { createReconciler } from "stayhook/reconcile";
 *
 * const reconciler = createReconciler(webhooks, { every: "24h" });
 * reconciler.start();
 * ```
 */
export function createReconciler(webhooks: WebhookHandler, options: ReconcilerOptions = {}): Reconciler {
  const reconciler = new StoreReconciler(checkOptions(webhooks, options));
  return {
    run: (runOptions) => reconciler.run(runOptions),
    start: () => reconciler.start(),
    watch: (bookingCodes) => reconciler.watch(bookingCodes),
    close: () => reconciler.close(),
    [Symbol.asyncDispose]: () => reconciler.close(),
  };
}

class StoreReconciler {
  readonly #settings: Settings;
  readonly #changes: Changes;
  readonly #watch: Watch;
  readonly #schedule: Schedule;
  #current: { readonly stop: StopReason; readonly made: Promise<Made> } | undefined;
  #closed = false;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#changes = new Changes(settings.store, settings.internals);
    this.#watch = new Watch(settings, this.#changes);
    this.#schedule = new Schedule(settings, () => this.#makeOrJoin({ asked: false }));
  }

  async run(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<ReconcileReport> {
    const { signal } = check(signalSchema, options);
    this.#assertOpen();
    const joined = this.#current;
    const making = this.#makeOrJoin({ asked: true });
    const { stop } = this.#current!;
    // A call that joins a running pass must not stop that pass.
    const abort = (): void => stop.stop("aborted");
    if (!joined) signal?.addEventListener("abort", abort);
    if (!joined && signal?.aborted) abort();
    try {
      const { report } = await making;
      const handled = this.#settings.internals.drainIfStarted();
      // If the signal aborts, `run` resolves at once. The handler still handles the due events.
      await (signal ? untilAborted(handled, signal) : handled).catch((error) => {
        if (!signal?.aborted) throw error;
      });
      return report;
    } finally {
      signal?.removeEventListener("abort", abort);
    }
  }

  start(): void {
    if (this.#closed) return;
    this.#settings.internals.start();
    this.#schedule.start();
  }

  async watch(bookingCodes: string | readonly string[]): Promise<void> {
    this.#assertOpen();
    await this.#watch.add(bookingCodes);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#schedule.stop();
    this.#watch.close();
    this.#current?.stop.stop("aborted");
    await Promise.allSettled([this.#current?.made, this.#watch.settled()]);
  }

  #assertOpen(): void {
    if (this.#closed) throw new StayhookError("The reconciler is closed. Make another reconciler.");
  }

  /** @param asked - `true` for a call of `run`; `false` for the schedule */
  #makeOrJoin({ asked }: { readonly asked: boolean }): Promise<Made> {
    if (this.#current) return this.#current.made;
    const stop = new StopReason();
    const made = this.#make(stop, asked).finally(() => {
      this.#current = undefined;
    });
    this.#current = { stop, made };
    return made;
  }

  async #make(stop: StopReason, asked: boolean): Promise<Made> {
    const beganAt = performance.now();
    const pass = await this.#passUnderLock(stop, asked);
    const { checked = 0, changed = 0, failed = 0, partial = false } = pass ?? {};
    const incomplete = pass ? stop.reason : "locked";
    const report: ReconcileReport = {
      checked,
      changed: changed + (pass ? this.#watch.takeChanged() : 0),
      failed,
      duration: performance.now() - beganAt,
      ...(partial && { partial }),
      ...(incomplete !== undefined && { incomplete }),
    };
    const { observe, log } = this.#settings;
    observe({ kind: "pass", ...report });
    if (incomplete === "unreachable")
      log.warn(
        "the reconciler stopped its pass, because the platform is out of reach. The next pass continues where this pass stopped",
      );
    return { report, retryAfter: stop.retryAfter };
  }

  /** @returns `undefined` if another pass holds the lock, or the scheduled pass is no longer due */
  async #passUnderLock(stop: StopReason, asked: boolean): Promise<Pass | undefined> {
    const { store, every, breaker, internals, log } = this.#settings;
    const { backoff, leaseDuration } = internals;
    await this.#watch.settled();
    // Events come first: a process without a loop has to be asked to handle them.
    if (asked) handleEvents(this.#settings);
    const lock = await Lock.take(store, {
      lease: 2 * leaseDuration,
      every,
      onlyIfDue: !asked,
      onLost: () => stop.stop("locked"),
      onError: (error) =>
        log.warn("the reconciler could not renew its lock in the store. Trying again", { error }),
    });
    if (!lock) return undefined;
    const pass = new Pass({
      ...this.#settings,
      stop,
      reader: new Reader({ ...this.#settings, stop, breaker, backoff, asked }),
      changes: this.#changes,
      state: lock.state,
      watched: this.#watch.refs,
    });
    lock.keep(() => pass.progress);
    try {
      await pass.run();
    } finally {
      await lock.release(pass.progress);
    }
    return pass;
  }
}

const signalSchema = () => optionsObject({ signal: abortSignal().optional() });
