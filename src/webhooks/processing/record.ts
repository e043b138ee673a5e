// Compares a record with its last snapshot.

import {
  AccessTokenError,
  APIError,
  ConnectionError,
  ConnectionTimeoutError,
  NotFoundError,
  ResponseValidationError,
  retryAfterMs,
} from "../../client/client-errors.ts";
import { InvalidArgumentError } from "../../errors.ts";
import type { WorkFailure } from "../../queue/work.ts";
import type { Snapshot, TrackedValue } from "../../stores/snapshot.ts";
import type { ClaimedEvent } from "../../stores/stored-event.ts";
import type { FieldChange, FieldChanges, PreviousRecord } from "../field-changes.ts";
import type { RecheckJson } from "./event-times.ts";
import { baseOf } from "./known-stay.ts";
import type { ReadRecord } from "./read-record.ts";
import { type Look, withFields } from "./snapshots.ts";

/** How a record differs from the store's snapshot. */
export interface Comparison {
  readonly changed: boolean;
  readonly changes: FieldChanges<string>;
  readonly previous: PreviousRecord<string> | undefined;
}

/**
 * Compares a record with its previous snapshot. Leaves out the fields that the previous snapshot does not have: a
 * deployment has added them.
 */
export function compare(
  previous: Snapshot | undefined,
  { snapshot, base }: Pick<Look, "snapshot" | "base">,
): Comparison {
  const changes: Record<string, FieldChange> = {};
  const note = (name: string, from: TrackedValue | undefined, to: TrackedValue) => {
    if (from !== to) changes[name] ??= { from, to };
  };
  const noteAll = (before: Snapshot["fields"] | undefined, now: Snapshot["fields"]) => {
    for (const [name, to] of Object.entries(now))
      if (!before || Object.hasOwn(before, name)) note(name, before?.[name], to);
  };
  // The status comes first, because readers of a change look for it.
  const { status } = snapshot.fields;
  if (status !== undefined) noteAll(previous?.fields, { status });
  // A form that `track` chose may hide a change of the status, or a move of the stay.
  note("status", previous?.status, snapshot.status);
  noteAll(previous?.fields, snapshot.fields);
  if (previous) noteAll(baseOf(previous), base);
  return {
    changed: Object.keys(changes).length > 0,
    changes,
    previous: previous && { status: previous.status, ...previous.fields },
  };
}

/** Whether a record has fields that its previous snapshot does not have. */
export function hasNewFields({ fields }: Snapshot, { snapshot }: Pick<Look, "snapshot">): boolean {
  return Object.keys(snapshot.fields).some((name) => !Object.hasOwn(fields, name));
}

/** Returns a record's new snapshot, with the fields that a deployment has taken out of `track`. */
export function keeping(previous: Snapshot | undefined, { snapshot }: Pick<Look, "snapshot">): Snapshot {
  const taken = Object.entries(previous?.fields ?? {}).filter(
    ([name]) => name !== "status" && !Object.hasOwn(snapshot.fields, name),
  );
  return withFields(snapshot, Object.fromEntries(taken));
}

/** Returns the fields that are always compared, where `track` has given them another form. */
export function hiddenIn({
  snapshot,
  base,
}: Pick<Look, "snapshot" | "base">): Snapshot["fields"] | undefined {
  const hidden = Object.entries(base).filter(([name, value]) => snapshot.fields[name] !== value);
  return hidden.length > 0 ? Object.fromEntries(hidden) : undefined;
}

/** Returns JSON with sorted keys, so that equal snapshots from different stores have the same text. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([one], [other]) => (one < other ? -1 : 1)))
      : part,
  );
}

/** How long an answer of the platform may be reused, ms. */
const LIFETIME = 10_000;
/** The largest number of answers that are retained. */
const MOST = 1000;

interface RecentAnswer {
  /** What was read, or that the record is gone. */
  readonly found: RecentRead | "gone";
  /** The events that have recorded their plan before their call, and are claimed again. */
  readonly lentTo: Set<string>;
  /** That of the read. */
  readonly claimedAt: number;
  /** When the answer was retained, by `performance.now()`. */
  readonly keptAt: number;
}

/** A record that was read, and what was seen in it. */
export interface RecentRead {
  /** With a copy of the record, because a callback may change the object that it gets. */
  readonly read: ReadRecord;
  /** It is `undefined` if nothing has looked at the record, because its event has another spelling of its code. */
  readonly look: Look | undefined;
  /** The snapshot that the record had when it was read. */
  readonly previous: Snapshot | undefined;
  /** The claim time of the event that caused the read, by the store's clock. */
  readonly claimedAt: number;
}

/**
 * Retains the platform's last answer for each record, so that one read serves all waiting events of the record. An
 * event may use an answer only if the read began after the event was recorded.
 */
export class RecentAnswers {
  // Sorted by age. The oldest answer is first.
  readonly #answers = new Map<string, RecentAnswer>();

  /** Returns an answer with a copy of the record if it is fresh enough for this attempt. */
  find(claim: ClaimedEvent): RecentRead | "gone" | undefined {
    const answer = claim.ref === null ? undefined : this.#answers.get(claim.ref);
    if (!answer || isOver(answer)) return undefined;
    const isLent = answer.lentTo.delete(claim.eventId);
    if (!isLent && !serves(answer, claim)) return undefined;
    return answer.found === "gone" ? "gone" : copyOf(answer.found);
  }

