// The filter of `list`, `replay` and `discard`, and its check.

import { checkAccount } from "../account.ts";
import { InvalidArgumentError, type Issue } from "../errors.ts";
import { checkNoUnknown } from "../option-names.ts";
import {
  type Change,
  type EventOrigin,
  type EventState,
  eventStates,
  type FailureReason,
} from "./event-states.ts";
import { clearedTime, rowIdOf } from "./firing-id.ts";

/** Selects events for {@link EventStore.list}, `replay` and `discard`. An event must match all given fields. */
export interface EventFilter {
  /** The event with this id, in lower case. */
  readonly eventId?: string | undefined;
  /** Events of this account. An event without a record belongs to the account of its id. */
  readonly account?: string | undefined;
  /** Events of this record: `booking:<code>` or `listing:<id>`; with accounts, `<account>/booking:<code>`. */
  readonly ref?: string | undefined;
  /** Events in this state. */
  readonly state?: EventState | undefined;
  /** Events of this type, such as `booking.Confirmed`. */
  readonly type?: string | undefined;
  /** Events whose last attempt failed for this reason. `discarded` selects discarded events. */
  readonly reason?: FailureReason | "discarded" | undefined;
  /** Events from this source. */
  readonly source?: EventOrigin | undefined;
  /** Events recorded at this time or later. */
  readonly receivedAfter?: Date | undefined;
  /** Events recorded before this time. */
  readonly receivedBefore?: Date | undefined;
}

const FILTER = [
  "eventId",
  "account",
  "ref",
  "state",
  "type",
  "reason",
  "source",
  "receivedAfter",
  "receivedBefore",
] as const satisfies readonly (keyof EventFilter)[];
/** The first and the last date that every database can store. No event was received outside this range. */
const [FIRST_DATE, LAST_DATE] = [0, Date.UTC(9999, 11, 31)];

/** A filter for the rows of a store. */
export interface RowFilter extends EventFilter {
  /** Only events with one of these timestamps. They tell the firings of a timer apart, which have one row. */
  readonly timestamps?: readonly [string, string] | undefined;
}

/**
 * Moves the dates of a filter into the range that every database can store. Throws on a misspelled field. If the
 * store ignored this field, the filter could match every event, and `discard` would discard all events.
 */
export function checkedFilter(filter: EventFilter): RowFilter {
  checkNoUnknown(filter ?? null, FILTER);
  const issues: Issue[] = [];
  const { account, state, receivedAfter, receivedBefore } = filter;
  if (account !== undefined) checkAccount(account);
  if (state !== undefined && !eventStates.includes(state))
    issues.push({ path: ["state"], message: `must be one of ${eventStates.join(", ")}` });
  for (const [name, date] of Object.entries({ receivedAfter, receivedBefore })) {
    if (date !== undefined && !(date instanceof Date && Number.isFinite(date.getTime())))
      issues.push({ path: [name], message: "must be a valid date" });
  }
  if (issues.length > 0) throw new InvalidArgumentError(issues);
  return {
    ...filter,
    ...(filter.eventId !== undefined && rowOf(filter.eventId)),
    ...(receivedAfter && { receivedAfter: withinDates(receivedAfter) }),
    ...(receivedBefore && { receivedBefore: withinDates(receivedBefore) }),
  };
}

/** Checks the filter of a change, which must name at least one field: an empty one would change every event. */
export function checkedChangeFilter(change: Change, given: EventFilter): RowFilter {
  const filter = checkedFilter(given);
  if (Object.values(filter).some((value) => value !== undefined)) return filter;
  throw new InvalidArgumentError({
    path: [],
    message: `${change} requires a filter with at least one field, such as { state: "parked" }`,
  });
}

function rowOf(given: string): RowFilter {
  const { eventId, timestamp } = rowIdOf(given);
  return { eventId, timestamps: timestamp === undefined ? undefined : [timestamp, clearedTime(timestamp)] };
}

function withinDates(date: Date): Date {
  return new Date(Math.min(Math.max(date.getTime(), FIRST_DATE), LAST_DATE));
}
