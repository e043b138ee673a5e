import { checkAccount, refsAbout, splitKey } from "../account.ts";
import { InvalidArgumentError, StayhookError } from "../errors.ts";
import { checkNoUnknown } from "../option-names.ts";
import { BaseStore } from "./base-store.ts";
import { checkedChangeFilter, checkedFilter, type EventFilter } from "./event-filter.ts";
import { type Change, type EventState, statesOf } from "./event-states.ts";
import type { EventStore } from "./event-store.ts";
import { rowIdOf, withFiringId, withRowId } from "./firing-id.ts";
import { keepLastReceived } from "./last-received.ts";
import {
  erase,
  eraseAccount,
  learn,
  pruneSnapshots,
  remove,
  restore,
  setBack,
} from "./memory/record-rules.ts";
import { copyOfSnapshot } from "./outcomes.ts";
import { slices } from "./slices.ts";
import type { RecordLedger, RecordSnapshot, Snapshot } from "./snapshot.ts";
import type {
  ErasedAccount,
  LearnOptions,
  ListOptions,
  PruneOptions,
  PruneSnapshotsOptions,
} from "./store-options.ts";
import type { RecordPage } from "./store-steps.ts";
import type { RecordName, StoredEvent } from "./stored-event.ts";

/** How many events `list` returns without `limit`. */
const LISTED = 100;
/** The maximum number of events that one step of `replay` or `discard` changes. Longer steps delay notifications. */
const CHANGE_BATCH = 500;
/** The maximum number of snapshots that one call of a store reads, and of old ones that it looks up. */
const SNAPSHOTS_PAGE = 500;

/**
 * What all stores do alike with events that nobody claims now. Changes load records, run a rule of `record-rules.ts` on their
 * rows, and write the rows that the rule has changed.
 */
export abstract class RecordStore<Tx = never> extends BaseStore<Tx> implements EventStore<Tx> {
  /** The maximum number of records that one step of a longer change takes. Longer steps delay notifications. */
  protected readonly step: number = 500;

  async remove(ref: string, what: readonly string[] | "timers"): Promise<number> {
    this.assertOpen();
    checkRef(ref);
    const rows = what === "timers" ? what : await this.#currentRows(what);
    if (rows.length === 0) return 0;
    const events = rows === "timers" ? { ended: rows } : { ids: rows };
    const scope = { records: [nameOf(ref)], ...events, failing: "events could not be removed" };
    return this.withRecords(scope, (tables) => remove(tables, ref, rows));
  }

