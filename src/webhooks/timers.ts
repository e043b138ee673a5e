import { now } from "../clock.ts";
import { describeKind, InvalidArgumentError, StayhookError } from "../errors.ts";
import { toId } from "../models/ids.ts";
import { checkNoUnknown, nearest } from "../option-names.ts";
import type { EventState } from "../stores/event-states.ts";
import type { EventStore, FurtherEvent } from "../stores/event-store.ts";
import { MAX_DELAY } from "../stores/outcomes.ts";
import type { ClaimedEvent, NewEvent, StoredEvent } from "../stores/stored-event.ts";
import { ownId } from "./own-ids.ts";
import { kindsOfRecords, listingRef, parseRef, type Subject } from "./refs.ts";

/** The timers of an event's booking or listing. The changes are recorded with the end of the event, or not at all. */
export interface EventTimers {
  /**
   * Calls the callback `booking.timer.<name>` or `listing.timer.<name>` at a time. A record has one timer for each name.
   * If the timer has this time already, `set` changes nothing, even if the timer has fired. Another time moves the
   * timer. In one attempt, the last call for a name counts.
   *
   * @param name - lower-case letters, digits and hyphens, 64 characters at most
   * @param at - the time, at most 1,000 years from now
   * @param options.ifPassed - what a time that has passed does. `fire`: the timer fires at once. `skip`: nothing is set,
   * and a timer that waits for another time is deleted. Default `fire`
   * @throws InvalidArgumentError if `on` has no callback for the name and no `fallback`, or if an argument is invalid
   * @example
   * ```ts
   * timers.set("door-code", localTime(stay(booking).checkIn, "15:00", "Europe/Lisbon"));
   * ```
   */
  set(name: string, at: Date, options?: TimerOptions): void;
  /**
   * Deletes the timer with this name, or all timers of the record, fired ones too. If a later event sets a time that has
   * fired before, the timer fires again. The event of a timer that clears itself stays in the store as done.
   */
  clear(name?: string): void;
}

/** The options of `timers.set`. */
export interface TimerOptions {
  /**
   * What a time that has passed does. `fire`: the timer fires at once. `skip`: nothing is set, and a timer that waits
   * for another time is deleted. Default `fire`.
   */
  readonly ifPassed?: "fire" | "skip" | undefined;
}

/** A timer of a record, as {@link RecordTimers.list} shows it. */
export interface Timer {
  /** The name that `timers.set` got, which is unique for each record. */
  readonly name: string;
  /** The time that was set. */
  readonly at: Date;
  /** `scheduled` until its time, `done` after its callback, `parked` if its callback failed too often. */
  readonly state: EventState;
}

/** The timers of one booking or listing, for use outside of callbacks. */
export interface RecordTimers {
  /**
   * Sets a timer, as `event.timers.set` does. If an attempt at the timer is running, waits until it has ended. If the
   * first event of the record waits, the timer fires after that event.
   *
   * @throws InvalidArgumentError for an invalid argument; an error of the store
   */
  set(name: string, at: Date, options?: TimerOptions): Promise<void>;
  /** Deletes the timer with this name, or all timers of the record, fired ones too, but none whose attempt runs. */
  clear(name?: string): Promise<void>;
  /** Resolves to all timers of the record, also those that have fired, the one with the earliest time first. */
  list(): Promise<Timer[]>;
}

/** The name and the time of a timer, as `event.timer` shows them. */
export interface FiredTimer {
  /** The name that `timers.set` got, which is unique for each record. */
  readonly name: string;
  /** The time that was set. */
  readonly at: Date;
}

const NAME = /^[a-z0-9-]{1,64}$/;
/** What {@link NAME} allows, in words. */
export const NAME_RULE = "lower-case letters, digits and hyphens, 64 characters at most";
/** How long `set` waits before it tries a busy timer again, ms. */
const BUSY_AGAIN = 250;
/** The number of timers that one call of the store lists. */
const PAGE = 500;

type RecordKind = Subject["kind"];

/** Checks the names and times of timers against the keys of `on`. */
export class TimerRules {
  readonly #on: object;

  constructor(on: object) {
    this.#on = on;
  }

