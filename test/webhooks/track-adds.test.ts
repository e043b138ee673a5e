// `track` adds fields to those that are always compared: by notifications, by passes, and by `watch`.
import type { BookingEvent, ListingEvent, WebhookCallbacks } from "stayhook";
import { memoryStore } from "stayhook";
import { createReconciler } from "stayhook/reconcile";
import { describe, expect, test, vi } from "vitest";
import * as z from "zod";
import { advance, clientOf, handlerOf, MINUTE, useFakeTime } from "./support.ts";

useFakeTime();

const nights = { checkIn: "2030-07-01", checkOut: "2030-07-04", listingId: 7 };
type Fields = Record<string, unknown>;
type Options = Parameters<typeof handlerOf>[0];
type TrackOf = (record: never) => Record<string, string | number | boolean | null | undefined>;

/** Makes a handler whose events are kept as the names of their changes, with a reconciler. */
function playing(track: TrackOf | undefined, options: Options = {}, callbacks: WebhookCallbacks = {}) {
  const events: (BookingEvent | ListingEvent)[] = [];
  const note = (event: BookingEvent | ListingEvent) => void events.push(event);
  const on: WebhookCallbacks = { booking: note, listing: note, ...callbacks };
  const chosen = track && { booking: track as never, listing: track as never };
  const handler = handlerOf({ on, recheckAfter: false, track: chosen, ...options });
  const { platform, notify, webhooks, store, logger } = handler;
  platform.answer("listings", { status: 200, body: [] });
  const set = (more: Fields, code = "A1") => platform.booking(code, "Confirmed", { ...nights, ...more });
  const tell = async (more: Fields = {}, code = "A1") => {
    set(more, code);
    await notify(code);
  };
  const reconciler = createReconciler(webhooks);
  const pass = async () => {
    const { changed } = await reconciler.run();
    await advance(MINUTE);
    return changed;
  };
  const close = async () => {
    await reconciler.close();
    await webhooks.close();
  };
  const fieldsOf = async (ref = "booking:A1") => (await store.snapshotOf(ref))?.snapshot.fields;
  const changes = () => events.map((event) => Object.keys(event.changes));
  const warnings = () => logger.lines.filter((line) => line.includes("left out"));
  return { ...handler, events, set, tell, pass, close, fieldsOf, changes, warnings, reconciler };
}

const total = ({ total }: { total?: number }) => ({ total: total ?? null });

describe("`track` for the price", () => {
  test.each<[string, Fields]>([
    ["another house", { listingId: 8 }],
    ["other days", { checkIn: "2030-07-02", checkOut: "2030-07-06" }],
  ])("leaves a move to %s to be found: by a pass, by `watch` and by a notification", async (_, move) => {
    const { tell, set, pass, changes, reconciler, close, events } = playing(total as never);
    await tell({ total: 100 });
    set({ total: 100, ...move });
    expect(await pass()).toBe(1);
    set({ total: 100 });
    await reconciler.watch("A1");
    await advance(MINUTE);
    await tell({ total: 100, ...move });
    await tell({ total: 90, ...move });
    const moved = Object.keys(move);
    expect(changes().slice(1)).toEqual([moved, moved, moved, ["total"]]);
    expect(events.at(-1)?.previous).toEqual({ status: "Confirmed", ...nights, ...move, total: 100 });
    expect(events.map(({ changed }) => changed)).toEqual([true, true, true, true, true]);
    await close();
  });

  test("also if the user's model drops or renames the stay", async () => {
    const booking = z
      .object({ bookingCode: z.string(), status: z.string(), checkIn: z.string() })
      .transform(({ checkIn, ...rest }) => ({ ...rest, arrival: checkIn }));
    const makeClient: typeof clientOf = (platform) =>
      clientOf(platform, { models: { booking: booking as never } });
    const { tell, set, pass, changes, events, close } = playing(
      ({ checkIn, checkOut, arrival }: Record<string, string>) => ({ checkIn, checkOut, arrival }),
      { clientOf: makeClient },
    );
    await tell();
    set({ checkOut: "2030-07-09", listingId: 8 });
    expect(await pass()).toBe(1);
    expect(changes()[1]).toEqual(["checkOut", "listingId"]);
    expect(events[1]?.previous).toEqual({ status: "Confirmed", ...nights, arrival: "2030-07-01" });
    await close();
  });
});

