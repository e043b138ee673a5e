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

/** Mistakes about filters, history, discard, erase, snapshots and meta. */
export const readingMistakes: Mistakes = {
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
    fails: "filter: `list` returns only events that match all fields of the filter",
  },
  "ignores the filter by source": {
    wrap: listing(({ source: _, ...filter }) => filter),
    fails: "filter: `list` returns only events that match all fields of the filter",
  },
  "treats receivedAfter as exclusive": {
    wrap: listing(({ receivedAfter, ...filter }) => ({
      ...filter,
      ...(receivedAfter &&
        Number.isFinite(+receivedAfter) && { receivedAfter: new Date(+receivedAfter + 1) }),
    })),
    fails: "filter: `list` returns only events that match all fields of the filter",
  },
  "treats receivedBefore as inclusive": {
    wrap: listing(({ receivedBefore, ...filter }) => ({
      ...filter,
      ...(receivedBefore && { receivedBefore: new Date(+receivedBefore + 1) }),
    })),
    fails: "filter: `list` returns only events that match all fields of the filter",
  },
  "uses only the first field of a filter": {
    wrap: listing((filter) => Object.fromEntries(Object.entries(filter).slice(0, 1))),
    fails: "filter: `list` returns only events that match all fields of the filter",
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
    fails: "replay: a done or parked event can be replayed",
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
    fails: "erase: `erase` deletes a record's events and its snapshot",
  },
  "keeps the snapshot of an erased record": {
    wrap: (store) => ({
      async erase(ref) {
        const record = await store.snapshotOf(ref);
        const erased = await store.erase(ref);
        if (record) await store.learn(ref, record.snapshot);
        return erased;
      },
    }),
    fails: "erase: `erase` deletes a record's events and its snapshot",
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
      async snapshotOf(ref) {
        const record = await store.snapshotOf(ref);
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
        async snapshotOf(ref) {
          kept ??= await store.snapshotOf(ref);
          return kept;
        },
      };
    },
    fails: "read: changes to returned objects do not change the store",
  },
  "overwrites a known snapshot in learn": {
    wrap: (store) => ({
      async learn(ref, snapshot) {
        if (await store.snapshotOf(ref)) await store.erase(ref);
        return store.learn(ref, snapshot);
      },
    }),
    fails: "snapshot: `learn` does not change a stored snapshot",
  },
  "accepts a learn while an event is parked": {
    wrap: (store) => ({
      async learn(ref, snapshot) {
        const parked = await all(store, { ref, state: "parked" });
        if (parked.length > 0 && !(await store.snapshotOf(ref))) return true;
        return store.learn(ref, snapshot);
      },
    }),
    fails: "snapshot: `learn` writes no first snapshot while an event waits, is processing or is parked",
  },
  "does not update seenAt of an equal snapshot": {
    wrap: (store) => ({
      learn: async (ref, snapshot) =>
        (await store.snapshotOf(ref)) !== undefined || store.learn(ref, snapshot),
    }),
    fails: "snapshot: `learn` of an equal snapshot updates only seenAt",
  },
  "yields no more than 500 snapshots": {
    wrap: (store) => ({
      async *snapshots(options) {
        let given = 0;
        for await (const record of store.snapshots(options)) {
          if (given >= 500) return;
          given += 1;
          yield record;
        }
      },
    }),
    fails: "snapshot: `snapshots` yields more than 500 snapshots, each once, and can be stopped early",
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
  "counts events of any source in lastReceivedAt": {
    wrap: (store) => ({ lastReceivedAt: async () => (await all(store))[0]?.receivedAt }),
    fails: "read: lastReceivedAt is the receivedAt of the newest webhook event",
  },
  "forgets lastReceivedAt when the event is pruned": {
    wrap: (store) => ({
      lastReceivedAt: async () => (await all(store, { source: "webhook" }))[0]?.receivedAt,
    }),
    fails: "read: pruning and erasing do not change lastReceivedAt",
  },
};
