/** How the record that an event is about is named in a store. */
export type Subject =
  | { readonly kind: "booking"; readonly bookingCode: string }
  | { readonly kind: "listing"; readonly listingId: number };

export function bookingRef(bookingCode: string): string {
  return `booking:${bookingCode}`;
}

export function listingRef(listingId: number): string {
  return `listing:${listingId}`;
}

/** A notification with no reference, or with two, is about no record. */
export function refOf(bookingCode: string | null, listingId: number | null): string | null {
  if (bookingCode !== null && listingId === null) return bookingRef(bookingCode);
  if (listingId !== null && bookingCode === null) return listingRef(listingId);
  return null;
}

export function parseRef(ref: string | null): Subject | undefined {
  if (ref?.startsWith("booking:")) return { kind: "booking", bookingCode: ref.slice("booking:".length) };
  if (ref?.startsWith("listing:"))
    return { kind: "listing", listingId: Number(ref.slice("listing:".length)) };
  return undefined;
}