describe("a name that a deployment adds", () => {
  /** Handles a booking with total 100 without `track`, and deploys it then. */
  async function deployed(callbacks: WebhookCallbacks = {}) {
    const store = memoryStore();
    const before = playing(undefined, { store });
    await before.tell({ total: 100 });
    await before.close();
    const after = playing(total as never, { store }, callbacks);
    after.set({ total: 100 });
    after.webhooks.start();
    return after;
  }

  test("is learnt by a pass without a callback, and compared from then on", async () => {
    const { pass, set, changes, fieldsOf, store, events, close } = await deployed();
    expect([await pass(), await pass(), events.length]).toEqual([0, 0, 0]);
    expect(await fieldsOf()).toEqual({ ...nights, total: 100 });
    expect((await store.snapshotOf("booking:A1"))?.sequence).toBe(1);
    set({ total: 80 });
    expect(await pass()).toBe(1);
    expect(changes()).toEqual([["total"]]);
    await close();
  });

  test("is learnt by `watch`", async () => {
    const { set, changes, fieldsOf, reconciler, close } = await deployed();
    await reconciler.watch("A1");
    expect(await fieldsOf()).toEqual({ ...nights, total: 100 });
    set({ total: 80 });
    await reconciler.watch("A1");
    await advance(MINUTE);
    expect(changes()).toEqual([["total"]]);
    await close();
  });

  test("is learnt by a timer, whose callback runs alone", async () => {
    const { set, webhooks, changes, fieldsOf, pass, close } = await deployed({
      "booking.timer.door": () => {},
    });
    await webhooks.timers("booking:A1").set("door", new Date(Date.now() + MINUTE));
    await advance(2 * MINUTE);
    expect([await fieldsOf(), changes()]).toEqual([{ ...nights, total: 100 }, []]);
    set({ total: 80 });
    expect(await pass()).toBe(1);
    expect(changes()).toEqual([["total"]]);
    await close();
  });

  test("is learnt by a notification, which is no change", async () => {
    const { tell, events, close } = await deployed();
    await tell({ total: 100 });
    await tell({ total: 80 });
    expect(events.map(({ changed, changes }) => [changed, changes])).toEqual([
      [false, {}],
      [true, { total: { from: 100, to: 80 } }],
    ]);
    await close();
  });

  test.each(["learn", "snapshotOf"] as const)(
    "is not learnt of a booking that is erased before `%s`",
    async (name) => {
      const { pass, store, fieldsOf, close } = await deployed();
      const call = store[name].bind(store) as (ref: string, ...rest: never[]) => Promise<never>;
      let calls = 0;
      vi.spyOn(store, name).mockImplementation(async (ref: string, ...rest: unknown[]) => {
        // A pass looks at the snapshot before and after its read.
        if (ref === "booking:A1" && ++calls === (name === "learn" ? 1 : 2)) await store.erase(ref);
        return await call(ref, ...(rest as never[]));
      });
      await pass();
      vi.restoreAllMocks();
      expect(calls).toBeGreaterThan(0);
      expect(await fieldsOf()).toBeUndefined();
      await close();
    },
  );

  test("of listings is learnt, too, although the list lacks it", async () => {
    const store = memoryStore();
    const known = playing(undefined, { store });
    known.platform.listing(7, "Published", { listingName: "Mill", beds: 2 });
    await known.notify(7);
    await known.close();
    const beds = ({ beds = null }: { beds?: number | null }) => ({ beds });
    const { platform, pass, fieldsOf, changes, close } = playing(beds as never, { store });
    const listed = { listingId: 7, status: "Published", listingName: "Mill" };
    platform.answer("listings", { status: 200, body: [listed] });
    platform.listing(7, "Published", { listingName: "Mill", beds: 2 });
    expect([await pass(), await fieldsOf("listing:7")]).toEqual([0, { listingName: "Mill", beds: 2 }]);
    platform.listing(7, "Published", { listingName: "Mill", beds: 3 });
    expect(await pass()).toBe(1);
    platform.listing(7, "Published", { listingName: "Old Mill", beds: 3 });
    expect(await pass()).toBe(1);
    expect(changes()).toEqual([["beds"], ["listingName"]]);
    await close();
  });
});

