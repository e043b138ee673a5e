import { Alarm } from "../async.ts";
import type { SilentObservation } from "./observe.ts";

/** The wait before another try to ask the store, ms. */
const ASK_AGAIN = 60_000;

export interface SilenceOptions {
  /** ms; Infinity: never. */
  readonly silentAfter: number;
  /** When a notification was last recorded, by any process. */
  readonly lastReceivedAt: () => Promise<Date | undefined>;
  readonly tell: (event: SilentObservation) => void;
}

/** Tells once when no notification has arrived for too long, and once more after the next one. */
export class Silence {
  readonly #options: SilenceOptions;
  readonly #alarm = new Alarm(() => void this.check());
  /** What has been told already: a time by the store's clock, or `none`. */
  #told: number | "none" | undefined;
  /** Without any notification, the silence counts from here. */
  #since: number | undefined;
  #started = false;
  #stopped = false;

  constructor(options: SilenceOptions) {
    this.#options = options;
  }

  /** Checks from now on, whenever it may be silent for too long. */
  start(): void {
    if (this.#started || this.#stopped || this.#options.silentAfter === Number.POSITIVE_INFINITY) return;
    this.#started = true;
    this.#alarm.set(0);
  }

  stop(): void {
    this.#stopped = true;
    this.#alarm.clear();
  }

  /** Never rejects. */
  async check(): Promise<void> {
    const { silentAfter, lastReceivedAt } = this.#options;
    if (this.#stopped || silentAfter === Number.POSITIVE_INFINITY) return;
    this.#since ??= Date.now();
    try {
      const last = await lastReceivedAt();
      if (this.#stopped) return;
      const left = (last?.getTime() ?? this.#since) + silentAfter - Date.now();
      if (left <= 0) this.#tell(last);
      this.#checkIn(left > 0 ? left : silentAfter);
    } catch {
      this.#checkIn(Math.min(silentAfter, ASK_AGAIN));
    }
  }

  #checkIn(ms: number): void {
    if (this.#started && !this.#stopped) this.#alarm.set(ms);
  }

  #tell(lastReceivedAt: Date | undefined): void {
    const silence = lastReceivedAt?.getTime() ?? "none";
    if (silence === this.#told) return;
    this.#told = silence;
    this.#options.tell({ kind: "silent", lastReceivedAt });
  }
}