  /** Retains a copy of an answer. Skips a record that is not plain data, because its copy could behave differently. */
  keep(claim: ClaimedEvent, read: ReadRecord, look?: Look): void {
    this.#keep(claim, copyOf({ read, look, previous: claim.previous, claimedAt: claim.claimedAt }));
  }

  /** Retains that a record is gone, which takes several reads to find out. */
  keepGone(claim: ClaimedEvent): void {
    this.#keep(claim, "gone");
  }

  #keep(claim: ClaimedEvent, found: RecentAnswer["found"] | undefined): void {
    const { ref, claimedAt } = claim;
    if (ref === null) return;
    this.#answers.delete(ref);
    for (const [oldest, answer] of this.#answers) {
      if (this.#answers.size < MOST && !isOver(answer)) break;
      this.#answers.delete(oldest);
    }
    if (found) this.#answers.set(ref, { found, claimedAt, keptAt: performance.now(), lentTo: new Set() });
  }

  /** Lets the answer serve the next attempt at the same event, too, which is claimed again at once. */
  lend({ ref, eventId }: ClaimedEvent): void {
    const answer = ref === null ? undefined : this.#answers.get(ref);
    answer?.lentTo.add(eventId);
  }

  drop(ref: string | null): void {
    if (ref !== null) this.#answers.delete(ref);
  }
}

/** Whether the read of an answer serves an attempt, too. */
function serves({ claimedAt }: RecentAnswer, claim: ClaimedEvent): boolean {
  if (claim.attempts !== 1 || claim.outages !== 0 || claim.replayed) return false;
  // The comparison with the claim time is false if the store's clock was set back.
  if (claim.claimedAt < claimedAt) return false;
  return claim.source === "webhook" ? claim.receivedAt < claimedAt : servedSince(claim) <= claimedAt;
}

/** Returns since when a read serves an event that an attempt at its record has recorded, and that was due then. */
function servedSince({ source, notification }: ClaimedEvent): number {
  if (source !== "thing" && source !== "recheck") return Number.POSITIVE_INFINITY;
  const { servedSince = Number.POSITIVE_INFINITY } = JSON.parse(notification ?? "{}") as RecheckJson;
  return servedSince;
}

function isOver({ keptAt }: RecentAnswer): boolean {
  return performance.now() - keptAt > LIFETIME;
}

/** Returns `undefined` if the record is not plain data, or is nested too deeply. */
function copyOf({ read, look, ...known }: RecentRead): RecentRead | undefined {
  try {
    const record = copyOfPlain(read.record) as typeof read.record;
    return { read: { ...read, record }, look: look && { ...look, record }, ...known };
  } catch {
    return undefined;
  }
}

function copyOfPlain(value: unknown): unknown {
  if (isPrimitive(value)) return value;
  if (typeof value !== "object" || value === null) throw new TypeError("not plain");
  if (Array.isArray(value)) return value.map(copyOfPlain);
  if (value instanceof Date) return new Date(value);
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) throw new TypeError("not plain");
  // Each answer is copied, so speed matters: a spread is much faster than copying each property.
  const copy: Record<string, unknown> = { ...value };
  for (const key of Object.keys(copy)) {
    const each = copy[key];
    if (!isPrimitive(each)) copy[key] = copyOfPlain(each);
  }
  return copy;
}

function isPrimitive(value: unknown): boolean {
  const type = typeof value;
  return value === null || (type !== "object" && type !== "function" && type !== "symbol");
}

/** Maps the error of a read to a failure, which decides about retries. docs/how-it-works.md has a table of failures. */
export function fetchFailure(error: unknown): WorkFailure {
  if (error instanceof APIError) return answerFailure(error);
  if (error instanceof ResponseValidationError) return { reason: "invalid-record", error };
  const isLateToken = error instanceof ConnectionTimeoutError && error.cause instanceof AccessTokenError;
  if (isLateToken || error instanceof AccessTokenError) return outOfReach(error, { everything: true });
  if (error instanceof ConnectionError) return outOfReach(error, { everything: false });
  // The code cannot be part of a URL, so that the platform was not asked.
  if (error instanceof InvalidArgumentError)
    return { reason: "denied", error, refused: true, answered: false };
  // The user's own schema or `fetch` threw.
  return { reason: "callback", error };
}

function answerFailure(error: APIError): WorkFailure {
  const { status } = error;
  const retryAfter = retryAfterMs(error.headers);
  // A 2xx whose body reports a failure is an answer about this record, not an outage.
  const isAnswer = (status >= 200 && status <= 299) || (status >= 400 && status <= 499 && status !== 401);
  // Some platforms tell a rate limit as 403, or as an error in a 200. Only a wait that they ask for shows it.
  const isLimit = status === 429 || (isAnswer && status !== 408 && retryAfter !== undefined);
  if (isLimit) return outOfReach(error, { everything: true, limited: true, retryAfter });
  if (error instanceof NotFoundError) return refused("not-found", error);
  if (isAnswer && status !== 408) return refused("denied", error);
  return outOfReach(error, { everything: status === 401, retryAfter });
}

function refused(reason: "not-found" | "denied", error: unknown): WorkFailure {
  return { reason, error, refused: true };
}

function outOfReach(error: unknown, outage: WorkFailure["outage"]): WorkFailure {
  return { reason: "unavailable", error, outage };
}
