// Limits the reads of lanes in a flood of notifications for records that do not exist. The queue does not pause then,
// because forged events must not stop genuine ones.
//
// 1. A lane is in a flood while, within the last five minutes, ten more records that were never read were refused for the
//    first time than answers came. Their refusals then count as nothing.
// 2. While ten more of them were refused, for the first time or again, than answers came, at most 80 reads of the lane begin in
//    any second. Each 429 halves the rate, which rises again slowly.
// 3. Every second read is one of a record that was read before. The others are in turn the newest event and the one that is
//    due first.

import {
  afterAnswer,
  afterRateLimit,
  afterReads,
  afterRefusal,
  afterTime,
  afterTurn,
  type Flood,
  isInFlood,
  isLimited,
  newFlood,
  type Turn,
  turnOf,
  waitOf,
} from "./flood.ts";
import { type Lane, laneKey } from "./work.ts";

/** Called when a record of a lane in a flood was refused. `inRow` is the number of refusals since the last answer. */
export type OnFlood = (lane: Lane, inRow: number, error: unknown) => void;

/** The floods of all lanes: gives each fact to the flood that it concerns. Only lanes with refusals take memory. */
export class Floods {
  readonly #onFlood: OnFlood;
  readonly #floods = new Map<string, Flood>();
  /** Grows when a limit begins or ends. */
  version = 0;

  constructor(onFlood: OnFlood) {
    this.#onFlood = onFlood;
  }

  /** The lanes whose reads are limited. */
  get limited(): readonly Lane[] {
    return this.#limited.map(({ lane }) => lane);
  }

  get #limited(): Flood[] {
    return this.#floods.size === 0 ? [] : [...this.#floods.values()].filter(isLimited);
  }

  isLimited(lane: Lane): boolean {
    const flood = this.#of(lane);
    return flood !== undefined && isLimited(flood);
  }

  /** Whether refusals of records that were never read count as nothing in this lane. */
  isInFlood(lane: Lane): boolean {
    const flood = this.#of(lane);
    return flood !== undefined && isInFlood(flood);
  }

  /** Since when every read of some lane was refused, on the monotonic clock. `undefined` if no lane is limited. */
  get since(): number | undefined {
    const limited = this.#limited;
    return limited.length > 0 ? Math.max(...limited.map(({ since }) => since)) : undefined;
  }

  /** Takes back one refusal. */
  answered(lane: Lane): void {
    const flood = this.#of(lane);
    if (flood) this.#keep(afterAnswer(flood));
  }

  /** Ends the limits whose refusals are too long ago. */
  expire(now = performance.now()): void {
    for (const flood of this.#floods.values()) this.#keep(afterTime(flood, now));
  }

  /**
   * Notes that the platform refused, or did not find, a record that was never read.
   *
   * @param isFirst - whether it is the first refusal of the event
   */
  refused(
    lane: Lane,
    record: string,
    { error, isFirst, now = performance.now() }: { error: unknown; isFirst: boolean; now?: number },
  ): void {
    // An event without a record reads nothing.
    if (lane.kind === undefined) return;
    const flood = afterRefusal(this.#of(lane) ?? newFlood(lane), record, isFirst, now);
    this.#keep(flood);
    if (isLimited(flood)) this.#onFlood(lane, flood.inRow, error);
  }

  /** Halves the rate of limited lanes of an account, because the platform answered 429. */
  slowDown(account: string | undefined, now = performance.now()): void {
    for (const flood of this.#limited)
      if (flood.lane.account === account) this.#keep(afterRateLimit(flood, now));
  }

  /** Takes a read of a limited lane. @returns whose turn it is; `undefined` if no read may begin now */
  take(lane: Lane, now: number): Turn | undefined {
    const flood = this.#of(lane);
    if (flood === undefined || !isLimited(flood) || waitOf(flood, now) > 0) return undefined;
    const next = afterTurn(flood, now);
    this.#keep(next);
    return turnOf(next);
  }

  /** Takes back a read that did not begin. */
  giveBack(lane: Lane, now = performance.now()): void {
    const flood = this.#of(lane);
    if (flood) this.#keep(afterReads(flood, -1, now));
  }

  /** Returns ms until a read of a limited lane may begin. */
  waitAt(lane: Lane, now: number): number {
    const flood = this.#of(lane);
    return flood && isLimited(flood) ? waitOf(flood, now) : 0;
  }

  #of(lane: Lane): Flood | undefined {
    return this.#floods.size === 0 ? undefined : this.#floods.get(laneKey(lane));
  }

  #keep(flood: Flood): void {
    const key = laneKey(flood.lane);
    const before = this.#floods.get(key);
    if (flood.refused.length === 0) this.#floods.delete(key);
    else this.#floods.set(key, flood);
    if ((before !== undefined && isLimited(before)) !== isLimited(flood)) this.version += 1;
  }
}
