// Gives an account at most half of the slots while another account is there: plain data, and what each fact makes of it.

/** An account counts as there for this long after a notification or a claim of it, ms. */
const THERE = 60_000;

/**
 * The slots of each account. With one slot, the account that had it last is out of the next claim. Nothing is remembered of
 * durations, and no account waits in a line. Times are on the monotonic clock.
 */
export interface Fairness {
  readonly half: number;
  readonly hasOneSlot: boolean;
  readonly slots: ReadonlyMap<string, number>;
  /** The account that was seen last, and until when it is there. */
  readonly latest: { readonly account: string | undefined; readonly until: number };
  /** Until when any other account is there. */
  readonly otherUntil: number;
  /** With one slot: the account that had it last. */
  readonly last: string | undefined;
  /** Grows when an account may be claimed again. */
  readonly version: number;
}

/** @param hasAccounts - whether the first minute counts as if another account was there, because the process cannot know */
export function newFairness(slots: number, hasAccounts: boolean, now: number): Fairness {
  return {
    half: Math.ceil(slots / 2),
    hasOneSlot: slots === 1,
    slots: new Map(),
    latest: { account: undefined, until: 0 },
    otherUntil: hasAccounts ? now + THERE : Number.NEGATIVE_INFINITY,
    last: undefined,
    version: 0,
  };
}

/** A notification of an account was taken, or an event of it claimed. */
export function afterSeen(fairness: Fairness, account: string | undefined, now: number): Fairness {
  if (account === undefined) return fairness;
  const { latest, otherUntil } = fairness;
  const isOther = latest.account !== undefined && latest.account !== account;
  const until = now + THERE;
  return { ...fairness, latest: { account, until }, otherUntil: isOther ? latest.until : otherUntil };
}

/** An account has taken a slot. */
export function afterTaken(fairness: Fairness, account: string | undefined): Fairness {
  if (account === undefined) return fairness;
  const slots = new Map(fairness.slots).set(account, slotsOf(fairness, account) + 1);
  return { ...fairness, slots, last: fairness.hasOneSlot ? account : undefined };
}

/** An account has given up a slot. */
export function afterFreed(fairness: Fairness, account: string | undefined): Fairness {
  if (account === undefined) return fairness;
  const { half, version } = fairness;
  const before = slotsOf(fairness, account);
  const slots = new Map(fairness.slots).set(account, before - 1);
  if (before <= 1) slots.delete(account);
  return { ...fairness, slots, version: before === half ? version + 1 : version };
}

/** With one slot: no other account is due, so that the last one may be claimed again. */
export function afterNoOther(fairness: Fairness): Fairness {
  return fairness.last === undefined ? fairness : { ...fairness, last: undefined };
}

/** Whether an account has its half of the slots, and another account is there. */
export function isFull(fairness: Fairness, account: string | undefined, now: number): boolean {
  if (account === undefined) return false;
  return slotsOf(fairness, account) >= fairness.half && isOtherThere(fairness, account, now);
}

/** The accounts that are out of the next claim. */
export function fullAt(fairness: Fairness, now: number): string[] {
  const { slots, last } = fairness;
  const full = [...slots.keys()].filter((account) => isFull(fairness, account, now));
  const isOut = last !== undefined && isOtherThere(fairness, last, now) && !full.includes(last);
  return isOut ? [...full, last] : full;
}

/** When an account that is out of the next claim may be in again although nothing changes. `Infinity` if none is out. */
export function inAgainAt(fairness: Fairness, now: number): number {
  if (fullAt(fairness, now).length === 0) return Number.POSITIVE_INFINITY;
  return Math.min(...[fairness.otherUntil, fairness.latest.until].filter((until) => until > now));
}

/** Returns how many events a claim may take without giving any account more than its half. */
export function roomAt(fairness: Fairness, now: number): number {
  const { slots, half, otherUntil } = fairness;
  const limited = [...slots].filter(([account]) => isOtherThere(fairness, account, now));
  if (limited.length === 0 && now >= otherUntil) return Number.POSITIVE_INFINITY;
  return half - Math.max(0, ...limited.map(([, taken]) => (taken < half ? taken : 0)));
}

function slotsOf({ slots }: Fairness, account: string): number {
  return slots.get(account) ?? 0;
}

function isOtherThere({ latest, otherUntil }: Fairness, account: string, now: number): boolean {
  return now < otherUntil || (latest.account !== account && now < latest.until);
}
