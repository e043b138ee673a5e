import type { Booking, Listing } from "../../models/records.ts";
import type { ClaimedEvent } from "../../stores/event-store.ts";

/** How long an answer may be used, ms. */
const LIFETIME = 10_000;
/** How many answers are kept. */
const MOST = 1000;

interface Answer {
  /** A copy: a callback may change its own object. */
  readonly record: Booking | Listing;
  /** When the event that caused the read was claimed, by the store's clock. */
  readonly claimedAt: number;
  /** By `performance.now()`. */
  readonly keptAt: number;
}

/**
 * Keeps the platform's last answer for each record, so that one read serves all events that waited for it. An answer is
 * fresh enough for an event if its read began after the event was recorded.
 */
export class RecentAnswers {
  // The oldest answer is the first.
  readonly #answers = new Map<string, Answer>();

  /** Returns a copy of the record if an answer is fresh enough for this attempt. */
  find(claim: ClaimedEvent): Booking | Listing | undefined {
    const answer = claim.ref === null ? undefined : this.#answers.get(claim.ref);
    if (!answer) return undefined;
    const isFirst = claim.attempts === 1 && claim.outages === 0;
    if (claim.source !== "webhook" || claim.replayed || !isFirst) return undefined;
    // The second comparison is false if the store's clock was set back.
    const isFresh = claim.receivedAt < answer.claimedAt && claim.claimedAt >= answer.claimedAt;
    return isFresh && !isOver(answer) ? copyOf(answer.record) : undefined;
  }

  /** Keeps an answer, unless the user's model makes other values than plain data: a copy of them would differ. */
  keep({ ref, claimedAt }: ClaimedEvent, record: Booking | Listing): void {
    if (ref === null) return;
    this.#answers.delete(ref);
    for (const [oldest, answer] of this.#answers) {
      if (this.#answers.size < MOST && !isOver(answer)) break;
      this.#answers.delete(oldest);
    }
    const copy = copyOf(record);
    if (copy) this.#answers.set(ref, { record: copy, claimedAt, keptAt: performance.now() });
  }

  drop(ref: string | null): void {
    if (ref !== null) this.#answers.delete(ref);
  }
}

function isOver({ keptAt }: Answer): boolean {
  return performance.now() - keptAt > LIFETIME;
}

/** `undefined` if the record is not plain data. */
function copyOf<T extends object>(record: T): T | undefined {
  try {
    return copyOfPlain(record) as T;
  } catch {
    // Not plain, or nested too deeply.
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
  // The spread is much faster than a copy of property after property, and each answer is copied.
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
