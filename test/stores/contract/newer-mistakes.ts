import type { EventFilter, RecordSnapshot, Snapshot, StoredEvent } from "../../../src/stores/event-store.ts";
import { all, later, type Mistakes } from "./wrapped.ts";

const wellFormed = ({ status, fields }: Snapshot): Snapshot => ({ status: status.toWellFormed(), fields });

/** Changes each event that `get` and `list` return. */
const showing =
  (change: (event: StoredEvent) => StoredEvent): Mistakes[string]["wrap"] =>
  (store) => ({
    list: async (options) => (await store.list(options)).map(change),
    async get(eventId) {
      const event = await store.get(eventId);
      return event && change(event);
    },
  });

/** Changes the filter of `list`. */
const listing =
  (change: (filter: EventFilter) => EventFilter): Mistakes[string]["wrap"] =>
  (store) => ({ list: ({ limit, after, ...filter }) => store.list({ ...change(filter), limit, after }) });

/** Mistakes about dueIn, order, filters, history, discard, erase, snapshots and meta. */
export const newerMistakes: Mistakes = {
  "makes events with dueIn due at once": {
    wrap: (store) => ({ add: (event) => store.add(event) }),
    fails: "dueIn: an event with dueIn cannot be claimed before it is due",
  },
  "ends a record's wait for an event with dueIn": {
    wrap: (store) => ({
      async add(event, options) {
        if (event.ref !== null) await store.replay({ ref: event.ref, state: "retrying" });
        return store.add(event, options);
      },
    }),
    fails: "dueIn: a new event with dueIn does not end its record's wait",
  },
  "keeps no wait longer than a day": {
    wrap: (store) => ({
      add: (event, { dueIn } = {}) =>
        store.add(event, dueIn === undefined ? {} : { dueIn: Math.min(dueIn, 86_400_000) }),
    }),
    fails: "dueIn: a wait of more than 366 days is shortened to 366 days",
  },
  "counts events that are not due as waiting": {
    wrap: (store) => ({
      async oldestWaiting() {
        const oldest = (await all(store, { state: "pending" })).at(-1);
        return oldest && Date.now() - oldest.receivedAt.getTime();
      },
    }),
    fails: "dueIn: oldestWaiting ignores an event until it is due, and measures its age from receivedAt",
  },
  "orders a record by its newest event": {
    wrap: (store) => ({
      async claim(options) {
        if (options.order !== "newest") return store.claim(options);
        for (const { eventId } of await all(store, { state: "pending" })) {
          const claims = await store.claim({ ...options, eventId });
          if (claims.length > 0) return claims;
        }
        return store.claim(options);
      },
    }),
    fails: "order: records are claimed in the order in which their first due event arrived",
  },
  "takes retries in the order of their arrival": {
    wrap: (store) => ({
      async claim(options) {
        if (options.order !== "retries") return store.claim(options);
        const oldest = (await all(store, { state: "retrying" })).at(-1);
        return store.claim(oldest === undefined ? options : { ...options, eventId: oldest.eventId });
      },
    }),
    fails: "order: retries are claimed last, or first with order `retries`, sorted by their due times",
  },
  "treats a released attempt as a failure": {
    wrap: (store) => ({
      settle: (claim, outcome) =>
        store.settle(
          claim,
          outcome.state === "released" && claim.attempts > 1
            ? { state: "retrying", in: 0, counted: false, reason: "callback", entry: { duration: 1 } }
            : outcome,
        ),
    }),
    fails: "order: a released retry keeps its place in the order",
  },
  "takes a record's new events before its retries": {
    wrap: (store) => ({
      async claim(options) {
        const [first, ...others] = await store.claim(options);
        if (first === undefined || first.ref === null || options.eventId)
          return first ? [first, ...others] : [];
        const fresh = (await all(store, { ref: first.ref, state: "pending" })).at(-1);
        if (fresh === undefined || first.attempts === 1) return [first, ...others];
        await store.settle(first, { state: "released" });
        return [...(await store.claim({ ...options, eventId: fresh.eventId })), ...others];
      },
    }),
    fails: "order: if a record has a retry and a newer event, the retry is claimed first",
  },
  "never claims an event again that was claimed by its id": {
    wrap: (store) => {
      const forgotten = new Set<string>();
      return {
        async claim(options) {
          const claims = await store.claim(options);
          if (options.eventId === undefined) return claims.filter(({ eventId }) => !forgotten.has(eventId));
          for (const { eventId } of claims) forgotten.add(eventId);
          return claims;
        },
      };
    },
    fails: "lease: if the leases of two events of a record end, both events can be claimed, one at a time",
  },
  "returns receivedAt as claimedAt": {
    wrap: (store) => ({
      claim: async (options) =>
        (await store.claim(options)).map((claim) => ({ ...claim, claimedAt: claim.receivedAt })),
    }),
    fails: "order: claimedAt is the time of the claim, by the store's clock",
  },
  "filters a list after it has applied the limit": {
    wrap: (store) => ({
      async list({ limit, after, ref, source }) {
        const events = await store.list({ limit, after });
        return events.filter(
          (event) => (ref ?? event.ref) === event.ref && (source ?? event.source) === event.source,
        );
      },
    }),
    fails: "filter: `list` applies `limit` and `after` to the matching events only",
  },
  "ignores the filter by type": {
    wrap: listing(({ type: _, ...filter }) => filter),
    fails: "filter: `list` with one field in the filter returns exactly the matching events",
  },
  "ignores the filter by source": {
    wrap: listing(({ source: _, ...filter }) => filter),
    fails: "filter: `list` with one field in the filter returns exactly the matching events",
  },
  "treats receivedAfter as exclusive": {
    wrap: listing(({ receivedAfter, ...filter }) => ({
      ...filter,
      ...(receivedAfter &&
        Number.isFinite(+receivedAfter) && { receivedAfter: new Date(+receivedAfter + 1) }),
    })),
    fails: "filter: `list` with one field in the filter returns exactly the matching events",
  },
  "treats receivedBefore as inclusive": {
    wrap: listing(({ receivedBefore, ...filter }) => ({
      ...filter,
      ...(receivedBefore && { receivedBefore: new Date(+receivedBefore + 1) }),
    })),
    fails: "filter: `list` with one field in the filter returns exactly the matching events",
  },
  "uses only the first field of a filter": {
    wrap: listing((filter) => Object.fromEntries(Object.entries(filter).slice(0, 1))),
    fails: "filter: `list` returns only events that match all fields of the filter",
  },
  "ignores an invalid date": {
    wrap: listing(({ receivedAfter, receivedBefore, ...filter }) => ({
      ...filter,
      ...(Number.isFinite(Number(receivedAfter)) && { receivedAfter }),
      ...(Number.isFinite(Number(receivedBefore)) && { receivedBefore }),
    })),
    fails: "filter: `list`, `replay` and `discard` reject an invalid date",
  },
  "keeps only five entries of the history": {
    wrap: showing((event) => ({ ...event, history: event.history.slice(-5) })),
    fails: "history: the history keeps the last 10 entries",
  },
  "writes no lost entry": {
    wrap: showing((event) => ({
      ...event,
      history: event.history.filter(({ outcome }) => outcome !== "lost"),
    })),
    fails: "history: a claim after the end of a lease adds a `lost` entry to the history",
  },
  "forgets the worker of a lost lease": {
    wrap: showing((event) => ({
      ...event,
      history: event.history.map(({ worker, ...entry }) =>
        entry.outcome === "lost" ? entry : { ...entry, worker },
      ),
    })),
    fails: "history: a claim after the end of a lease adds a `lost` entry to the history",
  },
  "shows the error of an older attempt as lastError": {
    wrap: showing((event) => ({
      ...event,
      lastError: event.history.findLast(({ error }) => error !== undefined)?.error ?? null,
    })),
    fails: "history: lastError is the error of the last entry",
  },
  "forgets the history of a replayed event": {
    wrap: (store) => {
      const replayed = new Set<string>();
      return {
        async replay(filter) {
          for (const { eventId } of await all(store, filter)) replayed.add(eventId);
          return store.replay(filter);
        },
        async get(eventId) {
          const event = await store.get(eventId);
          return event && replayed.has(eventId) ? { ...event, history: [] } : event;
        },
      };
    },
    fails: "history: a replay keeps the history",
  },
  "writes an entry for a released attempt": {
    wrap: (store) => {
      const released = new Set<string>();
      return {
        async settle(claim, outcome) {
          if (outcome.state === "released") released.add(claim.eventId);
          return store.settle(claim, outcome);
        },
        async get(eventId) {
          const event = await store.get(eventId);
          const entry = { at: new Date(), duration: 1, outcome: "retrying" } as const;
          return event && released.has(eventId) ? { ...event, history: [...event.history, entry] } : event;
        },
      };
    },
    fails: "settle: `attempts` does not count a released attempt",
  },
  "deletes the events that it discards": {
    wrap: (store) => ({
      async discard(filter) {
        const discarded = await store.discard(filter);
        await store.prune({ state: "done", age: 0, limit: 10_000 });
        return discarded;
      },
    }),
    fails: "discard: the store keeps the id of a discarded event",
  },
  "keeps the reason of a discarded event": {
    wrap: showing((event) => (event.reason === "discarded" ? { ...event, reason: "callback" } : event)),
    fails: "discard: `discard` sets pending, retrying and parked events to done",
  },
  "counts the events that match, not those that it changed": {
    wrap: (store) => ({
      async discard(filter) {
        const { length } = await all(store, filter);
        await store.discard(filter);
        return length;
      },
    }),
    fails: "discard: `discard` sets pending, retrying and parked events to done",
  },
  "discards all events if the filter is empty": {
    wrap: (store) => ({
      discard: (filter) => store.discard(Object.keys(filter).length > 0 ? filter : { source: "webhook" }),
    }),
    fails: "replay: `replay` and `discard` reject a filter without fields",
  },
  "replays all events if the filter is empty": {
    wrap: (store) => ({
      replay: (filter) => store.replay(Object.keys(filter).length > 0 ? filter : { source: "webhook" }),
    }),
    fails: "replay: `replay` and `discard` reject a filter without fields",
  },
  "replays no more than 1,000 events": {
    wrap: (store) => ({
      async replay(filter) {
        const events = (await all(store, filter)).slice(0, 1000);
        const replayed = await Promise.all(events.map(({ eventId }) => store.replay({ eventId })));
        return replayed.reduce((sum, count) => sum + count, 0);
      },
    }),
    fails: "replay: `discard` and `replay` change more than 1,000 events, each event once",
  },
  "also erases refs that begin with the given ref": {
    wrap: (store) => ({
      async erase(ref) {
        let erased = 0;
        const refs = new Set(
          (await all(store)).flatMap((event) => event.ref ?? []).filter((each) => each.startsWith(ref)),
        );
        for (const each of refs) erased += await store.erase(each);
        return erased;
      },
    }),
    fails: "erase: erase deletes a record's events and its snapshot",
  },
  "keeps the snapshot of an erased record": {
    wrap: (store) => ({
      async erase(ref) {
        const record = await store.recordOf(ref);
        const erased = await store.erase(ref);
        if (record) await store.learn(ref, record.snapshot);
        return erased;
      },
    }),
    fails: "erase: erase deletes a record's events and its snapshot",
  },
  "does not reject erase while an event is processed": {
    wrap: (store) => ({ erase: (ref) => store.erase(ref).catch(() => 0) }),
    fails: "erase: while an event of the record is processed, `erase` rejects and deletes nothing",
  },
  "counts only a change of the status": {
    wrap: (store) => ({
      settle(claim, outcome) {
        if (outcome.state !== "done" || outcome.record === undefined) return store.settle(claim, outcome);
        const { snapshot } = outcome.record;
        const changed = snapshot.status !== claim.previous?.status;
        return store.settle(claim, { ...outcome, record: { snapshot, changed } });
      },
    }),
    fails: "settle: a done outcome writes the snapshot, and raises sequence if the record has changed",
  },
  "replaces lone surrogates in a status": {
    wrap: (store) => ({
      async recordOf(ref) {
        const record = await store.recordOf(ref);
        return record && { ...record, snapshot: wellFormed(record.snapshot) };
      },
    }),
    fails: "settle: a done outcome writes the snapshot, and raises sequence if the record has changed",
  },
  "loses the traceparent": {
    wrap: (store) => ({ add: ({ traceparent: _, ...event }, options) => store.add(event, options) }),
    fails: "add: `get`, `claim` and `list` return an event as it was added",
  },
  "returns the snapshot object that it keeps": {
    wrap: (store) => {
      let kept: RecordSnapshot | undefined;
      return {
        async recordOf(ref) {
          kept ??= await store.recordOf(ref);
          return kept;
        },
      };
    },
    fails: "read: changes to returned objects do not change the store",
  },
  "overwrites a known snapshot in learn": {
    wrap: (store) => ({
      async learn(ref, snapshot) {
        if (await store.recordOf(ref)) await store.erase(ref);
        return store.learn(ref, snapshot);
      },
    }),
    fails: "record: `learn` does not change a stored snapshot",
  },
  "accepts a learn while an event is parked": {
    wrap: (store) => ({
      async learn(ref, snapshot) {
        const parked = await all(store, { ref, state: "parked" });
        if (parked.length > 0 && !(await store.recordOf(ref))) return true;
        return store.learn(ref, snapshot);
      },
    }),
    fails: "record: `learn` writes a first snapshot only if all events of the record are done",
  },
  "does not update seenAt of an equal snapshot": {
    wrap: (store) => ({
      learn: async (ref, snapshot) => (await store.recordOf(ref)) !== undefined || store.learn(ref, snapshot),
    }),
    fails: "record: `learn` of an equal snapshot updates only seenAt",
  },
  "yields no more than 500 records": {
    wrap: (store) => ({
      async *records(options) {
        let given = 0;
        for await (const record of store.records(options)) {
          if (given >= 500) return;
          given += 1;
          yield record;
        }
      },
    }),
    fails: "record: `records` yields more than 500 records, each record once",
  },
  "sets a meta value without comparing": {
    wrap: (store) => ({
      async setMeta(key, value) {
        return store.setMeta(key, value, { expected: (await store.getMeta(key))?.value });
      },
    }),
    fails: "meta: setMeta sets a value only if the current value is `expected`",
  },
  "compares and sets a meta value in two steps": {
    wrap: (store) => ({
      async setMeta(key, value, { expected }) {
        const known = (await store.getMeta(key))?.value;
        if (known !== expected) return false;
        while (!(await store.setMeta(key, value, { expected: (await store.getMeta(key))?.value })))
          await later(1);
        return true;
      },
    }),
    fails: "meta: if many calls set one key concurrently, only one call returns true",
  },
  "returns 0 as the age of each meta value": {
    wrap: (store) => ({
      async getMeta(key) {
        const meta = await store.getMeta(key);
        return meta && { ...meta, age: 0 };
      },
    }),
    fails: "meta: setMeta sets a new key, and getMeta reads its value and age",
  },
  "stores meta values as records": {
    wrap: (store) => ({
      async setMeta(key, value, options) {
        await store.learn(key, { status: value ?? "", fields: {} });
        return store.setMeta(key, value, options);
      },
    }),
    fails: "meta: pruning and erasing events and records does not delete meta values",
  },
  "counts events of any source in newestReceived": {
    wrap: (store) => ({ newestReceived: async () => (await all(store))[0]?.receivedAt }),
    fails: "newestReceived: newestReceived is the receivedAt of the newest webhook event",
  },
  "forgets newestReceived when the event is pruned": {
    wrap: (store) => ({
      newestReceived: async () => (await all(store, { source: "webhook" }))[0]?.receivedAt,
    }),
    fails: "newestReceived: pruning and erasing do not change newestReceived",
  },
};
