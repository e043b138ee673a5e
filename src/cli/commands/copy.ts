import { isDeepStrictEqual } from "node:util";
import { StayhookError } from "../../errors.ts";
import type { EventStore } from "../../stores/event-store.ts";
import { keepLastReceived } from "../../stores/last-received.ts";
import { type Command, type Invocation, UsageError } from "../command.ts";
import { asWaiting, copyPlace, isHeld } from "../moved-events.ts";
import { checkEnd, checkEngineOptions, engineStoreOptions, openStore } from "../open-store.ts";
import { plural } from "../output.ts";

type Store = EventStore<unknown>;

/** How many events or snapshots one call reads and writes. */
const BATCH = 500;

export const copy: Command = {
  description: `Copies a subscriber to another store: the events of all states with their history, the snapshots and ledgers of the records, the time of the last notification, and the place where the reconciler goes on.
Stop your app first, and start it with the new store afterwards. You can run the command again after an interruption: it skips events and records that the new store has. If they differ from those of the old store, or if the old store changes meanwhile, the command fails.`,
  examples: ["stayhook copy --from events.db --to postgres://localhost/app"],
  options: {
    from: {
      value: "<store>",
      help: "the store to read: SQLite file, or postgres://, mysql:// or redis:// URL",
    },
    to: { value: "<store>", help: "the store to write; it is made if it is missing" },
    ...engineStoreOptions,
    "from-schema": { value: "<name>", help: "PostgreSQL's schema of --from; default: --schema" },
    "to-schema": { value: "<name>", help: "PostgreSQL's schema of --to; default: --schema" },
    "from-prefix": { value: "<prefix>", help: "Redis' key prefix of --from; default: --prefix" },
    "to-prefix": { value: "<prefix>", help: "Redis' key prefix of --to; default: --prefix" },
  },
  run: async (invocation) => {
    const { out } = invocation;
    const [from, to] = [sideOf(invocation, "from"), sideOf(invocation, "to")];
    if (isDeepStrictEqual(from, to)) throw new UsageError("--from and --to are the same store.");
    checkEngineOptions(invocation, [from.where, to.where], "--from and --to");
    const source = await openStore(invocation, from.where, { ...from, setting: "--from", isOption: true });
    try {
      const opening = { ...to, setting: "--to", isOption: true, create: true };
      const target = await openStore(invocation, to.where, opening);
      try {
        await assertIdle(source, "--from");
        await assertIdle(target, "--to");
        const before = await standOf(source);
        const check = (await isEmpty(target)) ? undefined : target;
        const snapshots = await copySnapshots(source, target, check);
        await copyLedgers(source, target, check);
        const events = await copyEvents(source, target, check);
        const last = await source.lastReceivedAt();
        if (last) await keepLastReceived(target, last.getTime());
        await copyPlace(source, target);
        // An app that still runs may have claimed or recorded an event meanwhile.
        await assertIdle(source, "--from");
        if (!isDeepStrictEqual(await standOf(source), before)) throw changed();
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

/** Reads the options of one of the two stores. @throws UsageError */
function sideOf(invocation: Invocation, side: "from" | "to") {
  const { text } = invocation;
  const where = text(side);
  if (!where) throw new UsageError("copy requires --from and --to.");
  checkEnd(where, `--${side}`);
  checkEngineOptions(invocation, [where], `--${side}`, `${side}-`);
  const [schema, prefix] = (["schema", "prefix"] as const).map(
    (name) => text(`${side}-${name}`) ?? text(name),
  );
  return { where, schema, prefix };
}

/** @throws StayhookError if an event is being processed */
async function assertIdle(store: Store, option: string): Promise<void> {
  const processing = await store.list({ state: "processing", limit: BATCH });
  const held = processing.filter(isHeld);
  if (held.length > 0) {
    throw new StayhookError(
      `An app is processing ${held.length} of the events in the store of ${option}, such as ${held[0]!.eventId}. Stop the app, and try again.`,
    );
  }
}

/**
 * Returns values that change when an app records or handles an event. `done` is not among them, because some stores
 * estimate it.
 */
async function standOf(store: Store) {
  const [newest] = await store.list({ limit: 1 });
  const { done: _, ...open } = await store.counts();
  return { newest: newest?.eventId, open };
}

async function isEmpty(store: Store): Promise<boolean> {
  for (const kept of [store.snapshots(), store.ledgers()]) for await (const _ of kept) return false;
  return (await store.list({ limit: 1 })).length === 0;
}

const again = "Stop the app, empty the store of --to, and copy again.";

function changed(): StayhookError {
  return new StayhookError(
    `The store of --from changed during the copy, so the store of --to may lack events. ${again}`,
  );
}

/**
 * Copies the snapshots, each with its ledger.
 *
 * @param check - the target if it was not empty: a record that it had already must be the same
 */
async function copySnapshots(source: Store, target: Store, check?: Store): Promise<number> {
  let copied = 0;
  for await (const snapshots of batchesOf(source.snapshots())) {
    await target.restore({ events: [], snapshots });
    if (check)
      await assertSame(
        snapshots,
        ({ ref }) => check.snapshotOf(ref),
        ({ ref }) => `snapshot of ${ref}`,
      );
    copied += snapshots.length;
  }
  return copied;
}

/** Copies the ledgers of records without a snapshot. `restore` skips the others. */
async function copyLedgers(source: Store, target: Store, check?: Store): Promise<void> {
  for await (const ledgers of batchesOf(source.ledgers())) {
    await target.restore({ events: [], snapshots: [], ledgers });
    if (check)
      await assertSame(
        ledgers,
        async ({ ref }) => ({ ref, ledger: await check.ledgerOf(ref) }),
        ({ ref }) => `ledger of ${ref}`,
      );
  }
}

async function* batchesOf<T>(items: AsyncIterable<T>): AsyncGenerator<T[]> {
  let batch: T[] = [];
  for await (const item of items) {
    batch.push(item);
    if (batch.length < BATCH) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

/**
 * Copies the oldest events first, so that their order of arrival stays. The pages of `list` begin with the newest.
 *
 * @param check - the target if it was not empty: an event that it had already must be the same
 */
async function copyEvents(source: Store, target: Store, check?: Store): Promise<number> {
  /** The id before each page, and how many events the page has. */
  const pages: { readonly after: string | undefined; readonly length: number }[] = [];
  for (let after: string | undefined; ; ) {
    const page = await source.list({ limit: BATCH, after });
    if (page.length === 0) break;
    pages.push({ after, length: page.length });
    after = page.at(-1)!.eventId;
  }
  let copied = 0;
  for (const { after, length } of pages.reverse()) {
    const page = await source.list({ limit: BATCH, after });
    if (page.length !== length) throw changed();
    const events = page.reverse().map(asWaiting);
    await target.restore({ events, snapshots: [] });
    if (check)
      await assertSame(
        events,
        ({ eventId }) => check.get(eventId),
        ({ eventId }) => `event ${eventId}`,
      );
    copied += page.length;
  }
  return copied;
}

/** @throws StayhookError if the target has other values than the source, for example of an earlier copy */
async function assertSame<T>(
  given: readonly T[],
  read: (item: T) => Promise<object | undefined>,
  nameOf: (item: T) => string,
): Promise<void> {
  const there = await Promise.all(given.map(read));
  const index = given.findIndex((item, at) => !isDeepStrictEqual(there[at], item));
  if (index === -1) return;
  throw new StayhookError(
    `The store of --to already had the ${nameOf(given[index]!)}, which differs from that of the store of --from. ${again}`,
  );
}
