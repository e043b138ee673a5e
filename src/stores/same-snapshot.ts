import type { Snapshot } from "./event-store.ts";

/** Whether two snapshots have the same status and the same fields with the same values. */
export function isSameSnapshot(a: Snapshot, b: Snapshot): boolean {
  const names = Object.keys(a.fields);
  return (
    a.status === b.status &&
    names.length === Object.keys(b.fields).length &&
    names.every((name) => Object.hasOwn(b.fields, name) && a.fields[name] === b.fields[name])
  );
}
