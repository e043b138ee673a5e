// Gives back claims that get no attempt, and makes events due again that were put back.

import { pause, withTimeout } from "../async.ts";
import type { ClaimedEvent } from "../stores/stored-event.ts";
import { GIVE_BACK } from "./running-attempts.ts";
import type { QueueOptions } from "./work.ts";

/** How many events to claim besides at most, when many are put back. A store writes as many in one statement. */
const MOST = 200;
/** How long to wait after a release that failed, and the shortest time between two calls of `releaseOnce`, ms. */
const RELEASE_AGAIN = 10_000;
/** How often a release is tried. */
const RELEASES = 30;

/** The claims that a process gives back: at once, or to be due later. Their number says how many more events to claim. */
export class PutBacks<Tx> {
  readonly #queue: QueueOptions<Tx>;
  readonly #onWritten: () => void;
  /** The writes in flight. These promises never reject. */
  readonly #writes = new Set<Promise<void>>();
  /** How many events were put back of the last claim. */
  #last = 0;
  /** The accounts whose events were made due, and when, on the monotonic clock. */
  readonly #released = new Map<string | undefined, number>();
  readonly #closing = new AbortController();

  /** @param onWritten - called when events were put back or made due, because one may be due earlier than known */
  constructor(queue: QueueOptions<Tx>, onWritten: () => void) {
    this.#queue = queue;
    this.#onWritten = onWritten;
  }

  get busy(): boolean {
    return this.#writes.size > 0;
  }

  /**
   * How many events to claim besides those that get an attempt. Twice as many as were put back of the last claim: a long
   * row of events that cannot begin must not hold up the others.
   */
  get room(): number {
    return Math.max(0, Math.min(2 * this.#last, MOST - this.#writes.size));
  }

  /** Notes that a claim was answered. */
  begin(): void {
    this.#last = 0;
  }

  /** Lets the event be due in `wait` ms. The attempt does not count. */
  add(claim: ClaimedEvent, wait: number): void {
    this.#last += 1;
    // Events that are put back together are written together, and only the last of them wakes the loop.
    void this.#settle(claim, wait).then(() => {
      if (!this.busy) this.#onWritten();
    });
  }

  /** Releases a claim that gets no attempt. Never rejects. */
  giveBack(claim: ClaimedEvent): Promise<void> {
    return this.#settle(claim);
  }

  /**
   * Makes the events of an account due that wait for the platform, or those of all accounts. Never rejects. Tries again
   * while the store fails.
   *
   * @param withTried - whether also events become due that were tried
   */
  async release(account: string | undefined, withTried: boolean): Promise<void> {
    for (let tries = 0; tries < RELEASES && !this.#closing.signal.aborted; tries += 1) {
      try {
        await this.#track(this.#replay(account, withTried));
        this.#onWritten();
        return;
      } catch (error) {
        const { logger } = this.#queue;
        logger.limited("due", "warn", "the store did not make waiting events due. Trying again", { error });
        await pause(RELEASE_AGAIN, this.#closing.signal, false);
      }
    }
  }

  /** Like {@link release}, but soon after another call for the account does nothing. */
  async releaseOnce(account: string | undefined): Promise<void> {
    const now = performance.now();
    for (const [oldest, at] of this.#released) {
      if (now - at < RELEASE_AGAIN) break;
      this.#released.delete(oldest);
    }
    if (this.#released.has(account)) return;
    this.#released.set(account, now);
    await this.release(account, true);
  }

  close(): void {
    this.#closing.abort();
  }

  async #replay(account: string | undefined, withTried: boolean): Promise<void> {
    const { store } = this.#queue;
    // An event whose write comes later would wait on.
    await Promise.all(this.#writes);
    const whose = account === undefined ? {} : { account };
    await Promise.all([
      store.replay({ ...whose, state: "pending" }),
      withTried ? store.replay({ ...whose, state: "retrying", reason: "unavailable" }) : undefined,
    ]);
  }

  async #settle(claim: ClaimedEvent, wait?: number): Promise<void> {
    const { store, logger } = this.#queue;
    try {
      const settling = (async () => store.settle(claim, { state: "released", in: wait }))();
      await this.#track(withTimeout(GIVE_BACK, settling));
    } catch (error) {
      const { eventId } = claim;
      logger.limited(
        "release",
        "warn",
        `the store did not release event ${eventId}. Another process can handle the event when its lease ends`,
        { eventId, error },
      );
    }
  }

  #track<T>(call: Promise<T>): Promise<T> {
    const settled: Promise<void> = call.then(
      () => void this.#writes.delete(settled),
      () => void this.#writes.delete(settled),
    );
    this.#writes.add(settled);
    return call;
  }

  /** Resolves when the writes that are in flight now have ended. */
  async inFlight(): Promise<void> {
    await Promise.all(this.#writes);
  }
}
