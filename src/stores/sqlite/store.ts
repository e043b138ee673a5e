import type { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { StayhookError } from "../../errors.ts";
import { isOwnRef } from "../own.ts";
import type {
  ClaimedEvent,
  EventState,
  EventStore,
  NewEvent,
  Outcome,
  RecordStatus,
  StoredEvent,
} from "../event-store.ts";
import { isBusy, isSqliteError, storeError } from "./errors.ts";
import type { Opened } from "./open.ts";
import { Tables } from "./tables.ts";
import { Wake } from "./wake.ts";
import { GroupCommit } from "./writes.ts";

/** What is read or replayed in one go, so that none holds the event loop up for long. */
const PAGE = 200;
/** ms until a busy file is read again. */
const READ_AGAIN = 5;

export class SqliteStore implements EventStore<DatabaseSync> {
  readonly transactional = true;
  readonly #opened: Opened;
  readonly #busyTimeout: number;
  readonly #tables: Tables;
  readonly #writes: GroupCommit;
  readonly #wake: Wake;
  #closing: Promise<void> | undefined;

  constructor(opened: Opened, busyTimeout: number) {
    this.#opened = opened;
    this.#busyTimeout = busyTimeout;
    this.#tables = new Tables(opened.db);
    this.#wake = new Wake(opened.db, opened.file);
    this.#writes = new GroupCommit(opened.db, busyTimeout, () => {
      if (this.#tables.takeMadeDue()) this.#wake.madeDue();
    });
  }

  async add(event: NewEvent): Promise<"added" | "duplicate" | "conflict"> {
    // A copy, as the caller may change what he gave before it is written.
    const given = { ...event };
    return this.#write("the event could not be recorded", () => this.#tables.add(given));
  }

  async claim(options: Parameters<EventStore["claim"]>[0]): Promise<ClaimedEvent[]> {
    this.#assertOpen();
    // Where nothing else is to be written, and nothing is ready, no other process need be held up.
    if (options.limit <= 0 || (this.#writes.isIdle && !(await this.#read((tables) => tables.isAnyReady()))))
      return [];
    return this.#write("events could not be claimed", () => this.#tables.claim(options));
  }

  async renew(claims: readonly ClaimedEvent[], leaseDuration: number): Promise<ClaimedEvent[]> {
    this.#assertOpen();
    if (claims.length === 0) return [];
    return this.#write("leases could not be renewed", () => this.#tables.renew(claims, leaseDuration));
  }

  async settle(claim: ClaimedEvent, outcome: Outcome<DatabaseSync>): Promise<boolean> {
    return this.#write("the end of an event could not be recorded", () =>
      this.#tables.settle(claim, outcome),
    );
  }

  async nextDue(): Promise<number | undefined> {
    const at = await this.#read((tables) => tables.nextReady());
    return at === undefined ? undefined : Math.max(0, at - Date.now());
  }

  async prune(options: Parameters<EventStore["prune"]>[0]): Promise<number> {
    return this.#write("old events could not be deleted", () => this.#tables.prune(options));
  }

  async pruneRecords(options: Parameters<EventStore["pruneRecords"]>[0]): Promise<number> {
    return this.#write("old statuses could not be deleted", () => this.#tables.pruneRecords(options));
  }

  async list(options: Parameters<EventStore["list"]>[0]): Promise<StoredEvent[]> {
    return this.#read((tables) => tables.list(options));
  }

  async get(eventId: string): Promise<StoredEvent | undefined> {
    return this.#read((tables) => tables.get(eventId));
  }

  async counts(): Promise<Record<EventState, number>> {
    return this.#read((tables) => tables.counts());
  }

  async oldestWaiting(): Promise<number | undefined> {
    const at = await this.#read((tables) => tables.oldestWaiting());
    return at === undefined ? undefined : Math.max(0, Date.now() - at);
  }

  async replay(eventId: string): Promise<boolean> {
    return this.#write("the event could not be replayed", () => this.#tables.replay(eventId));
  }

  async replayParked(options: Parameters<EventStore["replayParked"]>[0] = {}): Promise<number> {
    let total = 0;
    for (let after = 0; ; ) {
      const { replayed, last } = await this.#write("events could not be replayed", () =>
        this.#tables.replayParked(options, after, PAGE),
      );
      total += replayed;
      if (replayed < PAGE) return total;
      after = last;
    }
  }

  async statusOf(ref: string): Promise<RecordStatus | undefined> {
    return this.#read((tables) => tables.statusOf(ref));
  }

  async *statuses({
    after = "",
  }: {
    readonly after?: string | undefined;
  } = {}): AsyncGenerator<RecordStatus> {
    for (let from = after; ; ) {
      const page = await this.#read((tables) => tables.statusesAfter(from, PAGE));
      yield* page.filter(({ ref }) => !isOwnRef(ref));
      if (page.length < PAGE) return;
      from = page.at(-1)!.ref;
    }
  }

  subscribe(wake: () => void): () => void {
    this.#assertOpen();
    return this.#wake.subscribe(wake);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#wake.close();
    await this.#writes.idle();
    const { db, own } = this.#opened;
    try {
      db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    } catch {
      // It is only tidier: what was committed is in the write-ahead log.
    }
    if (own) db.close();
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw new StayhookError("The store is closed.");
  }

  async #write<T>(failing: string, run: () => T): Promise<T> {
    this.#assertOpen();
    try {
      return await this.#writes.run(run);
    } catch (error) {
      throw this.#errorOf(failing, error);
    }
  }

  async #read<T>(read: (tables: Tables) => T): Promise<T> {
    const deadline = performance.now() + this.#busyTimeout;
    for (;;) {
      this.#assertOpen();
      try {
        return read(this.#tables);
      } catch (error) {
        if (!isBusy(error) || performance.now() >= deadline)
          throw this.#errorOf("events could not be read", error);
        await sleep(READ_AGAIN);
      }
    }
  }

  /** What the user's own writes threw goes on as it is. */
  #errorOf(failing: string, error: unknown): unknown {
    return isSqliteError(error) ? storeError(this.#opened.name, failing, error) : error;
  }
}
