import { Alarm, MAX_TIMER } from "../async.ts";
import type { AttemptResult, QueueOptions } from "./work.ts";
import type { Workers } from "./workers.ts";

/** How often the loop polls a store that cannot notify, ms. */
const POLL = 1000;
/** How long to wait if the store reports a due event but the claim gets no event, ms. */
const NOTHING_AFTER_ALL = 25;
/** The waits after the first, the second and each later failure of the store in a row, ms. */
const STORE_FAILED = [200, 1000, 5000] as const;

const NOW = Number.NEGATIVE_INFINITY;

/** Claims events as they become due, and starts their attempts. Does not keep the process alive. */
export class Loop<Tx> {
  readonly #options: QueueOptions<Tx>;
  readonly #workers: Workers<Tx>;
  readonly #alarm = new Alarm(() => void this.#run());
  #started = false;
  #running = false;
  /** When the next event is due, on the monotonic clock. If it is `unknown`, the loop calls `nextDue`. */
  #dueAt: number | "unknown" = NOW;
  /** After a failure, the loop calls the store again at this time on the monotonic clock. */
  #storeAt = NOW;
  #storeFailures = 0;
  /** Whether the last claim got no event. */
  #empty = false;
  #endings: (() => void)[] = [];

  constructor(options: QueueOptions<Tx>, workers: Workers<Tx>) {
    this.#options = options;
    this.#workers = workers;
  }

  get started(): boolean {
    return this.#started;
  }

