import type {
  ClaimedEvent,
  EventStore,
  FurtherEvent,
  Outcome,
  StoredEvent,
} from "../../../src/stores/event-store.ts";
import { all, type Mistakes, type Wrap } from "./wrapped.ts";

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

/** Mistakes about due times, replacing, the order of claims, leases, outages, timers and restoring. */
export const queueMistakes: Mistakes = {
  "makes a scheduled event due at once": {
    wrap: (store) => ({ add: (event, { replace } = {}) => store.add(event, { replace }) }),
    fails: "dueIn: an event with dueIn is scheduled, and cannot be claimed before it is due",
  },
  "keeps no wait longer than a day": {
    wrap: (store) => ({
      add: (event, { dueIn = 0, ...options } = {}) =>
        store.add(event, { ...options, dueIn: Math.min(dueIn, 86_400_000) }),
    }),
    fails: "dueIn: a wait of more than 5 years is shortened to 5 years",
  },
  "counts the age of a scheduled event from its receipt": {
    wrap: (store) => ({
      async oldestWaiting() {
        const [scheduled] = await all(store, { ref: "booking:A", state: "scheduled" });
        if (scheduled === undefined || scheduled.dueAt!.getTime() > Date.now()) return store.oldestWaiting();
        return Date.now() - scheduled.receivedAt.getTime();
      },
    }),
    fails: "dueIn: oldestWaiting counts a scheduled event from its due time on",
  },
  "holds up a record behind its scheduled event": {
    wrap: (store) => ({
      async claim(options) {
        const scheduled = new Set((await all(store, { state: "scheduled" })).map(({ ref }) => ref));
        return (await store.claim(options)).filter(({ ref }) => !scheduled.has(ref));
      },
    }),
    fails: "dueIn: an event with dueIn does not make other events of its record wait",
  },
  "never replaces an event": {
    wrap: (store) => ({ add: (event, { dueIn } = {}) => store.add(event, { dueIn }) }),
    fails: 'replace: with "ended", a new event takes the place of a done or parked event',
  },
  'replaces a retrying event with "ended"': {
    wrap: (store) => ({
      async add(event, options = {}) {
        const known = await store.get(event.eventId);
        const isEnded = options.replace === "ended" && known?.state === "retrying";
        return store.add(event, isEnded ? { ...options, replace: "moved" } : options);
      },
    }),
    fails: 'replace: with "ended", an event that waits is a duplicate',
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
  "loses the history of a replaced event": {
    wrap: (store) => ({
      async add(event, options) {
        const [known] = options?.replace ? await all(store, { eventId: event.eventId, state: "parked" }) : [];
        if (known) await store.prune({ state: "parked", age: 0, limit: 100 });
        return store.add(event, options);
      },
    }),
    fails: 'replace: with "ended", a new event takes the place of a done or parked event',
  },
  "deletes and adds the event that it replaces": {
    wrap: (store) => ({
      async add(event, options) {
        const known = await store.get(event.eventId);
        if (options?.replace === "ended" && known?.state === "done" && known.ref === event.ref)
          await store.prune({ state: "done", age: 0, limit: 1 });
        return store.add(event, options);
      },
    }),
    fails: "replace: a replaced event keeps its place in the list, and its id stays one event",
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
  "ignores newestFirst": {
    wrap: (store) => ({ claim: ({ newestFirst: _, ...options }) => store.claim(options) }),
    fails: "order: the record that is due longest is claimed first, or last with newestFirst",
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
  "takes the newest of the events that are due at the same time": {
    wrap: (store) => ({
      async claim(options) {
        const [newest] = await all(store, { ref: "booking:A", state: "pending" });
        return store.claim(options.eventId || !newest ? options : { ...options, eventId: newest.eventId });
      },
    }),
    fails: "order: of events that are due at the same time, the one received first is claimed first",
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
  "claims a lost event before events that are due longer": {
    wrap: (store) => ({
      async claim(options) {
        const lost = (await all(store, { state: "processing" })).find(
          ({ dueAt }) => Number(dueAt) <= Date.now(),
        );
        return store.claim(lost ? { ...options, eventId: lost.eventId } : options);
      },
    }),
    fails: "lease: after the end of a lease, the event that is due longest is claimed",
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
    fails: "lease: a second `settle` returns false once the record is claimed again",
  },
  "checks the lease of a record, and not its event": {
    wrap: (store) => {
      const claims: ClaimedEvent[] = [];
      return {
        async claim(options) {
          const claimed = await store.claim(options);
          claims.push(...claimed);
          return claimed;
        },
        settle: (claim, outcome) =>
          store.settle(claims.find(({ lease }) => lease === claim.lease) ?? claim, outcome),
      };
    },
    fails: "lease: a lease is valid only for its own event",
  },
  "records no events with the end of an attempt": {
    wrap: recording(() => []),
    fails: "settle: `events` are recorded with the end of the attempt, by the rules of `add`",
  },
  "records events although the lease is lost": {
    wrap: (store) => ({
      async settle(claim, outcome) {
        const held = await store.settle(claim, outcome);
        const events = outcome.state === "released" || held ? [] : (outcome.events ?? []);
        for (const { event } of events) await store.add(event);
        return held;
      },
    }),
    fails: "lease: `settle` and `renew` with a lost lease change nothing",
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
  "removes an event of another record": {
    wrap: (store) => ({
      async settle(claim, outcome) {
        if (outcome.state !== "released" && Array.isArray(outcome.remove))
          await store.remove("booking:B", outcome.remove);
        return store.settle(claim, outcome);
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
    fails: "remove: `remove` deletes events of a record by their ids",
  },
  "removes rechecks with the timers": {
    wrap: (store) => ({
      async remove(ref, what) {
        const rechecks = (await all(store, { ref, source: "recheck" })).map(({ eventId }) => eventId);
        await store.remove(ref, rechecks);
        return store.remove(ref, what);
      },
    }),
    fails: 'remove: `remove` of "timers" deletes the timers of a record, and keeps done ones',
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
  "makes events due earlier in an outage": {
    wrap: (store) => ({
      async settle(claim, outcome) {
        if (outcome.state === "retrying" && !outcome.counted && claim.ref !== null)
          await store.replay({ ref: claim.ref, state: "retrying" });
        return store.settle(claim, outcome);
      },
    }),
    fails: "outage: an outage makes no event due earlier",
  },
  "takes an attempt that waits for another event for an outage": {
    wrap: (store) => ({
      settle: (claim, outcome) =>
        store.settle(claim, outcome.state === "retrying" ? { ...outcome, waits: undefined } : outcome),
    }),
    fails:
      "outage: an attempt that waits for another event counts neither as an attempt nor as an outage, and delays no other",
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
  "makes a new event wait in an outage": {
    wrap: (store) => {
      const out = new Set<string | null>();
      return {
        async settle(claim, outcome) {
          if (outcome.state === "retrying" && !outcome.counted) out.add(claim.ref);
          return store.settle(claim, outcome);
        },
        add: (event, options) => store.add(event, out.has(event.ref) ? { dueIn: 60_000 } : options),
      };
    },
    fails: "outage: a new event is due at once, and the events that wait stay as they are",
  },
  "replays scheduled events with their record": {
    wrap: (store) => ({
      async replay(filter) {
        return (await store.replay(filter)) + (await store.replay({ ...filter, state: "scheduled" }));
      },
    }),
    fails: "replay: `replay` and `discard` change a scheduled event only if the filter names it",
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
    fails: "snapshot: pruneSnapshots skips records with an event that is not done or parked",
  },
  "waits with learn for a scheduled event": {
    wrap: (store) => ({
      async learn(ref, snapshot) {
        return (await all(store, { ref, state: "scheduled" })).length === 0 && store.learn(ref, snapshot);
      },
    }),
    fails: "snapshot: `learn` writes no first snapshot while an event waits, is processing or is parked",
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
};
