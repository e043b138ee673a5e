import type { RecordStatus } from "../event-store.ts";
import { type Bench, type Cases, failed, LONG, parked } from "./harness.ts";
import { between, equal } from "./expect.ts";

export const reading: Cases = {
  "list shows the newest first, in pages": async ({ store, add, newEvent, tick }) => {
    const newestFirst: string[] = [];
    for (const ref of ["booking:B", "booking:A", null, "booking:A", "listing:1"]) {
      newestFirst.unshift((await add(ref)).eventId);
      await tick();
    }
    const page = async (limit: number, after?: string) =>
      (await store.list({ limit, after })).map(({ eventId }) => eventId);
    equal("all", await page(10), newestFirst);
    equal("with limit 0", await page(0), []);
    equal("the first page", await page(2), newestFirst.slice(0, 2));
    equal("the second page", await page(2, newestFirst[1]), newestFirst.slice(2, 4));
    equal("the last page", await page(2, newestFirst[3]), newestFirst.slice(4));
    equal("behind the last", await page(2, newestFirst[4]), []);
    equal("behind one that is not known", await page(2, newEvent(null).eventId), []);
  },

  "list shows one state, in pages": async (bench) => {
    const { store, get } = bench;
    const ids = await oneOfEachState(bench);
    for (const [state, eventId] of Object.entries(ids)) {
      const rows = await store.list({ state: state as keyof typeof ids, limit: 10 });
      equal(`what is ${state}`, rows, [await get({ eventId })]);
    }
    await bench.tick();
    const newer = await bench.add("listing:2");
    const pending = await store.list({ state: "pending", limit: 10, after: newer.eventId });
    equal(
      "what is pending, behind a newer one",
      pending.map(({ eventId }) => eventId),
      [ids.pending],
    );
    const done = await store.list({ state: "done", limit: 10, after: newer.eventId });
    equal(
      "what is done, behind one in another state",
      done.map(({ eventId }) => eventId),
      [ids.done],
    );
  },

  "an event keeps its place in the list": async ({ store, add, claimOne, done, settle, tick }) => {
    const older = await add("booking:A");
    await tick();
    const newer = await add("booking:B");
    await done(await claimOne({ eventId: newer.eventId }));
    await settle(await claimOne(), failed(0));
    await store.replay(newer.eventId);
    await store.replay(older.eventId);
    const listed = (await store.list({ limit: 10 })).map(({ eventId }) => eventId);
    equal("list", listed, [newer.eventId, older.eventId]);
  },

  "get of an unknown id is undefined": async ({ store, add, newEvent }) => {
    await add("booking:A");
    equal("get", await store.get(newEvent("booking:A").eventId), undefined);
  },

  "counts has every state": async (bench) => {
    const none = { pending: 0, processing: 0, retrying: 0, done: 0, parked: 0 };
    equal("of an empty store", await bench.store.counts(), none);
    await oneOfEachState(bench);
    await bench.add("listing:2");
    const counts = await bench.store.counts();
    equal("of one each, and a pending one more", counts, {
      pending: 2,
      processing: 1,
      retrying: 1,
      done: 1,
      parked: 1,
    });
  },

  "oldestWaiting is the age of the oldest that somebody should take": async (bench) => {
    const { store, add, claimOne, done, settle, sleep, unit } = bench;
    equal("in an empty store", await store.oldestWaiting(), undefined);
    const start = performance.now();
    const older = await add("booking:A");
    const added = performance.now();
    await sleep(2);
    await add("booking:B");
    await expectAge("with two pending", start, added);

    const claim = await claimOne({ eventId: older.eventId });
    between(
      "with the older one in process",
      await store.oldestWaiting(),
      0,
      performance.now() - added - unit,
    );
    await settle(claim, failed(LONG));
    await expectAge("with the older one retrying", start, added);
    await done(await claimOne({ eventId: (await bench.store.list({ limit: 1 }))[0]!.eventId }));
    await expectAge("with the other one done", start, added);

    async function expectAge(what: string, from: number, to: number): Promise<void> {
      const least = Math.floor(performance.now() - to) - 5;
      const age = await store.oldestWaiting();
      between(what, age, least, Math.ceil(performance.now() - from) + 5);
    }
  },

  "oldestWaiting counts what a dead process left": async ({
    store,
    add,
    claimOne,
    done,
    eventually,
    unit,
  }) => {
    await add("booking:A");
    await claimOne({ leaseDuration: 2 * unit });
    const age = await eventually("oldestWaiting after the lease's end", () => store.oldestWaiting());
    between("its age", age, 1, 60 * unit);
    await done(await claimOne());
    equal("once it is done", await store.oldestWaiting(), undefined);
  },

  "statuses are in order of ref, and go on behind one": async ({ store, add, claim, done, settle }) => {
    for (const ref of ["listing:7", "booking:B", null, "booking:A", "booking:C"]) await add(ref);
    for (const claimed of await claim()) {
      if (claimed.ref === "booking:C") await settle(claimed, parked());
      else await done(claimed, claimed.ref === null ? undefined : `status of ${claimed.ref}`);
    }
    const all = await collect(store.statuses());
    equal(
      "refs",
      all.map(({ ref }) => ref),
      ["booking:A", "booking:B", "listing:7"],
    );
    equal("the first one", all[0], await store.statusOf("booking:A"));
    equal("its status", all[0]?.status, "status of booking:A");
    const behind = await collect(store.statuses({ after: "booking:A" }));
    equal("those behind booking:A", behind, all.slice(1));
    equal("those behind the last", await collect(store.statuses({ after: "listing:7" })), []);
  },

  "statuses can be left early, and read again": async ({ store, add, claim, done }) => {
    for (let index = 0; index < 30; index++) await add(`booking:${index + 10}`);
    for (const claimed of await claim()) await done(claimed, "Confirmed");
    for await (const { ref } of store.statuses()) {
      equal("the first ref", ref, "booking:10");
      break;
    }
    equal("how many there are", (await collect(store.statuses())).length, 30);
  },

  "what was handed out is the reader's own": async ({ store, add, claimOne, done, get }) => {
    const event = await add("booking:A");
    const before = await get(event);
    const claim = await claimOne();
    equal("what was read before the claim", before.state, "pending");
    const copy = { ...claim };
    for (const object of [before, claim, ...(await store.list({ limit: 1 }))]) {
      Reflect.set(object, "notification", "changed");
      Reflect.set(object, "attempts", 9);
      if (object.receivedAt instanceof Date) object.receivedAt.setTime(0);
    }
    const { notification, attempts, receivedAt } = await get(event);
    equal(
      "the stored event",
      [notification, attempts, Number(receivedAt)],
      [event.notification, 1, copy.receivedAt],
    );
    await done(copy, "Confirmed");
    const status = (await store.statusOf("booking:A"))!;
    Reflect.set(status, "status", "changed");
    status.seenAt.setTime(0);
    equal("the stored status", (await store.statusOf("booking:A"))?.status, "Confirmed");
    equal("its seenAt is its own", Number((await store.statusOf("booking:A"))?.seenAt) > 0, true);
  },

  "what was handed in stays the caller's": async ({ store, newEvent, get }) => {
    const event = newEvent("booking:A");
    const given = { ...event };
    await store.add(given);
    given.notification = "changed";
    equal("the stored notification", (await get(event)).notification, event.notification);
  },
};

async function oneOfEachState({ add, claimOne, done, settle, tick }: Bench) {
  const retrying = await add("booking:retrying");
  await settle(await claimOne(), failed(LONG));
  await tick();
  const handled = await add("booking:done");
  await done(await claimOne());
  await tick();
  const given = await add("booking:parked");
  await settle(await claimOne(), parked());
  await tick();
  const processing = await add("booking:processing");
  await claimOne();
  await tick();
  const pending = await add("booking:pending");
  return {
    pending: pending.eventId,
    processing: processing.eventId,
    retrying: retrying.eventId,
    done: handled.eventId,
    parked: given.eventId,
  };
}

async function collect(statuses: AsyncIterable<RecordStatus>): Promise<RecordStatus[]> {
  const all: RecordStatus[] = [];
  for await (const status of statuses) all.push(status);
  return all;
}
