import { BaseStore } from "./base-store.ts";
import type { MemoryTables } from "./memory/memory-tables.ts";
import { erase, learn, remove, restore } from "./memory/record-rules.ts";
import type { RecordSnapshot, Snapshot } from "./snapshot.ts";
import type { StoredEvent } from "./stored-event.ts";

/** Names the record of an event. Without a `ref`, the event has a record of its own. */
export type RecordName = Pick<StoredEvent, "ref" | "eventId">;

/** The rows that a rule needs: the records, with those of their events that have a due time. */
export interface Scope {
  readonly records: readonly RecordName[];
  /** The rule also needs these events, which may be events of other records. */
  readonly ids?: readonly string[];
  /** Which ended events of the records the rule also needs. Default: none. */
  readonly ended?: "parked" | "timers" | "all";
  /** How many events the rule may add. Default: 0. */
  readonly adds?: number;
  /** What failed, for error messages. */
  readonly failing: string;
}

/**
 * A store that makes all changes but those of the hot path in one way: it loads records, runs a rule of `record-rules.ts` on
 * their rows, and writes the rows that the rule has changed.
 */
export abstract class RecordStore<Tx = never> extends BaseStore<Tx> {
  /**
   * Loads rows, runs a rule on them, and writes what it changed, all in one atomic step. The rule may run again, on newer
   * rows. It does not await.
   */
  protected abstract withRecords<T>(scope: Scope, rule: (tables: MemoryTables) => T): Promise<T>;

  protected doRemove(ref: string, what: readonly string[] | "timers"): Promise<number> {
    const events = what === "timers" ? { ended: what } : { ids: what };
    const scope = { records: [nameOf(ref)], ...events, failing: "events could not be removed" };
    return this.withRecords(scope, (tables) => remove(tables, ref, what));
  }

  protected doErase(ref: string): Promise<number | undefined> {
    const scope = {
      records: [nameOf(ref)],
      ended: "all",
      failing: "the record could not be erased",
    } as const;
    return this.withRecords(scope, (tables) => erase(tables, ref));
  }

  protected doLearn(ref: string, snapshot: Snapshot): Promise<boolean> {
    const failing = "the snapshot could not be written";
    const scope = { records: [nameOf(ref)], ended: "parked", failing } as const;
    return this.withRecords(scope, (tables) => learn(tables, ref, snapshot));
  }

  protected doRestore(events: readonly StoredEvent[], snapshots: readonly RecordSnapshot[]): Promise<void> {
    const scope = {
      records: [...events, ...snapshots.map(({ ref }) => nameOf(ref))],
      ids: events.map(({ eventId }) => eventId),
      adds: events.length,
      failing: "events could not be restored",
    };
    return this.withRecords(scope, (tables) => restore(tables, events, snapshots));
  }
}

function nameOf(ref: string): RecordName {
  return { ref, eventId: "" };
}
