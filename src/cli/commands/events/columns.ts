import { accountOf } from "../../../account.ts";
import { splitFrames } from "../../../error-text.ts";
import { type EventState, eventOrigins, eventReasons, eventStates } from "../../../stores/event-states.ts";
import type { StoredEvent } from "../../../stores/stored-event.ts";
import { knownType } from "../../../webhooks/timer-rules.ts";
import type { Options } from "../../command.ts";
import { shortIds } from "../../event-ids.ts";
import { ago, type Column, type Style } from "../../output.ts";

const stateStyles: Readonly<Record<EventState, Style>> = {
  scheduled: "cyan",
  pending: "yellow",
  processing: "cyan",
  retrying: "yellow",
  done: "green",
  parked: "red",
};

/** @param events - the rows of the table, whose short ids must differ */
export function eventColumns(events: readonly StoredEvent[]): readonly Column<StoredEvent>[] {
  const short = shortIds(events);
  const state = { style: ({ state }: StoredEvent) => stateStyles[state] };
  return [
    [
      "EVENT",
      ({ eventId }) => eventId,
      { text: ({ eventId }) => short.get(eventId) ?? eventId, isWhole: true },
    ],
    ["STATE", ({ state }) => state, { ...state, isWhole: true }],
    ["TYPE", knownType],
    // The ref of an event begins with its account. An event without a record shows its account here.
    ["RECORD", (event) => event.ref ?? accountOf(event)],
    ["TRIES", ({ attempts }) => attempts, { isMinor: true }],
    [
      "RECEIVED",
      ({ receivedAt }) => receivedAt,
      { text: ({ receivedAt }) => ago(receivedAt), isWhole: true },
    ],
    ["REASON", ({ reason }) => reason],
    ["DUE", dueAtOf, { text: (event) => ago(dueAtOf(event)), isWhole: true }],
    ["ERROR", errorOf, { isBelow: true, text: (event) => errorOf(event)?.replace(/\s+/g, " ") ?? null }],
  ];
}

/** The last error without its frames, which `show` prints. */
function errorOf({ history }: StoredEvent): string | undefined {
  const error = history.at(-1)?.error;
  return error === undefined ? undefined : splitFrames(error).text;
}

/** The due time of a processing event is the end of its lease. */
const dueAtOf = ({ state, dueAt }: StoredEvent): Date | null => (state === "processing" ? null : dueAt);

export function filterOptions(takenStates = eventStates) {
  const time = "2h (2 hours ago) or 2026-11-21T12:00:00Z";
  return {
    account: { value: "<id>", help: "only events of this account" },
    ref: {
      value: "<ref>",
      help: "the record: booking:<code>, listing:<id>, message:<code>, or only the code or id",
    },
    type: { value: "<type>", help: "the event's type, such as booking.Confirmed" },
    reason: {
      value: "<reason>",
      help: `the event's reason: ${eventReasons.join(", ")}`,
    },
    state: { value: "<state>", help: `the event's state: ${takenStates.join(", ")}` },
    source: {
      value: "<source>",
      help: `the event's source: ${eventOrigins.join(", ")}`,
    },
    since: { value: "<time>", help: `only events received at or after this time: ${time}` },
    until: { value: "<time>", help: `only events received before this time: ${time}` },
  } satisfies Options;
}
