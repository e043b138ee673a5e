// Limits the reads of a lane in a flood of notifications for records that do not exist. The queue does not pause then,
// because forged events must not stop genuine ones.

import type { Log } from "../logger.ts";
import { type Lane, laneKey } from "./work.ts";

/** Reads are limited while a lane has so many refused records more than answers. */
const ENOUGH = 10;
/** The most refusals that count. Each answer takes one back, so that a stranger's one known code does not lift the limit. */
const MOST = 20;
/** How many reads begin each second, and how many at once. Together they are 40, so no second has more. */
const [RATE, BURST] = [38, 2];
/** The lowest rate after answers with 429, reads a second. */
const LEAST_RATE = 1;
/** How much a rate that was halved rises each second, reads a second. */
const RISE = 0.25;

/** Whose turn the next read is. Records that were read before have every second one. */
export type Turn = "known" | "newest" | "first";
const TURNS: readonly Turn[] = ["known", "newest", "known", "first"];

/** The limit of one lane. */
class Flood {
  readonly lane: Lane;
  /** The records that were refused. Holds at most {@link MOST}. */
  readonly refused = new Set<string>();
  #inRow = 0;
  /** When the first refusal since the last answer came, on the monotonic clock. */
  since = 0;
  turn = 0;
  #reads = 0;
  #at = 0;
  #rate = RATE;

  constructor(lane: Lane) {
    this.lane = lane;
  }

  get isLimited(): boolean {
    return this.refused.size >= ENOUGH;
  }

  /** @returns how many refusals came in a row */
  refuse(record: string, now: number): number {
    if (this.#inRow === 0) this.since = now;
    this.#inRow += 1;
    if (this.refused.size < MOST) this.refused.add(record);
    return this.#inRow;
  }

  takeBack(): void {
    const [oldest] = this.refused;
    if (oldest !== undefined) this.refused.delete(oldest);
    this.#inRow = 0;
    this.since = Number.POSITIVE_INFINITY;
  }

  begin(now: number): void {
    // The reads that began just before the limit fall into the same second.
    [this.#reads, this.#at, this.#rate] = [-ENOUGH, now, RATE];
  }

  /** Halves the rate. */
  slowDown(now: number): void {
    this.take(0, now);
    this.#rate = Math.max(LEAST_RATE, this.#rate / 2);
    this.#reads = Math.min(0, this.#reads);
  }

  take(reads: number, now: number): void {
    this.#reads = this.readsAt(now) - reads;
    this.#rate = Math.min(RATE, this.#rate + ((now - this.#at) * RISE) / 1000);
    this.#at = now;
  }

  readsAt(now: number): number {
    return Math.min(BURST, this.#reads + ((now - this.#at) * this.#rate) / 1000);
  }

  /** Returns ms until the next read may begin. */
  waitAt(now: number): number {
    return Math.max(0, Math.ceil(((1 - this.readsAt(now)) * 1000) / this.#rate));
  }
}

/** The limits of all lanes. Only lanes with refusals take memory. */
export class Floods {
  readonly #log: Log;
  readonly #floods = new Map<string, Flood>();
  /** Grows when a limit begins or ends. */
  version = 0;

  constructor(log: Log) {
    this.#log = log;
  }

  /** The lanes whose reads are limited. */
  get limited(): readonly Lane[] {
    if (this.#floods.size === 0) return [];
    return [...this.#floods.values()].filter(({ isLimited }) => isLimited).map(({ lane }) => lane);
  }

  isLimited(lane: Lane): boolean {
    return this.#floods.get(laneKey(lane))?.isLimited === true;
  }

  /** Since when every read of some lane was refused, on the monotonic clock. `undefined` if no lane is limited. */
  get since(): number | undefined {
    const limited = [...this.#floods.values()].filter(({ isLimited }) => isLimited);
    return limited.length > 0 ? Math.max(...limited.map(({ since }) => since)) : undefined;
  }

  /** Takes back one refusal. */
  answered(lane: Lane): void {
    const flood = this.#floods.get(laneKey(lane));
    if (flood === undefined) return;
    const { isLimited } = flood;
    flood.takeBack();
    if (flood.refused.size === 0) this.#floods.delete(laneKey(lane));
    if (isLimited && !flood.isLimited) this.version += 1;
  }

  /** Notes that the platform refused, or did not find, a record that was never read. */
  refused(lane: Lane, record: string, error: unknown, now = performance.now()): void {
    // An event without a record reads nothing.
    if (lane.kind === undefined) return;
    const flood = this.#floods.get(laneKey(lane)) ?? new Flood(lane);
    this.#floods.set(laneKey(lane), flood);
    const { isLimited } = flood;
    const inRow = flood.refuse(record, now);
    if (!flood.isLimited) return;
    if (!isLimited) {
      flood.begin(now);
      this.version += 1;
    }
    const { account, kind } = lane;
    const whose = account === undefined ? "" : ` of account ${account}`;
    this.#log.limited(
      "refused",
      "warn",
      `the platform refused or did not find ${inRow} ${kind}${whose} in a row. Until enough reads succeed, the handler reads at most 40 of them a second. Check the base URL and the token. If strangers send notifications, set the option \`verify\``,
      { error, ...(account !== undefined && { account }) },
    );
  }

  /** Halves the rate of limited lanes of an account, because the platform answered 429. */
  slowDown(account: string | undefined, now = performance.now()): void {
    for (const flood of this.#floods.values())
      if (flood.isLimited && flood.lane.account === account) flood.slowDown(now);
  }

  /** Takes a read of a limited lane. @returns whose turn it is; `undefined` if no read may begin now */
  take(lane: Lane, now: number): Turn | undefined {
    const flood = this.#floods.get(laneKey(lane));
    if (!flood?.isLimited || flood.readsAt(now) < 1) return undefined;
    flood.take(1, now);
    flood.turn += 1;
    return TURNS[flood.turn % TURNS.length]!;
  }

  /** Takes back a read that did not begin. */
  giveBack(lane: Lane, now = performance.now()): void {
    this.#floods.get(laneKey(lane))?.take(-1, now);
  }

  /** Returns ms until a read of a limited lane may begin. */
  waitAt(lane: Lane, now: number): number {
    const flood = this.#floods.get(laneKey(lane));
    return flood?.isLimited ? flood.waitAt(now) : 0;
  }
}
