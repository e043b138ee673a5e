// Who vouches for it that a record is gone: a record of the same account, and never the record itself.
import { createReconciler } from "stayhook/reconcile";
import { describe, expect, test } from "vitest";
import { advance, clientOf, HOUR, handlerOf, MINUTE, notificationOf, useFakeTime } from "../support.ts";
import { hostOf, stayed } from "./host.ts";

useFakeTime();

const GIVE_UP = HOUR;
/** A host whose listings the platform does not list. */
async function witnessed(count: number, options: Parameters<typeof hostOf>[1] = {}) {
  const it = await hostOf(count, { giveUpAfter: GIVE_UP, ...options });
  it.hide("listings");
  return it;
}

describe("read with the token of another account, which has listings of its own,", () => {
  test.each([1, 3])("a host with %i bookings loses none", async (count) => {
    const { gone, notify, list, hide, store, codes } = await witnessed(count);
    hide(...codes);
    list(98, 99);
    for (const code of codes) await notify(code);
    await advance(3 * GIVE_UP);
    expect(gone()).toEqual([]);
    expect((await store.list({ state: "parked", limit: 9 })).map(({ reason }) => reason)).toEqual(
      codes.map(() => "not-found"),
    );
  });

  test.each([
    ["lists the booking's listing", [98, 7], 20 * MINUTE],
    ["lists no listing that is known", [98, 99], undefined],
  ])("a host with one booking: if the platform %s", async (_, rows, after) => {
    const { gone, notify, list, hide } = await witnessed(1);
    hide("A1");
    list(...rows);
    await notify("A1");
    await advance(after ?? 3 * GIVE_UP);
    expect(gone()).toEqual(after === undefined ? [] : ["booking:A1"]);
  });

  test.each([
    ["first", false, {}],
    ["second", true, {}],
    ["first with again", false, { again: true }],
  ])("the listings that its %s pass finds vouch for nothing", async (_, isSecond, options) => {
    const { gone, notify, list, hide, store, platform, webhooks } = await witnessed(1);
    const reconciler = createReconciler(webhooks, { rate: 1000 });
    const pass = async (given?: object) => {
      const report = reconciler.run(given);
      await advance(20 * MINUTE);
      return await report;
    };
    platform.answer("config", { status: 200, body: { isActive: true, endpoints: {} } });
    list(7);
    platform.listing(7, "Published");
    if (isSecond) expect(await pass()).not.toHaveProperty("incomplete");
    hide("A1", "7");
    list(98, 99);
    for (const id of [98, 99]) platform.listing(id, "Published");
    expect(await pass(options)).toMatchObject({ changed: 0, failed: 1 });
    expect(await store.snapshotOf("listing:98")).toBe(undefined);
    await notify("A1");
    await advance(3 * GIVE_UP);
    expect(gone()).toEqual([]);
    await reconciler.close();
  });

  test("the listing counts that the platform sent, whatever `track` makes of it", async () => {
    const track = {
      booking: ({ listingId }: { listingId?: unknown }) => ({ listingId: `house ${listingId}` }),
    };
    const { gone, notify, list, hide } = await witnessed(1, { track });
    hide("A1");
    list(7);
    await notify("A1");
    await advance(HOUR);
    expect(gone()).toEqual(["booking:A1"]);
  });

  test("other records of a listing's account vouch only if they are found", async () => {
    const { platform, deliver, gone, list, hide, store } = await witnessed(1);
    platform.listing(7, "Published");
    await deliver(notificationOf({ listingId: 7 }));
    await advance(1000);
    hide("A1", "7");
    list(98, 99);
    await deliver(notificationOf({ listingId: 7 }));
    await advance(2 * GIVE_UP);
    expect(gone()).toEqual([]);
    expect(await store.list({ state: "parked", limit: 9 })).toMatchObject([{ ref: "listing:7" }]);
  });
});

