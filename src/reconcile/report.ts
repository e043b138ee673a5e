/**
 * Why a pass has not been through all: another was under way, here or on another machine (`locked`); the platform
 * is out of reach (`unreachable`); its `signal` aborted, or the reconciler was closed (`aborted`). The next one goes
 * on where it stopped.
 */
export type Incomplete = "locked" | "unreachable" | "aborted";

/** What a pass reports. */
export interface ReconcileReport {
  /** Listings and bookings whose status was read and compared. */
  readonly checked: number;
  /** Of these, those that are handled now because they had changed; what `watch` added since the last pass is among them. */
  readonly changed: number;
  /** What could not be read: a booking that is gone, a list that is none, a platform that does not answer. */
  readonly failed: number;
  /** ms, without the callbacks. */
  readonly duration: number;
  /** Absent from a pass that has been through all. */
  readonly incomplete?: Incomplete;
}

interface OfRecord {
  /** `booking:<code>` or `listing:<id>`. */
  readonly ref: string;
}

/** What {@link ReconcilerOptions.observe} is told; `kind` tells which. */
export type ReconcileObservation =
  /** A booking was read, or a listing found in the list. */
  | (OfRecord & { readonly kind: "checked"; readonly status: string })
  /** It has changed since it was handled last, and an event for it is in the store now. */
  | (OfRecord & {
      readonly kind: "changed";
      readonly eventId: string;
      readonly previousStatus: string | undefined;
      readonly status: string;
    })
  /** A listing that was never handled was written down without a callback. */
  | (OfRecord & { readonly kind: "learned"; readonly status: string })
  /** It could not be read; `listings` is the list of them. */
  | { readonly kind: "failed"; readonly ref: string; readonly error: unknown }
  /** A listing that was handled once is no longer in the list. Nothing is done about it, as it has no status. */
  | (OfRecord & { readonly kind: "vanished"; readonly previousStatus: string })
  /** A pass has ended. */
  | ({ readonly kind: "pass" } & ReconcileReport)
  /** A pass that `start()` made could not go on, as the store failed. It is made again. */
  | { readonly kind: "error"; readonly error: unknown };
