// The JSON parameters of the statements for groups. PostgreSQL reads the fields by the names of their columns.

import { type Addition, type Settlement, stateOfNew } from "../outcomes.ts";
import { keyOf } from "../sql/sql-queue.ts";
import {
  CONTENT_COLUMNS,
  contentOf,
  toHistory,
  toId,
  toSnapshot,
  toText,
  toTextOrNull,
} from "../sql/sql-rows.ts";

export function idsOf(eventIds: readonly string[]): Buffer[] {
  return eventIds.map((eventId) => Buffer.from(toId(eventId)));
}

function idJson(eventId: string): string {
  return `\\x${Buffer.from(toId(eventId)).toString("hex")}`;
}

function contentJson(event: Addition["event"]) {
  const values = contentOf(event);
  return Object.fromEntries(CONTENT_COLUMNS.map((column, index) => [column, values[index]]));
}

/** @param n - the number of the addition, or of the settlement that it belongs to */
export function additionJson(addition: Addition, n: number) {
  const { event, dueIn, dueAt, replace, token } = addition;
  const { eventId } = event;
  const base = {
    n,
    id: idJson(eventId),
    ref: keyOf(event),
    state: stateOfNew(addition),
    due_in: dueIn,
    due_time: dueAt,
    lease: token,
    replace,
  };
  return { ...base, ...contentJson(event) };
}

export function settlementJson(
  { claim, change, delay, record, ledger, remove }: Settlement<never>,
  n: number,
) {
  return {
    n,
    id: idJson(claim.eventId),
    ref: keyOf(claim),
    lease: claim.lease,
    state: change.state,
    due_in: change.dueIn,
    due_time: change.dueAt,
    attempts: change.attempts,
    outages: change.outages,
    first_outage_at: change.firstOutageAt,
    failures: change.failures,
    refusals: change.refusals,
    replayed: change.replayed ? 1 : 0,
    type: toTextOrNull(change.type),
    reason: change.reason,
    history: toHistory(change.history),
    drops: change.dropsText,
    ...(change.event && contentJson(change.event)),
    delay,
    snapshot: record && toSnapshot(record.snapshot),
    changed: record?.changed,
    // An empty text deletes the ledger, because a missing one keeps it.
    ledger: ledger === null ? "" : ledger && toText(ledger),
    timers: remove === "timers",
    remove: remove === "timers" ? undefined : remove?.map(idJson),
  };
}
