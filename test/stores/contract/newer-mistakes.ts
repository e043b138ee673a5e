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
    fails: "dueIn: an event with dueIn is claimed once it is due",
  },
  "ends a record's wait for an event with dueIn": {
    wrap: (store) => ({
      async add(event, options) {
        if (event.ref !== null) await store.replay({ ref: event.ref, state: "retrying" });
        return store.add(event, options);
      },
    }),
    fails: "dueIn: an event with dueIn ends no wait of its record",
  },
  "keeps no wait longer than a day": {
    wrap: (store) => ({
      add: (event, { dueIn } = {}) =>
        store.add(event, dueIn === undefined ? {} : { dueIn: Math.min(dueIn, 86_400_000) }),
    }),
    fails: "dueIn: a wait is at most 366 days",
  },
  "counts events that are not due as waiting": {
    wrap: (store) => ({
      async oldestWaiting() {
        const oldest = (await all(store, { state: "pending" })).at(-1);
        return oldest && Date.now() - oldest.receivedAt.getTime();
      },
    }),
    fails: "dueIn: oldestWaiting counts it once it is due, by receivedAt",
  },
  "takes a record by its newest event": {
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
    fails: "order: records go by the arrival of their first due event",
  },
  "takes retries in the order of their arrival": {
    wrap: (store) => ({
      async claim(options) {
        if (options.order !== "retries") return store.claim(options);
        const oldest = (await all(store, { state: "retrying" })).at(-1);
        return store.claim(oldest === undefined ? options : { ...options, eventId: oldest.eventId });
      },
    }),
    fails: "order: retries go last, or first, by the time at which they became due",
  },
  "takes an attempt that is given back for a failure": {
    wrap: (store) => ({
      settle: (claim, outcome) =>
        store.settle(
          claim,
          outcome.state === "released" && claim.attempts > 1
            ? { state: "retrying", in: 0, counted: false, reason: "callback", entry: { duration: 1 } }
            : outcome,
        ),
    }),
    fails: "order: a retry that is given back keeps its place",
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
    fails: "order: of a record with a retry and a new event, the oldest due one goes",
  },
  "forgets an event that was claimed by its id, once its lease has ended": {
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
    fails: "lease: an event whose lease has ended waits while another one of its record is handled",
  },
  "says that an event was claimed when it was received": {
    wrap: (store) => ({
      claim: async (options) =>
        (await store.claim(options)).map((claim) => ({ ...claim, claimedAt: claim.receivedAt })),
    }),
    fails: "order: claimedAt is the time of the claim, by the store's clock",
  },
  "filters what it has listed": {
    wrap: (store) => ({
      async list({ limit, after, ref, source }) {
        const events = await store.list({ limit, after });
        return events.filter(
          (event) => (ref ?? event.ref) === event.ref && (source ?? event.source) === event.source,
        );
      },
    }),
    fails: "filter: the list has `limit` events where few match, and goes on behind one",
  },
  "knows no filter by type": {
    wrap: listing(({ type: _, ...filter }) => filter),
    fails: "filter: each field of a filter narrows the list",
  },
  "knows no filter by source": {
    wrap: listing(({ source: _, ...filter }) => filter),
    fails: "filter: each field of a filter narrows the list",
  },
  "takes receivedAfter for exclusive": {
    wrap: listing(({ receivedAfter, ...filter }) => ({
      ...filter,
      ...(receivedAfter &&
        Number.isFinite(+receivedAfter) && { receivedAfter: new Date(+receivedAfter + 1) }),
    })),
    fails: "filter: each field of a filter narrows the list",
  },
  "takes receivedBefore for inclusive": {
    wrap: listing(({ receivedBefore, ...filter }) => ({
      ...filter,
      ...(receivedBefore && { receivedBefore: new Date(+receivedBefore + 1) }),
    })),
    fails: "filter: each field of a filter narrows the list",
  },
  "looks at one field of a filter alone": {
    wrap: listing((filter) => Object.fromEntries(Object.entries(filter).slice(0, 1))),
    fails: "filter: all fields of a filter must match",
  },
  "takes an invalid date for none": {
    wrap: listing(({ receivedAfter, receivedBefore, ...filter }) => ({
      ...filter,
      ...(Number.isFinite(Number(receivedAfter)) && { receivedAfter }),
      ...(Number.isFinite(Number(receivedBefore)) && { receivedBefore }),
    })),
    fails: "filter: an invalid date is refused",
  },
  "keeps five entries of the history": {
    wrap: showing((event) => ({ ...event, history: event.history.slice(-5) })),
    fails: "history: the last 10 entries are kept",
  },
  "writes no lost entry": {
    wrap: showing((event) => ({
      ...event,
      history: event.history.filter(({ outcome }) => outcome !== "lost"),
    })),
    fails: "history: a claim after a lease's end leaves a lost entry",
  },
  "forgets whose lease was lost": {
    wrap: showing((event) => ({
      ...event,
      history: event.history.map(({ worker, ...entry }) =>
        entry.outcome === "lost" ? entry : { ...entry, worker },
      ),
    })),
    fails: "history: a claim after a lease's end leaves a lost entry",
  },
  "keeps an error that is not the last attempt's": {
    wrap: showing((event) => ({
      ...event,
      lastError: event.history.findLast(({ error }) => error !== undefined)?.error ?? null,
    })),
    fails: "history: lastError is the last entry's",
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
    fails: "settle: a released attempt never happened",
  },
  "deletes the events that it discards": {
    wrap: (store) => ({
      async discard(filter) {
        const discarded = await store.discard(filter);
        await store.prune({ state: "done", age: 0, limit: 10_000 });
        return discarded;
      },
    }),
    fails: "discard: a discarded event's id stays known",
  },
  "keeps the reason of a discarded event": {
    wrap: showing((event) => (event.reason === "discarded" ? { ...event, reason: "callback" } : event)),
    fails: "discard: pending, retrying and parked events become done",
  },
  "counts the events that match, not those that it changed": {
    wrap: (store) => ({
      async discard(filter) {
        const { length } = await all(store, filter);
        await store.discard(filter);
        return length;
      },
    }),
    fails: "discard: pending, retrying and parked events become done",
  },
  "discards all where no filter was given": {
    wrap: (store) => ({
      discard: (filter) => store.discard(Object.keys(filter).length > 0 ? filter : { source: "webhook" }),
    }),
    fails: "replay: a replay or discard without a filter is refused",
  },
  "replays all where no filter was given": {
    wrap: (store) => ({
      replay: (filter) => store.replay(Object.keys(filter).length > 0 ? filter : { source: "webhook" }),
    }),
    fails: "replay: a replay or discard without a filter is refused",
  },
  "replays no more than 1,000 events": {
    wrap: (store) => ({
      async replay(filter) {
        const events = (await all(store, filter)).slice(0, 1000);
        const replayed = await Promise.all(events.map(({ eventId }) => store.replay({ eventId })));
        return replayed.reduce((sum, count) => sum + count, 0);
      },
    }),
    fails: "replay: discard and replay handle more than 1,000 events, each once",
  },
  "erases the events of refs that begin the same": {
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
  "erases nothing, and says nothing, while an event is processed": {
    wrap: (store) => ({ erase: (ref) => store.erase(ref).catch(() => 0) }),
    fails: "erase: erase rejects while one is processed, and deletes nothing",
  },
  "counts a change where the status alone differs": {
    wrap: (store) => ({
      settle(claim, outcome) {
        if (outcome.state !== "done" || outcome.record === undefined) return store.settle(claim, outcome);
        const { snapshot } = outcome.record;
        const changed = snapshot.status !== claim.previous?.status;
        return store.settle(claim, { ...outcome, record: { snapshot, changed } });
      },
    }),
    fails: "settle: done writes the record's snapshot, and counts its changes",
  },
  "keeps text as UTF-8": {
    wrap: (store) => ({
      async recordOf(ref) {
        const record = await store.recordOf(ref);
        return record && { ...record, snapshot: wellFormed(record.snapshot) };
      },
    }),
    fails: "settle: done writes the record's snapshot, and counts its changes",
  },
  "loses the traceparent": {
    wrap: (store) => ({ add: ({ traceparent: _, ...event }, options) => store.add(event, options) }),
    fails: "add: an event comes back as it was given",
  },
  "hands out the snapshot that it keeps": {
    wrap: (store) => {
      let kept: RecordSnapshot | undefined;
      return {
        async recordOf(ref) {
          kept ??= await store.recordOf(ref);
          return kept;
        },
      };
    },
    fails: "read: objects that the store returned are the caller's own",
  },
  "learns over a known snapshot": {
    wrap: (store) => ({
      async learn(ref, snapshot) {
        if (await store.recordOf(ref)) await store.erase(ref);
        return store.learn(ref, snapshot);
      },
    }),
    fails: "record: learn changes no known snapshot",
  },
  "learns beside a parked event": {
    wrap: (store) => ({
      async learn(ref, snapshot) {
        const parked = await all(store, { ref, state: "parked" });
        if (parked.length > 0 && !(await store.recordOf(ref))) return true;
        return store.learn(ref, snapshot);
      },
    }),
    fails: "record: learn writes no first snapshot while an event of the record waits or is parked",
  },
  "does not renew seenAt of what it has learned": {
    wrap: (store) => ({
      learn: async (ref, snapshot) => (await store.recordOf(ref)) !== undefined || store.learn(ref, snapshot),
    }),
    fails: "record: learn of the known snapshot renews seenAt alone",
  },
  "gives 500 records and no more": {
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
    fails: "record: records gives more than 500 of them, each once",
  },
  "sets without comparing": {
    wrap: (store) => ({
      async setMeta(key, value) {
        return store.setMeta(key, value, { expected: (await store.getMeta(key))?.value });
      },
    }),
    fails: "meta: a value is set only where it is the expected one",
  },
  "compares, and sets in another step": {
    wrap: (store) => ({
      async setMeta(key, value, { expected }) {
        const known = (await store.getMeta(key))?.value;
        if (known !== expected) return false;
        while (!(await store.setMeta(key, value, { expected: (await store.getMeta(key))?.value })))
          await later(1);
        return true;
      },
    }),
    fails: "meta: of many setting one key at once, one does",
  },
  "knows no age of meta": {
    wrap: (store) => ({
      async getMeta(key) {
        const meta = await store.getMeta(key);
        return meta && { ...meta, age: 0 };
      },
    }),
    fails: "meta: a value is set where it was not, and read with its age",
  },
  "shows meta as a record": {
    wrap: (store) => ({
      async setMeta(key, value, options) {
        await store.learn(key, { status: value ?? "", fields: {} });
        return store.setMeta(key, value, options);
      },
    }),
    fails: "meta: it is no event and no record, and outlives both",
  },
  "takes any event for received": {
    wrap: (store) => ({ newestReceived: async () => (await all(store))[0]?.receivedAt }),
    fails: "newestReceived: it is the receivedAt of the newest webhook event",
  },
  "finds the newest received event among those that are left": {
    wrap: (store) => ({
      newestReceived: async () => (await all(store, { source: "webhook" }))[0]?.receivedAt,
    }),
    fails: "newestReceived: pruning and erasing leave it",
  },
};
