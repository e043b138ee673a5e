import type { Booking } from "../../models/booking.ts";
import type { Listing } from "../../models/listing.ts";
import type { ClaimedEvent } from "../../stores/event-store.ts";

/** How long an answer may be used, ms. */
const LIFETIME = 10_000;
/** How many answers are kept. */
const MOST = 1000;

interface Answer {
  /** Has no reference to what a callback was given. */
  readonly record: Booking | Listing;
  /** When the event was claimed for which the record was read, by the store's clock. */
  readonly claimedAt: number;
  /** By `performance.now()`. */
  readonly keptAt: number;
}

/**
 * Keeps what the platform last answered about each record, so that one read serves all events that waited for it. A
 * read that began after an event was recorded is fresh enough for the event.
 */
export class RecentAnswers {
  // In the order in which they were kept.
  readonly #answers = new Map<string, Answer>();

  /** A copy of the record, where an answer is fresh enough for this attempt. */
  find({ ref, ...claim }: ClaimedEvent): Booking | Listing | undefined {
    const answer = ref === null ? undefined : this.#answers.get(ref);
    if (!answer) return undefined;
    const isFirst = claim.attempts === 1 && claim.outages === 0;
    if (claim.source !== "webhook" || claim.replayed || !isFirst) return undefined;
    // The second comparison fails where the store's clock was set back.
    const isFresh = claim.receivedAt < answer.claimedAt && claim.claimedAt >= answer.claimedAt;
    return isFresh && !isOver(answer) ? copyOf(answer.record) : undefined;
  }

  /** Takes an answer. Keeps none of a model that makes other things than plain data: a copy of it would differ. */
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

/** `undefined` for anything but plain data. */
function copyOf<T extends object>(record: T): T | undefined {
  try {
    return copyOfPlain(record) as T;
  } catch {
    // Not plain, or too deep.
    return undefined;
  }
}

function copyOfPlain(value: unknown): unknown {
  if (typeof value === "function" || typeof value === "symbol") throw new TypeError("not plain");
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(copyOfPlain);
  if (value instanceof Date) return new Date(value);
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) throw new TypeError("not plain");
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, copyOfPlain(each)]));
}
