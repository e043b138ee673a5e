// The words for what a person has changed, for the log of the console and for the command line.

import type { Log } from "../logger.ts";
import type { OperatedObservation } from "../webhooks/observability.ts";
import { inWords } from "./filter-form.ts";
import { eventsOf } from "./flash.ts";
import type { Operation } from "./plan.ts";

const done: Readonly<Record<Operation["action"], string>> = {
  replay: "replayed",
  "run now": "run early",
  discard: "discarded",
  erase: "erased",
};

/** Says what was changed: `event 7c1f… (booking:HX3K9) discarded`, or `40 events discarded (parked, reason callback)`. */
export function operationText({ action, eventId, ref, filter, count }: Operation): string {
  if (eventId !== undefined) return `event ${eventId} (${ref ?? "no record"}) ${done[action]}`;
  if (filter === undefined) return `${ref} and ${eventsOf(count)} ${done[action]}`;
  const { error, cause, ...fields } = filter;
  // The text may name a guest, and only the person who typed it knows.
  const words = [inWords({ filter: fields, cause }), error !== undefined && "by a text of their error"];
  return `${eventsOf(count)} ${done[action]} (${words.filter(Boolean).join(", ")})`;
}

/** The line of the audit: what was changed in the console, and by whom. */
export function auditLine({ user, ...operation }: OperatedObservation): string {
  return `${operationText(operation)} in the console${user === undefined ? "" : ` by ${user}`}`;
}

export function logOperation(operation: OperatedObservation, log: Log): void {
  const { eventId, ref, user } = operation;
  log.info(auditLine(operation), { eventId, ref, user });
}
