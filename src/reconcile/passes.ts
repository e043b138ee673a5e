import { AgainPass } from "./again.ts";
import { handleEvents } from "./handle-events.ts";
import { OneAtATime } from "./one-at-a-time.ts";
import type { ReconcileReport, Settings } from "./options.ts";
import { Pass } from "./pass.ts";
import { Reader, StopReason } from "./reader.ts";
import { Findings } from "./records.ts";
import { begunAgain, begunPass, Lock, type StoredState } from "./state.ts";
import { Watch } from "./watch.ts";

export interface Made {
  readonly report: ReconcileReport;
  /** How long the platform must be left alone, ms. */
  readonly retryAfter: number | undefined;
}

/** Why a pass is made. */
interface Occasion {
  /** Tells whether a scheduled pass is due. It is `undefined` if the user asked for the pass. */
  readonly isDue?: (reading: StoredState) => boolean;
  /** Set if the callback shall run for each known record. `runId` is that of the run over all accounts. */
  readonly again?: { readonly runId: string | undefined } | undefined;
}

/** Makes the passes of one account, one at a time. */
export class Passes {
  readonly #settings: Settings;
  readonly #watch: Watch;
  readonly #passes = new OneAtATime<Made>();

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#watch = new Watch(settings);
  }

  /** Whether nothing is running, and nothing is left to remember for the next pass. */
  get isIdle(): boolean {
    return this.#passes.isIdle && this.#watch.isIdle;
  }

  watch(bookingCodes: string | readonly string[]): Promise<void> {
    return this.#watch.add(bookingCodes);
  }

  /** Makes a pass, or waits for the current one. `signal` ends only a pass that begins now. */
  make(occasion: Occasion, signal?: AbortSignal): Promise<Made> {
    const kind = occasion.again ? "again" : "pass";
    return this.#passes.run(kind, signal, (stop) => this.#make(new StopReason(stop), occasion));
  }

  async close(): Promise<void> {
    this.#watch.close();
    await Promise.all([this.#passes.close(), this.#watch.settled()]);
  }

  async #make(stop: StopReason, occasion: Occasion): Promise<Made> {
    const { account, observe, log } = this.#settings;
    const beganAt = performance.now();
    const findings = new Findings(this.#settings);
    const pass = await this.#passUnderLock(stop, findings, occasion);
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
    { isDue, again }: Occasion,
  ): Promise<Pass | AgainPass | undefined> {
    const { account, store, every, gates, internals, log } = this.#settings;
    const { backoff, leaseDuration } = internals;
    const asked = isDue === undefined;
    await this.#watch.settled();
    // Events come first: a process without a loop has to be asked to handle them.
    if (asked) handleEvents(this.#settings);
    const lock = await Lock.take(store, {
      account,
      lease: 2 * leaseDuration,
      begin: (reading) => {
        if (again) return begunAgain(reading, again.runId);
        return asked || isDue(reading) ? begunPass(reading, every) : undefined;
      },
      onLost: () => stop.stop("locked"),
      onError: (error) =>
        log.warn("the reconciler could not renew its lock in the store. Trying again", { error, account }),
    });
    if (!lock) return undefined;
    const reader = new Reader({ ...this.#settings, stop, gates, backoff, asked });
    const holdsLock = async (): Promise<boolean> => {
      if (!(await lock.isHeld())) stop.stop("locked");
      return stop.reason === undefined;
    };
    const shared = { stop, reader, findings, holdsLock, missing: [], unreached: [] };
    const context = { ...this.#settings, ...shared };
    const pass = again
      ? new AgainPass(context, lock.state.again!, again.runId)
      : new Pass(context, lock.state);
    lock.keep(() => pass.progress);
    try {
      await pass.run();
    } finally {
      await lock.release(pass.progress);
    }
    return pass;
  }
}
