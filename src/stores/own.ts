/**
 * What begins so names no booking and no listing: under these refs the reconciler keeps what it has to remember,
 * as any store keeps a record's status.
 */
const OWN = "reconcile:";

export function ownRef(name: string): string {
  return OWN + name;
}

export function isOwnRef(ref: string | null): boolean {
  return ref?.startsWith(OWN) === true;
}
