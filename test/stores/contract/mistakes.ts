import type { ClaimedEvent, NewEvent } from "../../../src/stores/event-store.ts";
import { all, later, type Mistakes } from "./wrapped.ts";

/** Common mistakes in a store. */
export const mistakes: Mistakes = {
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
  "locks single events, not records": {
    wrap: (store) => {
      const refs = new Map<string, string | null>();
      const restore = <T extends NewEvent>(event: T): T => ({
        ...event,
        ref: refs.get(event.eventId) ?? null,
      });
      return {
        async add(event) {
          if (!refs.has(event.eventId)) refs.set(event.eventId, event.ref);
          return store.add({ ...event, ref: null });
        },
        claim: async (options) => (await store.claim(options)).map(restore),
        list: async (options) => (await store.list(options)).map(restore),
        async get(eventId) {
          const row = await store.get(eventId);
          return row && restore(row);
        },
      };
    },
    fails: "claim: concurrent claims never return the same event or two events of one record",
  },
  "ignores the case of refs": {
    wrap: (store) => ({ add: (event) => store.add({ ...event, ref: event.ref?.toLowerCase() ?? null }) }),
    fails: "claim: refs that differ only in case or in a space name different records",
  },
  "ignores the eventId of a claim": {
    wrap: (store) => ({ claim: ({ eventId: _, ...options }) => store.claim(options) }),
    fails: "claim: a claim by id claims that event and no other event",
  },
  "makes leases too short": {
    wrap: (store) => ({ claim: (options) => store.claim({ ...options, leaseDuration: 1 }) }),
    fails: "nextDue: nextDue considers leases, retries and scheduled events",
  },
  "reads leaseDuration as seconds": {
    wrap: (store) => ({
      claim: (options) => store.claim({ ...options, leaseDuration: options.leaseDuration * 1000 }),
    }),
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
    fails: "lease: `renew` extends a lease",
  },
  "returns no previous snapshot": {
    wrap: (store) => ({
      claim: async (options) =>
        (await store.claim(options)).map((claim) => ({ ...claim, previous: undefined })),
    }),
    fails: "settle: a done outcome writes the snapshot, and raises sequence if the record has changed",
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
      nextDue: async () => ((await store.nextDue()) === undefined ? undefined : 1000),
    }),
    fails: "nextDue: nextDue is 0 if an event can be claimed now",
  },
  "prunes events that are too young": {
    wrap: (store) => ({ prune: (options) => store.prune({ ...options, age: 0 }) }),
    fails: "prune: `prune` deletes events that have been done or parked for at least `age`",
  },
  "prunes by the arrival of an event, not by its end": {
    wrap: (store) => ({
      async prune({ state, age, limit }) {
        const rows = (await store.list({ state, limit: 100 })).reverse();
        const old = rows.filter(({ receivedAt }) => Date.now() - receivedAt.getTime() >= age);
        if (old.length < rows.length || limit < rows.length) return 0;
        return store.prune({ state, age: 0, limit });
      },
    }),
    fails: "prune: `prune` deletes events that have been done or parked for at least `age`",
  },
  "prunes the newest first": {
    wrap: (store) => {
      const ended: string[] = [];
      const gone = new Set<string>();
      return {
        async settle(claim, outcome) {
          ended.push(claim.eventId);
          return store.settle(claim, outcome);
        },
        async prune({ limit }) {
          const newest = ended.slice(-limit);
          for (const eventId of newest) gone.add(eventId);
          return newest.length;
        },
        get: async (eventId) => (gone.has(eventId) ? undefined : store.get(eventId)),
      };
    },
    fails: "prune: `prune` deletes at most `limit` events, in the order in which they became done or parked",
  },
  "prunes for any reason": {
    wrap: (store) => ({ prune: ({ reason: _, ...options }) => store.prune(options) }),
    fails: "prune: `prune` deletes only events with the given reason",
  },
  "lists the oldest first": {
    wrap: (store) => ({ list: async (options) => (await store.list(options)).reverse() }),
    fails: "read: `list` returns the newest events first, in pages",
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
  "keeps the attempts of a replayed event": {
    wrap: (store) => {
      const before = new Map<string, number>();
      return {
        async replay(filter) {
          for (const { eventId, attempts } of await all(store, filter)) before.set(eventId, attempts);
          return store.replay(filter);
        },
        claim: async (options) =>
          (await store.claim(options)).map((claim) => ({
            ...claim,
            attempts: claim.attempts + (claim.replayed ? (before.get(claim.eventId) ?? 0) : 0),
          })),
      };
    },
    fails: "replay: a done or parked event can be replayed",
  },
  "ignores the filter of replay": {
    wrap: (store) => ({ replay: () => store.replay({ receivedAfter: new Date(0) }) }),
    fails: "replay: `replay` changes only events that match all fields of the filter",
  },
  "never wakes a subscriber": {
    wrap: () => ({ subscribe: () => () => {} }),
    fails: "wake: whatever makes an event due wakes the subscriber",
  },
  "stays open after close": {
    wrap: () => ({ close: async () => {} }),
    fails: "close: after close, all other methods reject",
  },
};