  /** Returns the key of the callback in `on`, such as `booking.timer.door-code`. */
  static keyOf(kind: RecordKind, name: string): string {
    return `${kind}.timer.${name}`;
  }

  /** Whether a key of `on` names a timer. */
  static isKey(key: string): boolean {
    const name = TimerRules.nameIn(key);
    return name !== undefined && NAME.test(name);
  }

  /** Returns the name of the timer in a key such as `booking.timer.door-code`; `undefined` in other keys. */
  static nameIn(key: string): string | undefined {
    return /^(?:booking|listing)\.timer\.(.*)$/s.exec(key)?.[1];
  }

  /** @throws InvalidArgumentError if the timer could not be handled, or its time is invalid */
  check(kind: RecordKind, name: string, at: Date): void {
    checkTimerName(name);
    const key = TimerRules.keyOf(kind, name);
    if (!this.handles(key)) {
      const known = Object.keys(this.#on).filter((each) => each.startsWith(`${kind}.timer.`));
      const near = nearest(
        name,
        known.map((each) => each.slice(kind.length + ".timer.".length)),
      );
      throw new InvalidArgumentError({
        path: ["name"],
        message: `\`on\` has no callback ${key} and no fallback${near === undefined ? "" : `; did you mean ${near}?`}`,
      });
    }
    checkTimerTime(name, at);
  }

  /** Whether `on` has a callback for events of this type. */
  handles(type: string): boolean {
    return callbackFor(this.#on, type) !== undefined;
  }
}

type Callback = (event: unknown) => unknown;

/**
 * Returns the callback for events of a type: its own, that of all bookings or listings, or `fallback`. Reads own
 * properties only, because `checkOptions` does not check inherited properties.
 */
export function callbackFor(on: object, type: string): Callback | undefined {
  const callbacks = on as Readonly<Record<string, Callback | undefined>>;
  const own = (key: string) => (Object.hasOwn(callbacks, key) ? callbacks[key] : undefined);
  const [kind = "", name] = type.split(".");
  const ofKind = kindsOfRecords.includes(kind) && name !== "timer" ? own(kind) : undefined;
  return own(type) ?? ofKind ?? own("fallback");
}

/** @throws InvalidArgumentError if `name` is not the name of a timer */
export function checkTimerName(name: string): void {
  if (typeof name !== "string" || !NAME.test(name))
    throw new InvalidArgumentError({
      path: ["name"],
      message: `must be the name of a timer: ${NAME_RULE}`,
    });
}

/** @throws InvalidArgumentError if `at` is not a valid date, or is too far away */
export function checkTimerTime(name: string, at: Date): void {
  const refuse = (message: string) => {
    throw new InvalidArgumentError({ path: ["at"], message: `the time of the timer ${name} ${message}` });
  };
  if (!(at instanceof Date) || Number.isNaN(at.getTime()))
    refuse(
      `must be a valid Date, not ${describeKind(at)}. Make one with localTime(date, time, timeZone) or new Date(…)`,
    );
  if (at.getTime() - now() > MAX_DELAY) refuse(`is more than 1,000 years away: ${at.toISOString()}`);
}

/**
 * Returns the event of a timer.
 *
 * @param changes - how many changes of the record in a row have come before the timer at its time
 */
export function timerEvent(
  ref: string,
  name: string,
  at: Date,
  traceparent?: string | null,
  changes?: number,
): NewEvent {
  const timestamp = at.toISOString();
  return {
    eventId: timerId(ref, name),
    ref,
    source: "timer",
    topic: null,
    timestamp,
    notification: JSON.stringify({ name, at: timestamp, changes }),
    traceparent,
  };
}

/** Returns all timers of a record, also those that have fired. */
async function timersOf(store: Pick<EventStore<unknown>, "list">, ref: string): Promise<StoredEvent[]> {
  const timers: StoredEvent[] = [];
  for (;;) {
    const page = await store.list({ ref, source: "timer", limit: PAGE, after: timers.at(-1)?.eventId });
    timers.push(...page);
    if (page.length < PAGE) return timers;
  }
}

/** Whether a timer is not set, because its time has passed. @throws InvalidArgumentError if the options are invalid */
export function isSkipped(at: Date, options: TimerOptions | undefined): boolean {
  checkNoUnknown(options, ["ifPassed"]);
  const { ifPassed = "fire" } = options ?? {};
  if (ifPassed !== "fire" && ifPassed !== "skip")
    throw new InvalidArgumentError({ path: ["ifPassed"], message: 'must be "fire" or "skip"' });
  return ifPassed === "skip" && at.getTime() <= now();
}

/** Whether a stored timer waits for a time other than `at`, or is processed for another time. */
function waitsForOther({ dueAt, state, timestamp }: StoredEvent, at: Date): boolean {
  return (dueAt !== null || state === "processing") && timestamp !== at.toISOString();
}

/** Returns the id of a timer's row. It stands for the last time that was set. */
export function timerId(ref: string, name: string): string {
  return ownId("timer", `${ref}:${name}`);
}

/** Reads the name and the time of a timer from its event. */
export function timerOf({
  notification,
  timestamp,
}: Pick<NewEvent, "notification" | "timestamp">): FiredTimer {
  const { name } = JSON.parse(notification ?? "{}") as { readonly name?: string };
  return { name: name ?? "", at: new Date(timestamp) };
}

/** Returns how many changes of the record have come before a timer at its time. */
export function changesBefore({ notification }: Pick<NewEvent, "notification">): number {
  const { changes = 0 } = JSON.parse(notification ?? "{}") as { readonly changes?: number };
  return changes;
}

/** Returns the type of an event, also of a timer that has not fired. `null` if no attempt has found out the type. */
export function knownType(
  event: Pick<NewEvent, "source" | "ref" | "notification" | "timestamp"> & { readonly type: string | null },
): string | null {
  const kind = event.source === "timer" ? parseRef(event.ref)?.kind : undefined;
  return kind === undefined ? event.type : TimerRules.keyOf(kind, timerOf(event).name);
}

/** Returns a timer as an event to record. */
function furtherTimer(event: NewEvent, at: Date): FurtherEvent {
  return { event, replace: "moved", dueAt: at };
}

/** Collects what a callback does to the timers of its record. */
export class CollectedTimers implements EventTimers {
  readonly #claim: ClaimedEvent;
  readonly #rules: TimerRules;
  /** What is wrong with timers here; `undefined` if the event can have timers. */
  readonly #refusal: string | undefined;
  // The last call for a name counts, so a name is in one of these at most.
  readonly #set = new Map<string, FurtherEvent>();
  readonly #skipped = new Map<string, Date>();
  readonly #cleared = new Set<string>();
  #clearsAll = false;
  #isOpen = true;

  constructor(claim: ClaimedEvent, rules: TimerRules, refusal: string | undefined) {
    this.#claim = claim;
    this.#rules = rules;
    this.#refusal = refusal;
  }

  // Arrow functions, so that callbacks can destructure them.
  readonly set = (name: string, at: Date, options?: TimerOptions): void => {
    const ref = this.#assertOpen("set");
    this.#rules.check(parseRef(ref)!.kind, name, at);
    const time = new Date(at);
    const isPassed = isSkipped(time, options);
    this.#forget(name);
    if (isPassed) this.#skipped.set(name, time);
    else this.#set.set(name, furtherTimer(timerEvent(ref, name, time, this.#claim.traceparent), time));
  };

  readonly clear = (name?: string): void => {
    this.#assertOpen("clear");
    if (name !== undefined) {
      checkTimerName(name);
      this.#forget(name);
      this.#cleared.add(name);
      return;
    }
    this.#clearsAll = true;
    for (const each of [this.#set, this.#skipped, this.#cleared]) each.clear();
  };

  #forget(name: string): void {
    for (const each of [this.#set, this.#skipped, this.#cleared]) each.delete(name);
  }

  close(): void {
    this.#isOpen = false;
  }

  get events(): readonly FurtherEvent[] {
    return [...this.#set.values()];
  }

  /**
   * Returns which timers to delete. A timer that is set again after `clear()` stays, because it may have fired for the
   * same time.
   */
  async removal(store: Pick<EventStore<unknown>, "list">): Promise<readonly string[] | "timers" | undefined> {
    const ref = this.#claim.ref!;
    const isExact = this.#skipped.size > 0 || (this.#clearsAll && this.#set.size > 0);
    if (!isExact && this.#clearsAll) return "timers";
    if (!isExact)
      return this.#cleared.size > 0 ? [...this.#cleared].map((name) => timerId(ref, name)) : undefined;
    const timers = await timersOf(store, ref);
    return timers.filter((timer) => this.#isRemoved(timer)).map(({ eventId }) => eventId);
  }

  #isRemoved(timer: StoredEvent): boolean {
    const { name, at } = timerOf(timer);
    if (this.#set.has(name)) return false;
    const skipped = this.#skipped.get(name);
    if (skipped === undefined) return this.#clearsAll || this.#cleared.has(name);
    return this.#clearsAll ? at.getTime() !== skipped.getTime() : waitsForOther(timer, skipped);
  }

  #assertOpen(method: string): string {
    if (this.#refusal !== undefined) throw new StayhookError(`event.timers.${method}(): ${this.#refusal}`);
    if (!this.#isOpen)
      throw new StayhookError(
        `event.timers.${method}() was called after the callback had returned. The event may already be done. Await everything that the callback starts.`,
      );
    return this.#claim.ref!;
  }
}

interface RecordTimersOptions {
  readonly ref: string;
  /** Whether the ref must begin with an account. */
  readonly hasAccounts: boolean;
  readonly rules: TimerRules;
  readonly store: EventStore<unknown>;
  readonly add: (
    event: NewEvent,
    options: Omit<FurtherEvent, "event">,
  ) => Promise<"added" | "duplicate" | "conflict" | "busy">;
  /** Whether the handler is closed. */
  readonly closed: () => boolean;
}

/** @throws InvalidArgumentError if `ref` is not `booking:<code>` or `listing:<id>`, with or without an account */
export function recordTimers({
  ref,
  hasAccounts,
  rules,
  store,
  add,
  closed,
}: RecordTimersOptions): RecordTimers {
  const kind = kindOf(ref, hasAccounts);
  return {
    async set(name, at, options) {
      rules.check(kind, name, at);
      const time = new Date(at);
      if (isSkipped(time, options)) {
        const known = await store.get(timerId(ref, name));
        if (known && waitsForOther(known, time)) await store.remove(ref, [known.eventId]);
        return;
      }
      const { event, ...addition } = furtherTimer(timerEvent(ref, name, time), time);
      while ((await add(event, addition)) === "busy") {
        if (closed())
          throw new StayhookError(
            `The timer ${name} of ${ref} was not set, because an attempt at it is running and the webhook handler is closed.`,
          );
        await new Promise((resolve) => setTimeout(resolve, BUSY_AGAIN));
      }
    },
    async clear(name) {
      if (name !== undefined) checkTimerName(name);
      await store.remove(ref, name === undefined ? "timers" : [timerId(ref, name)]);
    },
    async list() {
      const events = await timersOf(store, ref);
      const timers = events.filter(isTimerStill).map((event) => ({ ...timerOf(event), state: event.state }));
      return timers.sort((one, other) => one.at.getTime() - other.at.getTime());
    },
  };
}

/** Whether a timer's event is still that of a timer. If a change has cleared the timer, its event is done as that change. */
function isTimerStill({ state, type }: StoredEvent): boolean {
  return state !== "done" || type === null || TimerRules.isKey(type);
}

function kindOf(ref: unknown, hasAccounts: boolean): RecordKind {
  const subject = typeof ref === "string" ? parseRef(ref) : undefined;
  const isValid =
    subject?.kind === "booking"
      ? subject.bookingCode.trim() === subject.bookingCode && subject.bookingCode !== ""
      : subject !== undefined &&
        toId(subject.listingId) !== undefined &&
        ref === listingRef(subject.listingId, subject.account);
  if (subject === undefined || !isValid || (subject.account !== undefined) !== hasAccounts) {
    const form = hasAccounts
      ? "<account>/booking:<code> or <account>/listing:<id>"
      : "booking:<code> or listing:<id>";
    throw new InvalidArgumentError({ path: ["ref"], message: `must be ${form}` });
  }
  return subject.kind;
}
