import { accountOf } from "../../account.ts";
import { realPause } from "../../async.ts";
import { StayhookError } from "../../errors.ts";
import { type Restriction, takesOf } from "../beginnings.ts";
import type { RowFilter } from "../event-filter.ts";
import { type Change, type EventState, noEvents } from "../event-states.ts";
import type { EventStore } from "../event-store.ts";
import { type EventRow, type RecordRow, toName, toStoredEvent } from "../memory/memory-rows.ts";
import type { MemoryStore } from "../memory/memory-store.ts";
import { type MemoryTables, recordKeyOf } from "../memory/memory-tables.ts";
import { changeEvents, prune } from "../memory/record-rules.ts";
import type { Addition, Settlement } from "../outcomes.ts";
import { RecordStore } from "../record-store.ts";
import type { Slice, Sliced } from "../slices.ts";
import type { RecordSnapshot } from "../snapshot.ts";
import type { SqlNotifier } from "../sql/driver.ts";
import type { Timed } from "../store-clock.ts";
import type { PruneOptions, PruneSnapshotsOptions } from "../store-options.ts";
import type {
  AddAnswer,
  ClaimCall,
  Claimed,
  ClaimResult,
  RecordPage,
  Scope,
  Settled,
} from "../store-steps.ts";
import type { ClaimedEvent, RecordName, StoredEvent } from "../stored-event.ts";
import type { DocumentDriver, DocumentQuery, StoreDocument } from "./document-driver.ts";
import {
  documentKey,
  dueOf,
  type Keys,
  type Loaded,
  type LoadedTables,
  loaded,
  nameOf,
  recordKey,
  recordText,
} from "./loaded-tables.ts";

/** How often a step runs again because another process changed its documents meanwhile. */
const TRIES = 100;
/** The longest wait before a step runs again, ms. */
const LONGEST_PAUSE = 50;
/** How many records a claim tries at once. */
const CLAIMS_AT_ONCE = 100;

/**
 * Returns a store in a document database, such as MongoDB. It needs no SQL and no locks, but conditional writes of several
 * documents in one atomic step. It reads and writes a whole record at once, with all its events. It has no
 * `event.atomically`.
 *
 * @param driver - reads and writes the documents
 *
 * @example
 * ```ts
 * import { documentStore } from "stayhook/store";
 *
 * const store = documentStore(driver);
 * ```
 */
export function documentStore(driver: DocumentDriver): EventStore {
  return new DocumentStore(driver);
}

/**
 * Runs the steps of the memory store on the documents that they concern, and writes the documents if they are unchanged.
 * If another process has changed one of them meanwhile, the step runs again.
 */
class DocumentStore extends RecordStore {
  /** No write has many documents. */
  protected override readonly step = 1;
  readonly #driver: DocumentDriver;

  constructor(driver: DocumentDriver) {
    super();
    this.#driver = driver;
  }

  async #run<T>(keys: Keys, step: (rules: MemoryStore, tables: LoadedTables) => T | Promise<T>): Promise<T> {
    for (let tries = 1; tries <= TRIES; tries++) {
      const documents = await this.#read(keys);
      const { tables, rules } = loaded(documents, await this.#now(), keys.arrivals);
      const result = await step(rules, tables);
      const writes = tables.writes();
      if (writes.length === 0 || (await this.#driver.write(writes))) return result;
      await realPause(Math.random() * Math.min(tries, LONGEST_PAUSE));
    }
    const changed = keys.records.map((key) => key.replace("\0", "event ")).join(", ");
    throw new StayhookError(
      `Other processes changed ${changed} during each of ${TRIES} tries. Call again later.`,
    );
  }

  async #read({ records, ids = [] }: Keys): Promise<readonly StoreDocument[]> {
    const homes = ids.length === 0 ? [] : await this.#documents("id", ids);
    return this.#documents("record", [...records, ...homes.map(({ body }) => body)]);
  }

  async #documents(kind: "record" | "id", keys: readonly string[]): Promise<readonly StoreDocument[]> {
    return this.#driver.read([...new Set(keys)].map((key) => documentKey(kind, key)));
  }

