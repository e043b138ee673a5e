import { Alarm } from "../async.ts";
import type { Incomplete, Settings } from "./options.ts";
import { dueIn, readState } from "./state.ts";

/** The longest random delay of the first check and of later ones, ms. It keeps machines from checking at the same time. */
const SPREAD = { first: 250, later: 30_000 } as const;
/** How long to wait after failed passes in a row, ms. */
const RETRIES = [60_000, 5 * 60_000, 15 * 60_000] as const;

/** The part of a pass's result that the schedule needs. */
export interface Outcome {
  readonly incomplete?: Incomplete | undefined;
  /** The wait that the platform asked for, ms. */
  readonly retryAfter?: number | undefined;
}

/** Makes one pass for each `every`, over all machines that share the store. Does not keep the process alive. */
export class Schedule {
  readonly #settings: Settings;
  readonly #pass: () => Promise<Outcome>;
  readonly #alarm = new Alarm(() => void this.#tick());
  #started = false;
  #stopped = false;
  /** Passes in a row that failed. */
  #failures = 0;

  constructor(settings: Settings, pass: () => Promise<Outcome>) {
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
    this.#alarm.clear();
  }

  #set(ms: number, spread: number = SPREAD.later): void {
    const { every } = this.#settings;
    if (!this.#stopped) this.#alarm.set(ms + Math.random() * Math.min(every / 10, spread));
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

  /** ms until a pass is due; 0 if it is due now. */
  async #untilDue(): Promise<number> {
    const { store, every } = this.#settings;
    return dueIn(await readState(store), every);
  }

  /** @returns ms until the next check */
  async #makePass(): Promise<number> {
    const { incomplete, retryAfter = 0 } = await this.#pass();
    if (incomplete === "unreachable") return Math.max(retryAfter, this.#retryIn());
    this.#failures = 0;
    const { internals, log } = this.#settings;
    // A handler that processes inline has no loop for the new events.
    void internals.drainIfStarted().catch((error) => {
      log.error("the handler could not process the events that a pass added", { error });
    });
    return this.#untilDue();
  }

  #retryIn(): number {
    const wait = RETRIES[this.#failures] ?? RETRIES[2];
    this.#failures += 1;
    return Math.min(wait, this.#settings.every);
  }
}
