// The options `timeZone` and `track` are told the account: two accounts may have listings with the same id.
import { randomUUID } from "node:crypto";
import { type BookingEvent, createWebhookHandler, memoryStore, StayhookClient } from "stayhook";
import { createReconciler } from "stayhook/reconcile";
import { expect, test } from "vitest";
import { advance, notificationOf, recordingLogger, useFakeTime } from "../webhooks/support.ts";

useFakeTime();

const zones: Record<string, string> = { paris: "Europe/Paris", tokyo: "Asia/Tokyo" };
const booking = { checkIn: "2026-12-09T14:30:00Z", checkOut: "2026-12-12T14:30:00Z", listingId: 7 };

function accountsOf() {
  const status = new Map<string, string>();
  const seen: unknown[] = [];
  const tracked: unknown[] = [];
  const fetch = async (url: string, { headers }: RequestInit): Promise<Response> => {
    const account = new Headers(headers).get("authorization")!.slice("Bearer ".length);
    const last = new URL(url).pathname.split("/").at(-1)!;
    if (last === "listings") return Response.json([{ listingId: 7, status: "Published" }]);
    if (last === "7") return Response.json({ listingId: 7, status: "Published" });
    if (last === "config") return Response.json({}, { status: 404 });
    return Response.json({ bookingCode: last, status: status.get(account) ?? "Confirmed", ...booking });
  };
  const store = memoryStore();
  const logger = recordingLogger();
  const webhooks = createWebhookHandler({
    client: new StayhookClient({
      baseUrl: "https://platform.example",
      accessToken: ({ account }) => account!,
      fetch,
    }),
    store,
    verify: false,
    logger,
    recheckAfter: false,
    accountFrom: { query: "account" },
    timeZone: ({ listingId }, { account }) => (listingId === 7 ? zones[account] : undefined),
    track: {
      booking: ({ checkIn }, { account }) => {
        tracked.push(account);
        return { checkIn: checkIn as string, zone: zones[account] };
      },
      listing: ({ listingId }, { account }) => ({ key: `${account}/${listingId}` }),
    },
    on: {
      booking: (event: BookingEvent) => {
        const { from, to } = event.stayChange;
        seen.push([event.ref, event.stay?.checkIn, from?.checkIn, to?.checkIn, event.previous]);
      },
    },
  });
  const notify = (account: string, fields: object) =>
    webhooks.fetch(
      new Request(`https://subscriber.example/hooks?account=${account}`, {
        method: "POST",
        body: JSON.stringify(notificationOf({ ...fields, eventId: randomUUID() })),
      }),
    );
  return { webhooks, store, seen, tracked, notify, logger, status };
}

test("listing 7 of each account has the zone and the tracked fields of its account", async () => {
  const { webhooks, store, seen, tracked, notify, logger, status } = accountsOf();
  for (const account of ["paris", "tokyo"]) {
    await notify(account, { bookingCode: "A1" });
    await notify(account, { listingId: 7 });
    await advance();
  }
  expect(seen).toEqual([
    ["paris/booking:A1", "2026-12-09", undefined, "2026-12-09", undefined],
    ["tokyo/booking:A1", "2026-12-09", undefined, "2026-12-09", undefined],
  ]);
  seen.length = 0;
  booking.checkIn = "2026-12-09T15:30:00Z";
  for (const account of ["paris", "tokyo"]) {
    await notify(account, { bookingCode: "A1" });
    await advance();
  }
  const previous = {
    status: "Confirmed",
    checkIn: "2026-12-09T14:30:00Z",
    checkOut: "2026-12-12",
    listingId: 7,
  };
  expect(seen).toEqual([
    ["paris/booking:A1", "2026-12-09", "2026-12-09", "2026-12-09", { ...previous, zone: "Europe/Paris" }],
    ["tokyo/booking:A1", "2026-12-10", "2026-12-09", "2026-12-10", { ...previous, zone: "Asia/Tokyo" }],
  ]);
  expect((await store.snapshotOf("tokyo/listing:7"))?.snapshot.fields).toEqual({
    listingName: null,
    key: "tokyo/7",
  });

  const reconciler = createReconciler(webhooks, { accounts: () => ["paris", "tokyo"] });
  tracked.length = 0;
  expect(await reconciler.run()).toMatchObject({ changed: 0 });
  expect(new Set(tracked)).toEqual(new Set(["paris", "tokyo"]));
  status.set("tokyo", "Cancelled");
  expect(await reconciler.run()).toMatchObject({ changed: 1 });
  await reconciler.watch("B2", { account: "tokyo" });
  await reconciler.close();
  await advance();
  expect(seen.slice(2).map((each) => (each as unknown[]).slice(0, 3))).toEqual([
    ["tokyo/booking:A1", "2026-12-10", "2026-12-10"],
    ["tokyo/booking:B2", "2026-12-10", undefined],
  ]);
  expect(logger.lines).toEqual([]);
});

test("`process` tells the account, too", async () => {
  const { webhooks, seen } = accountsOf();
  for (const account of ["paris", "tokyo"])
    await webhooks.process(notificationOf({ bookingCode: "A1" }), { account });
  expect(seen.map((each) => (each as unknown[]).slice(0, 2))).toEqual([
    ["paris/booking:A1", "2026-12-09"],
    ["tokyo/booking:A1", "2026-12-10"],
  ]);
});
