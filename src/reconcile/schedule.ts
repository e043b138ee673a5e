// When passes begin.

import { ResettableTimer, type Slots } from "../async.ts";
import type { AccountList } from "./account-list.ts";
import { handleEvents } from "./handle-events.ts";
import type { Account, Settings } from "./options.ts";
import type { Made } from "./passes.ts";
import { dueIn, readState, type StoredState } from "./state.ts";

// Without accounts, a pass is due `every` after the last one began. With accounts, each has one time in each interval of
// `every`, its slot. It follows from a hash of the account's id and from the clock, so that all machines agree, the
// accounts are spread, and a restart changes nothing:
//
// 1. At its slot, an account has a pass, unless its last one began less than a tenth of `every` before the slot.
// 2. After the start, each account is looked at once within a tenth of `every`. If its last pass did not get through, or
//    no process was there at its last slot, it has a pass then. An account without a pass waits for its slot, or a fresh
//    app would read all accounts at once.
//
// A pass that fails is made again after 1, 5 and then every 15 minutes, by itself.

/** The longest random delays of the first look at accounts, and of each later one, ms. All machines would look at once. */
const SPREAD = { first: 250, later: 30_000 } as const;
/** The waits after the first, the second and each later failed pass in a row, ms. */
const RETRIES = [60_000, 5 * 60_000, 15 * 60_000] as const;
/** The longest time until an account that has joined is known, ms. */
const LIST_EVERY = 10 * 60_000;
/** How old the list may be when a pass begins, ms. An account that has left must not be read. */
const FRESH = 1000;
/** The wait until another look at a pass that another machine makes, and until another call of `accounts`, ms. */
const LOCKED = 60_000;

/** When an account is looked at next. */
interface Look {
  /** On the clock of the machine. Infinite while the account is looked at. */
  readonly at: number;
  /** Whether an account that never had a pass has it now. */
  readonly isSlot: boolean;
  /** How many passes in a row failed. */
  readonly failures: number;
}

interface Parts {
  readonly list: AccountList;
  /** Runs the work when there is room for a pass. */
  readonly inSlot: Slots["run"];
  readonly pass: (account: Account, isDue: (reading: StoredState) => boolean) => Promise<Made>;
}

/** Makes one pass of each account in each interval of `every`. Machines that share the store make it together. */
export class Schedule {
  readonly #settings: Settings;
  readonly #parts: Parts;
  readonly #looks = new Map<Account, Look>();
  readonly #timer = new ResettableTimer(() => void this.#tick());
  #started = false;
  #stopped = false;

  constructor(settings: Settings, parts: Parts) {
    this.#settings = settings;
    this.#parts = parts;
  }

