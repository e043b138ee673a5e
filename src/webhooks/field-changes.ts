// How a record differs from its last handled event.

import type { TrackedValue } from "../stores/snapshot.ts";

/** How a field differs from `event.previous`. */
export interface FieldChange {
  /** The value in `event.previous`. It is `undefined` if `event.previous` is `undefined`. */
  readonly from: TrackedValue | undefined;
  /** The value in the record that was read for this event. */
  readonly to: TrackedValue;
}

/** The fields that are always compared. */
type DefaultField = "status" | "checkIn" | "checkOut" | "listingId" | "listingName";

type DefaultChanges = {
  /** Present if the status differs. */
  readonly status?: FieldChange | undefined;
  /** Present if a booking's day of arrival differs. `from` and `to` are `YYYY-MM-DD`, or in the form that `track` gave. */
  readonly checkIn?: FieldChange | undefined;
  /** Present if a booking's day of departure differs. `from` and `to` are `YYYY-MM-DD`, or in the form that `track` gave. */
  readonly checkOut?: FieldChange | undefined;
  /** Present if a booking has moved to another listing. */
  readonly listingId?: FieldChange | undefined;
  /** The old and the new name of a listing. It is `undefined` if the name is the same. */
  readonly listingName?: FieldChange | undefined;
};

/**
 * The fields that differ from `event.previous`. The object is empty if nothing changed.
 *
 * @typeParam F - the names of the fields that the option `track` adds
 * @example
 * ```ts
 * for (const [field, change] of Object.entries(event.changes))
 *   console.log(field, change?.from, "->", change?.to); // checkOut 2026-07-04 -> 2026-07-06
 * ```
 */
export type FieldChanges<F extends string = never> = [F] extends [never]
  ? DefaultChanges
  : DefaultChanges & { readonly [Field in Exclude<F, DefaultField>]?: FieldChange | undefined };

type DefaultPrevious = {
  /** The status of the record in its last handled event. */
  readonly status: string;
  /** A booking's day of arrival in its last handled event: `YYYY-MM-DD`, or in the form that `track` gave. */
  readonly checkIn?: TrackedValue | undefined;
  /** A booking's day of departure in its last handled event: `YYYY-MM-DD`, or in the form that `track` gave. */
  readonly checkOut?: TrackedValue | undefined;
  /** The listing of a booking in its last handled event. */
  readonly listingId?: TrackedValue | undefined;
  /** A listing's name in its last handled event. */
  readonly listingName?: TrackedValue | undefined;
};

/**
 * The status and the compared fields of a record in its last handled event.
 *
 * @typeParam F - the names of the fields that the option `track` adds
 */
export type PreviousRecord<F extends string = never> = [F] extends [never]
  ? DefaultPrevious
  : DefaultPrevious & { readonly [Field in Exclude<F, DefaultField>]?: TrackedValue | undefined };
