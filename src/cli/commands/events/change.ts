import { setTimeout as sleep } from "node:timers/promises";
import { countEvents } from "../../../console/event-pages.ts";
import { type Counted, MOST_FOLLOWED, ReplayOutcome } from "../../../console/replay-outcome.ts";
import {
  areTimers,
  isToCome,
  matchesOnlyTimers,
  runNowWords,
  scheduledWords,
} from "../../../console/scheduled-words.ts";
import { eachEvent } from "../../../stores/each-event.ts";
import type { EventFilter } from "../../../stores/event-filter.ts";
import { type Change, choosableStates } from "../../../stores/event-states.ts";
import type { EventStore } from "../../../stores/event-store.ts";
import type { StoredEvent } from "../../../stores/stored-event.ts";
import { confirm, filterOf, yesOption } from "../../arguments.ts";
import { type Invocation, type Subcommand, UsageError } from "../../command.ts";
import { findEvent } from "../../event-ids.ts";
import { storeOptions, withStore } from "../../open-store.ts";
import { filterIn } from "../../refs-in-accounts.ts";
import { eventColumns, eventsOf, filterOptions } from "./columns.ts";

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
      const { out, flag, positionals: eventIds } = invocation;
      const filter = filterOf(invocation, states);
      const hasIds = eventIds.length > 0;
      if ((flag("all") || filter !== undefined) === hasIds)
        throw new UsageError(
          "Give ids of events, or a filter, or --all. Ids cannot be combined with a filter or --all.",
        );
      return withStore(invocation, async (store) => {
        const selected = { ...(await filterIn(store, filter ?? {})), state: filter?.state ?? "parked" };
        // Find all events first. If one id is unknown, the command then changes nothing.
        const found: StoredEvent[] = [];
        for (const eventId of eventIds) found.push(await findEvent(store, eventId));
        if (flag("dry-run")) {
          const events = found.filter((event) => states.includes(event.state));
          if (!hasIds) for await (const event of eachEvent(store, selected)) events.push(event);
          const shown = eventsOf(events.length, hasIds ? "" : selected.state);
          out.result({ dryRun: true, count: events.length, events }, () =>
            [`Would ${name} ${shown}`, out.table(events, eventColumns(events))].join("\n").trim(),
          );
          return undefined;
        }
        await confirmRunNow(invocation, name, found);
        const waitsFor =
          name === "replay" && flag("wait") ? await followed(store, found, selected) : undefined;
        const changed = hasIds
          ? await changeSome(store, name, found)
          : await changeMatching(invocation, store, name, selected);
        if (waitsFor) return waitForOutcome(invocation, waitsFor, changed);
        out.result({ [`${name}ed`]: changed }, () => `${eventsOf(changed)} ${say}`);
        return undefined;
      });
    },
  };
}

const waitOption = {
  wait: { help: "wait until each event is done or has failed again; exit with 1 if one has failed" },
};

/**
 * The events whose outcome `--wait` tells, as they are before the replay.
 *
 * @throws UsageError if they are too many
 */
async function followed(
  store: Store,
  found: readonly StoredEvent[],
  filter: EventFilter,
): Promise<ReplayOutcome> {
  const events = [...found];
  if (found.length === 0)
    for await (const event of eachEvent(store, filter)) {
      if (events.push(event) > MOST_FOLLOWED)
        throw new UsageError(
          `--wait takes at most ${MOST_FOLLOWED} events. Give a filter that selects fewer.`,
        );
    }
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

/** Asks before scheduled events among these run early. Their callbacks cannot be taken back. */
async function confirmRunNow(
  invocation: Invocation,
  name: Change,
  events: readonly StoredEvent[],
): Promise<void> {
  const toCome = events.filter(isToCome);
  if (name === "discard" || toCome.length === 0) return;
  await confirm(invocation, runNowWords(toCome.length, areTimers(toCome)));
}

async function changeSome(store: Store, name: Change, events: readonly StoredEvent[]): Promise<number> {
  let changed = 0;
  for (const { eventId } of events) {
    const count = await store[name]({ eventId });
    changed += count;
    if (count === 0 && (await findEvent(store, eventId)).state === "processing")
      throw new Error(`Event ${eventId} is being processed now. Try again later.`);
  }
  return changed;
}

async function changeMatching(
  invocation: Invocation,
  store: Store,
  name: Change,
  filter: EventFilter & Pick<StoredEvent, "state">,
): Promise<number> {
  const { out, io } = invocation;
  const { state } = filter;
  const { [state]: before } = await store.counts();
  const { total } = await countEvents(store, filter);
  if (total === 0 && io.stdin.isTTY) return 0;
  await confirm(invocation, await questionOf(store, name, filter, total));
  let wipe = out.progress(`0 of ${eventsOf(total)}`);
  let ended = false;
  const progress = setInterval(async () => {
    const { [state]: left } = await store.counts().catch(() => ({ [state]: before }));
    // After the change has ended, print no count, because nothing would clear the line of the count.
    if (!ended) wipe = out.progress(`${Math.min(total, Math.max(0, before - left!))} of ${eventsOf(total)}`);
  }, 500);
  try {
    return await store[name](filter);
  } finally {
    ended = true;
    clearInterval(progress);
    wipe();
  }
}

async function questionOf(
  store: Store,
  name: Change,
  filter: EventFilter & Pick<StoredEvent, "state">,
  total: number,
): Promise<string> {
  if (filter.state !== "scheduled")
    return `${name === "replay" ? "Replay" : "Discard"} ${eventsOf(total, filter.state)}`;
  const onlyTimers = await matchesOnlyTimers(store, filter);
  return name === "replay"
    ? runNowWords(total, onlyTimers)
    : `Cancel ${scheduledWords(total, onlyTimers)}, so that ${total === 1 ? "it does" : "they do"} not run`;
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
