import { describe, expect, test, vi } from "vitest";
import { memoryStore } from "../../src/stores/memory.ts";
import type { ClaimedEvent, EventStore, NewEvent } from "../../src/stores/event-store.ts";
import { storeContract } from "../../src/testing/store-contract.ts";

type Wrap = (store: EventStore<unknown>) => Partial<EventStore<unknown>>;

/** A memory store of which some methods are replaced. */
function wrapped(wrap: Wrap): EventStore<unknown> {
  const store: EventStore<unknown> = memoryStore();
  const changed = wrap(store);
  return new Proxy(store, {
    get(target, name) {
      if (Object.hasOwn(changed, name)) return changed[name as keyof typeof changed];
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

const later = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Stores with one mistake each, as people make them, and a case that must not let it pass. */
const broken: Record<string, { wrap: Wrap; fails: string }> = {
  "adds twice what comes twice at once": {
    // Looks first and writes then, as a SELECT before an INSERT without a key does.
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
    fails: "add: what is recorded comes back as it was given",
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
    wrap: (store) => ({ claim: (options) => store.claim({ ...options, retriesFirst: false }) }),
    fails: "claim: what was never claimed goes before retries, unless retries are to go first",
  },
  "claims any event where one was asked for": {
    wrap: (store) => ({ claim: ({ eventId: _, ...options }) => store.claim(options) }),
    fails: "claim: an event can be claimed by its id, and no other is",
  },
  "cuts leases short": {
    wrap: (store) => ({ claim: (options) => store.claim({ ...options, leaseDuration: 1 }) }),
    fails: "nextDue: it counts the end of a lease, also for what waits behind it",
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
  "forgets the previous status": {
    wrap: (store) => ({
      claim: async (options) =>
        (await store.claim(options)).map((claim) => ({ ...claim, previousStatus: undefined })),
    }),
    fails: "settle: done keeps the record's status, and counts its changes",
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
    fails: "settle: it is claimed again once it is due",
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
            ? { state: "retrying", in: 0, counted: true, reason: "callback", error: "" }
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
        async replay(eventId) {
          before.set(eventId, (await store.get(eventId))?.attempts ?? 0);
          return store.replay(eventId);
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
    wrap: (store) => ({ replayParked: () => store.replayParked() }),
    fails: "replay: replayParked can be for one reason",
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

const short = { unit: 20 };

describe("a store with a mistake fails", () => {
  for (const [mistake, { wrap, fails }] of Object.entries(broken)) {
    test.concurrent(`that ${mistake}`, async () => {
      const found = storeContract(() => wrapped(wrap), short).find(({ name }) => name === fails);
      await expect(found?.run()).rejects.toThrow(/expected|waited|claimed|early/);
    });
  }
});

/** `writes` run before the end is recorded, and nothing is recorded where one throws. */
const transactional: Wrap = (store) => ({
  transactional: true,
  async settle(claim, outcome) {
    if ((await store.renew([claim], 60_000)).length === 0) return false;
    if (outcome.state === "done") for (const write of outcome.writes ?? []) await write({});
    return store.settle(claim, outcome);
  },
});

describe("transactions", () => {
  const cases = (wrap: Wrap) =>
    storeContract(() => wrapped(wrap), short).filter(({ topic }) => topic === "writes");

  test("a store that has them passes", async () => {
    // One handle for all writes of an end.
    const handle: Wrap = (store) => {
      const inner = transactional(store);
      return {
        ...inner,
        settle: (claim, outcome) =>
          inner.settle!(
            claim,
            outcome.state === "done"
              ? { ...outcome, writes: outcome.writes?.map((write) => () => write(store)) }
              : outcome,
          ),
      };
    };
    for (const { run } of cases(handle)) await run();
  });

  test.each([
    ["does not run them", () => ({ transactional: true as const }), "writes run once"],
    ["hands each another handle", transactional, "writes run once"],
    [
      "ends the event first",
      ((store) => ({
        transactional: true,
        async settle(claim, outcome) {
          const held = await store.settle(claim, outcome);
          if (outcome.state === "done") for (const write of outcome.writes ?? []) await write(store);
          return held;
        },
      })) satisfies Wrap,
      "a write that throws",
    ],
  ] as const)("one that %s fails", async (_, wrap, name) => {
    const found = cases(wrap).find((each) => each.name.includes(name));
    await expect(found?.run()).rejects.toThrow(/expected/);
  });
});

describe("restarts and sharing", () => {
  /** Handles on one memory store, each with a `close` of its own. */
  const handleOn = (store: EventStore<unknown>): EventStore<unknown> =>
    wrapped(() => {
      const all: Record<string, unknown> = {};
      for (const name of METHODS) {
        all[name] = (Reflect.get(store, name) as () => unknown).bind(store);
      }
      return { ...(all as Partial<EventStore<unknown>>), close: async () => {} };
    });
  const named = (topic: string) => (each: { topic: string }) => each.topic === topic;

  test("their cases are there where the store can do it", () => {
    const topics = (options: object) =>
      new Set(storeContract(memoryStore, options).map(({ topic }) => topic));
    expect(topics({})).not.toContain("restart");
    expect(topics({})).not.toContain("sharing");
    expect(topics({ reopen: handleOn })).toContain("restart");
    expect(topics({ another: handleOn })).toContain("sharing");
  });

  test("a store that keeps all passes", async () => {
    const options = { ...short, reopen: handleOn, another: handleOn };
    const cases = storeContract(() => memoryStore() as EventStore<unknown>, options);
    for (const { run } of [...cases.filter(named("restart")), ...cases.filter(named("sharing"))]) await run();
  });

  test("a store that forgets fails", async () => {
    const options = { ...short, reopen: () => memoryStore(), another: () => memoryStore() };
    const cases = storeContract(() => memoryStore(), options);
    const extra = [...cases.filter(named("restart")), ...cases.filter(named("sharing"))];
    expect(extra.length).toBeGreaterThan(5);
    await Promise.all(extra.map(({ run, name }) => expect(run(), name).rejects.toThrow(/expected|waited/)));
  });
});

const METHODS = [
  "add",
  "claim",
  "renew",
  "settle",
  "nextDue",
  "prune",
  "pruneRecords",
  "list",
  "get",
  "counts",
  "oldestWaiting",
  "replay",
  "replayParked",
  "statusOf",
  "statuses",
  "subscribe",
] as const;

describe("the list", () => {
  test("has names of its own for each case, beginning with the topic", () => {
    const cases = storeContract(() => memoryStore());
    expect(new Set(cases.map(({ name }) => name)).size).toBe(cases.length);
    for (const { name, topic } of cases) expect(name.startsWith(`${topic}: `)).toBe(true);
  });

  test("makes a store for each run, and leaves it closed, also after a failure", async () => {
    const stores: EventStore<unknown>[] = [];
    const create = vi.fn(async () => {
      const store = wrapped(() => ({ oldestWaiting: async () => 5 }));
      stores.push(store);
      return store;
    });
    const cases = storeContract(create, short);
    expect(create).not.toHaveBeenCalled();
    const passing = cases.find(({ name }) => name === "claim: an empty store has nothing to claim");
    const failing = cases.find(({ name }) => name.startsWith("read: oldestWaiting is"));
    await passing?.run();
    await passing?.run();
    await expect(failing?.run()).rejects.toThrow("in an empty store: expected undefined, got 5");
    expect(create).toHaveBeenCalledTimes(3);
    for (const store of stores) await expect(store.counts()).rejects.toThrow("closed");
  });

  test("tells the case's own error where closing fails, too", async () => {
    const wrap: Wrap = (store) => ({
      claim: async () => [],
      async close() {
        await store.close();
        throw new Error("cannot close");
      },
    });
    const cases = storeContract(() => wrapped(wrap), short);
    const failing = cases.find(({ name }) => name === "claim: a claim has all that an attempt needs");
    await expect(failing?.run()).rejects.toThrow("claim: expected one event, got 0");
    const passing = cases.find(({ name }) => name === "claim: an empty store has nothing to claim");
    await expect(passing?.run()).rejects.toThrow("cannot close");
  });
});
