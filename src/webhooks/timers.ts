import { now } from "../clock.ts";
import { InvalidArgumentError, StayhookError } from "../errors.ts";
import { checkNoUnknown } from "../option-names.ts";
import type { EventState } from "../stores/event-states.ts";
import type { EventStore, FurtherEvent } from "../stores/event-store.ts";
import type { ClaimedEvent, NewEvent, StoredEvent } from "../stores/stored-event.ts";
import { checkRef, parseRef } from "./refs.ts";
import {
  checkTimer,
  checkTimerName,
  isTimerKey,
  timerEvent,
  timerId,
  timerOf,
  timersOf,
} from "./timer-rules.ts";

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
   * const { stay, timers } = event;
   * if (stay) timers.set("door-code", localTime(stay.checkIn, "15:00", "Europe/Lisbon"));
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

/** How long `set` waits before it tries a busy timer again, ms. */
const BUSY_AGAIN = 250;

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

/** Returns a timer as an event to record. */
function timerAt(ref: string, name: string, at: Date, traceparent?: string | null): FurtherEvent {
  return { event: timerEvent(ref, name, at, traceparent), replace: "moved", dueAt: at };
}

/** What a call does to a timer: sets it, skips a time that has passed, or, if it has neither, clears it. */
interface Call {
  readonly set?: FurtherEvent;
  readonly skipped?: Date;
}

/** Collects what a callback does to the timers of its record. */
export class CollectedTimers implements EventTimers {
  readonly #claim: ClaimedEvent;
  readonly #on: object;
  readonly #assertUsable: (method: string) => void;
  /** The last call for each name. */
  readonly #calls = new Map<string, Call>();
  #clearsAll = false;

  /** @param assertUsable - throws if a method of `event` cannot be called now */
  constructor(claim: ClaimedEvent, on: object, assertUsable: (method: string) => void) {
    this.#claim = claim;
    this.#on = on;
    this.#assertUsable = assertUsable;
  }

  // Arrow functions, so that callbacks can destructure them.
  readonly set = (name: string, at: Date, options?: TimerOptions): void => {
    this.#assertUsable("timers.set");
    const { traceparent } = this.#claim;
    const ref = this.#claim.ref!;
    checkTimer(this.#on, parseRef(ref)!.kind, name, at);
    const time = new Date(at);
    const call = isSkipped(time, options)
      ? { skipped: time }
      : { set: timerAt(ref, name, time, traceparent) };
    this.#calls.set(name, call);
  };

  readonly clear = (name?: string): void => {
    this.#assertUsable("timers.clear");
    if (name === undefined) {
      this.#clearsAll = true;
      this.#calls.clear();
    } else {
      checkTimerName(name);
      this.#calls.set(name, {});
    }
  };

  get events(): readonly FurtherEvent[] {
    return [...this.#calls.values()].flatMap(({ set }) => set ?? []);
  }

  /**
   * Returns which timers to delete. A timer that is set again after `clear()` stays, because it may have fired for the
   * same time.
   */
  async removal(store: Pick<EventStore<unknown>, "list">): Promise<readonly string[] | "timers" | undefined> {
    const ref = this.#claim.ref!;
    const removed = [...this.#calls].filter(([, { set }]) => set === undefined);
    const isExact = removed.some(([, { skipped }]) => skipped !== undefined);
    if (isExact || (this.#clearsAll && this.#calls.size > removed.length)) {
      const timers = await timersOf(store, ref);
      return timers.filter((timer) => this.#isRemoved(timer)).map(({ eventId }) => eventId);
    }
    if (this.#clearsAll) return "timers";
    return removed.length > 0 ? removed.map(([name]) => timerId(ref, name)) : undefined;
  }

  #isRemoved(timer: StoredEvent): boolean {
    const { name, at } = timerOf(timer);
    const call = this.#calls.get(name);
    if (call === undefined) return this.#clearsAll;
    if (call.skipped === undefined) return call.set === undefined;
    return this.#clearsAll ? at.getTime() !== call.skipped.getTime() : waitsForOther(timer, call.skipped);
  }
}

interface RecordTimersOptions {
  readonly ref: string;
  /** Whether the ref must begin with an account. */
  readonly hasAccounts: boolean;
  /** The callbacks of the handler. */
  readonly on: object;
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
  on,
  store,
  add,
  closed,
}: RecordTimersOptions): RecordTimers {
  const { kind } = checkRef(ref, hasAccounts);
  return {
    async set(name, at, options) {
      checkTimer(on, kind, name, at);
      const time = new Date(at);
      if (isSkipped(time, options)) {
        const known = await store.get(timerId(ref, name));
        if (known && waitsForOther(known, time)) await store.remove(ref, [known.eventId]);
        return;
      }
      const { event, ...addition } = timerAt(ref, name, time);
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
  return state !== "done" || type === null || isTimerKey(type);
}