  /** Returns the ids of the rows, without those of timers that were set to another time since. */
  async #currentRows(ids: readonly string[]): Promise<readonly string[]> {
    const current = await Promise.all(ids.map((eventId) => this.isCurrent(eventId)));
    return ids.filter((_, index) => current[index]).map((eventId) => rowIdOf(eventId).eventId);
  }

  async list({ limit = LISTED, after, ...given }: ListOptions = {}): Promise<StoredEvent[]> {
    this.assertOpen();
    const filter = checkedFilter(given);
    if (limit !== Number.POSITIVE_INFINITY && !(Number.isInteger(limit) && limit > 0))
      throw new InvalidArgumentError({ path: ["limit"], message: "must be a positive whole number" });
    const events: StoredEvent[] = [];
    const from = after === undefined ? undefined : await this.arrivalOf(rowIdOf(after).eventId);
    if (after !== undefined && from === undefined) return events;
    const rest = (before: number | undefined) =>
      this.doList(filter, { before, limit: limit - events.length });
    for await (const found of slices(rest, from)) {
      events.push(...found.map(withFiringId));
      if (events.length >= limit) break;
    }
    return events;
  }

  async counts(): Promise<Record<EventState, number>> {
    this.assertOpen();
    return this.doCounts();
  }

  async oldestWaiting(): Promise<number | undefined> {
    this.assertOpen();
    return this.doOldestWaiting();
  }

  async scheduledDue(): Promise<number> {
    this.assertOpen();
    return this.doScheduledDue();
  }

  replay(filter: EventFilter): Promise<number> {
    return this.#change("replay", filter);
  }

  discard(filter: EventFilter): Promise<number> {
    return this.#change("discard", filter);
  }

  async #change(change: Change, given: EventFilter): Promise<number> {
    this.assertOpen();
    const filter = checkedChangeFilter(change, given);
    const states = statesOf(change, filter);
    let changed = 0;
    const batch = async (before: number | undefined) => {
      this.assertOpen();
      return this.doChange(change, filter, states, { before, limit: CHANGE_BATCH });
    };
    for await (const found of slices(batch)) changed += found;
    if (changed > 0) this.woke();
    return changed;
  }

  async erase(ref: string): Promise<number> {
    this.assertOpen();
    checkRef(ref);
    await this.#keepLastReceived();
    const failing = "the record could not be erased";
    const refs = refsAbout(ref);
    const scope = { records: refs.map(nameOf), ended: "all", failing } as const;
    const erased = await this.withRecords(scope, (tables) => erase(tables, refs));
    if (erased !== undefined) return erased;
    throw new StayhookError(
      `An event of ${ref} is being processed, so nothing of ${ref} was erased. Try again when the attempt has ended.`,
    );
  }

  async eraseAccount(account: string): Promise<ErasedAccount> {
    checkAccount(account);
    this.assertOpen();
    await this.#keepLastReceived();
    const erased = { events: 0, snapshots: 0, processing: 0 };
    for await (const records of this.#steps((from) => this.recordsOf(account, from))) {
      const scope = { records, ended: "all", failing: "the account could not be erased" } as const;
      const { events, snapshots, processing } = await this.withRecords(scope, (tables) =>
        eraseAccount(tables, account),
      );
      erased.events += events;
      erased.snapshots += snapshots;
      erased.processing += processing;
    }
    return erased;
  }

  async snapshotOf(ref: string): Promise<RecordSnapshot | undefined> {
    this.assertOpen();
    return this.doSnapshotOf(ref);
  }

  snapshots(options: { readonly after?: string | undefined } = {}): AsyncGenerator<RecordSnapshot> {
    checkNoUnknown(options, ["after"]);
    return this.#byRef((after) => this.doSnapshots(after, SNAPSHOTS_PAGE), options.after);
  }

  async ledgerOf(ref: string): Promise<string | undefined> {
    this.assertOpen();
    return this.doLedgerOf(ref);
  }

  ledgers(options: { readonly after?: string | undefined } = {}): AsyncGenerator<RecordLedger> {
    checkNoUnknown(options, ["after"]);
    return this.#byRef((after) => this.doLedgers(after, SNAPSHOTS_PAGE), options.after);
  }

  /** Yields what all pages have. */
  async *#byRef<T extends { readonly ref: string }>(
    pageAfter: (ref: string | undefined) => Promise<readonly T[]>,
    after: string | undefined,
  ): AsyncGenerator<T> {
    for (let last = after; ; ) {
      this.assertOpen();
      const page = await pageAfter(last);
      yield* page;
      if (page.length < SNAPSHOTS_PAGE) return;
      last = page.at(-1)!.ref;
    }
  }

  async learn(ref: string, given: Snapshot, options: LearnOptions = {}): Promise<boolean> {
    this.assertOpen();
    checkNoUnknown(options, ["known"]);
    const isKnown = options.known === true;
    const snapshot = copyOfSnapshot(given);
    const failing = "the snapshot could not be written";
    const scope = { records: [nameOf(ref)], ended: "parked", failing } as const;
    return this.withRecords(scope, (tables) => learn(tables, ref, snapshot, isKnown));
  }

  async getMeta(key: string): Promise<{ readonly value: string; readonly age: number } | undefined> {
    this.assertOpen();
    return this.doGetMeta(key);
  }

  async setMeta(
    key: string,
    value: string | undefined,
    options: { readonly expected: string | undefined },
  ): Promise<boolean> {
    this.assertOpen();
    checkNoUnknown(options, ["expected"]);
    return this.doSetMeta(key, value, options.expected);
  }

  async prune(options: PruneOptions): Promise<number> {
    this.assertOpen();
    checkNoUnknown(options, ["state", "reason", "age", "limit"]);
    if (options.state !== "done" && options.state !== "parked")
      throw new InvalidArgumentError({ path: ["state"], message: 'must be "done" or "parked"' });
    // No done event has a failure reason, so nothing matches.
    if (options.limit <= 0 || (options.state === "done" && options.reason !== undefined)) return 0;
    await this.#keepLastReceived();
    return this.doPrune({ ...options, limit: Math.ceil(options.limit) });
  }

  async pruneSnapshots(options: PruneSnapshotsOptions): Promise<number> {
    this.assertOpen();
    checkNoUnknown(options, ["age", "limit"]);
    const { age } = options;
    const failing = "old snapshots could not be deleted";
    for (let pruned = 0; ; ) {
      const limit = Math.min(Math.ceil(options.limit) - pruned, SNAPSHOTS_PAGE);
      if (!(limit > 0)) return pruned;
      const old = await this.oldSnapshots({ age, limit });
      const before = pruned;
      for (const records of this.#split(old))
        pruned += await this.withRecords({ records, failing }, (tables) =>
          pruneSnapshots(tables, { age, limit: records.length }),
        );
      if (old.length < limit || pruned === before) return pruned;
    }
  }

  async restore(batch: {
    readonly events: readonly StoredEvent[];
    readonly snapshots: readonly RecordSnapshot[];
    readonly ledgers?: readonly RecordLedger[] | undefined;
  }): Promise<void> {
    this.assertOpen();
    const issues = batch.events.flatMap(({ eventId, state }, index) => {
      const message = `event ${eventId} is processing. Restore it when its attempt has ended`;
      return state === "processing" ? [{ path: ["events", index], message }] : [];
    });
    if (issues.length > 0) throw new InvalidArgumentError(issues);
    const { snapshots, ledgers = [] } = batch;
    const events = batch.events.map(withRowId);
    const scope = {
      records: [...events, ...[...snapshots, ...ledgers].map(({ ref }) => nameOf(ref))],
      ids: events.map(({ eventId }) => eventId),
      adds: events.length,
      failing: "events could not be restored",
    };
    await this.withRecords(scope, (tables) => restore(tables, events, snapshots, ledgers));
    this.woke();
  }

  protected override async doSetBack(): Promise<void> {
    const failing = "due times could not be repaired after the clock was set back";
    for await (const records of this.#steps((from) => this.dueRecords(from)))
      await this.withRecords({ records, failing }, setBack);
  }

  /** Yields the records of all pages, those of one step after the other. */
  async *#steps(
    page: (from: string | undefined) => Promise<RecordPage>,
  ): AsyncGenerator<readonly RecordName[]> {
    for await (const records of slices(page)) {
      this.assertOpen();
      yield* this.#split(records);
    }
  }

  *#split(records: readonly RecordName[]): Generator<readonly RecordName[]> {
    for (let at = 0; at < records.length; at += this.step) yield records.slice(at, at + this.step);
  }

  /** Notes when the last webhook event was recorded, because the caller may delete this event. */
  async #keepLastReceived(): Promise<void> {
    const newest = await this.doLastReceivedAt();
    if (newest !== undefined) await keepLastReceived(this, newest);
  }
}

function nameOf(ref: string): RecordName {
  return { ref, eventId: "" };
}

/** Refuses a bare code, of which nothing would be deleted without a word. */
function checkRef(ref: unknown): void {
  if (typeof ref === "string" && /^(booking|listing|message):./s.test(splitKey(ref).rest)) return;
  const message = "must be the ref of a record, such as booking:HX3K9 or a17/booking:HX3K9";
  throw new InvalidArgumentError({ path: ["ref"], message });
}
