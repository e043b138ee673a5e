// When the passes of many accounts begin.

import { ResettableTimer, type Slots } from "../async.ts";
import type { AccountList } from "./account-list.ts";
import { handleEvents } from "./handle-events.ts";
import type { Settings } from "./options.ts";
import type { Made } from "./passes.ts";
import { retryAfterFailures, SPREAD } from "./schedule.ts";
import { readState, type StoredState } from "./state.ts";

// Each account has one time in each interval of `every`, its slot. The slot follows from a hash of its id and from the
// clock, so that all machines agree, the accounts are spread, and a restart changes nothing:
//
// 1. At its slot, an account has a pass, unless its last one began less than a tenth of `every` before the slot.
// 2. After the start, each account is looked at once within a tenth of `every`. If its last pass did not get through, or
//    no process was there at its last slot, it has a pass then. An account without a pass waits for its slot, or a fresh
//    app would read all accounts at once.
// 3. A pass that fails is made again after 1, 5 and then every 15 minutes, by itself.

/** The longest time until an account that has joined is known, ms. */
const LIST_EVERY = 10 * 60_000;
/** How old the list may be when a pass begins, ms. An account that has left must not be read. */
const FRESH = 1000;
/** The wait until another look at an account whose pass another machine makes, ms. */
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
  readonly pass: (account: string, isDue: (reading: StoredState) => boolean) => Promise<Made>;
}

/** Makes one pass of each account in each interval of `every`. */
export class AccountSchedule {
  readonly #settings: Settings;
  readonly #parts: Parts;
  readonly #looks = new Map<string, Look>();
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
      this.#failed(error, undefined, LOCKED);
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
    const { every } = this.#settings;
    const now = Date.now();
    const listed = new Set(ids);
    for (const account of this.#looks.keys()) if (!listed.has(account)) this.#looks.delete(account);
    for (const account of ids) {
      if (this.#looks.has(account)) continue;
      const slot = slotOf(account, every, now) + every;
      const first = now + (hashOf(account) * every) / 10;
      const isSlot = slot <= first;
      this.#looks.set(account, { at: isSlot ? slot : first, isSlot, failures: 0 });
    }
  }

  /** Makes a pass of an account if one is due. Never rejects. */
  async #look(account: string, look: Look): Promise<void> {
    const { store, every } = this.#settings;
    this.#looks.set(account, { ...look, at: Number.POSITIVE_INFINITY });
    let next: Look = { at: 0, isSlot: true, failures: 0 };
    try {
      const slot = slotOf(account, every, Date.now());
      const isDue = (reading: StoredState): boolean => this.#isDue(reading, slot, look.isSlot);
      let reading = await readState(store, account);
      let wait = 0;
      if (isDue(reading)) {
        const made = await this.#parts.inSlot(() => this.#pass(account, isDue));
        if (!made) return;
        if (made.report.incomplete === "unreachable") {
          next = { ...next, failures: look.failures + 1 };
          wait = Math.max(made.retryAfter ?? 0, retryAfterFailures(next.failures, every));
        } else handleEvents(this.#settings);
        reading = await readState(store, account);
      }
      // Another machine makes the pass. If the machine dies, this one goes on.
      if (reading.lockedFor > 0) wait = Math.max(wait, Math.min(LOCKED, every));
      const now = Date.now();
      const at = wait > 0 ? now + wait : slotOf(account, every, now) + every;
      next = { ...next, at: at + this.#jitter(SPREAD.later) };
    } catch (error) {
      const failures = look.failures + 1;
      const wait = retryAfterFailures(failures, every);
      this.#failed(error, account, wait);
      next = { isSlot: true, failures, at: Date.now() + wait + this.#jitter(SPREAD.later) };
    }
    if (this.#looks.has(account)) this.#looks.set(account, next);
    this.#setAlarm();
  }

  /** Makes the pass, unless the account has left while it waited for its turn. */
  async #pass(account: string, isDue: (reading: StoredState) => boolean): Promise<Made | undefined> {
    await this.#refresh(FRESH);
    return this.#stopped || !this.#looks.has(account) ? undefined : this.#parts.pass(account, isDue);
  }

  #isDue({ state, sinceBegun, lockedFor }: StoredState, slot: number, isSlot: boolean): boolean {
    const { every } = this.#settings;
    if (lockedFor > 0) return false;
    if (sinceBegun === Number.POSITIVE_INFINITY) return isSlot;
    // Another machine may have begun the pass of this slot a little earlier, because clocks differ.
    return !state.complete || sinceBegun > Date.now() - slot + every / 10;
  }

  #failed(error: unknown, account: string | undefined, wait: number): void {
    if (this.#stopped) return;
    const { log, observe } = this.#settings;
    observe({ kind: "error", error, ...(account !== undefined && { account }) });
    const what =
      account === undefined
        ? "the reconciler's option `accounts` failed"
        : `the reconciler's pass of account ${account} failed`;
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
