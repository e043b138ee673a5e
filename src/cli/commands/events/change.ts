import { setTimeout as sleep } from "node:timers/promises";
import { inWords } from "../../../console/filter-form.ts";
import { eventsOf } from "../../../console/flash.ts";
import { operationText } from "../../../console/operations.ts";
import { type Chosen, type Operation, type Plan, planOfAll, planOfChosen } from "../../../console/plan.ts";
import { type Counted, MOST_FOLLOWED, ReplayOutcome } from "../../../console/replay-outcome.ts";
import { type Change, choosableStates, type EventState } from "../../../stores/event-states.ts";
import type { EventStore } from "../../../stores/event-store.ts";
import type { StoredEvent } from "../../../stores/stored-event.ts";
import { confirm, filterOf, yesOption } from "../../arguments.ts";
import { type Invocation, type Subcommand, UsageError } from "../../command.ts";
import { findEvent } from "../../event-ids.ts";
import { storeOptions, withStore } from "../../open-store.ts";
import { printable } from "../../output.ts";
import { filterIn } from "../../refs-in-accounts.ts";
import { eventColumns, filterOptions } from "./columns.ts";

type Store = EventStore<unknown>;

/**
 * Makes a command that replays or discards events by their ids or by a filter.
 *
 * @param say - the words to print after the number of changed events
 */
function changeCommand(name: Change, summary: string, description: string, say: string): Subcommand {
  const states = choosableStates(name, { state: "scheduled" });
  const { state, ...filters } = filterOptions(states);
  return {
    name,
    summary,
    description: `${description}\nGive ids of events, or a filter, or --all for all parked events. A filter selects only parked events, unless --state names another state.`,
    takes: "<eventId> ...",
    arguments: [0, 1000],
    examples: [
      `stayhook events ${name} 6f1f7a1e-9a40-4d43-8f0a-0a3f4d1f2b11 --store events.db`,
      `stayhook events ${name} --reason not-found --since 2d --dry-run --store events.db`,
      `stayhook events ${name} --all --yes --store events.db`,
    ],
    options: {
      all: { help: "select all parked events; a filter works without --all" },
      ...filters,
      state: { ...state, help: `${state.help}; default: parked` },
      "dry-run": { help: "list the events that would change, and change nothing" },
      ...(name === "replay" && waitOption),
      ...yesOption,
      ...storeOptions,
    },
    run: async (invocation) => {
      const { flag, positionals: eventIds } = invocation;
      const filter = filterOf(invocation, states);
      const hasIds = eventIds.length > 0;
      if ((flag("all") || filter !== undefined) === hasIds)
        throw new UsageError(
          "Give ids of events, or a filter, or --all. Ids cannot be combined with a filter or --all.",
        );
      return withStore(invocation, async (store) => {
        // Find all events first. If one id is unknown, the command then changes nothing.
        const chosen: Chosen[] = [];
        for (const eventId of eventIds) chosen.push({ eventId: (await findEvent(store, eventId)).eventId });
        if (hasIds)
          return carryOut(invocation, store, {
            name,
            say,
            plan: await planOfChosen(store, name, chosen),
            chosen,
          });
        const selected = { ...(await filterIn(store, filter ?? {})), state: filter?.state ?? "parked" };
        const plan = planOfAll(store, name, { filter: selected });
        return carryOut(invocation, store, { name, say, plan, state: selected.state });
      });
    },
  };
}

interface Asked {
  readonly name: Change;
  readonly say: string;
  readonly plan: Plan;
  /** The events that the user has named. */
  readonly chosen?: readonly Chosen[];
  /** The state of the events, if a filter chooses them. */
  readonly state?: EventState;
}

/** Shows what would change, or asks, changes it, and prints what was changed. */
async function carryOut(
  invocation: Invocation,
  store: Store,
  { name, say, plan, chosen = [], state }: Asked,
): Promise<number | undefined> {
  const { out, io, flag } = invocation;
  if (flag("dry-run")) return preview(invocation, plan);
  const { question, total, early } = await plan.describe();
  const isAsked = state === undefined ? early.length > 0 : total > 0 || io.stdin.isTTY !== true;
  if (isAsked) await confirm(invocation, question);
  const outcome = name === "replay" && flag("wait") ? await followed(store, plan) : undefined;
  const operations: Operation[] = [];
  const tell = (): void => {
    const changed = operations.reduce((sum, { count }) => sum + count, 0);
    out.result({ [`${name}ed`]: changed }, () => textOf(operations, `${eventsOf(changed)} ${say}`));
  };
  const run = () => plan.run((operation) => operations.push(operation));
  const changed = await withProgress(invocation, store, state, total, run).catch((error: unknown) => {
    // Others were changed before one of them failed.
    if (operations.length > 0) tell();
    throw error;
  });
  if (outcome) return waitForOutcome(invocation, outcome, changed);
  const busy = changed === chosen.length ? undefined : await firstBusy(store, chosen);
  if (busy === undefined || changed > 0) tell();
  if (busy !== undefined) throw new Error(`Event ${busy} is being processed now. Try again later.`);
  return undefined;
}

