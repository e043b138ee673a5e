import { untilAborted } from "../client/attempt.ts";
import { InvalidArgumentError, StayhookError } from "../errors.ts";
import { Changes } from "./changes.ts";
import { Ending } from "./ending.ts";
import { Lock } from "./lock.ts";
import { Notes } from "./notes.ts";
import { checkOptions, type ReconcilerOptions, type Settings } from "./options.ts";
import { Over } from "./over.ts";
import { Pass } from "./pass.ts";
import { Reader } from "./reader.ts";
import { Register } from "./register.ts";
import type { ReconcileReport } from "./report.ts";
import { type Outcome, Schedule } from "./schedule.ts";
import { Watch } from "./watch.ts";

/** What {@link createReconciler} makes. Its functions need no `this`. */
export interface Reconciler {
  /**
   * Makes a pass now, whatever `every` says: for cron jobs, and by hand. It goes on where the last one stopped, if
   * that was cut off less than `every` ago; beside a pass of this reconciler's that is under way, it waits for that
   * one. Unless the handler has `autoStart: false`, it resolves when what is due has had its attempt.
   *
   * @param options.signal - ends the pass early; it resolves to what was done until then
   * @throws what the store throws; StayhookError after `close`; InvalidArgumentError where `signal` is none
   */
  run(options?: { readonly signal?: AbortSignal | undefined }): Promise<ReconcileReport>;
  /**
   * Makes passes by itself until {@link close}, once for each `every` over all machines on the store, the first
   * within seconds if none was made in that time. Its reports go to `observe`. Holds no process open. Begins to
   * process events too, unless the handler has `autoStart: false`.
   */
  start(): void;
  /**
   * Adds a booking that no notification has told of. One that was never handled is handled now, and every pass
   * reads it from then on. Resolves when its event is in the store: it needs no repeating after that.
   *
   * @throws NotFoundError and the like where the platform does not give the booking (an outage is waited out);
   * InvalidArgumentError for what can be no booking's code; what the store throws
   */
  watch(bookingCode: string): Promise<void>;
  /** Ends the pass that is under way, and makes no more. The handler and the store stay open: close them afterwards. */
  close(): Promise<void>;
}

/**
 * Makes a reconciler, for notifications that never arrived: it lists the listings, reads each known booking that can
 * still change, and puts what has changed since it was handled last through the handler's callbacks, with
 * `source: "reconcile"`.
 *
 * @throws InvalidArgumentError naming each option that is wrong
 * @example
 * ```ts
 * const reconciler = createReconciler({ client, webhooks, store, every: "24h" });
 * reconciler.start();
 * ```
 */
export function createReconciler<Tx = never>(options: ReconcilerOptions<Tx>): Reconciler {
  const reconciler = new StoreReconciler(checkOptions(options));
  return {
    run: (runOptions) => reconciler.run(runOptions),
    start: () => reconciler.start(),
    watch: (bookingCode) => reconciler.watch(bookingCode),
    close: () => reconciler.close(),
  };
}

type Made = Outcome & { readonly report: ReconcileReport };

class StoreReconciler {
  readonly #settings: Settings;
  readonly #notes: Notes;
  readonly #changes: Changes;
  readonly #over: Over;
  readonly #register: Register;
  readonly #watch: Watch;
  readonly #schedule: Schedule;
  #current: { readonly ending: Ending; readonly made: Promise<Made> } | undefined;
  #closed = false;

  constructor(settings: Settings) {
    const { store, inside } = settings;
    this.#settings = settings;
    this.#notes = new Notes(store, inside);
    this.#changes = new Changes(store, inside);
    this.#over = new Over(store, this.#notes);
    this.#register = new Register(store, this.#notes);
    this.#watch = new Watch(settings, this.#changes);
    this.#schedule = new Schedule(settings, this.#register, () => this.#makeOrJoin({ asked: false }));
  }

  async run(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<ReconcileReport> {
    const { signal } = checkSignal(options);
    this.#assertOpen();
    const joined = this.#current;
    const making = this.#makeOrJoin({ asked: true });
    // Whoever joins a pass that is not his own must not end it.
    const { ending } = this.#current!;
    const abort = (): void => ending.ask("aborted");
    if (!joined) signal?.addEventListener("abort", abort);
    if (!joined && signal?.aborted) abort();
    try {
      const { report } = await making;
      const handled = this.#settings.inside.handleDue();
      // What runs then is the handler's, and goes on.
      await (signal ? untilAborted(handled, signal).catch(() => {}) : handled);
      return report;
    } finally {
      signal?.removeEventListener("abort", abort);
    }
  }

  start(): void {
    if (this.#closed) return;
    this.#settings.inside.begin();
    this.#schedule.start();
  }

  async watch(bookingCode: string): Promise<void> {
    this.#assertOpen();
    await this.#watch.add(bookingCode);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#schedule.stop();
    this.#current?.ending.ask("aborted");
    await Promise.allSettled([this.#current?.made, this.#watch.settled()]);
  }

  #assertOpen(): void {
    if (this.#closed) throw new StayhookError("The reconciler is closed: make another one.");
  }

  /** @param asked - by somebody, who waits for it; else it is the schedule's */
  #makeOrJoin({ asked }: { readonly asked: boolean }): Promise<Made> {
    if (this.#current) return this.#current.made;
    const ending = new Ending();
    const made = this.#make(ending, asked).finally(() => {
      this.#current = undefined;
    });
    this.#current = { ending, made };
    return made;
  }

  async #make(ending: Ending, asked: boolean): Promise<Made> {
    const beganAt = performance.now();
    const pass = await this.#passUnderLock(ending, asked);
    const { checked = 0, changed = 0, failed = 0 } = pass ?? {};
    const incomplete = pass ? ending.why : "locked";
    const report: ReconcileReport = {
      checked,
      changed: changed + (pass ? this.#watch.takeChanged() : 0),
      failed,
      duration: performance.now() - beganAt,
      ...(incomplete !== undefined && { incomplete }),
    };
    const { observe, logger } = this.#settings;
    observe({ kind: "pass", ...report });
    if (incomplete === "unreachable")
      logger.warn("stayhook: the reconciler ends its pass, as the platform is out of reach");
    return { report, incomplete, retryAfter: ending.retryAfter };
  }

  /** @returns `undefined` where somebody else's is under way */
  async #passUnderLock(ending: Ending, asked: boolean): Promise<Pass | undefined> {
    const { leaseDuration: lease, every, backoff, logger } = this.#settings;
    await this.#watch.settled();
    const lock = await Lock.take(this.#register, {
      lease,
      every,
      onlyIfDue: !asked,
      onLost: () => ending.ask("locked"),
      onError: (error) =>
        logger.warn("stayhook: the reconciler's pass could not be kept; trying again", error),
    });
    if (!lock) return undefined;
    const pass = new Pass({
      ...this.#settings,
      ending,
      reader: new Reader({ ending, backoff, hold: asked }),
      notes: this.#notes,
      changes: this.#changes,
      over: this.#over,
      begun: lock.begun,
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

function checkSignal(options: unknown): { readonly signal?: AbortSignal | undefined } {
  const { signal } = Object(options) as { readonly signal?: Partial<AbortSignal> };
  const fits = signal === undefined || typeof signal?.addEventListener === "function";
  if (typeof options !== "object" || options === null || !fits)
    throw new InvalidArgumentError({ path: ["signal"], message: "must be an AbortSignal" });
  return options as { readonly signal?: AbortSignal | undefined };
}
