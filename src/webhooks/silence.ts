// Reports that no notification has arrived for a long time.

import { ResettableTimer } from "../async.ts";
import type { SilentObservation } from "./observability.ts";

/** After a failure of the store, the monitor checks again within this time, ms. */
const RETRY_AFTER_FAILURE = 60_000;

interface SilenceOptions {
  /** The time without a notification that counts as silence, ms. `Infinity` turns the monitor off. */
  readonly silentAfter: number;
  /** Resolves to the time of the last notification. */
  readonly lastReceivedAt: () => Promise<Date | undefined>;
  readonly tell: (event: SilentObservation) => void;
}

/** Reports when no notification has arrived for `silentAfter` ms. Reports each such silence once. */
export class SilenceMonitor {
  readonly #options: SilenceOptions;
  readonly #timer = new ResettableTimer(() => void this.check());
  /** When the last reported silence began, in epoch ms. It is `none` if no notification had ever arrived. */
  #told: number | "none" | undefined;
  /** When the first check ran. If no notification has ever arrived, the silence begins at this time. */
  #since: number | undefined;
  #started = false;
  #stopped = false;

  constructor(options: SilenceOptions) {
    this.#options = options;
  }

  /** Checks for silence now, and again whenever `silentAfter` may have passed. */
  start(): void {
    if (this.#started || this.#stopped || this.#options.silentAfter === Number.POSITIVE_INFINITY) return;
    this.#started = true;
    this.#timer.set(0);
  }

  stop(): void {
    this.#stopped = true;
    this.#timer.clear();
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
      this.#checkIn(Math.min(silentAfter, RETRY_AFTER_FAILURE));
    }
  }

  #checkIn(ms: number): void {
    if (this.#started && !this.#stopped) this.#timer.set(ms);
  }

  #tell(lastReceivedAt: Date | undefined): void {
    const silence = lastReceivedAt?.getTime() ?? "none";
    if (silence === this.#told) return;
    this.#told = silence;
    this.#options.tell({ kind: "silent", lastReceivedAt });
  }
}
