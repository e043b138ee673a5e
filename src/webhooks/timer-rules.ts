// The names and times of timers, the keys of `on` that handle them, and the rows that keep them.

import { now } from "../clock.ts";
import { describeKind, InvalidArgumentError } from "../errors.ts";
import { nearest } from "../option-names.ts";
import { eachEvent } from "../stores/each-event.ts";
import type { EventStore } from "../stores/event-store.ts";
import { MAX_DELAY } from "../stores/outcomes.ts";
import type { NewEvent, StoredEvent } from "../stores/stored-event.ts";
import { ownId } from "./own-ids.ts";
import { kindsOfRecords, parseRef, type Subject } from "./refs.ts";

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

/** Returns the key of a timer's callback in `on`, such as `booking.timer.door-code`. */
export function timerKey(kind: Subject["kind"], name: string): string {
  return `${kind}.timer.${name}`;
}

/** Returns the name of the timer in a key such as `booking.timer.door-code`; `undefined` in other keys. */
export function timerNameIn(key: string): string | undefined {
  return /^(?:booking|listing)\.timer\.(.*)$/s.exec(key)?.[1];
}

/** Whether a key of `on` names a timer. */
export function isTimerKey(key: string): boolean {
  const name = timerNameIn(key);
  return name !== undefined && NAME.test(name);
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

/** @throws InvalidArgumentError if `on` could not handle the timer, or its time is invalid */
export function checkTimer(on: object, kind: Subject["kind"], name: string, at: Date): void {
  checkTimerName(name);
  const key = timerKey(kind, name);
  if (callbackFor(on, key) === undefined) {
    const ofKind = Object.keys(on).filter((each) => each.startsWith(timerKey(kind, "")));
    const near = nearest(
      name,
      ofKind.map((each) => timerNameIn(each)!),
    );
    throw new InvalidArgumentError({
      path: ["name"],
      message: `\`on\` has no callback ${key} and no fallback${near === undefined ? "" : `; did you mean ${near}?`}`,
    });
  }
  checkTimerTime(name, at);
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
export async function timersOf(
  store: Pick<EventStore<unknown>, "list">,
  ref: string,
): Promise<StoredEvent[]> {
  const timers: StoredEvent[] = [];
  for await (const timer of eachEvent(store, { ref, source: "timer" })) timers.push(timer);
  return timers;
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
  return kind === undefined ? event.type : timerKey(kind, timerOf(event).name);
}
