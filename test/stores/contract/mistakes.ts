import type { EventFilter } from "../../../src/stores/event-filter.ts";
import type { EventStore, FurtherEvent, Outcome } from "../../../src/stores/event-store.ts";
import type { RecordSnapshot } from "../../../src/stores/snapshot.ts";
import type { ClaimOptions } from "../../../src/stores/store-options.ts";
import type { ClaimedEvent, NewEvent, StoredEvent } from "../../../src/stores/stored-event.ts";
import type { Wrap } from "./wrapped.ts";

const later = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Returns all events that match, newest first. */
const all = (store: EventStore<unknown>, filter: EventFilter = {}): Promise<StoredEvent[]> =>
  store.list({ ...filter, limit: 10_000 });

/** Changes the options of a claim. */
const claiming =
  (change: (options: ClaimOptions) => ClaimOptions): Wrap =>
  (store) => ({ claim: (options) => store.claim(change(options)) });

/** Changes an event before it is added. */
const adding =
  (change: (event: NewEvent) => NewEvent): Wrap =>
  (store) => ({ add: (event, options) => store.add(change(event), options) });

/** Changes what a claim returns. */
const claimed =
  (change: (claim: ClaimedEvent) => ClaimedEvent): Wrap =>
  (store) => ({ claim: async (options) => (await store.claim(options)).map(change) });

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
  (store) => ({
    list: ({ limit, after, ...filter } = {}) => store.list({ ...change(filter), limit, after }),
  });