  async #now(): Promise<number> {
    return this.#driver.now === undefined ? Date.now() : this.#driver.now();
  }

  /** Returns the rows of these records and events, for a step that only reads. */
  async #view(keys: Keys): Promise<Loaded> {
    return loaded(await this.#read(keys), await this.#now());
  }

  /** Yields the rows of one record after the other. */
  async *#each(query: DocumentQuery): AsyncGenerator<Loaded & { readonly document: StoreDocument }> {
    const now = await this.#now();
    for await (const document of this.#driver.find(query)) yield { document, ...loaded([document], now) };
  }

  async #arrivals(count: number): Promise<number[]> {
    const last = count === 0 ? 0 : await this.#driver.increment(count);
    return Array.from({ length: count }, (_, index) => last - count + 1 + index);
  }

  /** Runs one step for each record, so that another process that changes one record delays only this one. */
  protected async doAdd(additions: readonly Addition[]): Promise<AddAnswer[]> {
    const arrivals = await this.#arrivals(additions.length);
    const groups = Map.groupBy(additions.entries(), ([, addition]) => recordOf(addition));
    const answers: AddAnswer[] = [];
    const addTo = async (record: string, entries: readonly [number, Addition][]) => {
      const given = entries.map(([, addition]) => addition);
      const scope = {
        records: [record],
        ids: given.map(({ event }) => event.eventId),
        arrivals: entries.map(([index]) => arrivals[index]!),
      };
      const added = await this.#run(scope, (rules) => rules.doAdd(given));
      for (const [at, [index]] of entries.entries()) answers[index] = added[at]!;
    };
    await Promise.all([...groups].map(([record, entries]) => addTo(record, entries)));
    return answers;
  }

  protected async doClaim(call: ClaimCall): Promise<Timed<ClaimResult>> {
    const now = await this.#now();
    const claimed: Claimed[] = [];
    const takes = takesOf(call) ?? (() => true);
    if (call.eventId !== undefined) {
      for (const { body } of await this.#documents("id", [call.eventId]))
        if (takes(recordText(body))) claimed.push(...(await this.#claim(body, call, call.token)));
      return { now, result: { claimed } };
    }
    const tried = new Set<string>();
    for (;;) {
      const limit = Math.min(call.limit - claimed.length, CLAIMS_AT_ONCE);
      const records =
        limit > 0 ? await this.#due(now, limit, (key) => !tried.has(key) && takes(recordText(key))) : [];
      if (records.length === 0) return { now, result: { claimed } };
      const claims = records.map((record) => {
        tried.add(record);
        return this.#claim(record, call, `${call.token}:${tried.size}`);
      });
      claimed.push(...(await Promise.all(claims)).flat());
    }
  }

  /** Returns the records that are due longest, of those that `takes`. */
  async #due(now: number, limit: number, takes: (record: string) => boolean): Promise<string[]> {
    const records: string[] = [];
    for await (const document of this.#driver.find({ by: "due" })) {
      if (records.length >= limit || dueOf(document)! > now) break;
      const record = recordKey(document);
      if (takes(record)) records.push(record);
    }
    return records;
  }

  async #claim(record: string, call: ClaimCall, token: string): Promise<readonly Claimed[]> {
    return this.#run({ records: [record] }, async (rules) => {
      // The store has chosen the record by the restrictions of the call.
      const one = { ...call, except: undefined, only: undefined, limit: 1, token };
      const { claimed } = (await rules.doClaim(one)).result;
      call.claimed = [...call.claimed, ...claimed];
      return claimed;
    });
  }

  /** A new version makes sure that a claim that arrives late is not written. */
  protected override async doFindLost(calls: readonly ClaimCall[]): Promise<readonly Claimed[]> {
    const lost = calls.flatMap(({ claimed }) => claimed);
    const records = lost.map(({ claim }) => recordKeyOf(claim.ref, claim.eventId));
    for (const document of await this.#documents("record", records)) {
      const { key, version } = document;
      await this.#driver.write([
        { key, expected: version, document: { ...document, version: crypto.randomUUID() } },
      ]);
    }
    return lost;
  }

  protected async doRenew(claims: readonly ClaimedEvent[], duration: number): Promise<string[]> {
    const renewals = claims.map((claim) =>
      this.#run({ records: [recordKeyOf(claim.ref, claim.eventId)] }, (rules) =>
        rules.doRenew([claim], duration),
      ),
    );
    return (await Promise.all(renewals)).flat();
  }

  protected async doSettle(settlements: readonly Settlement<never>[]): Promise<Settled[]> {
    const settled = settlements.map(async (settlement) => {
      const { claim, additions } = settlement;
      const scope = {
        records: [recordKeyOf(claim.ref, claim.eventId), ...additions.map(recordOf)],
        ids: additions.map(({ event }) => event.eventId),
        arrivals: await this.#arrivals(additions.length),
      };
      return this.#run(scope, (rules) => rules.doSettle([settlement]));
    });
    return (await Promise.all(settled)).flat();
  }

  protected async doNextDue(restriction: Restriction): Promise<Timed<number | undefined>> {
    const [now, takes] = [await this.#now(), takesOf(restriction)];
    for await (const document of this.#driver.find({ by: "due" }))
      if (takes === undefined || takes(recordText(recordKey(document))))
        return { now, result: Math.max(0, dueOf(document)! - now) };
    return { now, result: undefined };
  }

  protected async dueRecords(): Promise<RecordPage> {
    return { found: await this.#names({ by: "due" }), next: undefined };
  }

  protected async recordsOf(account: string): Promise<RecordPage> {
    const names = await this.#names({ by: "record" });
    return { found: names.filter((name) => accountOf(name) === account), next: undefined };
  }

  async #names(query: DocumentQuery): Promise<RecordName[]> {
    const names: RecordName[] = [];
    for await (const document of this.#driver.find(query)) names.push(nameOf(recordKey(document)));
    return names;
  }

  protected override async withRecords<T>(scope: Scope, rule: (tables: MemoryTables) => T): Promise<T> {
    const { records, ids, adds = 0 } = scope;
    const arrivals = await this.#arrivals(adds);
    const keys = records.map(({ ref, eventId }) => recordKeyOf(ref, eventId));
    return this.#run({ records: keys, ids, arrivals }, (_, tables) => rule(tables));
  }

  protected async doGet(eventId: string): Promise<StoredEvent | undefined> {
    return (await this.#view({ records: [], ids: [eventId] })).rules.doGet(eventId);
  }

  protected async arrivalOf(eventId: string): Promise<number | undefined> {
    return (await this.#view({ records: [], ids: [eventId] })).tables.events.get(eventId)?.arrival;
  }

  protected async doList(filter: RowFilter, { before, limit }: Slice): Promise<Sliced<StoredEvent[]>> {
    const { eventId, ref } = filter;
    let rows: EventRow[] = [];
    if (eventId !== undefined || ref !== undefined) {
      const scope = { records: ref === undefined ? [] : [ref], ids: eventId === undefined ? [] : [eventId] };
      rows = (await this.#view(scope)).tables.matching(filter, before);
    } else {
      for await (const { document, tables } of this.#each({ by: "newest", state: filter.state })) {
        // All other records have only older events.
        if (rows.length >= limit && rows[limit - 1]!.arrival > -document.newest!) break;
        rows.push(...tables.matching(filter, before));
        rows = rows.sort((a, b) => b.arrival - a.arrival).slice(0, limit);
      }
    }
    return { found: rows.slice(0, limit).map(toStoredEvent), next: undefined };
  }

  protected async doChange(
    change: Change,
    filter: RowFilter,
    states: readonly EventState[],
  ): Promise<Sliced<number>> {
    // Later events, which have arrived during the change, keep their state.
    const before = (await this.#driver.increment(1)) + 1;
    let found = 0;
    // An index by record, because a record moves in the other ones when it is changed.
    for await (const { document, tables } of this.#each({ by: "record", state: filter.state })) {
      if (tables.matching(filter).length === 0) continue;
      found += await this.#run({ records: [recordKey(document)] }, (_, tables) =>
        changeEvents(tables, change, tables.matching(filter, before), states),
      );
    }
    return { found, next: undefined };
  }

  protected async doCounts(): Promise<Record<EventState, number>> {
    return { ...noEvents, ...(await this.#driver.counts()) };
  }

  protected async doOldestWaiting(): Promise<number | undefined> {
    let oldest: number | undefined;
    for await (const { rules } of this.#each({ by: "due" })) {
      const age = await rules.doOldestWaiting();
      if (age !== undefined) oldest = Math.max(oldest ?? 0, age);
    }
    return oldest;
  }

  protected async doScheduledDue(): Promise<number> {
    let count = 0;
    for await (const { rules } of this.#each({ by: "due", state: "scheduled" }))
      count += await rules.doScheduledDue();
    return count;
  }

  protected async doLastReceivedAt(): Promise<number | undefined> {
    for await (const { received } of this.#driver.find({ by: "received" })) return -received!;
    return undefined;
  }

  protected async doSnapshotOf(ref: string): Promise<RecordSnapshot | undefined> {
    return (await this.#view({ records: [ref] })).rules.doSnapshotOf(ref);
  }

  protected async doSnapshots(after: string | undefined, limit: number): Promise<RecordSnapshot[]> {
    const from = after === undefined ? undefined : documentKey("record", after);
    const snapshots: RecordSnapshot[] = [];
    for await (const { rules } of this.#each({ by: "record", after: from })) {
      snapshots.push(...(await rules.doSnapshots(undefined)));
      if (snapshots.length >= limit) break;
    }
    return snapshots;
  }

  protected async doGetMeta(key: string) {
    const [now, document] = [await this.#now(), await this.#meta(key)];
    return document && { value: document.value, age: Math.max(0, now - document.setAt) };
  }

  async #meta(key: string) {
    const [document] = await this.#driver.read([documentKey("meta", key)]);
    const body =
      document && (JSON.parse(document.body) as { readonly value: string; readonly setAt: number });
    return body && { ...body, version: document.version };
  }

  protected async doSetMeta(given: string, value: string | undefined, expected: string | undefined) {
    const [setAt, known] = [await this.#now(), await this.#meta(given)];
    if (known?.value !== expected) return false;
    const key = documentKey("meta", given);
    const document = { key, version: crypto.randomUUID(), body: JSON.stringify({ value, setAt }) };
    if (known === undefined && value === undefined) return true;
    return this.#driver.write([
      { key, expected: known?.version, document: value === undefined ? undefined : document },
    ]);
  }

  protected async doPrune(options: PruneOptions): Promise<number> {
    let oldest: { readonly record: string; readonly endedAt: number }[] = [];
    for await (const { tables, document } of this.#each({ by: "record", state: options.state })) {
      const record = recordKey(document);
      oldest.push(...tables.prunable(options).map(({ endedAt }) => ({ record, endedAt })));
      oldest = oldest.sort((a, b) => a.endedAt - b.endedAt).slice(0, options.limit);
    }
    let pruned = 0;
    for (const [record, { length: limit }] of Map.groupBy(oldest, (row) => row.record))
      pruned += await this.#run({ records: [record] }, (_, tables) => prune(tables, { ...options, limit }));
    return pruned;
  }

  protected async oldSnapshots(options: PruneSnapshotsOptions): Promise<readonly RecordName[]> {
    let oldest: RecordRow[] = [];
    for await (const { tables } of this.#each({ by: "record" })) {
      oldest.push(...tables.prunableSnapshots(options));
      oldest = oldest.sort((a, b) => a.seenAt - b.seenAt).slice(0, options.limit);
    }
    return oldest.map(toName);
  }

  /** Restores one event after the other, so that no write has many documents. */
  protected override async doRestore(
    events: readonly StoredEvent[],
    snapshots: readonly RecordSnapshot[],
  ): Promise<void> {
    for (const event of events) await super.doRestore([event], []);
    for (const snapshot of snapshots) await super.doRestore([], [snapshot]);
  }

  protected override get notifier(): SqlNotifier | undefined {
    return this.#driver.notifier;
  }

  protected async doClose(): Promise<void> {
    await this.#driver.close();
  }
}

function recordOf({ event }: Addition): string {
  return recordKeyOf(event.ref, event.eventId);
}
