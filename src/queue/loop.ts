import { Alarm } from "../async.ts";
import type { QueueOptions } from "./policy.ts";
import type { Room, Workers } from "./workers.ts";

/** How often the loop asks a store that cannot notify, ms. */
const POLL = 1000;
/** How long to wait if the store says "due now" but the claim gets nothing, ms. */
const NOTHING_AFTER_ALL = 25;
/** How long to wait after each failure of the store in a row, ms. */
const STORE_FAILED = [200, 1000, 5000] as const;

const NOW = Number.NEGATIVE_INFINITY;

/** Starts events as they become due. Sleeps in between, and does not keep the process alive. */
export class Loop<Tx> {
  readonly #options: QueueOptions<Tx>;
  readonly #workers: Workers<Tx>;
  readonly #alarm = new Alarm(() => void this.#run());
  #started = false;
  #running = false;
  /** When something is due, on the monotonic clock. */
  #dueAt: number | "unknown" = NOW;
  /** When the store may be asked again, on the monotonic clock. */
  #storeAt = NOW;
  #storeFailures = 0;
  /** The last claim got no event. */
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

  /** Looks again for due events. */
  wake(): void {
    this.#dueAt = NOW;
    this.reconsider();
  }

  /** Looks again for room to begin attempts. */
  reconsider(): void {
    void this.#run();
  }

  /** Claims and asks until nothing is left to do. A call meanwhile returns at once, because each step reads the state anew. */
  async #run(): Promise<void> {
    if (this.#running || !this.#started) return;
    this.#running = true;
    this.#alarm.clear();
    while (this.#started) {
      const decision = decide(this.#state());
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

  #state(): LoopState {
    const now = performance.now();
    return {
      room: this.#workers.roomAt(now),
      storeWait: this.#storeAt - now,
      dueIn: this.#dueAt === "unknown" ? "unknown" : this.#dueAt - now,
    };
  }

  async #claim(limit: number): Promise<void> {
    // `wake` sets it again if something becomes due during the claim.
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

  /** Waits before the store is asked again. New events do not cut the wait short: they would overload the store. */
  #storeFailed(error: unknown): void {
    const wait = STORE_FAILED[this.#storeFailures] ?? STORE_FAILED[2];
    this.#storeFailures += 1;
    this.#storeAt = performance.now() + wait;
    this.#dueAt = NOW;
    if (this.#started) this.#options.logger.error(`the store failed. Trying again in ${wait} ms`, { error });
  }
}

/** Everything that the next step of the loop depends on, read at one moment. Two readings could contradict each other, and the loop would sleep forever. */
export interface LoopState {
  readonly room: Room;
  /** ms until the store may be asked again after a failure. */
  readonly storeWait: number;
  /** ms until an event is due. `unknown`: ask the store. Infinity: no event waits. */
  readonly dueIn: number | "unknown";
}

export type Decision =
  | { readonly do: "claim"; readonly limit: number }
  /** Ask the store when the next event is due. */
  | { readonly do: "ask" }
  /** `ms` is undefined if only a notification, or the end of an attempt or a claim, can wake the loop. */
  | { readonly do: "sleep"; readonly ms: number | undefined };

export function decide({ room, storeWait, dueIn }: LoopState): Decision {
  if (storeWait > 0) return { do: "sleep", ms: storeWait };
  if (dueIn === "unknown") return { do: "ask" };
  if (dueIn > 0) return { do: "sleep", ms: dueIn === Number.POSITIVE_INFINITY ? undefined : dueIn };
  return room.limit > 0 ? { do: "claim", limit: room.limit } : { do: "sleep", ms: room.wait };
}
