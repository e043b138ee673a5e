import { StayhookError } from "../../errors.ts";
import { readState, writeState } from "../../reconcile/state.ts";
import { keepLastReceived } from "../../stores/base-store.ts";
import type { EventStore, RecordSnapshot, StoredEvent } from "../../stores/event-store.ts";
import { type Command, UsageError } from "../command.ts";
import { checkEngineOptions, engineStoreOptions, openStore } from "../open-store.ts";
import { plural } from "../output.ts";

type Store = EventStore<unknown>;

/** How many events or snapshots one call reads and writes. */
const BATCH = 500;

export const copy: Command = {
  description: `Copies a subscriber to another store: the events of all states with their history, the snapshots of the records, the time of the last notification, and the place where the reconciler goes on.
Stop your app first, and start it with the new store afterwards. You can run the command again: it skips events and records that the new store has.`,
  examples: ["stayhook copy --from events.db --to postgres://localhost/app"],
  options: {
    from: {
      value: "<store>",
      help: "the store to read: SQLite file, or postgres://, mysql:// or redis:// URL",
    },
    to: { value: "<store>", help: "the store to write; it is made if it is missing" },
    ...engineStoreOptions,
  },
  run: async (invocation) => {
    const { out, text } = invocation;
    const [from, to] = [text("from"), text("to")];
    if (!from || !to) throw new UsageError("copy requires --from and --to.");
    if (from === to) throw new UsageError("--from and --to are the same store.");
    checkEngineOptions(invocation, [from, to], "--from and --to");
    const source = await openStore(invocation, from, { setting: "--from", isOption: true });
    try {
      const target = await openStore(invocation, to, { setting: "--to", isOption: true, create: true });
      try {
        await assertIdle(source, "--from");
        await assertIdle(target, "--to");
        const snapshots = await copySnapshots(source, target);
        const events = await copyEvents(source, target);
        await copyPlaces(source, target);
        // An app that still runs may have claimed an event meanwhile.
        await assertIdle(source, "--from");
        out.result(
          { events, snapshots },
          () => `${plural(events, "event")} and ${plural(snapshots, "snapshot")} copied`,
        );
      } finally {
        await target.close();
      }
    } finally {
      await source.close();
    }
    return undefined;
  },
};

/** @throws StayhookError if an event is being processed */
async function assertIdle(store: Store, option: string): Promise<void> {
  const processing = await store.list({ state: "processing", limit: BATCH });
  const held = processing.filter(({ dueAt }) => dueAt !== null && dueAt.getTime() > Date.now());
  if (held.length > 0) {
    throw new StayhookError(
      `An app is processing ${held.length} of the events in the store of ${option}, such as ${held[0]!.eventId}. Stop the app, and try again.`,
    );
  }
}

async function copySnapshots(source: Store, target: Store): Promise<number> {
  let copied = 0;
  let batch: RecordSnapshot[] = [];
  const write = async (): Promise<void> => {
    await target.restore({ events: [], snapshots: batch });
    copied += batch.length;
    batch = [];
  };
  for await (const snapshot of source.snapshots()) {
    batch.push(snapshot);
    if (batch.length === BATCH) await write();
  }
  if (batch.length > 0) await write();
  return copied;
}

/** Copies the oldest events first, so that their order of arrival stays. The pages of `list` begin with the newest. */
async function copyEvents(source: Store, target: Store): Promise<number> {
  /** The id before each page. */
  const cursors: (string | undefined)[] = [];
  for (let after: string | undefined; ; ) {
    const page = await source.list({ limit: BATCH, after });
    if (page.length === 0) break;
    cursors.push(after);
    after = page.at(-1)!.eventId;
  }
  let copied = 0;
  for (const after of cursors.reverse()) {
    const page = await source.list({ limit: BATCH, after });
    await target.restore({ events: page.reverse().map(waiting), snapshots: [] });
    copied += page.length;
  }
  return copied;
}

/** Lets an event wait whose process died. Its lease has ended. */
function waiting(event: StoredEvent): StoredEvent {
  return event.state === "processing" ? { ...event, state: "retrying" } : event;
}

/** Copies the time of the last notification, and the place where the reconciler goes on. */
async function copyPlaces(source: Store, target: Store): Promise<void> {
  const last = await source.lastReceivedAt();
  if (last) await keepLastReceived(target, last.getTime());
  const place = await readState(source);
  const known = await readState(target);
  if (place.text === undefined || known.text !== undefined) return;
  await writeState(target, known, { ...place.state, owner: null, elapsed: place.sinceBegun });
}
