/** How the record that an event is about is named in a store. */
export type Subject =
  | { readonly kind: "booking"; readonly bookingCode: string }
  | { readonly kind: "listing"; readonly listingId: number };

/** Leaves out the white space around the code. A code of white space alone stays as it is. */
export function bookingRef(bookingCode: string): string {
  return `booking:${bookingCode.trim() || bookingCode}`;
}

export function listingRef(listingId: number): string {
  return `listing:${listingId}`;
}

export function parseRef(ref: string | null): Subject | undefined {
  if (ref?.startsWith("booking:")) return { kind: "booking", bookingCode: ref.slice("booking:".length) };
  if (ref?.startsWith("listing:"))
    return { kind: "listing", listingId: Number(ref.slice("listing:".length)) };
  return undefined;
}
