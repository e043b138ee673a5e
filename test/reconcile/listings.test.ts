import { describe, expect, test } from "vitest";
import { machineOf, readsOf, scene, startSandbox, statusesAt, statusesIn, stores } from "./support.ts";

const done = { checked: expect.any(Number), changed: 0, failed: 0, duration: expect.any(Number) };

describe.each(Object.entries(stores))("%s", (_name, place) => {
  test("each change between Published and Hidden runs its callback once, without webhooks", async () => {
    const sandbox = await startSandbox();
    const { listingId } = await sandbox.listings.create({ status: "Published" });
    const open = place();
    const { reconciler, told, events, store } = machineOf(sandbox, open());
    expect(await reconciler.run()).toEqual({ ...done, checked: 1 });
    for (const move of ["hide", "publish", "hide"] as const) {
      await sandbox.listings[move](listingId);
      expect(await reconciler.run()).toEqual({ ...done, checked: 1, changed: 1 });
      expect(await reconciler.run()).toEqual({ ...done, checked: 1 });
    }
    const common = { source: "reconcile", changed: true, record: listingId };
    expect(told).toEqual([
      { type: "listing.Hidden", status: "Hidden", previousStatus: "Published", ...common },
      { type: "listing.Published", status: "Published", previousStatus: "Hidden", ...common },
      { type: "listing.Hidden", status: "Hidden", previousStatus: "Published", ...common },
    ]);
    const ids = events.map(({ eventId }) => eventId);
    expect(new Set(ids).size).toBe(3);
    for (const id of ids)
      expect(id).toMatch(
        /^stayhook:reconcile(-known)?:[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-/,
      );
    for (const event of events) expect(event.notification).toBeUndefined();
    for (const event of events) expect(Date.now() - event.timestamp.getTime()).toBeLessThan(60_000);
    expect(await store.snapshotOf(`listing:${listingId}`)).toMatchObject({
      snapshot: { status: "Hidden" },
      sequence: 4,
    });
  });

  test("the first pass only learns, and later changes run callbacks, on another machine as well", async () => {
    const sandbox = await startSandbox();
    for (let n = 0; n < 7; n += 1) await sandbox.listings.create({ status: "Published" });
    const open = place();
    const first = machineOf(sandbox, open());
    const reads = readsOf(sandbox);
    expect(await first.reconciler.run()).toEqual({ ...done, checked: 7 });
    expect(reads()).toEqual(["/v2/listings"]);
    expect(first.observations("learned")).toHaveLength(7);
    expect(await statusesIn(first.store)).toEqual(statusesAt(sandbox));
    await first.reconciler.close();

    const { listingId } = await sandbox.listings.create({ status: "InReview" });
    const second = machineOf(sandbox, open());
    expect(await second.reconciler.run()).toEqual({ ...done, checked: 8, changed: 1 });
    expect([...first.told, ...second.told]).toMatchObject([
      { type: "listing.InReview", record: listingId, previousStatus: undefined, changed: true },
    ]);
    expect(await statusesIn(second.store)).toEqual(statusesAt(sandbox));
  });

  test("after a first pass without listings, the first listing runs its callback", async () => {
    const sandbox = await startSandbox();
    const open = place();
    expect(await machineOf(sandbox, open()).reconciler.run()).toEqual({ ...done, checked: 0 });
    await sandbox.listings.create({ status: "Published" });
    const { reconciler, told } = machineOf(sandbox, open());
    expect(await reconciler.run()).toMatchObject({ changed: 1 });
    expect(told).toMatchObject([{ type: "listing.Published" }]);
  });

  test("baseline: false runs all callbacks in the first pass", async () => {
    const sandbox = await startSandbox();
    await sandbox.listings.create({ status: "Published" });
    await sandbox.listings.create({ status: "Hidden" });
    const { reconciler, told } = machineOf(sandbox, place()(), { reconciler: { baseline: false } });
    expect(await reconciler.run()).toEqual({ ...done, checked: 2, changed: 2 });
    expect(await reconciler.run()).toEqual({ ...done, checked: 2 });
    expect(told.map(({ type }) => type).toSorted()).toEqual(["listing.Hidden", "listing.Published"]);
  });
});

test("the first pass learns unknown listings in a store that knows others", async () => {
  const { sandbox, reconciler, webhooks, notify, told } = await scene();
  const known = await sandbox.listings.create({ status: "Published" });
  await sandbox.listings.create({ status: "Published" });
  await notify(known);
  await webhooks.drain();
  await sandbox.listings.hide(known.listingId);
  expect(await reconciler.run()).toEqual({ ...done, checked: 2, changed: 1 });
  expect(told.map(({ type, source }) => [type, source])).toEqual([
    ["listing.Published", "webhook"],
    ["listing.Hidden", "reconcile"],
  ]);
});

test("a listing whose event still waits is not learned, so its callback sees a change", async () => {
  const { sandbox, reconciler, webhooks, notify, told } = await scene({
    handler: { autoStart: false },
  });
  const { listingId } = await sandbox.listings.create({ status: "Published" });
  await notify({ listingId });
  await reconciler.run();
  expect(await webhooks.drain()).toEqual({ done: 1, failed: 0 });
  expect(told).toMatchObject([{ type: "listing.Published", source: "webhook", changed: true }]);
});

test("after a list that could not be read, no listing is gone, and the next pass is no first one", async () => {
  const { sandbox, reconciler, observations } = await scene();
  await sandbox.listings.create({ status: "Published" });
  await reconciler.run();
  sandbox.faults.set([{ route: "GET /v2/listings", status: 403 }]);
  expect(await reconciler.run()).toEqual({ ...done, checked: 0, failed: 1 });
  expect(observations("gone")).toEqual([]);
  sandbox.faults.clear();
  await sandbox.listings.create({ status: "Published" });
  expect(await reconciler.run()).toMatchObject({ changed: 1 });
});
