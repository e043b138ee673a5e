// What the passes of the reconciler on all machines share.

import { v4 } from "uuid";
import * as z from "zod";
import type { EventStore } from "../stores/event-store.ts";
import { placeKey } from "../webhooks/own-ids.ts";

/** The part of the state from which the next pass continues, even if this process dies. */
export type Progress = Partial<PassState>;

/** How far a run with `again` got. */
const AgainPlace = z.object({
  /** The id of the run. The ids of its events have it, so that no record gets a second one. */
  id: z.string(),
  /** The run continues after this `ref`. */
  after: z.string().nullable(),
  /** Whether the run has come to its end. */
  done: z.boolean(),
});
export type AgainPlace = z.output<typeof AgainPlace>;

/** The state that the passes of all machines share, in a meta value of the store. */
const PassState = z.object({
  /** The id of the pass that holds the lock, or `null` if the lock is free. */
  owner: z.string().nullable(),
  /** How long the lock holds after this state was written, ms. */
  lease: z.number(),
  /** ms from the start of the last pass until this state was written. Not a time, because machines' clocks differ. */
  elapsed: z.number(),
  /** Whether the last pass checked everything. */
  complete: z.boolean(),
  /** The next pass continues after this `ref`. */
  after: z.string().nullable(),
  /** Whether a pass has seen all listings. If so, an unknown listing is a new listing. */
  learned: z.boolean(),
  /** Whether the pass has replayed the parked events. Older versions write no such field. */
  replayed: z.boolean().default(false),
  /** The last run with `again`. Older versions write no such field. */
  again: AgainPlace.nullable().default(null),
});
export type PassState = z.output<typeof PassState>;

const NEVER: PassState = {
  owner: null,
  lease: 0,
  elapsed: 0,
  complete: false,
  after: null,
  learned: false,
  replayed: false,
  again: null,
};

/** A state that was read from the store. */
export interface StoredState {
  readonly state: PassState;
  /** The JSON text of the state. {@link writeState} writes only if the store still has this text. */
  readonly text: string | undefined;
  /** ms since the last pass began. */
  readonly sinceBegun: number;
  /** ms until the lock of another pass ends, or 0 if the lock is free. */
  readonly lockedFor: number;
}

export async function readState(store: EventStore<unknown>, account?: string): Promise<StoredState> {
  const kept = await store.getMeta(placeKey(account));
  const state = parse(kept?.value);
  if (!kept || !state)
    return { state: NEVER, text: kept?.value, sinceBegun: Number.POSITIVE_INFINITY, lockedFor: 0 };
  const age = Math.max(kept.age, 0);
  const lockedFor = state.owner === null ? 0 : Math.max(state.lease - age, 0);
  return { state, text: kept.value, sinceBegun: state.elapsed + age, lockedFor };
}

/** @returns `false`, and writes nothing, if another process has written the state since `reading` */
export function writeState(
  store: EventStore<unknown>,
  reading: StoredState,
  state: PassState,
  account?: string,
): Promise<boolean> {
  return store.setMeta(placeKey(account), JSON.stringify(state), { expected: reading.text });
}

/** Returns `undefined` for a state that a later version wrote in another form. */
function parse(text: string | undefined): PassState | undefined {
  try {
    return text === undefined ? undefined : PassState.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** Returns ms until the next scheduled pass is due; 0 if it is due now. */
export function dueIn({ state, sinceBegun, lockedFor }: StoredState, every: number): number {
  if (lockedFor > 0) return Math.min(lockedFor, every);
  return state.complete ? Math.max(every - sinceBegun, 0) : 0;
}

/** Returns the state of a pass that begins, or goes on where an incomplete one stopped. */
export function begunPass({ state, sinceBegun }: StoredState, every: number): PassState {
  // An incomplete pass that began at least `every` ms ago is over. The new one still goes on where it stopped: if the
  // platform allows few reads, each pass would otherwise read the same records.
  const isSame = !state.complete && sinceBegun < every;
  return {
    ...state,
    complete: false,
    elapsed: isSame ? sinceBegun : 0,
    after: state.complete ? null : state.after,
    replayed: isSame && state.replayed,
  };
}

/**
 * Returns the state of a run with `again` that begins, or goes on where an incomplete one stopped. The passes of the
 * schedule keep their place.
 */
export function begunAgain({ state, sinceBegun }: StoredState, id: string = v4()): PassState {
  const again = state.again?.done === false ? state.again : { id, after: null, done: false };
  return { ...state, elapsed: Math.min(sinceBegun, Number.MAX_SAFE_INTEGER), again };
}

/** Returns the id of a run with `again` over all accounts, which goes on if one has not ended. */
export async function beginAgainOfAll(store: EventStore<unknown>): Promise<string> {
  for (;;) {
    const reading = await readState(store);
    const next = begunAgain(reading);
    if (next.again === reading.state.again || (await writeState(store, reading, next))) return next.again!.id;
  }
}

export async function endAgainOfAll(store: EventStore<unknown>, id: string): Promise<void> {
  const reading = await readState(store);
  if (reading.state.again?.id === id) await writeState(store, reading, { ...reading.state, again: null });
}

/** How many times to try to take the lock while other processes write the state. */
const TRIES = 5;

interface LockOptions {
  /** The account whose passes the lock is for. */
  readonly account?: string | undefined;
  readonly lease: number;
  /** The state of the pass that begins. `undefined` if none is due: another machine may have made it a moment ago. */
  readonly begin: (reading: StoredState) => PassState | undefined;
  /** Called when another process has taken the lock, because this process did not renew the lock in time. */
  readonly onLost: () => void;
  readonly onError: (error: unknown) => void;
}

/** Allows one pass at a time over all machines. Also writes the progress of the pass to the store. */
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

  /** @returns `undefined` if another pass is running, or if the scheduled pass is no longer due */
  static async take(store: EventStore<unknown>, options: LockOptions): Promise<Lock | undefined> {
    const { account, lease, begin } = options;
    const owner = v4();
    for (let tries = 0; tries < TRIES; tries += 1) {
      const reading = await readState(store, account);
      const begun = reading.lockedFor > 0 ? undefined : begin(reading);
      if (!begun) return undefined;
      const next = { ...begun, owner, lease };
      if (await writeState(store, reading, next, account)) return new Lock(store, owner, next, options);
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

  async isHeld(): Promise<boolean> {
    return (await readState(this.#store, this.#options.account)).state.owner === this.#owner;
  }

  async release(progress: Progress): Promise<void> {
    clearInterval(this.#timer);
    await this.#renewing;
    await this.#write(progress, null);
  }

  /** @returns `false` if another process holds the lock now */
  async #write(progress: Progress, owner: string | null): Promise<boolean> {
    const { account } = this.#options;
    const reading = await readState(this.#store, account);
    if (reading.state.owner !== this.#owner) return false;
    const next = { ...reading.state, ...progress, owner, elapsed: reading.sinceBegun };
    return writeState(this.#store, reading, next, account);
  }
}
