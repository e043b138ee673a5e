import { describeThrown } from "../queue/outcome.ts";
import { Alarm } from "../queue/timer.ts";
import type { Settings } from "./options.ts";
import { dueIn, type Register } from "./register.ts";
import type { Incomplete } from "./report.ts";

/** Not all machines are to come at once, ms: by how much later each may at the first pass, and at those after it. */
const SPREAD = { first: 250, later: 30_000 } as const;
/** Waits before a pass is made again that could not go on, ms. */
const AGAIN = [60_000, 5 * 60_000, 15 * 60_000] as const;

/** What the schedule has to know of a pass. */
export interface Outcome {
  readonly incomplete?: Incomplete | undefined;
  /** ms for which the platform wants to be left alone. */
  readonly retryAfter?: number | undefined;
}

/** Makes passes by itself: one for each `every`, over all machines on the store. Holds no process open. */
export class Schedule {
  readonly #settings: Settings;
  readonly #register: Register;
  readonly #pass: () => Promise<Outcome>;
  readonly #alarm = new Alarm(() => void this.#tick());
  #started = false;
  #stopped = false;
  /** Passes in a row that could not go on. */
  #failures = 0;

  constructor(settings: Settings, register: Register, pass: () => Promise<Outcome>) {
    this.#settings = settings;
    this.#register = register;
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
      this.#set(wait > 0 ? wait : await this.#make());
    } catch (error) {
      const { logger, observe } = this.#settings;
      observe({ kind: "error", error });
      const wait = this.#again();
      logger.error(
        `stayhook: the reconciler could not go on, trying again in ${wait / 1000} s (${describeThrown(error)})`,
      );
      this.#set(wait);
    }
  }

  /** ms; 0 where a pass is due. */
  async #untilDue(): Promise<number> {
    return dueIn(await this.#register.read(), this.#settings.every);
  }

  /** @returns ms until it is to be looked again */
  async #make(): Promise<number> {
    const { incomplete, retryAfter = 0 } = await this.#pass();
    if (incomplete === "unreachable") return Math.max(retryAfter, this.#again());
    this.#failures = 0;
    const { inside, logger } = this.#settings;
    // Where the handler has a loop, that is quicker. One that processes inline has none.
    void inside.handleDue().catch((error) => {
      logger.error(`stayhook: what a pass has found could not be handled (${describeThrown(error)})`);
    });
    return this.#untilDue();
  }

  #again(): number {
    const wait = AGAIN[this.#failures] ?? AGAIN[2];
    this.#failures += 1;
    return Math.min(wait, this.#settings.every);
  }
}
