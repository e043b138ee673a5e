import { v4 } from "uuid";
import * as z from "zod";
import type { EventStore } from "../stores/event-store.ts";

const KEY = "stayhook:reconciler";

/** The part of the state that a pass leaves behind when it ends, or when its process dies. */
export type Progress = Pick<PassState, "after" | "learned" | "complete">;

/** The state of the passes that all machines share. It is kept in the store's meta. */
const PassState = z.object({
  /** The pass that holds the lock; `null` where none is under way. */
  owner: z.string().nullable(),
  /** How long the lock holds after this state was written, ms. */
  lease: z.number(),
  /** ms from the beginning of the last pass to the write of this state. By the store's clock, as machines' clocks differ. */
  elapsed: z.number(),
  /** The last pass checked everything. */
  complete: z.boolean(),
  /** The `ref` behind which the next pass goes on. */
  after: z.string().nullable(),
  /** A pass has seen all listings, so that an unknown listing is a new one. */
  learned: z.boolean(),
});
export type PassState = z.output<typeof PassState>;

const NEVER: PassState = {
  owner: null,
  lease: 0,
  elapsed: 0,
  complete: false,
  after: null,
  learned: false,
};

/** The state as it was read. */
export interface Reading {
  readonly state: PassState;
  /** The state's text, by which {@link writeState} sees whether another process wrote in between. */
  readonly text: string | undefined;
  /** ms since the last pass began. */
  readonly sinceBegun: number;
  /** ms for which another pass may still hold the lock; 0 where none does. */
  readonly lockedFor: number;
}

export async function readState(store: EventStore<unknown>): Promise<Reading> {
  const kept = await store.getMeta(KEY);
  const state = parse(kept?.value);
  if (!kept || !state)
    return { state: NEVER, text: kept?.value, sinceBegun: Number.POSITIVE_INFINITY, lockedFor: 0 };
  const age = Math.max(kept.age, 0);
  const lockedFor = state.owner === null ? 0 : Math.max(state.lease - age, 0);
  return { state, text: kept.value, sinceBegun: state.elapsed + age, lockedFor };
}

/** @returns `false` where another process has written since `reading` */
export function writeState(store: EventStore<unknown>, reading: Reading, state: PassState): Promise<boolean> {
  return store.setMeta(KEY, JSON.stringify(state), { expected: reading.text });
}

/** A state that a later version wrote in another form counts as none. */
function parse(text: string | undefined): PassState | undefined {
  try {
    return text === undefined ? undefined : PassState.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** ms until the next scheduled pass is due; 0 where it is due now. */
export function dueIn({ state, sinceBegun, lockedFor }: Reading, every: number): number {
  if (lockedFor > 0) return Math.min(lockedFor, every);
  return state.complete ? Math.max(every - sinceBegun, 0) : 0;
}

/** Two processes that write at the same time rarely collide more often than this. */
const TRIES = 5;

export interface LockOptions {
  /** ms */
  readonly lease: number;
  /** ms */
  readonly every: number;
  /** Whether this is the scheduled pass, which another machine may have made by now. */
  readonly onlyIfDue: boolean;
  /** Called when another process has taken the lock, because this one stood still for longer than the lease. */
  readonly onLost: () => void;
  readonly onError: (error: unknown) => void;
}

/** The lock that allows one pass at a time on all machines. It keeps the pass's progress in the store. */
export class Lock {
  readonly #store: EventStore<unknown>;
  readonly #owner: string;
  readonly #options: LockOptions;
  #timer: ReturnType<typeof setInterval> | undefined;
  #renewing: Promise<void> | undefined;
  /** The state when the pass began. */
  readonly state: PassState;

  private constructor(store: EventStore<unknown>, owner: string, state: PassState, options: LockOptions) {
    this.#store = store;
    this.#owner = owner;
    this.#options = options;
    this.state = state;
  }

  /** @returns `undefined` where another pass is under way, or where the scheduled pass is not due any more */
  static async take(store: EventStore<unknown>, options: LockOptions): Promise<Lock | undefined> {
    const { lease, every, onlyIfDue } = options;
    const owner = v4();
    for (let tries = 0; tries < TRIES; tries += 1) {
      const reading = await readState(store);
      if (reading.lockedFor > 0 || (onlyIfDue && dueIn(reading, every) > 0)) return undefined;
      const { state, sinceBegun } = reading;
      // A pass that was cut off goes on only for as long as it would have been the current one.
      const goesOn = !state.complete && sinceBegun < every;
      const next = {
        ...state,
        owner,
        lease,
        complete: false,
        elapsed: goesOn ? sinceBegun : 0,
        after: goesOn ? state.after : null,
      };
      if (await writeState(store, reading, next)) return new Lock(store, owner, next, options);
    }
    return undefined;
  }

  /** Renews the lock until {@link release}, and writes the progress each time. */
  keep(progress: () => Progress): void {
    const { lease, onLost, onError } = this.#options;
    this.#timer = setInterval(() => {
      this.#renewing ??= this.#write(progress(), this.#owner)
        .then((kept) => {
          if (!kept) onLost();
        }, onError)
        .finally(() => {
          this.#renewing = undefined;
        });
    }, lease / 3);
    (this.#timer as { unref?: () => void }).unref?.();
  }

  async release(progress: Progress): Promise<void> {
    clearInterval(this.#timer);
    await this.#renewing;
    await this.#write(progress, null);
  }

  /** @returns `false` where another process holds the lock now */
  async #write(progress: Progress, owner: string | null): Promise<boolean> {
    const reading = await readState(this.#store);
    if (reading.state.owner !== this.#owner) return false;
    const next = { ...reading.state, ...progress, owner, elapsed: reading.sinceBegun };
    return writeState(this.#store, reading, next);
  }
}
