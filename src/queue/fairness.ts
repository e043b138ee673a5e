// Gives an account at most half of the slots while another account is there.

/** An account counts as there for this long after a notification or a claim of it, ms. */
const THERE = 60_000;

/**
 * Counts the slots of each account. With one slot, the account that had it last is out of the next claim. Nothing is
 * remembered of durations, and no account waits in a line.
 */
export class Fairness {
  readonly #half: number;
  readonly #hasOneSlot: boolean;
  readonly #slots = new Map<string, number>();
  /** Until when the latest account is there, and until when any other one is, on the monotonic clock. */
  #latest: { account: string | undefined; until: number } = { account: undefined, until: 0 };
  #otherUntil: number;
  #last: string | undefined;
  /** Grows when an account may be claimed again. */
  version = 0;

  /** @param hasAccounts - whether the first minute counts as if another account was there, because the process cannot know */
  constructor(slots: number, hasAccounts: boolean, now = performance.now()) {
    this.#half = Math.ceil(slots / 2);
    this.#hasOneSlot = slots === 1;
    this.#otherUntil = hasAccounts ? now + THERE : Number.NEGATIVE_INFINITY;
  }

  /** Notes that a notification of an account was taken, or an event of it claimed. */
  see(account: string | undefined, now: number): void {
    if (account === undefined) return;
    const latest = this.#latest;
    if (latest.account !== undefined && latest.account !== account) this.#otherUntil = latest.until;
    this.#latest = { account, until: now + THERE };
  }

  /** Takes a slot. */
  take(account: string | undefined): void {
    if (account === undefined) return;
    this.#slots.set(account, (this.#slots.get(account) ?? 0) + 1);
    if (this.#hasOneSlot) this.#last = account;
  }

  free(account: string | undefined): void {
    if (account === undefined) return;
    const slots = this.#slots.get(account) ?? 0;
    if (slots <= 1) this.#slots.delete(account);
    else this.#slots.set(account, slots - 1);
    if (slots === this.#half) this.version += 1;
  }

  /** Whether an account has its half of the slots, and another account is there. */
  isFull(account: string | undefined, now: number): boolean {
    return (
      account !== undefined &&
      (this.#slots.get(account) ?? 0) >= this.#half &&
      this.#isOtherThere(account, now)
    );
  }

  /** The accounts that are out of the next claim. */
  fullAt(now: number): string[] {
    const full = [...this.#slots.keys()].filter((account) => this.isFull(account, now));
    const last = this.#last;
    const isOut = last !== undefined && this.#isOtherThere(last, now) && !full.includes(last);
    return isOut ? [...full, last] : full;
  }

  /** Returns how many events a claim may take without giving any account more than its half. */
  roomAt(now: number): number {
    const limited = [...this.#slots].filter(([account]) => this.#isOtherThere(account, now));
    if (limited.length === 0 && now >= this.#otherUntil) return Number.POSITIVE_INFINITY;
    return this.#half - Math.max(0, ...limited.map(([, slots]) => (slots < this.#half ? slots : 0)));
  }

  /** With one slot: lets the last account be claimed again, because no other one is due. @returns whether it was out */
  foundNoOther(): boolean {
    const wasOut = this.#last !== undefined;
    this.#last = undefined;
    return wasOut;
  }

  #isOtherThere(account: string, now: number): boolean {
    const { account: latest, until } = this.#latest;
    return now < this.#otherUntil || (latest !== account && now < until);
  }
}
