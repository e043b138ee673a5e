import { idleTimer } from "../async.ts";
import type { Parts } from "./parts.ts";

/** How often the loop polls a store that cannot notify, ms. */
const POLL = 1000;
/** The longest wait for an event that is due later, ms. The wall clock may jump ahead meanwhile, as after a suspend. */
const LONGEST_SLEEP = 30_000;
/** The shortest wait after a claim that got no event, although the store reports a due event, ms. */
const NOTHING_AFTER_ALL = 25;
/** The waits after the first, the second and each later failure of the store in a row, ms. */
const STORE_FAILED = [200, 1000, 5000] as const;

/** How early a timer of the runtime may ring, ms. */
const EARLY = 5;

const NOW = Number.NEGATIVE_INFINITY;
const NEVER = Number.POSITIVE_INFINITY;

/** Claims due events while there is room, and sleeps until the next event is due. */
export class Loop<Tx> {
  readonly #queue: Parts<Tx>;
  #started = false;
  readonly #stopped = Promise.withResolvers<void>();
  /** When the loop claims next, on the monotonic clock. */
  #dueAt = NOW;
  /** The version of the room at the last claim. If it differs now, other events may be claimed than then. */
  #version = 0;
  #failure: unknown;

  constructor(queue: Parts<Tx>) {
    this.#queue = queue;
  }

  get started(): boolean {
    return this.#started;
  }

  /** The error of the store that keeps the loop from claiming. It is `undefined` if the latest claim was answered. */
  get failure(): unknown {
    return this.#started ? this.#failure : undefined;
  }

  start(): void {
    this.#started = true;
    void this.#run();
  }

  stop(): void {
    this.#started = false;
    this.#stopped.resolve();
  }

  /** Makes the loop claim again. */
  wake(): void {
    this.#dueAt = NOW;
    this.#queue.changes.tell();
  }

  async #run(): Promise<void> {
    let failures = 0;
    while (this.#started) {
      const { next } = this.#queue.changes;
      try {
        const rang = await sleep(await this.#claimDue(), next);
        // The fake timers of node:test move timers and dates, and leave the monotonic clock.
        if (rang && this.#dueAt > performance.now() + EARLY) this.#dueAt = NOW;
        failures = 0;
      } catch (error) {
        if (!this.#started) return;
        this.#failure = error;
        const wait = STORE_FAILED[failures] ?? STORE_FAILED[2];
        failures += 1;
        this.#queue.logger.error(`the store failed. Trying again in ${wait} ms`, { error });
        // New events do not shorten this wait, because the store may be overloaded.
        await sleep(wait, this.#stopped.promise);
        this.#dueAt = NOW;
      }
    }
  }

  /**
   * Claims due events once. Reads the clock only once before it decides: with two readings that contradict each other,
   * the loop could sleep forever.
   *
   * @returns ms until the loop must look again. It is `undefined` if only a change needs another look
   */
  async #claimDue(): Promise<number | undefined> {
    const { claims } = this.#queue;
    const now = performance.now();
    const { limit, ahead, wait, version } = claims.roomAt(now);
    if (version !== this.#version) this.#dueAt = NOW;
    if (this.#dueAt > now) return this.#dueAt - now;
    if (limit + ahead === 0) return wait;
    this.#version = version;
    await this.#ask(limit, ahead);
    this.#failure = undefined;
    return 0;
  }

  /** Claims due events, and sets when the loop must claim next. */
  async #ask(limit: number, ahead: number): Promise<void> {
    const { claims } = this.#queue;
    // An event that becomes due during the calls sets `#dueAt` to `NOW` again.
    this.#dueAt = NEVER;
    const { claimed, next } = await claims.fill({ limit, ahead });
    if (claimed >= limit + ahead) this.#dueAt = NOW;
    if (this.#dueAt === NOW) return;
    const dueIn = (next === undefined ? await claims.nextDue() : next.in) ?? NEVER;
    if (this.#dueAt === NOW) return;
    const wait = Math.max(dueIn, claimed === 0 ? NOTHING_AFTER_ALL : 0);
    const longest = this.#queue.store.subscribe ? LONGEST_SLEEP : POLL;
    // If no event waits, the store calls its subscriber.
    if (wait !== NEVER || longest === POLL) this.#dueAt = performance.now() + Math.min(wait, longest);
  }
}

/**
 * Resolves after `ms`, or earlier when `changed` resolves. Does not keep the process alive.
 *
 * @returns whether the time is over
 */
async function sleep(ms: number | undefined, changed: Promise<void>): Promise<boolean> {
  if (ms === 0) return false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const over = new Promise<true>((resolve) => {
    if (ms !== undefined) timer = idleTimer(() => resolve(true), ms);
  });
  const rang = await Promise.race([over, changed]);
  clearTimeout(timer);
  return rang === true;
}