  start(): void {
    if (this.#started) return;
    this.#started = true;
    this.#endings = [this.#workers.listen({ ended: () => this.wake(), freed: () => this.reconsider() })];
    const unsubscribe = this.#options.store.subscribe?.(() => this.wake());
    if (unsubscribe) this.#endings.push(unsubscribe);
    this.wake();
  }

  stop(): void {
    this.#started = false;
    this.#alarm.clear();
    for (const end of this.#endings.splice(0)) end();
  }

  /** Makes the loop look for due events now. */
  wake(): void {
    this.#dueAt = NOW;
    this.reconsider();
  }

  /** Makes the loop check again whether attempts may begin. */
  reconsider(): void {
    void this.#run();
  }

  /** Claims due events while there is room. Returns at once if another call runs: that call reads the new state. */
  async #run(): Promise<void> {
    if (this.#running || !this.#started) return;
    this.#running = true;
    this.#alarm.clear();
    while (this.#started) {
      const decision = this.#decide();
      if (decision.do === "sleep") {
        if (decision.ms !== undefined) this.#alarm.set(decision.ms);
        break;
      }
      try {
        await (decision.do === "claim" ? this.#claim(decision.limit) : this.#ask());
      } catch (error) {
        this.#storeFailed(error);
      }
    }
    this.#running = false;
  }

  /** Reads the clock only once. With two readings that contradict each other, the loop could sleep forever. */
  #decide(): Decision {
    const now = performance.now();
    if (this.#storeAt > now) return { do: "sleep", ms: this.#storeAt - now };
    if (this.#dueAt === "unknown") return { do: "ask" };
    if (this.#dueAt > now) {
      const isKnown = this.#dueAt !== Number.POSITIVE_INFINITY;
      return { do: "sleep", ms: isKnown ? this.#dueAt - now : undefined };
    }
    const { limit, wait } = this.#workers.roomAt(now);
    return limit > 0 ? { do: "claim", limit } : { do: "sleep", ms: wait };
  }

  async #claim(limit: number): Promise<void> {
    // If an event becomes due during the claim, `wake` sets `#dueAt` to `NOW` again.
    this.#dueAt = "unknown";
    const claims = await this.#workers.claim({ limit });
    for (const claim of claims) void this.#workers.start(claim);
    this.#empty = claims.length === 0;
    if (claims.length >= limit) this.#dueAt = NOW;
  }

  async #ask(): Promise<void> {
    const next = (await this.#options.store.nextDue()) ?? Number.POSITIVE_INFINITY;
    this.#storeFailures = 0;
    if (this.#dueAt !== "unknown") return;
    const wait = Math.max(next, this.#empty ? NOTHING_AFTER_ALL : 0);
    this.#dueAt = performance.now() + (this.#options.store.subscribe ? wait : Math.min(wait, POLL));
  }

  /** Delays the next call to the store. New events do not shorten the delay, because the store may be overloaded. */
  #storeFailed(error: unknown): void {
    const wait = STORE_FAILED[this.#storeFailures] ?? STORE_FAILED[2];
    this.#storeFailures += 1;
    this.#storeAt = performance.now() + wait;
    this.#dueAt = NOW;
    if (this.#started) this.#options.logger.error(`the store failed. Trying again in ${wait} ms`, { error });
  }
}

type Decision =
  | { readonly do: "claim"; readonly limit: number }
  /** Ask the store when the next event is due. */
  | { readonly do: "ask" }
  /** `ms` is `undefined` if no timer is needed: a new event, an ended attempt or a free slot wakes the loop. */
  | { readonly do: "sleep"; readonly ms: number | undefined };

/** A drain without a timeout ends when the platform has refused every record for this long, ms. */
const ONLY_REFUSED = 60_000;

/** Limits of a drain. */
export interface DrainOptions {
  /**
   * The time limit, ms. At the limit, the drain aborts the running attempts and starts no new attempt. Default: no
   * limit.
   */
  readonly timeout?: number | undefined;
  /** When the signal aborts, the drain aborts the running attempts and starts no new attempt. */
  readonly signal?: AbortSignal | undefined;
}

/** How many events a drain handled. The counts include events that the process was already working on. */
export interface DrainResult {
  /** Events that are done. */
  readonly done: number;
  /** Events that failed, and are retrying or parked now. */
  readonly failed: number;
}

/** Makes one attempt at each event that is due, and waits for the attempts that already run. */
export async function drain<Tx>(workers: Workers<Tx>, stop: Stop): Promise<DrainResult> {
  const { breaker, refusals } = workers;
  const tally = new DrainTally(workers.running);
  const forget = workers.listen(tally);
  const startedAt = performance.now();
  const giveBack: (() => Promise<void>)[] = [];
  try {
    while (!stop.asked) {
      const now = performance.now();
      const { endings } = tally;
      const { limit, wait } = workers.roomAt(now);
      const onlyRefused = refusals.limiting && now - Math.max(startedAt, refusals.since) >= ONLY_REFUSED;
      const hopeless = onlyRefused && !stop.timed;
      const claims = limit > 0 && !hopeless ? await workers.claim({ limit }) : [];
      for (const claim of claims) {
        // An event that failed in this drain may be due again. Hold its claim, so the next claim gets other events.
        if (stop.asked || tally.knows(claim.event.eventId)) giveBack.push(workers.hold(claim));
        else void workers.start(claim);
      }
      // If an attempt ended during the claim, the next event of its record may be due now.
      if (claims.length > 0 || tally.endings !== endings) continue;
      const paused = breaker.pause !== undefined;
      if (tally.open === 0 && (limit > 0 || paused || hopeless)) {
        // The loop may be claiming the last due events at this moment. Wait for that claim, and then for its attempts.
        if (await Promise.race([workers.claimedByOthers(), stop.requested])) continue;
        break;
      }
      const within = limit > 0 || paused || hopeless ? undefined : wait;
      await workers.nextChange({ noSlot: limit <= 0, within, or: [stop.requested] });
    }
    if (stop.asked) await workers.release((eventId) => tally.isOpen(eventId));
    return tally.result;
  } finally {
    forget();
    await Promise.all(giveBack.map((give) => give()));
  }
}

/** Counts the attempts of a drain and their results. */
class DrainTally {
  readonly #known: Set<string>;
  readonly #open: Set<string>;
  endings = 0;
  #done = 0;
  #failed = 0;

  constructor(running: readonly string[]) {
    this.#known = new Set(running);
    this.#open = new Set(running);
  }

  started(eventId: string): void {
    if (this.#known.has(eventId)) return;
    this.#known.add(eventId);
    this.#open.add(eventId);
  }

  ended(eventId: string, end: AttemptResult["outcome"]): void {
    this.endings += 1;
    if (!this.#open.delete(eventId)) return;
    if (end === "done") this.#done += 1;
    else if (end === "retrying" || end === "parked") this.#failed += 1;
  }

  knows(eventId: string): boolean {
    return this.#known.has(eventId);
  }

  isOpen(eventId: string): boolean {
    return this.#open.has(eventId);
  }

  get open(): number {
    return this.#open.size;
  }

  get result(): DrainResult {
    return { done: this.#done, failed: this.#failed };
  }
}

/** Combines the timeout and the signal of a drain. */
export class Stop {
  asked = false;
  /** Whether there is a timeout. */
  readonly timed: boolean;
  readonly requested: Promise<void>;
  readonly #signal: AbortSignal | undefined;
  readonly #timer: ReturnType<typeof setTimeout> | undefined;
  #ask: () => void = () => {};

  constructor({ timeout, signal }: DrainOptions) {
    this.requested = new Promise((resolve) => {
      this.#ask = () => {
        this.asked = true;
        resolve();
      };
    });
    this.#signal = signal;
    signal?.addEventListener("abort", this.#ask);
    if (signal?.aborted) this.#ask();
    this.timed = timeout !== undefined;
    if (timeout !== undefined) this.#timer = setTimeout(this.#ask, Math.min(timeout, MAX_TIMER));
  }

  clear(): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener("abort", this.#ask);
  }
}