/** Cases of the contract, and stores with one mistake each for which the case must fail. */
export const mistakes: Record<string, Record<string, Wrap>> = {
  "timer: a timer has an id of its own for each time that was set, and `get` takes the timer's id, too": {
    "gives all firings of a timer one id": showing((event) => ({
      ...event,
      eventId: event.eventId.replace(/:2026.*Z$/, ""),
    })),
  },
  "timer: `list`, `replay`, `discard`, `remove` and `claim` take the id of a firing, but not that of an earlier firing":
    {
      "takes the id of an earlier firing for the timer": (store) => ({
        discard: (filter) => store.discard({ ...filter, eventId: filter.eventId?.replace(/:2026.*Z$/, "") }),
      }),
    },
  "timer: the history of a timer has the attempts of one firing": {
    "keeps the attempts of earlier firings": (store) => {
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
  },
  "add: if many calls add one id concurrently, only one call returns `added`": {
    // Reads first and writes later, like a SELECT and an INSERT without a unique key.
    "adds an event twice in concurrent calls": (store) => {
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
  },
  "add: `add` of a stored id with another ref returns `conflict`, and changes nothing": {
    "returns duplicate for a known id with another ref": (store) => ({
      add: async (event) => ((await store.add(event)) === "added" ? "added" : "duplicate"),
    }),
  },
  "add: `get`, `claim` and `list` return an event as it was added": {
    "parses the notification and formats it again": adding((event) => ({
      ...event,
      notification: event.notification && JSON.stringify(JSON.parse(event.notification)),
    })),
  },
  "claim: refs that differ only in case or in a space name different records": {
    "ignores the case of refs": adding((event) => ({ ...event, ref: event.ref?.toLowerCase() ?? null })),
  },
  "claim: a claim by id claims that event and no other event": {
    "ignores the eventId of a claim": claiming(({ eventId: _, ...options }) => options),
  },
  "except: the record behind those of `except` is claimed, even if `limit` is 1": {
    "ignores `except` of a claim": claiming(({ except: _, ...options }) => options),
    "drops the records of `except` after it has claimed them": (store) => ({
      async claim({ except = [], ...options }) {
        const claims = await store.claim(options);
        const isOut = ({ ref, eventId }: ClaimedEvent) =>
          except.some((text) => (ref ?? eventId).startsWith(text));
        for (const claim of claims.filter(isOut)) await store.settle(claim, { state: "released" });
        return claims.filter((claim) => !isOut(claim));
      },
    }),
  },
  "except: `except` leaves out the records whose key begins with one of the texts, byte by byte": {
    "compares `except` by the pattern of LIKE": (store) => ({
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
  },
  "only: `only` takes the records whose key begins with one of the texts, byte by byte": {
    "ignores the case of `only`": claiming(({ only, ...options }) => ({
      ...options,
      only: only?.flatMap((text) => [text, text.toUpperCase(), text.toLowerCase()]),
    })),
  },
  "except: `onNextDue` and `nextDue` leave out the records of `except`": {
    "counts the records of `except` for the next due time": (store) => ({
      claim: ({ onNextDue, ...options }) => store.claim(options),
      nextDue: () => store.nextDue(),
    }),
    "tells the next due time of all records": (store) => ({
      async claim({ onNextDue, ...options }) {
        const claims = await store.claim(options);
        onNextDue?.(await store.nextDue());
        return claims;
      },
    }),
  },
  "only: `onNextDue` tells of the records of `only` alone": {
    "tells the next due time of records that are not in `only`": (store) => ({
      async claim({ onNextDue, ...options }) {
        const claims = await store.claim(options);
        onNextDue?.(await store.nextDue({ except: options.except }));
        return claims;
      },
    }),
  },
  "except: a claim by id takes no event of `except`": {
    "ignores `except` of a claim by id": claiming(({ except, ...options }) => ({
      ...options,
      except: options.eventId === undefined ? except : undefined,
    })),
  },
  "except: `except` takes 1,000 texts": {
    "takes no more than 100 texts": claiming(({ except, ...options }) => ({
      ...options,
      except: except?.slice(0, 100),
    })),
  },
  "except: an empty text is refused": {
    "takes an empty text for nothing": claiming(({ except, ...options }) => ({
      ...options,
      except: except?.filter((text) => text !== ""),
    })),
  },
  "only: an empty `only` takes no record": {
    "takes an empty `only` for all": claiming(({ only, ...options }) => ({
      ...options,
      only: only?.length === 0 ? undefined : only,
    })),
  },
  "only: of the records of `only`, the one that is due longest is claimed first": {
    "claims the newest record of `only`": (store) => ({
      async claim({ only, ...options }) {
        if (only === undefined) return store.claim(options);
        const due = (await all(store)).filter(({ dueAt }) => Number(dueAt) <= Date.now());
        const fit = due.filter(({ ref, eventId }) => only.some((text) => (ref ?? eventId).startsWith(text)));
        return fit[0] === undefined ? [] : store.claim({ ...options, eventId: fit[0].eventId });
      },
    }),
  },
  "nextDue: nextDue considers leases, retries and scheduled events": {
    "makes leases too short": claiming((options) => ({ ...options, leaseDuration: 1 })),
    "polls every second": (store) => ({
      nextDue: async (options) => ((await store.nextDue(options)) === undefined ? undefined : 1000),
    }),
  },
  "lease: `settle` and `renew` with a lost lease change nothing": {
    "does not check the lease in settle": (store) => {
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
  },
  "lease: `renew` extends the leases that are still held, and returns their claims": {
    "returns claims from renew, but does not renew": () => ({ renew: async (claims) => [...claims] }),
  },
  "outage: `outages` counts outages in a row, and `outageFor` is the time since the first of them": {
    "counts outages as attempts": settling((outcome) =>
      outcome.state === "retrying" ? { ...outcome, count: "call" } : outcome,
    ),
  },
  "outage: each failure raises the count of its own kind, and an answer with the record begins two of them anew":
    {
      "counts a refusal as a failed read": settling((outcome) =>
        "count" in outcome && outcome.count === "refusal" ? { ...outcome, count: "failure" } : outcome,
      ),
      "keeps the counts after an answer with the record": settling((outcome) =>
        "found" in outcome ? { ...outcome, found: false } : outcome,
      ),
    },
  "outage: `outages` begins anew when a refusal follows outages, and `lastFailure` is the last entry with a reason":
    {
      "forgets why the last attempt failed": (store) => ({
        claim: async (options) =>
          (await store.claim(options)).map((claim) => ({ ...claim, lastFailure: undefined })),
      }),
    },
  "settle: after a failed attempt that counts, only its own event waits": {
    "retries at once": settling((outcome) =>
      outcome.state === "retrying" ? { ...outcome, in: 0 } : outcome,
    ),
  },
  "thing: a released event keeps its due time with a ledger, and is due now without one": {
    "moves a released event behind the others, although it has recorded a ledger": settling((outcome) =>
      outcome.state === "released" ? { ...outcome, ledger: undefined } : outcome,
    ),
  },
  "settle: `attempts` does not count a released attempt": {
    "counts a released attempt": settling((outcome) =>
      outcome.state === "released"
        ? { state: "retrying", in: 0, reason: "callback", entry: { duration: 1 } }
        : outcome,
    ),
  },
  "prune: `prune` deletes events that have been done or parked for at least `age`": {
    "prunes events that are too young": (store) => ({
      prune: (options) => store.prune({ ...options, age: 0 }),
    }),
  },
  'replace: with "ended", a new event takes the place of a done or parked event': {
    "prunes an event that was added again after its end": (store) => {
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
    "never replaces an event": (store) => ({ add: (event, { dueIn } = {}) => store.add(event, { dueIn }) }),
  },
  "prune: `prune` deletes at most `limit` events, in the order in which they became done or parked": {
    "prunes for any reason": (store) => ({ prune: ({ reason: _, ...options }) => store.prune(options) }),
    "prunes more events than the limit": (store) => ({
      prune: (options) => store.prune({ ...options, limit: options.limit && 1000 }),
    }),
  },
  "read: `list` returns the newest events first, in pages": {
    "starts the list again after an unknown event": (store) => ({
      list: async ({ after, ...options } = {}) => {
        const known = after !== undefined && (await store.get(after)) !== undefined;
        return store.list(known ? { ...options, after } : options);
      },
    }),
  },
  "wake: whatever makes an event due wakes the subscriber": {
    "never wakes a subscriber": () => ({ subscribe: () => () => {} }),
    "wakes no subscriber after restore": (store) => {
      let isRestoring = false;
      return {
        subscribe: (wake) => store.subscribe!(() => isRestoring || wake()),
        async restore(batch) {
          isRestoring = true;
          await store.restore(batch);
        },
      };
    },
  },
  "close: after close, all other methods reject": {
    "stays open after close": () => ({ close: async () => {} }),
  },
  "dueIn: an event with dueIn is scheduled, and cannot be claimed before it is due": {
    "makes a scheduled event due at once": (store) => ({
      add: (event, { replace } = {}) => store.add(event, { replace }),
    }),
    "holds up a record behind its scheduled event": (store) => ({
      async claim(options) {
        const scheduled = new Set((await all(store, { state: "scheduled" })).map(({ ref }) => ref));
        return (await store.claim(options)).filter(({ ref }) => !scheduled.has(ref));
      },
    }),
  },
  "dueIn: an event with dueAt is due at that time, however long the call takes": {
    "does not know dueAt": (store) => ({
      add: (event, { dueAt: _, ...options } = {}) => store.add(event, options),
    }),
    "counts dueAt from the end of the call": recording((events) =>
      events.map(({ dueAt, ...event }) =>
        dueAt === undefined ? event : { ...event, dueIn: Number(dueAt) - Date.now() + 400 },
      ),
    ),
    "makes an event due now if its dueAt has passed, but only after dueIn": (store) => ({
      add: (event, options) => store.add(event, options?.dueIn ? { ...options, dueAt: undefined } : options),
    }),
  },
  "dueIn: a longer wait is shortened, to 5 years for a retry, and to 1,000 years for a new event": {
    "keeps no wait longer than a day": (store) => ({
      add: (event, { dueIn = 0, ...options } = {}) =>
        store.add(event, { ...options, dueIn: Math.min(dueIn, 86_400_000) }),
    }),
  },
  'replace: with "moved", a new event takes the place of an event with another timestamp': {
    'replaces an event with the same timestamp with "moved"': (store) => ({
      async add(event, options = {}) {
        const answer = await store.add(event, options);
        if (answer !== "duplicate" || options.replace !== "moved") return answer;
        await store.add({ ...event, timestamp: "" }, { replace: "moved" });
        return store.add(event, options);
      },
    }),
  },
  "replace: an event that is being processed is not replaced: `add` returns `busy`": {
    "says duplicate instead of busy": (store) => ({
      async add(event, options) {
        const answer = await store.add(event, options);
        return answer === "busy" ? "duplicate" : answer;
      },
    }),
  },
  "order: a record with many events does not hold up other records": {
    "claims records in the order of their refs": (store) => ({
      async claim(options) {
        if (options.eventId !== undefined || options.limit > 1) return store.claim(options);
        const due = (await all(store)).filter(({ dueAt }) => dueAt && dueAt.getTime() <= Date.now());
        const [first] = due.sort((a, b) => String(a.ref).localeCompare(String(b.ref)));
        return first ? store.claim({ ...options, eventId: first.eventId }) : [];
      },
    }),
  },
  "order: of a record, the event that is due longest is claimed first": {
    "takes new events before retries": (store) => ({
      async claim(options) {
        const [fresh] = (await all(store, { state: "pending" })).reverse();
        return store.claim(options.eventId || !fresh ? options : { ...options, eventId: fresh.eventId });
      },
    }),
  },
  "lease: a lease that has ended stays valid until its record is claimed": {
    "ends a lease before its record is claimed": (store) => ({
      async settle(claim, outcome) {
        const known = await store.get(claim.eventId);
        const hasEnded = known?.state === "processing" && known.dueAt!.getTime() <= Date.now();
        return !hasEnded && store.settle(claim, outcome);
      },
    }),
  },
  "lease: a second `settle` of a claim returns true, and records nothing": {
    "answers false to a repeated settle": (store) => {
      const settled = new Set<string>();
      return {
        async settle(claim, outcome) {
          if (settled.has(claim.lease)) return false;
          settled.add(claim.lease);
          return store.settle(claim, outcome);
        },
      };
    },
  },
  "lease: a second `settle` returns true until the event itself is claimed again": {
    "answers true to a repeated settle for ever": (store) => {
      const settled = new Set<string>();
      return {
        async settle(claim, outcome) {
          if (await store.settle(claim, outcome)) settled.add(claim.lease);
          return settled.has(claim.lease);
        },
      };
    },
  },
  "settle: `events` are recorded with the end of the attempt, by the rules of `add`": {
    "records no events with the end of an attempt": recording(() => []),
  },
  "settle: an attempt can replace its own event": {
    "does not let an attempt replace its own event": recording((events, claim) =>
      events.filter(({ event }) => event.eventId !== claim.eventId),
    ),
  },
  "settle: `remove` deletes events of the record before `events` are recorded": {
    "removes events after it has recorded others": (store) => ({
      async settle(claim, outcome) {
        const held = await store.settle(claim, outcome);
        if (outcome.state !== "released" && outcome.remove) await store.remove(claim.ref!, outcome.remove);
        return held;
      },
    }),
  },
  "remove: `remove` deletes the timers of a record, or its events by their ids, and no other done event": {
    "removes done events": (store) => ({
      async remove(ref, what) {
        await store.prune({ state: "done", age: 0, limit: 100 });
        return store.remove(ref, what);
      },
    }),
  },
  "remove: `remove` skips an event that is being processed, until its lease ends": {
    "does not remove an event whose lease has ended": (store) => ({
      async remove(ref, what) {
        const processing = await all(store, { ref, state: "processing" });
        return processing.length > 0 && what === "timers" ? 0 : store.remove(ref, what);
      },
    }),
  },
  "outage: an outage makes the events of its record wait that are pending or retrying": {
    "makes only the failed event wait in an outage": (store) => ({
      async settle(claim, outcome) {
        const held = await store.settle(claim, outcome);
        if (outcome.state === "retrying" && outcome.holdsRecord && claim.ref !== null)
          await rush(store, await all(store, { ref: claim.ref, state: "pending" }));
        return held;
      },
    }),
  },
  "outage: a new event is due at once, and the events that wait stay as they are": {
    "ends an outage with a new event": (store) => ({
      async add(event, options) {
        if (event.ref !== null) await rush(store, await all(store, { ref: event.ref, state: "retrying" }));
        return store.add(event, options);
      },
    }),
  },
  "replay: `replay` and `discard` change a scheduled event only if the filter names it": {
    "discards scheduled events with their record": (store) => ({
      async discard(filter) {
        return (await store.discard(filter)) + (await store.discard({ ...filter, state: "scheduled" }));
      },
    }),
  },
  "prune: `prune` keeps a done timer as long as its record has a snapshot": {
    "prunes a timer that has fired": (store) => ({
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
  },
  "snapshot: pruneSnapshots deletes old snapshots, but not of records with an event that is not done or parked":
    {
      "prunes the snapshot of a record with a scheduled event": (store) => ({
        async pruneSnapshots(options) {
          const scheduled = await all(store, { state: "scheduled" });
          for (const { ref } of scheduled) await store.erase(ref!);
          return store.pruneSnapshots(options);
        },
      }),
    },
  "restore: `restore` writes events and snapshots as given": {
    "restores events as new": (store) => ({
      async restore({ events, snapshots }) {
        for (const event of events) await store.add(event);
        await store.restore({ events: [], snapshots });
      },
    }),
  },
  "restore: `restore` skips ids and refs that are there": {
    "overwrites what it restores": (store) => ({
      async restore(batch) {
        for (const { ref } of batch.snapshots) await store.erase(ref);
        await store.restore(batch);
      },
    }),
  },
  "restore: `restore` rejects a processing event, and writes nothing": {
    "restores the events before a processing one": (store) => ({
      async restore({ events, snapshots }) {
        for (const event of events) await store.restore({ events: [event], snapshots });
      },
    }),
  },
  "filter: `list` applies `limit` and `after` to the matching events only": {
    "filters a list after it has applied the limit": (store) => ({
      async list({ limit, after, ref, source } = {}) {
        const events = await store.list({ limit, after });
        return events.filter(
          (event) => (ref ?? event.ref) === event.ref && (source ?? event.source) === event.source,
        );
      },
    }),
  },
  "filter: `list` returns only events that match all fields of the filter": {
    "ignores the filter by type": listing(({ type: _, ...filter }) => filter),
    "treats receivedAfter as exclusive": listing(({ receivedAfter, ...filter }) => ({
      ...filter,
      ...(receivedAfter &&
        Number.isFinite(+receivedAfter) && { receivedAfter: new Date(+receivedAfter + 1) }),
    })),
    "uses only the first field of a filter": listing((filter) =>
      Object.fromEntries(Object.entries(filter).slice(0, 1)),
    ),
  },
  "history: the history keeps the last 10 entries": {
    "keeps only five entries of the history": showing((event) => ({
      ...event,
      history: event.history.slice(-5),
    })),
  },
  "history: a claim after the end of a lease adds a `lost` entry to the history": {
    "writes no lost entry": showing((event) => ({
      ...event,
      history: event.history.filter(({ outcome }) => outcome !== "lost"),
    })),
  },
  "discard: `discard` sets pending, retrying and parked events to done": {
    "deletes the events that it discards": (store) => ({
      async discard(filter) {
        const discarded = await store.discard(filter);
        await store.prune({ state: "done", age: 0, limit: 10_000 });
        return discarded;
      },
    }),
    "keeps the reason of a discarded event": showing((event) =>
      event.reason === "discarded" ? { ...event, reason: "callback" } : event,
    ),
  },
  "replay: `replay` and `discard` reject a filter without fields": {
    "discards all events if the filter is empty": (store) => ({
      discard: (filter) => store.discard(Object.keys(filter).length > 0 ? filter : { source: "webhook" }),
    }),
  },
  "replay: `discard` and `replay` change more than 1,000 events, each event once": {
    "replays no more than 1,000 events": (store) => ({
      async replay(filter) {
        const events = (await all(store, filter)).slice(0, 1000);
        const replayed = await Promise.all(events.map(({ eventId }) => store.replay({ eventId })));
        return replayed.reduce((sum, count) => sum + count, 0);
      },
    }),
  },
  "erase: `erase` deletes a record's events and its snapshot": {
    "keeps the snapshot of an erased record": (store) => ({
      async erase(ref) {
        const record = await store.snapshotOf(ref);
        const erased = await store.erase(ref);
        if (record) await store.learn(ref, record.snapshot);
        return erased;
      },
    }),
  },
  "erase: while an event of the record is processed, `erase` rejects and deletes nothing": {
    "does not reject erase while an event is processed": (store) => ({
      erase: (ref) => store.erase(ref).catch(() => 0),
    }),
  },
  "read: changes to returned objects do not change the store": {
    "returns the snapshot object that it keeps": (store) => {
      let kept: RecordSnapshot | undefined;
      return {
        async snapshotOf(ref) {
          kept ??= await store.snapshotOf(ref);
          return kept;
        },
      };
    },
  },
  "snapshot: `learn` adds fields to a snapshot, updates seenAt of an equal one, and does not change another one":
    {
      "overwrites a known snapshot in learn": (store) => ({
        async learn(ref, snapshot) {
          if (await store.snapshotOf(ref)) await store.erase(ref);
          return store.learn(ref, snapshot);
        },
      }),
      "does not update seenAt of an equal snapshot": (store) => ({
        learn: async (ref, snapshot) =>
          (await store.snapshotOf(ref)) !== undefined || store.learn(ref, snapshot),
      }),
    },
  "snapshot: `learn` writes no first snapshot while an event waits, is processing or is parked": {
    "accepts a learn while an event is parked": (store) => ({
      async learn(ref, snapshot) {
        const parked = await all(store, { ref, state: "parked" });
        if (parked.length > 0 && !(await store.snapshotOf(ref))) return true;
        return store.learn(ref, snapshot);
      },
    }),
  },
  "snapshot: `snapshots` yields more than 500 snapshots, each once, and can be stopped early": {
    "yields no more than 500 snapshots": (store) => ({
      async *snapshots(options) {
        let given = 0;
        for await (const record of store.snapshots(options)) {
          if (given >= 500) return;
          given += 1;
          yield record;
        }
      },
    }),
  },
  "meta: setMeta sets a value only if the current value is `expected`": {
    "sets a meta value without comparing": (store) => ({
      async setMeta(key, value) {
        return store.setMeta(key, value, { expected: (await store.getMeta(key))?.value });
      },
    }),
  },
  "meta: if many calls set one key concurrently, only one call returns true": {
    "compares and sets a meta value in two steps": (store) => ({
      async setMeta(key, value, { expected }) {
        const known = (await store.getMeta(key))?.value;
        if (known !== expected) return false;
        while (!(await store.setMeta(key, value, { expected: (await store.getMeta(key))?.value })))
          await later(1);
        return true;
      },
    }),
  },
  "meta: setMeta sets a new key, and getMeta reads its value and age": {
    "returns 0 as the age of each meta value": (store) => ({
      async getMeta(key) {
        const meta = await store.getMeta(key);
        return meta && { ...meta, age: 0 };
      },
    }),
  },
  "read: lastReceivedAt is the receivedAt of the newest webhook event": {
    "counts events of any source in lastReceivedAt": (store) => ({
      lastReceivedAt: async () => (await all(store))[0]?.receivedAt,
    }),
    "forgets lastReceivedAt when the event is pruned": (store) => ({
      lastReceivedAt: async () => (await all(store, { source: "webhook" }))[0]?.receivedAt,
    }),
    "forgets lastReceivedAt when the event is erased": (store) => {
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
  },
  "claim: concurrent claims never return the same event or two events of one record": {
    "locks single events, not records": (store) => ({
      add: (event, options) => store.add({ ...event, ref: null }, options),
    }),
  },
  "replay: a done or parked event can be replayed": {
    "does not mark replayed events": claimed((claim) => ({ ...claim, replayed: false })),
  },
  "settle: an event without a record loses its notification when it is done or discarded": {
    "keeps the notification of a done event without a record": (store) => {
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
  },
  "ledger: each outcome can set the ledger, which is there without a snapshot, and a claim has it": {
    "forgets the ledger of a failed attempt": settling((outcome) =>
      outcome.state === "done" ? outcome : { ...outcome, ledger: undefined },
    ),
  },
  "ledger: `null` and an empty text delete the ledger, and nothing else": {
    "keeps an empty ledger": settling((outcome) =>
      outcome.ledger === "" ? { ...outcome, ledger: undefined } : outcome,
    ),
  },
  "thing: a done thing is kept by `remove`, and pruned although its record has a snapshot": {
    "takes things for timers": (store) => ({
      add: (event, options) =>
        store.add({ ...event, source: event.source === "thing" ? "timer" : event.source }, options),
    }),
  },
  "read: firstDueAt is when an event was first due or replayed, and attempts do not change it": {
    "counts the age of a retried event from its due time": showing((event) => ({
      ...event,
      firstDueAt: event.dueAt ?? event.firstDueAt,
    })),
  },
  "erase: `erase` of a booking also deletes its messages, of this spelling and account only": {
    "leaves the messages of a booking": (store) => ({
      async erase(ref) {
        const messages = await all(store, { ref: ref.replace("booking:", "message:") });
        const erased = await store.erase(ref);
        if (ref.startsWith("booking:")) await store.restore({ events: messages, snapshots: [] });
        return erased;
      },
    }),
  },
  "settle: a done outcome writes the snapshot, and raises sequence if the record has changed": {
    "returns no previous snapshot": claimed((claim) => ({ ...claim, previous: undefined })),
  },
};
