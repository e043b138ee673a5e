// The ledger of a booking: what exists, what should exist, and when each thing acts. A store keeps it beside the snapshot.

import type { BookingStay } from "../models/booking-stay.ts";

/** A value that JSON keeps as it is. */
export type Json =
  | string
  | number
  | boolean
  | null
  | readonly Json[]
  | {
      /** A member of an object. JSON leaves out a member that is `undefined`. */
      readonly [name: string]: Json | undefined;
    };

/** A hold as `want` asked for it. Times are epoch ms. */
export interface HoldWant {
  readonly stay: BookingStay;
  /** `undefined`: at once. */
  readonly from?: number | undefined;
  readonly until: number;
  /** Whether `want` gave no `until`: the hold then ends without a call. */
  readonly isOpenEnded?: boolean | undefined;
  readonly data?: Json | undefined;
}

/** A once as `want` asked for it. Times are epoch ms. */
export interface OnceWant {
  readonly stay: BookingStay;
  readonly at: number;
  readonly until?: number | undefined;
  readonly owedFrom?: number | undefined;
  readonly data?: Json | undefined;
}

/** What `want` asked for, checked and with epoch ms in the place of dates. */
export type Wanted =
  | { readonly kind: "hold"; readonly name: string; readonly want: HoldWant }
  | { readonly kind: "once"; readonly name: string; readonly want: OnceWant };

/** The fields of all entries. */
interface EntryBase {
  readonly name: string;
  /** The `id` of this occurrence that the functions of `apply` get. */
  readonly id: string;
  /** The event that acts next. It is `undefined` if the entry does nothing by itself. */
  readonly row?: Row | undefined;
  /** Somebody discarded the event: this occurrence does nothing any more. */
  readonly isDropped?: true | undefined;
}

/** The event of an entry in the store. */
export interface Row {
  /** Its id without the account. */
  readonly eventId: string;
  /** When the event is due, epoch ms. */
  readonly at: number;
  /** What the event was recorded for. Another act gets another event. */
  readonly act: Act;
}

export type Act = "begin" | "end" | "once";

/** A hold at one house. At least one of `want` and `was` is there. */
export interface HoldEntry extends EntryBase {
  readonly kind: "hold";
  /** What should exist. */
  readonly want?: HoldWant | undefined;
  /** What may exist: that of the last `begin` that was called. */
  readonly was?: HoldWant | undefined;
  /** When the last `begin` that was called ended with success, epoch ms. */
  readonly since?: number | undefined;
  /** `end` was called, so that it must succeed before this house gets a new occurrence. */
  readonly isEnding?: true | undefined;
  /** What `begin` last returned that was not `undefined`. */
  readonly value?: Json | undefined;
}

/** A once that waits. */
export interface OnceEntry extends EntryBase {
  readonly kind: "once";
  readonly want: OnceWant;
  /** The guest has left, so that it runs whatever happens to the stay. */
  readonly isOwed?: true | undefined;
  /** The guest left before its time. */
  readonly isEarly?: true | undefined;
}

export type Entry = HoldEntry | OnceEntry;

/** Returns what the stay was last known to need, without what is owed for a stay before it. */
export function wantedIn({ entries }: Ledger): Wanted[] {
  const isWanted = (entry: Entry) => entry.want !== undefined && !(entry.kind === "once" && entry.isOwed);
  return entries.filter(isWanted).map(({ kind, name, want }) => ({ kind, name, want }) as Wanted);
}

/** The last run of a once. */
export interface DoneOnce {
  readonly stay: BookingStay;
  /** Its time, epoch ms. */
  readonly at: number;
  /** When it ran, epoch ms. */
  readonly since: number;
}

export interface Ledger {
  /** The time of the last plan, epoch ms. */
  readonly at: number;
  readonly entries: readonly Entry[];
  /** The last run of each once, by name. */
  readonly done: Readonly<Record<string, DoneOnce>>;
  /** The attempt that recorded this plan, and the stay that it planned. */
  readonly by?: string | undefined;
  /** The event that makes the plan again, because `want` or `timeZone` threw. */
  readonly problem?: string | undefined;
  /** The event that ends what may exist at its time, and forgets the booking 30 days after its last check-out. */
  readonly sweep?: Omit<Row, "act"> | undefined;
}

export const EMPTY: Ledger = { at: 0, entries: [], done: {} };

/** Reads the text that a store keeps. */
export function readLedger(text: string | undefined): Ledger | undefined {
  return text ? (JSON.parse(text) as Ledger) : undefined;
}

/** Whether a ledger says nothing, so that the store needs not keep it. */
export function isEmpty({ entries, done, problem }: Ledger): boolean {
  return entries.length === 0 && Object.keys(done).length === 0 && problem === undefined;
}

/** The stay that an entry is for: what may exist comes before what should. */
export function stayOfEntry(entry: Entry): BookingStay {
  return (entry.kind === "hold" ? (entry.was ?? entry.want)! : entry.want).stay;
}
