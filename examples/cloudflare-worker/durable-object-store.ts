// An EventStore in a Durable Object with SQLite, for Workers: durable when add() resolves, shared by all requests.
// It passes `storeContract` of stayhook/testing; stayhook's own tests run it in workerd.
import { DurableObject } from "cloudflare:workers";
import type {
  ClaimedEvent,
  EventState,
  EventStore,
  NewEvent,
  Outcome,
  RecordStatus,
  StoredEvent,
} from "stayhook";
import * as tables from "./event-tables.ts";
import * as writes from "./event-writes.ts";

type Options<Method extends "claim" | "list" | "prune" | "pruneRecords" | "replayParked"> = NonNullable<
  Parameters<EventStore[Method]>[0]
>;

/**
 * The events and the records. One object does one thing at a time, and what it answers leaves it only when it is on
 * disk: each method is one transaction, and nothing has to be locked.
 */
export class Events extends DurableObject<unknown> {
  readonly #sql: tables.Sql = (text, ...values) =>
    this.ctx.storage.sql.exec(text.join("?"), ...values).toArray() as never;

  constructor(ctx: DurableObjectState, env: unknown) {
    super(ctx, env);
    ctx.storage.sql.exec(tables.tables);
  }

  #transaction<T>(work: (sql: tables.Sql) => T): T {
    return this.ctx.storage.transactionSync(() => work(this.#sql));
  }

  add(event: NewEvent): "added" | "duplicate" | "conflict" {
    return this.#transaction((sql) => writes.add(sql, event));
  }

  claim(options: Options<"claim">): ClaimedEvent[] {
    return this.#transaction((sql) => writes.claim(sql, options));
  }

  renew(claims: readonly ClaimedEvent[], leaseDuration: number): ClaimedEvent[] {
    return this.#transaction((sql) => writes.renew(sql, claims, leaseDuration));
  }

  settle(claim: ClaimedEvent, outcome: Outcome): boolean {
    return this.#transaction((sql) => writes.settle(sql, claim, outcome));
  }

  nextDue(): number | undefined {
    return tables.nextDue(this.#sql);
  }

  prune(options: Options<"prune">): number {
    return this.#transaction((sql) => writes.prune(sql, options));
  }

  pruneRecords(options: Options<"pruneRecords">): number {
    return this.#transaction((sql) => writes.pruneRecords(sql, options));
  }

  list(options: Options<"list">): StoredEvent[] {
    return tables.list(this.#sql, options);
  }

  get(eventId: string): StoredEvent | undefined {
    return tables.get(this.#sql, eventId);
  }

  counts(): Record<EventState, number> {
    return tables.counts(this.#sql);
  }

  oldestWaiting(): number | undefined {
    return tables.oldestWaiting(this.#sql);
  }

  replay(eventId: string): boolean {
    return this.#transaction((sql) => writes.replay(sql, eventId));
  }

  replayParked(options?: Options<"replayParked">): number {
    return this.#transaction((sql) => writes.replayParked(sql, options));
  }

  statusOf(ref: string): RecordStatus | undefined {
    return tables.statusOf(this.#sql, ref);
  }

  /** Some of them; the last one says where to go on. */
  statusesAfter(ref: string): RecordStatus[] {
    return tables.statusesAfter(this.#sql, ref);
  }
}

/**
 * @param object - where the events are kept: `env.EVENTS.getByName("events")`. All that concern one booking or listing
 *   have to be in the same one.
 */
export function durableObjectStore(object: DurableObjectStub<Events>): EventStore {
  let closed = false;

  const open = () => {
    if (closed) throw new Error("The store is closed.");
    return object;
  };

  // No subscribe: where nothing lives on, nobody would hear it.
  return {
    add: async (event) => open().add(event),
    claim: async (options) => open().claim(options),
    renew: async (claims, leaseDuration) => open().renew(claims, leaseDuration),
    settle: async (claim, outcome) => open().settle(claim, outcome),
    nextDue: async () => open().nextDue(),
    prune: async (options) => open().prune(options),
    pruneRecords: async (options) => open().pruneRecords(options),
    list: async (options) => open().list(options),
    get: async (eventId) => open().get(eventId),
    counts: async () => open().counts(),
    oldestWaiting: async () => open().oldestWaiting(),
    replay: async (eventId) => open().replay(eventId),
    replayParked: async (options) => open().replayParked(options),
    statusOf: async (ref) => open().statusOf(ref),
    async *statuses({ after = "" } = {}) {
      for (let last = after; ; ) {
        const page = await open().statusesAfter(last);
        yield* page;
        const end = page.at(-1);
        if (end === undefined) return;
        last = end.ref;
      }
    },
    async close() {
      closed = true;
    },
  };
}