  start(): void {
    if (this.#started || this.#stopped) return;
    this.#started = true;
    this.#timer.set(this.#jitter(SPREAD.first));
  }

  stop(): void {
    this.#stopped = true;
    this.#timer.clear();
  }

  async #tick(): Promise<void> {
    try {
      await this.#refresh(this.#listEvery);
      const now = Date.now();
      for (const [account, look] of this.#looks) if (look.at <= now) void this.#look(account, look);
    } catch (error) {
      this.#failed("the reconciler's option `accounts` failed", error, LOCKED);
      if (!this.#stopped) this.#timer.set(Math.min(LOCKED, this.#settings.every));
      return;
    }
    this.#setAlarm();
  }

  get #listEvery(): number {
    return Math.min(this.#settings.every / 10, LIST_EVERY);
  }

  /** Notes the accounts that have joined, and forgets those that have left. */
  async #refresh(maxAge: number): Promise<void> {
    const { ids } = await this.#parts.list.get(maxAge);
    if (this.#stopped) return;
    const now = Date.now();
    const listed = new Set(ids);
    for (const account of this.#looks.keys()) if (!listed.has(account)) this.#looks.delete(account);
    for (const account of ids)
      if (!this.#looks.has(account))
        this.#looks.set(account, { ...this.#firstLook(account, now), failures: 0 });
  }

  #firstLook(account: Account, now: number): Omit<Look, "failures"> {
    if (account === undefined) return { at: now, isSlot: true };
    const { every } = this.#settings;
    const slot = slotOf(account, every, now) + every;
    const soon = now + (hashOf(account) * every) / 10;
    return slot <= soon ? { at: slot, isSlot: true } : { at: soon, isSlot: false };
  }

  /** Makes a pass of an account if one is due. Never rejects. */
  async #look(account: Account, { isSlot, failures }: Look): Promise<void> {
    this.#looks.set(account, { at: Number.POSITIVE_INFINITY, isSlot, failures });
    let next = { failures: 0, at: 0 };
    try {
      const isDue = this.#dueTest(account, isSlot);
      let reading = await this.#read(account);
      let wait = 0;
      if (isDue(reading)) {
        const made = await this.#makePass(account, isDue);
        if (!made) return;
        if (made.report.incomplete === "unreachable") {
          next.failures = failures + 1;
          wait = Math.max(made.retryAfter ?? 0, this.#retryIn(failures));
        }
        reading = await this.#read(account);
      }
      next.at = this.#nextAt(account, reading, wait);
    } catch (error) {
      const wait = this.#retryIn(failures);
      const whose = account === undefined ? "" : ` of account ${account}`;
      this.#failed(`the reconciler's pass${whose} failed because of the store`, error, wait, account);
      next = { failures: failures + 1, at: Date.now() + wait };
    }
    if (this.#looks.has(account))
      this.#looks.set(account, { ...next, at: next.at + this.#jitter(SPREAD.later), isSlot: true });
    this.#setAlarm();
  }

  #read(account: Account): Promise<StoredState> {
    return readState(this.#settings.store, account);
  }

  /** Makes the pass when there is room, unless the account has left by then. */
  async #makePass(account: Account, isDue: (reading: StoredState) => boolean): Promise<Made | undefined> {
    const { inSlot, pass } = this.#parts;
    const made = await inSlot(async () => {
      await this.#refresh(FRESH);
      return this.#stopped || !this.#looks.has(account) ? undefined : await pass(account, isDue);
    });
    // A handler with inline processing has no loop, so a drain must handle the new events.
    if (made && made.report.incomplete !== "unreachable") handleEvents(this.#settings);
    return made;
  }

  /** Returns a function that tells whether a pass of an account is due at this look. */
  #dueTest(account: Account, isSlot: boolean): (reading: StoredState) => boolean {
    const { every } = this.#settings;
    if (account === undefined) return (reading) => dueIn(reading, every) === 0;
    const slot = slotOf(account, every, Date.now());
    return ({ state, sinceBegun, lockedFor }) => {
      if (lockedFor > 0) return false;
      if (sinceBegun === Number.POSITIVE_INFINITY) return isSlot;
      // Another machine may have begun the pass of this slot a little earlier, because clocks differ.
      return !state.complete || sinceBegun > Date.now() - slot + every / 10;
    };
  }

  /** Returns when an account is looked at again, after `wait` ms at the earliest. */
  #nextAt(account: Account, reading: StoredState, wait: number): number {
    const { every } = this.#settings;
    const now = Date.now();
    // If another machine makes the pass, and dies, this one goes on.
    const locked = Math.min(reading.lockedFor, LOCKED, every);
    if (wait > 0 || locked > 0) return now + Math.max(wait, locked);
    return account === undefined ? now + dueIn(reading, every) : slotOf(account, every, now) + every;
  }

  /** @param failures - how many passes in a row had failed before this one */
  #retryIn(failures: number): number {
    return Math.min(RETRIES[failures] ?? RETRIES[2], this.#settings.every);
  }

  #failed(what: string, error: unknown, wait: number, account?: Account): void {
    if (this.#stopped) return;
    const { log, observe } = this.#settings;
    observe({ kind: "error", error, ...(account !== undefined && { account }) });
    log.limited("schedule", "error", `${what}. Trying again in ${wait / 1000} s`, { error, account });
  }

  #setAlarm(): void {
    if (this.#stopped) return;
    const now = Date.now();
    let wait = this.#listEvery;
    for (const { at } of this.#looks.values()) wait = Math.min(wait, at - now);
    this.#timer.set(Math.max(wait, 1));
  }

  /** A short random wait, so that machines do not look at an account at once. */
  #jitter(longest: number): number {
    return Math.random() * Math.min(this.#settings.every / 10, longest);
  }
}

/** Returns the last slot of an account that is not after `now`. */
function slotOf(account: string, every: number, now: number): number {
  const offset = hashOf(account) * every;
  return now - ((((now - offset) % every) + every) % every);
}

/** Returns a number from 0 to 1, the same on all machines and evenly spread: FNV-1a, and the mixer of MurmurHash3. */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let n = 0; n < text.length; n += 1) hash = Math.imul(hash ^ text.charCodeAt(n), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32;
}