describe("a name that `track` leaves out", () => {
  const payout = ({ payout }: { payout?: number }) => ({ ...(payout && { payout }) });

  test("counts as null if it was seen in another record, and is told once", async () => {
    const { tell, changes, warnings, fieldsOf, events, close } = playing(payout as never);
    await tell({ payout: 5 }, "B1");
    await tell({});
    await tell({}, "C1");
    await tell({ payout: 100 });
    await tell({ payout: 80 });
    await tell({});
    expect(changes().slice(3)).toEqual([["payout"], ["payout"], ["payout"]]);
    expect(events.at(-1)?.changes).toEqual({ payout: { from: 80, to: null } });
    expect(await fieldsOf()).toEqual({ ...nights, payout: null });
    expect(warnings()).toEqual([
      expect.stringMatching(/track\.booking left out payout, .*Return null for it/),
    ]);
    await close();
  });

  test("that no record had before is learnt when it first appears, and compared then", async () => {
    const { tell, changes, close } = playing(payout as never);
    for (const more of [{}, { payout: 100 }, { payout: 80 }, { payout: 60 }]) await tell(more);
    expect(changes().slice(1)).toEqual([[], ["payout"], ["payout"]]);
    await close();
  });

  test("was taken out by a deployment if this process never saw it: it keeps its value, and is not compared", async () => {
    const store = memoryStore();
    const before = playing((({ payout, pets }: Fields) => ({ payout, pets })) as never, { store });
    await before.tell({ payout: 5, pets: 1 });
    await before.close();
    const between = playing((({ pets }: Fields) => ({ pets })) as never, { store });
    await between.tell({ payout: 6, pets: 1 });
    between.set({ payout: 7, pets: 1 });
    expect(await between.pass()).toBe(0);
    expect(between.changes()).toEqual([[]]);
    expect(between.warnings()).toEqual([]);
    expect(await between.fieldsOf()).toEqual({ ...nights, payout: 5, pets: 1 });
    await between.close();
    // Put back, it is compared with the value that it had.
    const after = playing((({ payout, pets }: Fields) => ({ payout, pets })) as never, { store });
    after.set({ payout: 7, pets: 1 });
    expect(await after.pass()).toBe(1);
    expect(after.changes()).toEqual([["payout"]]);
    await after.close();
  });

  test("names of a record's values fill neither a snapshot nor the log", async () => {
    const track = (({ key }: { key: string }) => ({ [`${key}${"x".repeat(90)}`]: 1 })) as never;
    const { tell, fieldsOf, warnings, store, close } = playing(track);
    for (let n = 0; n < 150; n += 1) await tell({ key: `room${n}` }, `B${n}`);
    await tell({ key: "last" });
    expect(new TextEncoder().encode(JSON.stringify(await fieldsOf())).length).toBeLessThan(4096);
    expect(warnings().length).toBeLessThanOrEqual(100);
    expect(await store.list({ state: "retrying", limit: 9 })).toEqual([]);
    await close();
  });
});

