import { expect, test } from "vitest";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { CLAIM, DONE, eventOf } from "../event.ts";

const PARKED = { state: "parked", reason: "callback", entry: { duration: 1 } } as const;

async function filled(events: number) {
  const store = sqliteStore(":memory:");
  await Promise.all(Array.from({ length: events }, (_, index) => store.add(eventOf(`booking:${index}`))));
  const claims = await store.claim({ ...CLAIM, limit: events });
  return { store, claims };
}

test("snapshots yields the snapshots of all pages", async () => {
  const { store, claims } = await filled(1050);
  await Promise.all(claims.map((claim) => store.settle(claim, DONE)));
  const refs: string[] = [];
  for await (const { ref } of store.snapshots()) refs.push(ref);
  expect(refs).toEqual(claims.map(({ ref }) => ref).sort());
  await store.close();
});

test("replay and discard change more events than one batch has", async () => {
  const { store, claims } = await filled(1050);
  await Promise.all(claims.map((claim) => store.settle(claim, PARKED)));
  expect(await store.replay({ state: "parked" })).toBe(1050);
  expect(await store.counts()).toMatchObject({ pending: 1050, parked: 0 });
  expect(await store.discard({ source: "webhook" })).toBe(1050);
  expect(await store.counts()).toMatchObject({ pending: 0, done: 1050 });
  await store.close();
});

test("list accepts an infinite limit", async () => {
  const { store } = await filled(3);
  expect(await store.list({ limit: Number.POSITIVE_INFINITY })).toHaveLength(3);
  await store.close();
});

test("ids that are not UUIDs are kept unchanged, and their events can be claimed together", async () => {
  const store = sqliteStore(":memory:");
  const ids = ["a", "A", "0123456789abcdef", "00000000-0000-4000-8000-00000000000G", "", "ü"];
  for (const id of ids) expect(await store.add(eventOf(null, id))).toBe("added");
  for (const id of ids) expect(await store.add(eventOf(null, id))).toBe("duplicate");
  expect((await store.claim(CLAIM)).map(({ eventId }) => eventId).sort()).toEqual(ids.toSorted());
  await store.close();
});

test("add records the event as it was at the time of the call", async () => {
  const store = sqliteStore(":memory:");
  const event = { ...eventOf() };
  const added = store.add(event);
  const { notification } = event;
  event.notification = "changed";
  await added;
  expect(await store.get(event.eventId)).toMatchObject({ notification });
  await store.close();
});
