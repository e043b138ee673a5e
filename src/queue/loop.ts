import { Alarm } from "../async.ts";
import type { QueueOptions } from "./policy.ts";
import type { Room, Workers } from "./workers.ts";

/** How often a store is asked that cannot notify, ms. */
const POLL = 1000;
/** The wait before a store is asked again that says "due now" and gives nothing, ms. */
const NOTHING_AFTER_ALL = 25;
/** Waits after failures of the store in a row, ms. */
const STORE_FAILED = [200, 1000, 5000] as const;

const NOW = Number.NEGATIVE_INFINITY;

/** Starts events as they become due, until it is stopped. It sleeps in between and does not keep the process alive. */
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
  /** The last claim gave nothing. */
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

  /** Something may be due. */
  wake(): void {
    this.#dueAt = NOW;
    this.reconsider();
  }

  /** There may be room for attempts that are due. */
  reconsider(): void {
    void this.#run();
  }

  /** Acts until it may sleep. A call while it acts needs nothing: each step reads the state anew. */
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
    // A wake during the claim sets it again.
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

  /** New events must not hammer a store that fails, so only the alarm goes on. */
  #storeFailed(error: unknown): void {
    const wait = STORE_FAILED[this.#storeFailures] ?? STORE_FAILED[2];
    this.#storeFailures += 1;
    this.#storeAt = performance.now() + wait;
    this.#dueAt = NOW;
    if (this.#started) this.#options.logger.error(`the store failed; trying again in ${wait} ms`, { error });
  }
}

/** All that the loop's next step depends on, read at one moment. Two readings may contradict each other: the loop once slept for ever over that. */
export interface LoopState {
  readonly room: Room;
  /** ms until the store may be asked again after a failure. */
  readonly storeWait: number;
  /** ms until something is due. `unknown`: the store has to be asked. Infinity: nothing waits. */
  readonly dueIn: number | "unknown";
}

export type Decision =
  | { readonly do: "claim"; readonly limit: number }
  /** Ask the store when the next event is due. */
  | { readonly do: "ask" }
  /** `ms` undefined: a notification, or the end of an attempt or of a claim, wakes the loop. */
  | { readonly do: "sleep"; readonly ms: number | undefined };

export function decide({ room, storeWait, dueIn }: LoopState): Decision {
  if (storeWait > 0) return { do: "sleep", ms: storeWait };
  if (dueIn === "unknown") return { do: "ask" };
  if (dueIn > 0) return { do: "sleep", ms: dueIn === Number.POSITIVE_INFINITY ? undefined : dueIn };
  return room.limit > 0 ? { do: "claim", limit: room.limit } : { do: "sleep", ms: room.wait };
}
