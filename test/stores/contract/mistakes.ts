import type { EventFilter } from "../../../src/stores/event-filter.ts";
import type { EventStore, FurtherEvent, Outcome } from "../../../src/stores/event-store.ts";
import type { RecordSnapshot } from "../../../src/stores/snapshot.ts";
import type { ClaimedEvent, StoredEvent } from "../../../src/stores/stored-event.ts";
import type { Wrap } from "./wrapped.ts";

const later = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Returns all events that match, newest first. */
const all = (store: EventStore<unknown>, filter: EventFilter = {}): Promise<StoredEvent[]> =>
  store.list({ ...filter, limit: 10_000 });

/** Changes an outcome before it is settled. */
const settling =
  (change: (outcome: Outcome<unknown>, claim: ClaimedEvent) => Outcome<unknown>): Wrap =>
  (store) => ({ settle: (claim, outcome) => store.settle(claim, change(outcome, claim)) });

/** Changes the events that an outcome records. */
const recording = (change: (events: readonly FurtherEvent[], claim: ClaimedEvent) => FurtherEvent[]): Wrap =>
  settling((outcome, claim) =>
    outcome.state === "released" ? outcome : { ...outcome, events: change(outcome.events ?? [], claim) },
  );

/** Calls the method again for each event that waits, so that it is due now. */
const rush = async (store: EventStore<unknown>, events: readonly StoredEvent[]) => {
  for (const { eventId } of events) await store.replay({ eventId });
};

/** Changes each event that `get` and `list` return. */
const showing =
  (change: (event: StoredEvent) => StoredEvent): Wrap =>
  (store) => ({
    list: async (options) => (await store.list(options)).map(change),
    async get(eventId) {
      const event = await store.get(eventId);
      return event && change(event);
    },
  });

/** Changes the filter of `list`. */
const listing =
  (change: (filter: EventFilter) => EventFilter): Wrap =>
  (store) => ({ list: ({ limit, after, ...filter }) => store.list({ ...change(filter), limit, after }) });

