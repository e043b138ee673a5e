// Gives a record that was read the status that this package knows, whatever the platform's spelling.

import { asSent, rememberAsSent } from "../../models/as-sent.ts";
import { knownStatus } from "../../models/statuses.ts";

/** Returns the record with its status in the spelling of the tables. Changes the record if that is possible. */
export function withKnownStatus<R extends { status: string }>(kind: "booking" | "listing", record: R): R {
  const status = knownStatus(kind, record.status);
  if (status === record.status || isChanged(record, status)) return record;
  // A model may freeze its record, or make the status a getter.
  const changed: R = Object.create(Object.getPrototypeOf(record), {
    ...Object.getOwnPropertyDescriptors(record),
    status: { value: status, enumerable: true, writable: true, configurable: true },
  });
  rememberAsSent(changed, asSent(record));
  return changed;
}

function isChanged(record: { status: string }, status: string): boolean {
  try {
    record.status = status;
  } catch {
    return false;
  }
  return record.status === status;
}
