import { v4 } from "uuid";
import { dueIn, type PassState, type Register } from "./register.ts";

/** What a pass has to leave behind, at its end or should its process end. */
export type Progress = Pick<PassState, "after" | "learned" | "complete">;

/** Tried again where two write at once; who writes most rarely loses more often than this. */
const TRIES = 5;

/** One pass at a time over all machines. Kept while the pass runs, with the place that it has come to. */
export class Lock {
  readonly #register: Register;
  readonly #owner: string;
  readonly #lease: number;
  readonly #onLost: () => void;
  readonly #onError: (error: unknown) => void;
  #timer: ReturnType<typeof setInterval> | undefined;
  #renewing: Promise<void> | undefined;
  /** As it was when the pass began. */
  readonly begun: PassState;

  private constructor(register: Register, owner: string, begun: PassState, options: LockOptions) {
    this.#register = register;
    this.#owner = owner;
    this.#lease = options.lease;
    this.#onLost = options.onLost;
    this.#onError = options.onError;
    this.begun = begun;
  }

  /** @returns `undefined` where somebody's pass is under way, or has been made in time */
  static async take(register: Register, options: LockOptions): Promise<Lock | undefined> {
    const owner = v4();
    for (let tries = 0; tries < TRIES; tries += 1) {
      const reading = await register.read();
      if (reading.lockedFor > 0) return undefined;
      // Asked again here: since it was found due, another may have made it.
      if (options.onlyIfDue && dueIn(reading, options.every) > 0) return undefined;
      const { state } = reading;
      const now = Date.now();
      // A place is good for as long as the pass that it was in would have been.
      const goesOn = !state.complete && state.begun > now - options.every && state.begun <= now;
      const change = {
        owner,
        lease: options.lease,
        complete: false,
        begun: goesOn ? state.begun : now,
        after: goesOn ? state.after : null,
      };
      if (await register.swap(reading, change)) {
        return new Lock(register, owner, { ...state, ...change }, options);
      }
    }
    return undefined;
  }

  /** Keeps it until {@link release}; each time with what there is to be left behind then. */
  keep(progress: () => Progress): void {
    this.#timer = setInterval(() => {
      this.#renewing ??= this.#write(progress(), this.#owner)
        .then((kept) => {
          if (!kept) this.#onLost();
        }, this.#onError)
        .finally(() => {
          this.#renewing = undefined;
        });
    }, this.#lease / 3);
    (this.#timer as { unref?: () => void }).unref?.();
  }

  async release(progress: Progress): Promise<void> {
    clearInterval(this.#timer);
    await this.#renewing;
    await this.#write(progress, null);
  }

  /** @returns `false` where it is somebody else's by now */
  async #write(progress: Progress, owner: string | null): Promise<boolean> {
    const reading = await this.#register.read();
    if (reading.state.owner !== this.#owner) return false;
    return this.#register.swap(reading, { ...progress, owner });
  }
}

export interface LockOptions {
  /** ms */
  readonly lease: number;
  /** ms */
  readonly every: number;
  /** Not a pass that somebody has asked for, but the one that is to be made for each `every`. */
  readonly onlyIfDue: boolean;
  /** Somebody else has taken it: this process had stood still for too long. */
  readonly onLost: () => void;
  readonly onError: (error: unknown) => void;
}
