import * as z from "zod";
import { ownRef } from "../stores/own.ts";
import type { EventStore, RecordStatus } from "../stores/event-store.ts";
import type { Notes } from "./notes.ts";

const REF = ownRef("pass");

/**
 * What all machines have to know of the passes. It stands in the store as the status of a record of the
 * reconciler's own, which can be swapped for another only by who has seen the last one.
 */
const State = z.object({
  /** Whose pass is under way; `null` for nobody's. */
  owner: z.string().nullable(),
  /** ms for which it is believed to be, from when this was written. */
  lease: z.number(),
  /** Makes each state another one than that before it. */
  beat: z.number(),
  /** Epoch ms. When the pass began that is under way, or was last. */
  begun: z.number(),
  /** It has been through all. */
  complete: z.boolean(),
  /** Where it has come to: the `ref` behind which to go on. */
  after: z.string().nullable(),
  /** A pass has seen all listings: what is new from then on has come later. */
  learned: z.boolean(),
});
export type PassState = z.output<typeof State>;

const NEVER: PassState = {
  owner: null,
  lease: 0,
  beat: 0,
  begun: 0,
  complete: false,
  after: null,
  learned: false,
};

export interface Reading {
  readonly state: PassState;
  /** ms for which a pass of somebody is to be believed under way; 0 where none is. */
  readonly lockedFor: number;
  readonly known: RecordStatus | undefined;
}

export class Register {
  readonly #store: EventStore<unknown>;
  readonly #notes: Notes;

  constructor(store: EventStore<unknown>, notes: Notes) {
    this.#store = store;
    this.#notes = notes;
  }

  async read(): Promise<Reading> {
    const known = await this.#store.statusOf(REF);
    const state = parse(known?.status);
    const left = known && state.owner !== null ? known.seenAt.getTime() + state.lease - Date.now() : 0;
    // A clock that is behind must not keep a pass under way for ever.
    return { state, known, lockedFor: Math.min(Math.max(left, 0), state.lease) };
  }

  /** Writes what follows on `reading`. @returns `false` where another process was faster */
  swap({ known, state }: Reading, change: Partial<PassState>): Promise<boolean> {
    const next: PassState = { ...state, ...change, beat: state.beat + 1 };
    return this.#notes.swap(REF, known, JSON.stringify(next));
  }
}

/** ms until the pass is due that is made for each `every`; 0 where it is. */
export function dueIn({ state, lockedFor }: Reading, every: number): number {
  if (lockedFor > 0) return Math.min(lockedFor, every);
  if (!state.complete) return 0;
  // A pass cannot have begun later than now: whoever wrote that has a clock that is ahead.
  return Math.min(Math.max(state.begun + every - Date.now(), 0), every);
}

/** What is not understood, of a later version, is as good as nothing. */
function parse(status: string | undefined): PassState {
  if (status === undefined) return NEVER;
  try {
    return State.parse(JSON.parse(status));
  } catch {
    return NEVER;
  }
}
