// Divides the slots among accounts: while others wait, an account gets at most half of them.

/** For how long the next event of an account is expected after its last event was seen, ms. */
const EXPECTED = 250;
/** For how long an account counts as waiting, ms, if no attempt of it begins here: another process may have begun one. */
const WAITING = 60_000;
/** An account with an attempt that runs for this long gets no slot beyond its half, ms: its next ones may hang, too. */
const SLOW = 1000;
/** The weight of the last attempt in the average duration. */
const WEIGHT = 0.2;

/** What the queue knows about an account whose attempts run. */
interface Share {
  /** When the running attempts began, on the monotonic clock, the oldest first. */
  readonly begun: Set<{ readonly at: number }>;
  /** How long an attempt takes, ms, on average. */
  duration: number;
  /** When the account last took a slot beyond its half, on the monotonic clock. */
  borrowedAt: number;
  /** When the last event that gave way comes back, on the monotonic clock. */
  lineUntil: number;
}

/** Knows which accounts use slots, and which were seen lately. Only accounts whose attempts run take memory. */
export class Shares {
  readonly #concurrency: number;
  /** How many slots an account may use while others wait. A single slot goes from one account to the next. */
  readonly #half: number;
  readonly #accounts = new Map<string, Share>();
  /** When an event of each waiting account was last seen, on the monotonic clock, the oldest first. */
  readonly #waiting = new Map<string, number>();
  /** The account that was seen last, and when another one was seen before. */
  #last = { account: "", at: Number.NEGATIVE_INFINITY, otherAt: Number.NEGATIVE_INFINITY };
  /** The account whose attempt began last. */
  #lastBegun: string | undefined;

  constructor(concurrency: number) {
    this.#concurrency = concurrency;
    this.#half = Math.floor(concurrency / 2);
  }

  /** Notes that an event of an account arrived or was claimed. */
  see(account: string | undefined, now: number): void {
    if (account === undefined) return;
    this.#waiting.delete(account);
    this.#waiting.set(account, now);
    const last = this.#last;
    if (last.account === account) last.at = now;
    else this.#last = { account, at: now, otherAt: last.at };
  }

  /** Notes that a claim found all events that were due at `askedAt`. Accounts that were last seen before wait no more. */
  foundAll(askedAt: number): void {
    this.#forgetBefore(askedAt);
  }

  /** Notes that an event of an account was put back for another reason than its share. */
  leave(account: string | undefined): void {
    if (account !== undefined) this.#waiting.delete(account);
  }

  /** Notes that an attempt begins. Returns a function to call when the attempt needs its slot no more. */
  begin(account: string | undefined, now: number): () => void {
    if (account === undefined) return () => {};
    this.#lastBegun = account;
    this.#waiting.delete(account);
    const share = this.#shareOf(account);
    const attempt = { at: now };
    share.begun.add(attempt);
    return () => {
      if (!share.begun.delete(attempt)) return;
      const end = performance.now();
      share.duration += (end - now - share.duration) * (share.duration === 0 ? 1 : WEIGHT);
      if (share.begun.size === 0 && share.lineUntil <= end) this.#accounts.delete(account);
    };
  }

  /** Whether an account has its half of the slots while others wait. */
  isOver(account: string | undefined, now: number): boolean {
    if (account === undefined) return false;
    const begun = this.#accounts.get(account)?.begun.size ?? 0;
    const hasHalf = this.#half === 0 ? this.#lastBegun === account : begun >= this.#half;
    return hasHalf && (this.#isAnotherExpected(account, now) || this.#isAnotherWaiting(account, now));
  }

  #isAnotherExpected(account: string, now: number): boolean {
    const { at, otherAt, account: last } = this.#last;
    return now - (last === account ? otherAt : at) < EXPECTED;
  }

  #isAnotherWaiting(account: string, now: number): boolean {
    this.#forgetBefore(now - WAITING);
    return this.#waiting.size > (this.#waiting.has(account) ? 1 : 0);
  }

  #forgetBefore(time: number): void {
    for (const [oldest, at] of this.#waiting) {
      if (at >= time) break;
      this.#waiting.delete(oldest);
    }
  }

  #shareOf(account: string): Share {
    const share = this.#accounts.get(account) ?? {
      begun: new Set(),
      duration: 0,
      borrowedAt: 0,
      lineUntil: 0,
    };
    this.#accounts.set(account, share);
    return share;
  }

  /**
   * Takes a slot beyond the half of an account, which nobody else needs now. The account takes these slots one after the
   * other, so that they become free one after the other, and others soon find one.
   */
  borrow(account: string, now: number): boolean {
    const share = this.#accounts.get(account);
    const [oldest] = share?.begun ?? [];
    if (share === undefined || oldest === undefined) return true;
    if (now - oldest.at >= SLOW || now - share.borrowedAt < share.duration / this.#concurrency) return false;
    share.borrowedAt = now;
    return true;
  }

  /** Gives an event a place in the line of its account. Returns ms until its turn. */
  placeOf(account: string, now: number): number {
    const share = this.#shareOf(account);
    const duration = Math.max(share.duration, now - (share.begun.values().next().value?.at ?? now));
    share.lineUntil = Math.max(share.lineUntil, now) + Math.max(1, duration / this.#concurrency);
    return share.lineUntil - now;
  }
}
