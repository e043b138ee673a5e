import { untilAborted } from "../async.ts";
import { handleEvents } from "./handle-events.ts";
import { MissedChanges } from "./missed-changes.ts";
import type { ReconcileReport, Settings } from "./options.ts";
import { Pass } from "./pass.ts";
import { Reader, StopReason } from "./reader.ts";
import { Findings } from "./records.ts";
import { Lock, type StoredState } from "./state.ts";
import { Watch } from "./watch.ts";

export interface Made {
  readonly report: ReconcileReport;
  /** How long the platform must be left alone, ms. */
  readonly retryAfter: number | undefined;
}

/** Makes the passes of one account, one at a time. */
export class Passes {
  readonly #settings: Settings;
  readonly #changes: MissedChanges;
  readonly #watch: Watch;
  #current: { readonly stop: StopReason; readonly made: Promise<Made> } | undefined;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#changes = new MissedChanges(settings.store, settings.internals);
    this.#watch = new Watch(settings, this.#changes);
  }

  /** Whether nothing is running, and nothing is left to remember for the next pass. */
  get isIdle(): boolean {
    return this.#current === undefined && this.#watch.isIdle;
  }

  watch(bookingCodes: string | readonly string[]): Promise<void> {
    return this.#watch.add(bookingCodes);
  }

  /** Makes a pass that the user asked for, or waits for the current pass. `signal` ends only a pass that begins now. */
  async run(signal: AbortSignal | undefined): Promise<Made> {
    const joined = this.#current;
    const making = this.#makeOrJoin(undefined);
    const { stop } = this.#current!;
    // A call that joins a running pass must not stop that pass.
    const abort = (): void => stop.stop("aborted");
    if (!joined) signal?.addEventListener("abort", abort);
    if (!joined && signal?.aborted) abort();
    try {
      return await making;
    } finally {
      signal?.removeEventListener("abort", abort);
    }
  }

  /** Makes a scheduled pass, or waits for the current pass. */
  makeIfDue(isDue: (reading: StoredState) => boolean): Promise<Made> {
    return this.#makeOrJoin(isDue);
  }

  async close(): Promise<void> {
    this.#watch.close();
    this.#current?.stop.stop("aborted");
    await Promise.allSettled([this.#current?.made, this.#watch.settled()]);
  }

  /** @param isDue - `undefined` for a pass that the user asked for */
  #makeOrJoin(isDue: ((reading: StoredState) => boolean) | undefined): Promise<Made> {
    if (this.#current) return this.#current.made;
    const stop = new StopReason();
    const made = this.#make(stop, isDue).finally(() => {
      this.#current = undefined;
    });
    this.#current = { stop, made };
    return made;
  }

  async #make(stop: StopReason, isDue: ((reading: StoredState) => boolean) | undefined): Promise<Made> {
    const { account, observe, log } = this.#settings;
    const beganAt = performance.now();
    const findings = new Findings(this.#settings, this.#changes);
    const pass = await this.#passUnderLock(stop, findings, isDue);
    const { checked, changed, failed } = findings;
    const incomplete = pass ? stop.reason : "locked";
    const report: ReconcileReport = {
      ...(account !== undefined && { account }),
      checked,
      changed: changed + (pass ? this.#watch.takeChanged() : 0),
      failed,
      duration: performance.now() - beganAt,
      ...(pass?.partial && { partial: true }),
      ...(incomplete !== undefined && { incomplete }),
    };
    observe({ kind: "pass", ...report });
    if (incomplete === "unreachable") {
      const whose = account === undefined ? "" : ` of account ${account}`;
      const message = `the reconciler stopped its pass${whose}, because the platform is out of reach or refuses the token. The next pass continues where this pass stopped`;
      log.limited("pass", "warn", message, { account });
    }
    return { report, retryAfter: stop.retryAfter };
  }

  /** @returns `undefined` if another pass holds the lock, or the scheduled pass is no longer due */
  async #passUnderLock(
    stop: StopReason,
    findings: Findings,
    isDue: ((reading: StoredState) => boolean) | undefined,
  ): Promise<Pass | undefined> {
    const { account, store, every, internals, log } = this.#settings;
    const { backoff, leaseDuration } = internals;
    const asked = isDue === undefined;
    await this.#watch.settled();
    // Events come first: a process without a loop has to be asked to handle them.
    if (asked) handleEvents(this.#settings);
    const lock = await Lock.take(store, {
      account,
      lease: 2 * leaseDuration,
      every,
      isDue: isDue ?? (() => true),
      onLost: () => stop.stop("locked"),
      onError: (error) =>
        log.warn("the reconciler could not renew its lock in the store. Trying again", { error, account }),
    });
    if (!lock) return undefined;
    const reader = new Reader({ ...this.#settings, stop, backoff, asked });
    const shared = { stop, reader, findings, changes: this.#changes, missing: [], unreached: [] };
    const pass = new Pass({ ...this.#settings, ...shared }, lock.state, this.#watch.refs);
    lock.keep(() => pass.progress);
    try {
      await pass.run();
    } finally {
      await lock.release(pass.progress);
    }
    return pass;
  }
}

/** Resolves when each due event has had an attempt, or when the signal aborts. The handler then still handles them. */
export async function handled({ internals }: Settings, signal: AbortSignal | undefined): Promise<void> {
  const drained = internals.drainIfStarted();
  await (signal ? untilAborted(drained, signal) : drained).catch((error) => {
    if (!signal?.aborted) throw error;
  });
}
