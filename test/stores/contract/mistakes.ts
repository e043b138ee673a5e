import type { ClaimedEvent, NewEvent } from "../../../src/stores/event-store.ts";
import { all, later, type Mistakes } from "./wrapped.ts";

/** Common mistakes in a store. */
export const mistakes: Mistakes = {
  "adds twice what comes twice at once": {
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
    fails: "add: of many with one id at once, exactly one is added",
  },
  "takes other references for a duplicate": {
    wrap: (store) => ({
      add: async (event) => ((await store.add(event)) === "added" ? "added" : "duplicate"),
    }),
    fails: "add: a known id with another ref is a conflict, and changes nothing",
  },
  "reads the notification's JSON": {
    wrap: (store) => ({
      add: (event) =>
        store.add({
          ...event,
          notification: event.notification && JSON.stringify(JSON.parse(event.notification)),
        }),
    }),
    fails: "add: an event comes back as it was given",
  },
  "knows no records: each event has a lock of its own": {
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
    fails: "claim: workers at once do each event once, and never two of a record",
  },
  "compares refs without regard to case": {
    wrap: (store) => ({ add: (event) => store.add({ ...event, ref: event.ref?.toLowerCase() ?? null }) }),
    fails: "claim: refs are compared exactly",
  },
  "has no order of retries": {
    wrap: (store) => ({ claim: ({ order: _, ...options }) => store.claim(options) }),
    fails: "order: retries go last, or first, by the time at which they became due",
  },
  "claims any event where one was asked for": {
    wrap: (store) => ({ claim: ({ eventId: _, ...options }) => store.claim(options) }),
    fails: "claim: an event can be claimed by its id, and no other is",
  },
  "cuts leases short": {
    wrap: (store) => ({ claim: (options) => store.claim({ ...options, leaseDuration: 1 }) }),
    fails: "nextDue: it counts the end of a lease, also for events that wait behind it",
  },
  "takes leases for seconds": {
    wrap: (store) => ({
      claim: (options) => store.claim({ ...options, leaseDuration: options.leaseDuration * 1000 }),
    }),
    fails: "lease: an event whose lease has ended can be claimed again, as another attempt",
  },
  "lets anyone settle": {
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
    fails: "lease: a lost lease records nothing",
  },
  "renews in word only": {
    wrap: () => ({ renew: async (claims) => [...claims] }),
    fails: "lease: a lease that is renewed goes on",
  },
  "forgets the previous snapshot": {
    wrap: (store) => ({
      claim: async (options) =>
        (await store.claim(options)).map((claim) => ({ ...claim, previous: undefined })),
    }),
    fails: "settle: done writes the record's snapshot, and counts its changes",
  },
  "counts outages as attempts": {
    wrap: (store) => ({
      settle: (claim, outcome) =>
        store.settle(claim, outcome.state === "retrying" ? { ...outcome, counted: true } : outcome),
    }),
    fails: "outage: an attempt that found the platform out of reach is not counted",
  },
  "retries at once": {
    wrap: (store) => ({
      settle: (claim, outcome) =>
        store.settle(claim, outcome.state === "retrying" ? { ...outcome, in: 0 } : outcome),
    }),
    fails: "settle: a failure that counts makes the event alone wait",
  },
  "keeps a record waiting, whatever comes": {
    wrap: (store) => {
      const waits = new Set<string | null>();
      return {
        async settle(claim, outcome) {
          if (outcome.state === "retrying" && !outcome.counted) waits.add(claim.ref);
          return store.settle(claim, outcome);
        },
        claim: async (options) =>
          (await store.claim(options)).filter(({ ref }) => ref === null || !waits.has(ref)),
      };
    },
    fails: "outage: a new event ends its record's wait, for all of its events",
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
    fails: "settle: a released attempt never happened",
  },
  "polls every second": {
    wrap: (store) => ({
      nextDue: async () => ((await store.nextDue()) === undefined ? undefined : 1000),
    }),
    fails: "nextDue: it is 0 where something can be claimed",
  },
  "prunes what is young": {
    wrap: (store) => ({ prune: (options) => store.prune({ ...options, age: 0 }) }),
    fails: "prune: prune deletes done events, or parked ones, of an age",
  },
  "prunes by when it came, not by when it ended": {
    wrap: (store) => ({
      async prune({ state, age, limit }) {
        const rows = (await store.list({ state, limit: 100 })).reverse();
        const old = rows.filter(({ receivedAt }) => Date.now() - receivedAt.getTime() >= age);
        if (old.length < rows.length || limit < rows.length) return 0;
        return store.prune({ state, age: 0, limit });
      },
    }),
    fails: "prune: the age counts from the end, in ms",
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
    fails: "prune: prune deletes the oldest first, by their end",
  },
  "prunes for any reason": {
    wrap: (store) => ({ prune: ({ reason: _, ...options }) => store.prune(options) }),
    fails: "prune: prune can be for one reason",
  },
  "lists the oldest first": {
    wrap: (store) => ({ list: async (options) => (await store.list(options)).reverse() }),
    fails: "read: list shows the newest first, in pages",
  },
  "begins anew behind an event that is gone": {
    wrap: (store) => ({
      list: async ({ after, ...options }) => {
        const known = after !== undefined && (await store.get(after)) !== undefined;
        return store.list(known ? { ...options, after } : options);
      },
    }),
    fails: "read: list shows the newest first, in pages",
  },
  "keeps a record waiting though somebody asks for what it parked": {
    wrap: (store) => {
      const parked = new Set<string>();
      const waits = new Set<string | null>();
      return {
        async settle(claim, outcome) {
          if (outcome.state === "parked") parked.add(claim.eventId);
          if (outcome.state === "retrying" && !outcome.counted) waits.add(claim.ref);
          return store.settle(claim, outcome);
        },
        claim: async (options) =>
          (await store.claim(options)).filter(
            ({ eventId, ref }) => !parked.has(eventId) || ref === null || !waits.has(ref),
          ),
      };
    },
    fails: "replay: a parked or done event's record waits no longer",
  },
  "keeps attempts when replaying": {
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
    fails: "replay: a done event can be replayed",
  },
  "replays all, whatever for": {
    wrap: (store) => ({ replay: () => store.replay({ receivedAfter: new Date(0) }) }),
    fails: "replay: a filter's fields must all match",
  },
  "never wakes": {
    wrap: () => ({ subscribe: () => () => {} }),
    fails: "wake: an event that is added wakes",
  },
  "is open for ever": {
    wrap: () => ({ close: async () => {} }),
    fails: "close: a closed store takes and gives nothing",
  },
};