describe("a field that is always compared, in a form of the user's", () => {
  test("is compared and shown in that form", async () => {
    const { tell, events, close } = playing((({ checkIn }: Fields) => ({ checkIn })) as never);
    await tell({ checkIn: "2030-07-01T15:00" });
    await tell({ checkIn: "2030-07-01T17:00" });
    expect(events[1]?.changes).toEqual({ checkIn: { from: "2030-07-01T15:00", to: "2030-07-01T17:00" } });
    expect((events[1] as BookingEvent).stayChange.changed).toBe(false);
    await close();
  });

  test.each<[string, Fields]>([
    ["a constant", { checkIn: "soon", checkOut: 1, listingId: 0 }],
    ["null", { checkIn: null, checkOut: null, listingId: null }],
  ])("that is %s hides no move from a pass, and is read no longer than until its end", async (_, form) => {
    const { tell, set, pass, events, fieldsOf, platform, close } = playing(() => form as never);
    await tell();
    set({ listingId: 8 });
    expect([await pass(), await pass()]).toEqual([1, 0]);
    expect(events[1]?.changes).toEqual({ listingId: { from: 7, to: 8 } });
    expect((events[1] as BookingEvent).stayChange).toMatchObject({
      from: { listingId: 7 },
      to: { listingId: 8 },
    });
    expect(await fieldsOf()).toEqual(form);
    await advance(0);
    await tell({ checkIn: "2020-07-01", checkOut: "2020-07-04" });
    const reads = platform.reads.filter((id) => id === "A1").length;
    await pass();
    expect(platform.reads.filter((id) => id === "A1")).toHaveLength(reads);
    await close();
  });

  test("of a listing hides no other name", async () => {
    const { platform, notify, changes, pass, close } = playing(() => ({ listingName: "x" }) as never);
    for (const listingName of ["Mill", "Old Mill"]) {
      const body = [{ listingId: 7, status: "Published", listingName }];
      platform.listing(7, "Published", { listingName });
      platform.answer("listings", { status: 200, body });
      if (listingName === "Mill") await notify(7);
    }
    expect([await pass(), await pass()]).toEqual([1, 0]);
    expect(changes()[1]).toEqual(["listingName"]);
    await close();
  });
});

test("a pass reads no listing by itself because the user's model drops its name", async () => {
  const listing = z.object({ listingId: z.number(), status: z.string() });
  const makeClient: typeof clientOf = (platform) =>
    clientOf(platform, { models: { listing: listing as never } });
  const { platform, notify, pass, changes, close } = playing(undefined, { clientOf: makeClient });
  const row = { listingId: 7, status: "Published", listingName: "Mill" };
  platform.answer("listings", { status: 200, body: { data: [row, { listingId: 8, status: "Hidden" }] } });
  platform.listing(7, "Published", { listingName: "Mill" });
  platform.listing(8, "Hidden");
  for (const listingId of [7, 8]) await notify(listingId);
  const reads = platform.reads.filter((id) => id === "7").length;
  expect(await pass()).toBe(0);
  expect(platform.reads.filter((id) => id === "7")).toHaveLength(reads);
  platform.listing(7, "Published", { listingName: "Old Mill" });
  platform.answer("listings", { status: 200, body: { data: [{ ...row, listingName: "Old Mill" }] } });
  expect(await pass()).toBe(1);
  expect(changes().at(-1)).toEqual(["listingName"]);
  await close();
});

test("the fields that a deployment took out make room for those that there are", async () => {
  const store = memoryStore();
  const before = playing((() => ({ old: "x".repeat(3000), small: 1 })) as never, { store });
  await before.tell();
  await before.close();
  const after = playing((({ note }: Fields) => ({ note })) as never, { store });
  await after.tell({ note: "y".repeat(3500) });
  expect(Object.keys((await after.fieldsOf()) ?? {}).join()).toBe("checkIn,checkOut,listingId,note,small");
  expect(await store.list({ state: "retrying", limit: 9 })).toEqual([]);
  await after.close();
});
