// An EventStore in a Durable Object with SQLite, for Workers. All requests share it, and an event is durable when add()
// resolves. It passes `storeContract` of stayhook/store/contract. stayhook's own tests run the contract in workerd.
import { DurableObject } from "cloudflare:workers";
import {
  type EventStore,
  type RecordLedger,
  type RecordSnapshot,
  runSync,
  type SqlDriver,
  sqliteDialect,
  sqlStore,
} from "stayhook/store";

/** Store methods that the Worker calls in the object. */
const methods = [
  ...[
    "add",
    "claim",
    "renew",
    "settle",
    "nextDue",
    "list",
    "get",
    "counts",
    "oldestWaiting",
    "lastReceivedAt",
  ],
  ...[
    "remove",
    "restore",
    "replay",
    "discard",
    "erase",
    "snapshotOf",
    "ledgerOf",
    "learn",
    "getMeta",
    "setMeta",
    "prune",
    "pruneSnapshots",
  ],
] as readonly Method[];
type Method = Exclude<keyof EventStore, "transactional" | Kept | "subscribe" | "close">;
/** What a store yields record by record. */
type Kept = "snapshots" | "ledgers";

const PAGE = 100;

/**
 * The events and the records. A Durable Object runs one transaction at a time, and its answer leaves only after the
 * transaction is on disk. So no lock is needed.
 */
export class Events extends DurableObject<unknown> {
  readonly #store: EventStore;

  constructor(ctx: DurableObjectState, env: unknown) {
    super(ctx, env);
    this.#store = sqlStore(driverOf(ctx.storage), sqliteDialect);
  }

  call(method: Method, args: unknown[]): Promise<unknown> {
    const run = this.#store[method] as (...args: unknown[]) => Promise<unknown>;
    return run.apply(this.#store, args);
  }

  /** Returns a page of snapshots or ledgers. A shorter page is the last. */
  async pageAfter(kept: Kept, after: string | undefined): Promise<(RecordSnapshot | RecordLedger)[]> {
    const page: (RecordSnapshot | RecordLedger)[] = [];
    for await (const record of this.#store[kept]({ after })) {
      if (page.push(record) === PAGE) break;
    }
    return page;
  }
}

function driverOf(storage: DurableObjectState["storage"]): SqlDriver {
  const execute: Parameters<typeof runSync>[1] = (step) => {
    if ("writes" in step) throw new Error("This store has no transactions for event.atomically.");
    const params = step.params.map((value) => (value instanceof Uint8Array ? value.slice().buffer : value));
    const rows = storage.sql.exec(step.sql, ...params).toArray();
    if (step.query) return { rows, changes: 0 };
    const [changed] = storage.sql.exec("SELECT changes() AS changes").toArray();
    return { rows, changes: Number(changed?.changes) };
  };
  return {
    transaction: async (steps) => storage.transactionSync(() => runSync(steps(), execute)),
    read: async (steps) => runSync(steps(), execute),
    close: async () => {},
  };
}

/**
 * @param object - the object that keeps the events: `env.EVENTS.getByName("events")`. All events of one booking or
 * listing must be in the same object.
 */
export function durableObjectStore(object: DurableObjectStub<Events>): EventStore {
  let closed = false;
  const open = () => {
    if (closed) throw new Error("The store is closed.");
    return object;
  };
  const calls = methods.map((method) => [method, async (...args: unknown[]) => open().call(method, args)]);
  async function* allAfter<T extends RecordLedger | RecordSnapshot>(kept: Kept, after: string | undefined) {
    for (let last = after; ; ) {
      const page = (await open().pageAfter(kept, last)) as T[];
      yield* page;
      if (page.length < PAGE) return;
      last = page.at(-1)?.ref;
    }
  }
  // No subscribe: a Worker does not live long enough to get a notification.
  return {
    ...(Object.fromEntries(calls) as Pick<EventStore, Method>),
    snapshots: ({ after } = {}) => allAfter<RecordSnapshot>("snapshots", after),
    ledgers: ({ after } = {}) => allAfter<RecordLedger>("ledgers", after),
    async close() {
      closed = true;
    },
    async [Symbol.asyncDispose]() {
      closed = true;
    },
  };
}
