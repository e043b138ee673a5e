import type { EventFilter, EventOrigin, EventState, FailureReason } from "../../stores/event-store.ts";
import type { Invocation, Option } from "../command.ts";
import { UsageError } from "../exit-code.ts";

export const states: readonly EventState[] = ["pending", "processing", "retrying", "done", "parked"];
export const failures: readonly FailureReason[] = [
  "callback",
  "invalid-record",
  "not-found",
  "denied",
  "unavailable",
];
const reasons = [...failures, "discarded"] as const;
const sources: readonly EventOrigin[] = ["webhook", "reconcile", "recheck"];

export const filterOptions: Readonly<Record<string, Option>> = {
  state: { type: "string", value: "<state>", help: states.join(", ") },
  ref: { type: "string", value: "<ref>", help: "of this record: booking:<code> or listing:<id>" },
  type: { type: "string", value: "<type>", help: "such as booking.Confirmed" },
  reason: { type: "string", value: "<reason>", help: reasons.join(", ") },
  source: { type: "string", value: "<source>", help: sources.join(", ") },
  since: { type: "string", value: "<time>", help: "received at this time or later" },
  before: { type: "string", value: "<time>", help: "received before this time" },
};

/** The filter that the options make. @throws UsageError */
export function filterOf(invocation: Invocation): EventFilter {
  const { text } = invocation;
  const filter: EventFilter = {
    state: choice(invocation, "state", states),
    ref: text("ref"),
    type: text("type"),
    reason: choice(invocation, "reason", reasons),
    source: choice(invocation, "source", sources),
    receivedAfter: timeOf(invocation, "since"),
    receivedBefore: timeOf(invocation, "before"),
  };
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined));
}

/** An option that is one of a list. @throws UsageError */
export function choice<T extends string>(
  { text }: Invocation,
  name: string,
  choices: readonly T[],
): T | undefined {
  const value = text(name);
  if (value === undefined) return undefined;
  const chosen = choices.find((each) => each === value);
  if (chosen === undefined) throw new UsageError(`--${name} must be one of ${choices.join(", ")}`);
  return chosen;
}

function timeOf({ text }: Invocation, name: string): Date | undefined {
  const given = text(name);
  if (given === undefined) return undefined;
  const time = new Date(given);
  if (Number.isNaN(time.getTime()))
    throw new UsageError(`--${name} must be a time, such as 2026-11-21T12:00:00Z`);
  return time;
}