/** The id of the first event that is being processed, which a change leaves as it is. */
async function firstBusy(store: Store, chosen: readonly Chosen[]): Promise<string | undefined> {
  for (const { eventId } of chosen)
    if ((await findEvent(store, eventId)).state === "processing") return eventId;
  return undefined;
}

/** Says which events were changed, or by which filter. */
function textOf(operations: readonly Operation[], summary: string): string {
  const filter = operations.find((operation) => operation.filter)?.filter;
  if (filter) return printable(`${summary} (${inWords({ filter })})`);
  return [...operations.map((operation) => printable(operationText(operation))), summary].join("\n");
}

/** Lists the events that a plan would change. */
async function preview({ out }: Invocation, plan: Plan): Promise<undefined> {
  const events: StoredEvent[] = [];
  for await (const event of plan.events()) events.push(event);
  const { question } = await plan.describe();
  out.result({ dryRun: true, count: events.length, events }, () =>
    [`Would ${question[0]!.toLowerCase()}${question.slice(1)}`, out.table(events, eventColumns(events))]
      .join("\n")
      .trim(),
  );
}

const waitOption = {
  wait: { help: "wait until each event is done or has failed again; exit with 1 if one has failed" },
};

/**
 * The events whose outcome `--wait` tells, as they are before the replay.
 *
 * @throws UsageError if they are too many
 */
async function followed(store: Store, plan: Plan): Promise<ReplayOutcome> {
  const events: StoredEvent[] = [];
  for await (const event of plan.events())
    if (events.push(event) > MOST_FOLLOWED)
      throw new UsageError(`--wait takes at most ${MOST_FOLLOWED} events. Give a filter that selects fewer.`);
  return new ReplayOutcome(store, events);
}

/** The time between two looks at the events of a replay, ms. */
const LOOK_INTERVAL = 500;

/** Waits for the events of a replay. Returns the exit code, which is 1 unless all of them are done. */
async function waitForOutcome(
  { out, io: { signal } }: Invocation,
  outcome: ReplayOutcome,
  replayed: number,
): Promise<number> {
  const said = ({ done, failed, waiting }: Counted) =>
    `${replayed} replayed: ${done} done, ${failed} failed again, ${waiting} waiting`;
  let counted = await outcome.look();
  while (counted.waiting > 0 && !counted.isSilent) {
    const wipe = out.progress(said(counted));
    await sleep(LOOK_INTERVAL, undefined, { signal }).finally(wipe);
    counted = await outcome.look();
  }
  const { isSilent, ...result } = counted;
  if (isSilent)
    out.warn(
      "No process has claimed anything for 3 minutes. Does the app run, and does it reach the platform?",
    );
  out.result({ replayed, ...result }, () => said(counted));
  return counted.failed + counted.waiting > 0 ? 1 : 0;
}

/** Makes a change of all events of a state, and shows on a terminal how many have left the state. */
async function withProgress(
  { out }: Invocation,
  store: Store,
  state: EventState | undefined,
  total: number,
  change: () => Promise<number>,
): Promise<number> {
  if (state === undefined || total === 0) return change();
  const { [state]: before } = await store.counts();
  let wipe = out.progress(`0 of ${eventsOf(total)}`);
  let ended = false;
  const progress = setInterval(async () => {
    const { [state]: left } = await store.counts().catch(() => ({ [state]: before }));
    // After the change has ended, print no count, because nothing would clear the line of the count.
    if (!ended) wipe = out.progress(`${Math.min(total, Math.max(0, before - left!))} of ${eventsOf(total)}`);
  }, 500);
  try {
    return await change();
  } finally {
    ended = true;
    clearInterval(progress);
    wipe();
  }
}

export const replay = changeCommand(
  "replay",
  "let the app handle events again",
  "Replays done, parked and retrying events. The running app then handles the events again.",
  "will be handled again",
);

export const discard = changeCommand(
  "discard",
  "end events without handling them",
  "Discards pending, retrying and parked events. A discarded event counts as done. The app ignores repeated deliveries of a discarded event.",
  "discarded",
);
