import { ResettableTimer } from "../async.ts";
import { handleEvents } from "./handle-events.ts";
import type { Settings } from "./options.ts";
import type { Made } from "./passes.ts";
import { dueIn, readState } from "./state.ts";

/**
 * The longest random delay before the schedule checks whether a pass is due, ms. `first` is for the first check,
 * `later` for all later checks. Without a random delay, all machines would check at the same time.
 */
export const SPREAD = { first: 250, later: 30_000 } as const;
/** The waits after the first, the second and each later failed pass in a row, ms. */
const RETRIES = [60_000, 5 * 60_000, 15 * 60_000] as const;

/** Makes a pass in each interval of `every`. Machines that share the store make one pass per interval in total. */
export class Schedule {
  readonly #settings: Settings;
  readonly #pass: () => Promise<Made>;
  readonly #timer = new ResettableTimer(() => void this.#tick());
  #started = false;
  #stopped = false;
  /** How many passes in a row failed. */
  #failures = 0;

  constructor(settings: Settings, pass: () => Promise<Made>) {
    this.#settings = settings;
    this.#pass = pass;
  }

  start(): void {
    if (this.#started || this.#stopped) return;
    this.#started = true;
    this.#set(0, SPREAD.first);
  }

  stop(): void {
    this.#stopped = true;
    this.#timer.clear();
  }

  #set(ms: number, spread: number = SPREAD.later): void {
    const { every } = this.#settings;
    if (!this.#stopped) this.#timer.set(ms + Math.random() * Math.min(every / 10, spread));
  }

  async #tick(): Promise<void> {
    try {
      const wait = await this.#untilDue();
      if (this.#stopped) return;
      this.#set(wait > 0 ? wait : await this.#makePass());
    } catch (error) {
      const { log, observe } = this.#settings;
      observe({ kind: "error", error });
      const wait = this.#retryIn();
      log.error(`the reconciler's pass failed because of the store. Trying again in ${wait / 1000} s`, {
        error,
      });
      this.#set(wait);
    }
  }

  /** Returns ms until a pass is due, or 0 if a pass is due now. */
  async #untilDue(): Promise<number> {
    const { store, every } = this.#settings;
    return dueIn(await readState(store), every);
  }

  /** @returns ms until the schedule checks again whether a pass is due */
  async #makePass(): Promise<number> {
    const { report, retryAfter = 0 } = await this.#pass();
    if (report.incomplete === "unreachable") return Math.max(retryAfter, this.#retryIn());
    this.#failures = 0;
    // A handler with inline processing has no loop, so a drain must handle the new events.
    handleEvents(this.#settings);
    return this.#untilDue();
  }

  #retryIn(): number {
    this.#failures += 1;
    return retryAfterFailures(this.#failures, this.#settings.every);
  }
}

/** Returns ms until another try, after this many failed passes in a row. */
export function retryAfterFailures(failures: number, every: number): number {
  return Math.min(RETRIES[failures - 1] ?? RETRIES[2], every);
}
