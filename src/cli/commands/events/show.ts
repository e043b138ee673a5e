import { duration } from "../../../console/html.ts";
import { describeChanges, newestFirst, type Step, timelineOf } from "../../../console/timeline.ts";
import { splitFrames } from "../../../error-text.ts";
import type { StoredEvent } from "../../../stores/stored-event.ts";
import { knownType } from "../../../webhooks/timer-rules.ts";
import type { Subcommand } from "../../command.ts";
import { findEvent } from "../../event-ids.ts";
import { storeOptions, withStore } from "../../open-store.ts";
import { ago, plural } from "../../output.ts";

export const show: Subcommand = {
  name: "show",
  summary: "show one event with its timeline: arrival, attempts, next retry",
  takes: "<eventId>",
  arguments: [1, 1],
  description: "The store keeps the last 10 attempts of an event.",
  examples: ["stayhook events show 6f1f7a1e-9a40-4d43-8f0a-0a3f4d1f2b11 --store events.db"],
  options: storeOptions,
  run: async (invocation) => {
    const { out, positionals } = invocation;
    await withStore(invocation, async (store) => {
      const event = await findEvent(store, positionals[0] ?? "");
      const record = event.ref === null ? undefined : await store.snapshotOf(event.ref);
      const { status: lastStatus = null, fields: lastFields = null } = record?.snapshot ?? {};
      out.result({ ...event, lastStatus, lastFields }, () => {
        const { history, receivedAt, dueAt, doneAt, attempts, ...fields } = event;
        return out.fields([
          ...Object.entries({ ...fields, type: knownType(event) }),
          ["last status of the record", lastStatus],
          ["last fields of the record", lastFields],
          ...(out.isTerminal ? foldedLinesOf(event) : linesOf(event)),
        ]);
      });
    });
  },
};

/** One line for each step in the life of an event. A parked event has none at its end: its last attempt says so. */
const linesOf = (event: StoredEvent): Line[] =>
  timelineOf(event)
    .map((step) => lineOf(event, step))
    .filter((line) => line !== undefined);

/** The lines for a terminal: the newest first, equal errors once, and each line of an error in a line of its own. */
const foldedLinesOf = (event: StoredEvent): Line[] =>
  newestFirst(timelineOf(event)).flatMap((step) => {
    const line = lineOf(event, step);
    if (line === undefined || step.step !== "attempt") return line === undefined ? [] : [line];
    const { entry, same = [] } = step;
    const [name] = line;
    const { text, frames } = splitFrames(entry.error ?? "");
    const [first = "", ...others] = text.split(/\s*\n\s*/);
    const error = entry.error === undefined ? {} : { error: first };
    const before =
      same.length === 0
        ? []
        : [
            `the same error in ${plural(same.length, "earlier attempt")}, the first ${same.at(-1)!.at.toISOString()}`,
          ];
    const below = [...others, ...frames, ...before].map((more): Line => ["", more]);
    return [[name, describeAttempt({ ...entry, ...error }, duration(entry.duration))], ...below];
  });

type Line = readonly [name: string, text: unknown];

function lineOf(event: StoredEvent, step: Step): Line | undefined {
  const due = (at: Date | null) => {
    if (at === null) return "now";
    const isOver = at.getTime() <= Date.now();
    return `${at.toISOString()}, ${isOver ? "as soon as a process of the app is free" : ago(at)}`;
  };
  switch (step.step) {
    case "received":
      return ["received", `${step.at.toISOString()} by ${event.source}`];
    case "attempt":
      return [step.number === undefined ? "attempt" : `attempt ${step.number}`, describeAttempt(step.entry)];
    case "scheduled":
      return ["scheduled for", due(step.at)];
    case "pending":
      return ["next attempt", due(step.at)];
    case "retrying":
      return ["next retry", due(step.at)];
    case "processing":
      return ["lease ends", due(step.at)];
    case "done":
    case "discarded":
      return [step.step, step.at];
    default:
      return undefined;
  }
}

function describeAttempt(entry: StoredEvent["history"][number], took = `${entry.duration} ms`): string {
  const { at, outcome, reason, worker, error, changes } = entry;
  const ended = reason === undefined ? outcome : `${outcome} (${reason})`;
  const by = worker === undefined ? "" : ` by ${worker}`;
  const more = error === undefined ? changes && describeChanges(changes) : inOneLine(error);
  return `${at.toISOString()}${by}, took ${took}: ${ended}${more === undefined ? "" : `: ${more}`}`;
}

/** An error with its frames behind it. */
function inOneLine(error: string): string {
  const { text, frames } = splitFrames(error);
  return [text, ...frames].join(" ");
}
