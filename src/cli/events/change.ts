import type { EventFilter, EventStore, StoredEvent } from "../../stores/event-store.ts";
import type { Command, Invocation } from "../command.ts";
import { refusedBy, yesOption } from "../confirm.ts";
import { exitCodes, MissingError, UsageError } from "../exit-code.ts";
import { storeOptions, withStore } from "../open-store.ts";
import { filterOf, filterOptions } from "./filter.ts";

/** ms between two looks at how far a change of many events has come. */
const LOOK_AGAIN = 500;

/** @throws MissingError where there is no such event */
export async function find(store: EventStore<unknown>, eventId: string): Promise<StoredEvent> {
  const event = await store.get(eventId.toLowerCase());
  if (!event) throw new MissingError(`there is no event ${eventId}`);
  return event;
}

interface Change {
  readonly name: "replay" | "discard";
  readonly summary: string;
  readonly description: string;
  /** The field of the result. */
  readonly counted: string;
  readonly say: (count: number) => string;
}

/** The command that replays or discards events: some by their ids, or all that match a filter. */
export function changeCommand({ name, summary, description, counted, say }: Change): Command {
  const filters = Object.fromEntries(
    Object.entries(filterOptions).map(([option, given]) => [
      option,
      { ...given, help: `with --all: ${option === "state" ? `${given.help}; default: parked` : given.help}` },
    ]),
  );
  return {
    name,
    summary,
    description,
    takes: "<eventId> ...",
    arguments: [0, 1000],
    examples: [
      `stayhook events ${name} 6f1f7a1e-9a40-4d43-8f0a-0a3f4d1f2b11 --store events.db`,
      `stayhook events ${name} --all --reason not-found --yes --store events.db`,
    ],
    options: {
      all: { type: "boolean", help: "all events that are parked, or that match the filter" },
      ...filters,
      ...yesOption,
      ...storeOptions,
    },
    run: async (invocation) => {
      const { out, flag, text, positionals } = invocation;
      const all = flag("all");
      if (all === positionals.length > 0) throw new UsageError("give ids of events, or --all");
      const given = Object.keys(filterOptions).filter((option) => text(option) !== undefined);
      if (!all && given.length > 0)
        throw new UsageError(`${given.map((option) => `--${option}`).join(" and ")} go with --all`);
      const filter: EventFilter = { state: "parked", ...filterOf(invocation) };
      if (all) {
        const question = `${name === "replay" ? "Replay" : "Discard"} all ${filter.state} events${given.length > 0 ? " that match" : ""}`;
        const refused = await refusedBy(invocation, question);
        if (refused !== undefined) return refused;
      }
      const changed = await withStore(invocation, (store) =>
        all ? changeAll(invocation, store, name, filter) : changeSome(store, name, positionals),
      );
      out.result({ [counted]: changed }, () => say(changed));
      return exitCodes.done;
    },
  };
}

async function changeSome(
  store: EventStore<unknown>,
  name: Change["name"],
  eventIds: readonly string[],
): Promise<number> {
  // A mistyped id must not leave the work half done.
  for (const eventId of eventIds) await find(store, eventId);
  let changed = 0;
  for (const eventId of eventIds) {
    const count = await store[name]({ eventId: eventId.toLowerCase() });
    changed += count;
    if (count === 0 && (await find(store, eventId)).state === "processing")
      throw new Error(`event ${eventId} is being processed right now`);
  }
  return changed;
}

async function changeAll(
  { out }: Invocation,
  store: EventStore<unknown>,
  name: Change["name"],
  filter: EventFilter,
): Promise<number> {
  const { state = "parked" } = filter;
  const { [state]: total } = await store.counts();
  let wipe = out.progress(`0 of ${total} ${state} events`);
  let ended = false;
  const look = setInterval(async () => {
    const { [state]: left } = await store.counts().catch(() => ({ [state]: total }));
    // After the end, nothing would wipe the line away.
    if (ended) return;
    wipe = out.progress(`${Math.max(0, total - left!)} of ${total} ${state} events`);
  }, LOOK_AGAIN);
  try {
    return await store[name](filter);
  } finally {
    ended = true;
    clearInterval(look);
    wipe();
  }
}