/** Stores with one mistake each, and the case that must fail for it. */
export const mistakes: Record<string, { readonly wrap: Wrap; readonly fails: string }> = {
  "gives all firings of a timer one id": {
    wrap: showing((event) => ({ ...event, eventId: event.eventId.replace(/:2026.*Z$/, "") })),
    fails:
      "timer: a timer has an id of its own for each time that was set, and `get` takes the timer's id, too",
  },
  "takes the id of an earlier firing for the timer": {
    wrap: (store) => ({
      discard: (filter) => store.discard({ ...filter, eventId: filter.eventId?.replace(/:2026.*Z$/, "") }),
    }),
    fails:
      "timer: `list`, `replay`, `discard`, `remove` and `claim` take the id of a firing, but not that of an earlier firing",
  },
  "keeps the attempts of earlier firings": {
    wrap: (store) => {
      const earlier = new Map<string, StoredEvent["history"]>();
      const keyOf = (eventId: string) => eventId.replace(/:2026.*Z$/, "");
      return {
        async add(event, options) {
          const known = await store.get(event.eventId);
          if (known) earlier.set(keyOf(event.eventId), known.history);
          return store.add(event, options);
        },
        async get(eventId) {
          const event = await store.get(eventId);
          return event && { ...event, history: [...(earlier.get(keyOf(eventId)) ?? []), ...event.history] };
        },
      };
    },
    fails: "timer: the history of a timer has the attempts of one firing",
  },
  "adds an event twice in concurrent calls": {
    // Reads first and writes later, like a SELECT and an INSERT without a unique key.
    wrap: (store) => {
      const known = new Map<string, string | null>();
      return {
        async add(event) {
          const ref = known.get(event.eventId);
          await later(1);
          if (known.has(event.eventId) && ref !== undefined) return store.add(event);
          known.set(event.eventId, event.ref);
          await store.add(event);
          return "added";
        },
      };
    },
    fails: "add: if many calls add one id concurrently, only one call returns `added`",
  },
  "returns duplicate for a known id with another ref": {
    wrap: (store) => ({
      add: async (event) => ((await store.add(event)) === "added" ? "added" : "duplicate"),
    }),
    fails: "add: `add` of a stored id with another ref returns `conflict`, and changes nothing",
  },
  "parses the notification and formats it again": {
    wrap: (store) => ({
      add: (event) =>
        store.add({
          ...event,
          notification: event.notification && JSON.stringify(JSON.parse(event.notification)),
        }),
    }),
    fails: "add: `get`, `claim` and `list` return an event as it was added",
  },
  "ignores the case of refs": {
    wrap: (store) => ({ add: (event) => store.add({ ...event, ref: event.ref?.toLowerCase() ?? null }) }),
    fails: "claim: refs that differ only in case or in a space name different records",
  },
  "ignores the eventId of a claim": {
    wrap: (store) => ({ claim: ({ eventId: _, ...options }) => store.claim(options) }),
    fails: "claim: a claim by id claims that event and no other event",
  },
  "ignores `except` of a claim": {
    wrap: (store) => ({ claim: ({ except: _, ...options }) => store.claim(options) }),
    fails: "except: the record behind those of `except` is claimed, even if `limit` is 1",
  },
  "drops the records of `except` after it has claimed them": {
    wrap: (store) => ({
      async claim({ except = [], ...options }) {
        const claims = await store.claim(options);
        const isOut = ({ ref, eventId }: ClaimedEvent) =>
          except.some((text) => (ref ?? eventId).startsWith(text));
        for (const claim of claims.filter(isOut)) await store.settle(claim, { state: "released" });
        return claims.filter((claim) => !isOut(claim));
      },
    }),
    fails: "except: the record behind those of `except` is claimed, even if `limit` is 1",
  },
  "compares `except` by the pattern of LIKE": {
    wrap: (store) => ({
      async claim({ except = [], ...options }) {
        const pattern = (text: string) =>
          new RegExp(
            `^${text
              .replace(/[\\/.*+?^$()[\]{}|]/g, "\\$&")
              .replaceAll("%", ".*")
              .replaceAll("_", ".")}`,
            "s",
          );
        const due = (await all(store)).map(({ ref, eventId }) => ref ?? eventId);
        return store.claim({
          ...options,
          except: due.filter((key) => except.some((text) => pattern(text).test(key))),
        });
      },
    }),
    fails: "except: `except` leaves out the records whose key begins with one of the texts, byte by byte",
  },
  "ignores the case of `only`": {
    wrap: (store) => ({
      claim: ({ only, ...options }) =>
        store.claim({
          ...options,
          only: only?.flatMap((text) => [text, text.toUpperCase(), text.toLowerCase()]),
        }),
    }),
    fails: "only: `only` takes the records whose key begins with one of the texts, byte by byte",
  },
  "counts the records of `except` for the next due time": {
    wrap: (store) => ({
      claim: ({ onNextDue, ...options }) => store.claim(options),
      nextDue: () => store.nextDue(),
    }),
    fails: "except: `onNextDue` and `nextDue` leave out the records of `except`",
  },
  "tells the next due time of all records": {
    wrap: (store) => ({
      async claim({ onNextDue, ...options }) {
        const claims = await store.claim(options);
        onNextDue?.(await store.nextDue());
        return claims;
      },
    }),
    fails: "except: `onNextDue` and `nextDue` leave out the records of `except`",
  },
  "tells the next due time of records that are not in `only`": {
    wrap: (store) => ({
      async claim({ onNextDue, ...options }) {
        const claims = await store.claim(options);
        onNextDue?.(await store.nextDue({ except: options.except }));
        return claims;
      },
    }),
    fails: "only: `onNextDue` tells of the records of `only` alone",
  },
  "ignores `except` of a claim by id": {
    wrap: (store) => ({
      claim: ({ except, ...options }) =>
        store.claim({ ...options, except: options.eventId === undefined ? except : undefined }),
    }),
    fails: "except: a claim by id takes no event of `except`",
  },
  "takes no more than 100 texts": {
    wrap: (store) => ({
      claim: ({ except, ...options }) => store.claim({ ...options, except: except?.slice(0, 100) }),
    }),
    fails: "except: `except` takes 1,000 texts",
  },
  "takes an empty text for nothing": {
    wrap: (store) => ({
      claim: ({ except, ...options }) =>
        store.claim({ ...options, except: except?.filter((text) => text !== "") }),
    }),
    fails: "except: an empty text is refused",
  },
  "takes an empty `only` for all": {
    wrap: (store) => ({
      claim: ({ only, ...options }) =>
        store.claim({ ...options, only: only?.length === 0 ? undefined : only }),
    }),
    fails: "only: an empty `only` takes no record",
  },
  "claims the newest record of `only`": {
    wrap: (store) => ({
      async claim({ only, ...options }) {
        if (only === undefined) return store.claim(options);
        const due = (await all(store)).filter(({ dueAt }) => Number(dueAt) <= Date.now());
        const fit = due.filter(({ ref, eventId }) => only.some((text) => (ref ?? eventId).startsWith(text)));
        return fit[0] === undefined ? [] : store.claim({ ...options, eventId: fit[0].eventId });
      },
    }),
    fails: "only: of the records of `only`, the one that is due longest is claimed first",
  },
  "makes leases too short": {
    wrap: (store) => ({ claim: (options) => store.claim({ ...options, leaseDuration: 1 }) }),
    fails: "nextDue: nextDue considers leases, retries and scheduled events",
  },
  "does not check the lease in settle": {
    wrap: (store) => {
      const latest = new Map<string, ClaimedEvent>();
      return {
        async claim(options) {
          const claims = await store.claim(options);
          for (const claim of claims) latest.set(claim.eventId, claim);
          return claims;
        },
        settle: (claim, outcome) => store.settle(latest.get(claim.eventId) ?? claim, outcome),
      };
    },
    fails: "lease: `settle` and `renew` with a lost lease change nothing",
  },
  "returns claims from renew, but does not renew": {
    wrap: () => ({ renew: async (claims) => [...claims] }),
    fails: "lease: `renew` extends the leases that are still held, and returns their claims",
  },
  "counts outages as attempts": {
    wrap: (store) => ({
      settle: (claim, outcome) =>
        store.settle(claim, outcome.state === "retrying" ? { ...outcome, counted: true } : outcome),
    }),
    fails: "outage: `outages` counts outages in a row, and `outageFor` is the time since the first of them",
  },
  "retries at once": {
    wrap: (store) => ({
      settle: (claim, outcome) =>
        store.settle(claim, outcome.state === "retrying" ? { ...outcome, in: 0 } : outcome),
    }),
    fails: "settle: after a failed attempt that counts, only its own event waits",
  },
  "counts a released attempt": {
    wrap: (store) => ({
      settle: (claim, outcome) =>
        store.settle(
          claim,
          outcome.state === "released"
            ? { state: "retrying", in: 0, counted: true, reason: "callback", entry: { duration: 1 } }
            : outcome,
        ),
    }),
    fails: "settle: `attempts` does not count a released attempt",
  },
  "polls every second": {
    wrap: (store) => ({
      nextDue: async (options) => ((await store.nextDue(options)) === undefined ? undefined : 1000),
    }),
    fails: "nextDue: nextDue considers leases, retries and scheduled events",
  },
  "prunes events that are too young": {
    wrap: (store) => ({ prune: (options) => store.prune({ ...options, age: 0 }) }),
    fails: "prune: `prune` deletes events that have been done or parked for at least `age`",
  },
  "prunes an event that was added again after its end": {
    wrap: (store) => {
      let again = 0;
      return {
        async add(event, options) {
          const answer = await store.add(event, options);
          if (options?.replace === "ended" && answer === "added") again += 1;
          return answer;
        },
        prune: async (options) => (await store.prune(options)) + again,
      };
    },
    fails: 'replace: with "ended", a new event takes the place of a done or parked event',
  },
  "prunes for any reason": {
    wrap: (store) => ({ prune: ({ reason: _, ...options }) => store.prune(options) }),
    fails: "prune: `prune` deletes at most `limit` events, in the order in which they became done or parked",
  },
  "starts the list again after an unknown event": {
    wrap: (store) => ({
      list: async ({ after, ...options }) => {
        const known = after !== undefined && (await store.get(after)) !== undefined;
        return store.list(known ? { ...options, after } : options);
      },
    }),
    fails: "read: `list` returns the newest events first, in pages",
  },
  "never wakes a subscriber": {
    wrap: () => ({ subscribe: () => () => {} }),
    fails: "wake: whatever makes an event due wakes the subscriber",
  },
  "wakes no subscriber after restore": {
    wrap: (store) => {
      let isRestoring = false;
      return {
        subscribe: (wake) => store.subscribe!(() => isRestoring || wake()),
        async restore(batch) {
          isRestoring = true;
          await store.restore(batch);
        },
      };
    },
    fails: "wake: whatever makes an event due wakes the subscriber",
  },
  "stays open after close": {
    wrap: () => ({ close: async () => {} }),
    fails: "close: after close, all other methods reject",
  },
  "makes a scheduled event due at once": {
    wrap: (store) => ({ add: (event, { replace } = {}) => store.add(event, { replace }) }),
    fails: "dueIn: an event with dueIn is scheduled, and cannot be claimed before it is due",
  },
  "does not know dueAt": {
    wrap: (store) => ({
      add: (event, { dueAt: _, ...options } = {}) => store.add(event, options),
    }),
    fails: "dueIn: an event with dueAt is due at that time, however long the call takes",
  },
  "counts dueAt from the end of the call": {
    wrap: recording((events) =>
      events.map(({ dueAt, ...event }) =>
        dueAt === undefined ? event : { ...event, dueIn: Number(dueAt) - Date.now() + 400 },
      ),
    ),
    fails: "dueIn: an event with dueAt is due at that time, however long the call takes",
  },
  "makes an event due now if its dueAt has passed, but only after dueIn": {
    wrap: (store) => ({
      add: (event, options) => store.add(event, options?.dueIn ? { ...options, dueAt: undefined } : options),
    }),
    fails: "dueIn: an event with dueAt is due at that time, however long the call takes",
  },
  "keeps no wait longer than a day": {
    wrap: (store) => ({
      add: (event, { dueIn = 0, ...options } = {}) =>
        store.add(event, { ...options, dueIn: Math.min(dueIn, 86_400_000) }),
    }),
    fails: "dueIn: a longer wait is shortened, to 5 years for a retry, and to 1,000 years for a new event",
  },
  "holds up a record behind its scheduled event": {
    wrap: (store) => ({
      async claim(options) {
        const scheduled = new Set((await all(store, { state: "scheduled" })).map(({ ref }) => ref));
        return (await store.claim(options)).filter(({ ref }) => !scheduled.has(ref));
      },
    }),
    fails: "dueIn: an event with dueIn is scheduled, and cannot be claimed before it is due",
  },
  "never replaces an event": {
    wrap: (store) => ({ add: (event, { dueIn } = {}) => store.add(event, { dueIn }) }),
    fails: 'replace: with "ended", a new event takes the place of a done or parked event',
  },
  'replaces an event with the same timestamp with "moved"': {
    wrap: (store) => ({
      async add(event, options = {}) {
        const answer = await store.add(event, options);
        if (answer !== "duplicate" || options.replace !== "moved") return answer;
        await store.add({ ...event, timestamp: "" }, { replace: "moved" });
        return store.add(event, options);
      },
    }),
    fails: 'replace: with "moved", a new event takes the place of an event with another timestamp',
  },
  "says duplicate instead of busy": {
    wrap: (store) => ({
      async add(event, options) {
        const answer = await store.add(event, options);
        return answer === "busy" ? "duplicate" : answer;
      },
    }),
    fails: "replace: an event that is being processed is not replaced: `add` returns `busy`",
  },
  "claims records in the order of their refs": {
    wrap: (store) => ({
      async claim(options) {
        if (options.eventId !== undefined || options.limit > 1) return store.claim(options);
        const due = (await all(store)).filter(({ dueAt }) => dueAt && dueAt.getTime() <= Date.now());
        const [first] = due.sort((a, b) => String(a.ref).localeCompare(String(b.ref)));
        return first ? store.claim({ ...options, eventId: first.eventId }) : [];
      },
    }),
    fails: "order: a record with many events does not hold up other records",
  },
  "takes new events before retries": {
    wrap: (store) => ({
      async claim(options) {
        const [fresh] = (await all(store, { state: "pending" })).reverse();
        return store.claim(options.eventId || !fresh ? options : { ...options, eventId: fresh.eventId });
      },
    }),
    fails: "order: of a record, the event that is due longest is claimed first",
  },
  "ends a lease before its record is claimed": {
    wrap: (store) => ({
      async settle(claim, outcome) {
        const known = await store.get(claim.eventId);
        const hasEnded = known?.state === "processing" && known.dueAt!.getTime() <= Date.now();
        return !hasEnded && store.settle(claim, outcome);
      },
    }),
    fails: "lease: a lease that has ended stays valid until its record is claimed",
  },
  "answers false to a repeated settle": {
    wrap: (store) => {
      const settled = new Set<string>();
      return {
        async settle(claim, outcome) {
          if (settled.has(claim.lease)) return false;
          settled.add(claim.lease);
          return store.settle(claim, outcome);
        },
      };
    },
    fails: "lease: a second `settle` of a claim returns true, and records nothing",
  },
  "answers true to a repeated settle for ever": {
    wrap: (store) => {
      const settled = new Set<string>();
      return {
        async settle(claim, outcome) {
          if (await store.settle(claim, outcome)) settled.add(claim.lease);
          return settled.has(claim.lease);
        },
      };
    },
    fails: "lease: a second `settle` returns true until the event itself is claimed again",
  },
  "records no events with the end of an attempt": {
    wrap: recording(() => []),
    fails: "settle: `events` are recorded with the end of the attempt, by the rules of `add`",
  },
  "does not let an attempt replace its own event": {
    wrap: recording((events, claim) => events.filter(({ event }) => event.eventId !== claim.eventId)),
    fails: "settle: an attempt can replace its own event",
  },
  "removes events after it has recorded others": {
    wrap: (store) => ({
      async settle(claim, outcome) {
        const held = await store.settle(claim, outcome);
        if (outcome.state !== "released" && outcome.remove) await store.remove(claim.ref!, outcome.remove);
        return held;
      },
    }),
    fails: "settle: `remove` deletes events of the record before `events` are recorded",
  },
  "removes done events": {
    wrap: (store) => ({
      async remove(ref, what) {
        await store.prune({ state: "done", age: 0, limit: 100 });
        return store.remove(ref, what);
      },
    }),
    fails:
      "remove: `remove` deletes the timers of a record, or its events by their ids, and no other done event",
  },
  "does not remove an event whose lease has ended": {
    wrap: (store) => ({
      async remove(ref, what) {
        const processing = await all(store, { ref, state: "processing" });
        return processing.length > 0 && what === "timers" ? 0 : store.remove(ref, what);
      },
    }),
    fails: "remove: `remove` skips an event that is being processed, until its lease ends",
  },
  "makes only the failed event wait in an outage": {
    wrap: (store) => ({
      async settle(claim, outcome) {
        const held = await store.settle(claim, outcome);
        if (outcome.state === "retrying" && !outcome.counted && claim.ref !== null)
          await rush(store, await all(store, { ref: claim.ref, state: "pending" }));
        return held;
      },
    }),
    fails: "outage: an outage makes the events of its record wait that are pending or retrying",
  },
  "ends an outage with a new event": {
    wrap: (store) => ({
      async add(event, options) {
        if (event.ref !== null) await rush(store, await all(store, { ref: event.ref, state: "retrying" }));
        return store.add(event, options);
      },
    }),
    fails: "outage: a new event is due at once, and the events that wait stay as they are",
  },
  "discards scheduled events with their record": {
    wrap: (store) => ({
      async discard(filter) {
        return (await store.discard(filter)) + (await store.discard({ ...filter, state: "scheduled" }));
      },
    }),
    fails: "replay: `replay` and `discard` change a scheduled event only if the filter names it",
  },
  "prunes a timer that has fired": {
    wrap: (store) => ({
      async prune(options) {
        const pruned = await store.prune(options);
        const timers = await all(store, { source: "timer", state: "done" });
        for (const { ref, eventId } of timers) {
          await store.replay({ eventId });
          await store.remove(ref!, [eventId]);
        }
        return pruned + timers.length;
      },
    }),
    fails: "prune: `prune` keeps a done timer as long as its record has a snapshot",
  },
  "prunes the snapshot of a record with a scheduled event": {
    wrap: (store) => ({
      async pruneSnapshots(options) {
        const scheduled = await all(store, { state: "scheduled" });
        for (const { ref } of scheduled) await store.erase(ref!);
        return store.pruneSnapshots(options);
      },
    }),
    fails:
      "snapshot: pruneSnapshots deletes old snapshots, but not of records with an event that is not done or parked",
  },
  "restores events as new": {
    wrap: (store) => ({
      async restore({ events, snapshots }) {
        for (const event of events) await store.add(event);
        await store.restore({ events: [], snapshots });
      },
    }),
    fails: "restore: `restore` writes events and snapshots as given",
  },
  "overwrites what it restores": {
    wrap: (store) => ({
      async restore(batch) {
        for (const { ref } of batch.snapshots) await store.erase(ref);
        await store.restore(batch);
      },
    }),
    fails: "restore: `restore` skips ids and refs that are there",
  },
  "restores the events before a processing one": {
    wrap: (store) => ({
      async restore({ events, snapshots }) {
        for (const event of events) await store.restore({ events: [event], snapshots });
      },
    }),
    fails: "restore: `restore` rejects a processing event, and writes nothing",
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
  "treats receivedAfter as exclusive": {
    wrap: listing(({ receivedAfter, ...filter }) => ({
      ...filter,
      ...(receivedAfter &&
        Number.isFinite(+receivedAfter) && { receivedAfter: new Date(+receivedAfter + 1) }),
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
  "deletes the events that it discards": {
    wrap: (store) => ({
      async discard(filter) {
        const discarded = await store.discard(filter);
        await store.prune({ state: "done", age: 0, limit: 10_000 });
        return discarded;
      },
    }),
    fails: "discard: `discard` sets pending, retrying and parked events to done",
  },
  "keeps the reason of a discarded event": {
    wrap: showing((event) => (event.reason === "discarded" ? { ...event, reason: "callback" } : event)),
    fails: "discard: `discard` sets pending, retrying and parked events to done",
  },
  "discards all events if the filter is empty": {
    wrap: (store) => ({
      discard: (filter) => store.discard(Object.keys(filter).length > 0 ? filter : { source: "webhook" }),
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
    fails: "snapshot: `learn` updates only seenAt of an equal snapshot, and does not change another one",
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
    fails: "snapshot: `learn` updates only seenAt of an equal snapshot, and does not change another one",
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
    fails: "read: lastReceivedAt is the receivedAt of the newest webhook event",
  },
  "forgets lastReceivedAt when the event is erased": {
    wrap: (store) => {
      let kept: Date | undefined;
      const lastReceivedAt = async () => (await all(store, { source: "webhook" }))[0]?.receivedAt ?? kept;
      return {
        lastReceivedAt,
        async prune(options) {
          kept = await lastReceivedAt();
          return store.prune(options);
        },
      };
    },
    fails: "read: lastReceivedAt is the receivedAt of the newest webhook event",
  },
  "locks single events, not records": {
    wrap: (store) => ({ add: (event, options) => store.add({ ...event, ref: null }, options) }),
    fails: "claim: concurrent claims never return the same event or two events of one record",
  },
  "prunes more events than the limit": {
    wrap: (store) => ({ prune: (options) => store.prune({ ...options, limit: options.limit && 1000 }) }),
    fails: "prune: `prune` deletes at most `limit` events, in the order in which they became done or parked",
  },
  "does not mark replayed events": {
    wrap: (store) => ({
      claim: async (options) => (await store.claim(options)).map((claim) => ({ ...claim, replayed: false })),
    }),
    fails: "replay: a done or parked event can be replayed",
  },
  "keeps the notification of a done event without a record": {
    wrap: (store) => {
      const texts = new Map<string, string | null>();
      return {
        add: (event, options) => {
          texts.set(event.eventId, event.notification);
          return store.add(event, options);
        },
        async get(eventId) {
          const event = await store.get(eventId);
          return event && { ...event, notification: texts.get(eventId) ?? event.notification };
        },
      };
    },
    fails: "settle: an event without a record loses its notification when it is done or discarded",
  },
  "returns no previous snapshot": {
    wrap: (store) => ({
      claim: async (options) =>
        (await store.claim(options)).map((claim) => ({ ...claim, previous: undefined })),
    }),
    fails: "settle: a done outcome writes the snapshot, and raises sequence if the record has changed",
  },
};
