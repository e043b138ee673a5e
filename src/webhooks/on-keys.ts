// Tells of a misspelt key of `on` in the type, because the compiler proposes no name for a key in quotes.

import type { BookingStatus, ListingStatus } from "../models/records.ts";

/** The keys that `on` may have, but those of timers. Written out, because `keyof WebhookEventMap` costs the compiler more. */
type NamedKey =
  | `booking.${BookingStatus | "gone" | "unknown"}`
  | `listing.${ListingStatus | "gone" | "unknown"}`
  | "message"
  | "unknown"
  | "booking"
  | "listing"
  | "fallback";

/**
 * Whether two words differ in at most as many letters as `Edits` has members.
 *
 * @typeParam Edits - a member for each letter that may be wrong, missing or too many
 */
type IsNear<A extends string, B extends string, Edits extends readonly unknown[]> = A extends B
  ? true
  : [A, B] extends [`${infer X}${infer RestA}`, `${infer Y}${infer RestB}`]
    ? X extends Y
      ? IsNear<RestA, RestB, Edits>
      : Edits extends readonly [unknown, ...infer Left]
        ? IsNear<RestA, RestB, Left> | IsNear<RestA, B, Left> | IsNear<A, RestB, Left>
        : false
    : Edits extends readonly [unknown, ...infer Left]
      ? A extends `${string}${infer RestA}`
        ? IsNear<RestA, B, Left>
        : B extends `${string}${infer RestB}`
          ? IsNear<A, RestB, Left>
          : false
      : false;

type MeantBy<Key extends string, Known extends string = NamedKey> = Known extends unknown
  ? true extends IsNear<Lowercase<Key>, Lowercase<Known>, [1, 2]>
    ? Known
    : never
  : never;

/** No callback has this type, so that the compiler tells of the key, and of what it names. */
type Refused<Key extends string> = string extends Key
  ? unknown // No key is known, so do not compare it with each key, which costs the compiler much.
  : [MeantBy<Key>] extends [never]
    ? {
        /** The keys that there are, apart from those of timers. */
        readonly "is not a type of event": NamedKey;
      }
    : {
        /** The key that was meant. */
        readonly "did you mean": MeantBy<Key>;
      };

type TypeOfKey<Key, On> = Key extends NamedKey
  ? unknown
  : Key extends `${"booking" | "listing"}.timer.${string}`
    ? On[Key & keyof On]
    : Refused<Key & string>;

/**
 * Refuses the keys that are no types of events. `Keys` is inferred from the keys that an object has. A known key has its type
 * from `On`, because TypeScript would look for the type of a timer's event here alone.
 */
export type CheckedKeys<Keys extends PropertyKey, On> = {
  readonly [Key in Keys]?: NoInfer<TypeOfKey<Key, On>>;
};