test("a record does not vouch for itself, also if this process has not read it", async () => {
  const { gone, notify, list, store } = await witnessed(1);
  // It is missing for its events, and found when others ask for it.
  const [told, reads]: [string[], string[]] = [[], []];
  const fetch = async (url: string) => {
    const id = new URL(url).pathname.split("/").at(-1)!;
    reads.push(id);
    if (id === "listings") return Response.json([]);
    return Response.json({ bookingCode: id, status: "Confirmed" }, { status: reads.length % 2 ? 404 : 200 });
  };
  const other = handlerOf({
    store,
    on: { fallback: ({ type }) => void told.push(type) },
    clientOf: () => clientOf({ fetch }),
    recheckAfter: false,
    maxAttempts: 1,
    giveUpAfter: HOUR,
  });
  list();
  await notify("A1");
  other.webhooks.start();
  await other.notify("A1");
  await advance(1000);
  expect([gone(), told]).toEqual([[], []]);
});

test("a booking that comes back between its read and that of another one is not gone", async () => {
  for (let hidden = 1; hidden < 6; hidden += 1) {
    const { platform, gone, notify, hide, observed, webhooks } = await witnessed(2);
    hide("A1", "listings");
    let reads = 0;
    const found = { status: 200, body: { bookingCode: "A2", status: "Confirmed", ...stayed } };
    // A2 is found once, then hidden, too. The platform is back when A2 is read again.
    platform.answer("A2", () => {
      reads += 1;
      if (reads === 1) return found;
      if (reads <= 1 + hidden) return { status: 404 };
      platform.booking("A1", "Confirmed", stayed);
      return found;
    });
    await notify("A1");
    await advance(40 * MINUTE);
    expect([hidden, gone()]).toEqual([hidden, []]);
    expect(observed.filter(({ kind }) => kind === "done").at(-1)).toMatchObject({
      type: "booking.Confirmed",
    });
    await webhooks.close();
  }
});

test("attempts at a known booking count in a flood of unknown ones", async () => {
  const { platform, gone, notify, hide, deliver } = await witnessed(2);
  platform.answer("*", { status: 404 });
  hide("A1");
  const flood = async () => {
    for (let n = 0; n < 15; n += 1) await deliver(notificationOf({ bookingCode: `X${n}-${Math.random()}` }));
  };
  await flood();
  await notify("A1");
  for (let n = 0; n < 20; n += 1) {
    await advance(MINUTE);
    await flood();
  }
  await advance(MINUTE);
  expect(gone()).toEqual(["booking:A1"]);
});

test("the timer of a booking that nothing vouches for is parked, and never fires as gone", async () => {
  const fired: string[] = [];
  const on = {
    "booking.gone": () => {},
    "booking.timer.door-closes": ({ status }: { status: string }) => void fired.push(status),
  };
  const { webhooks, hide, list, store } = await witnessed(1, { on });
  await webhooks.timers("booking:A1").set("door-closes", new Date(Date.now() + MINUTE));
  hide("A1");
  list(99);
  await advance(3 * GIVE_UP);
  expect(fired).toEqual([]);
  expect(await store.get("stayhook:timer:booking:A1:door-closes")).toMatchObject({
    state: "parked",
    reason: "not-found",
  });
});

test("a doubt ends although only the notifications of strangers wait", async () => {
  const { notify, hide, store, platform, webhooks, kinds } = await witnessed(2);
  hide("A1", "A2");
  await notify("A1");
  await advance(5 * MINUTE);
  expect(await webhooks.health()).toMatchObject({ state: "paused" });
  await notify("FORGED");
  await store.discard({ ref: "booking:A1" });
  for (const code of ["A1", "A2"]) platform.booking(code, "Confirmed", stayed);
  await advance(MINUTE);
  expect(await webhooks.health()).toMatchObject({ state: "running" });
  await advance(HOUR);
  expect(kinds().lastIndexOf("paused")).toBeLessThan(kinds().lastIndexOf("resumed"));
  const events = await store.list({ ref: "booking:FORGED", limit: 1 });
  expect(events).toMatchObject([{ state: "parked", refusals: 5 }]);
});
