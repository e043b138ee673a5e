import type { Observation, WebhookHandlerOptions } from "stayhook";
import { createWebhookHandler, memoryStore, StayhookClient } from "stayhook";
import { createReconciler } from "stayhook/reconcile";
import { createStays } from "stayhook/stays";
import { describe, expect, test } from "vitest";
import { scene } from "./support.ts";

/** Makes a machine that has handled one confirmed booking. */
async function known(handler: Partial<WebhookHandlerOptions> = {}) {
  const alarms: Extract<Observation, { kind: "missed" | "drift" }>[] = [];
  const { sandbox, ...machine } = await scene({
    handler: {
      autoStart: false,
      observe: (event) => {
        if (event.kind === "missed" || event.kind === "drift") alarms.push(event);
      },
      ...handler,
    },
  });
  const { bookingCode } = await sandbox.bookings.create({
    status: "Confirmed",
    checkIn: "2030-07-01",
    checkOut: "2030-07-04",
    listingId: 7,
  });
  await machine.notify({ bookingCode });
  await machine.webhooks.drain();
  return { ...machine, sandbox, alarms, bookingCode, ref: `booking:${bookingCode}` };
}

describe("changes of tracked fields", () => {
  test("include the nights: the callback gets both dates", async () => {
    const { sandbox, reconciler, webhooks, events, observations, bookingCode, ref } = await known();
    await sandbox.bookings.alter(bookingCode, { checkIn: "2030-07-02", checkOut: "2030-07-05" });
    expect(await reconciler.run()).toMatchObject({ checked: 1, changed: 1 });
    const changes = {
      checkIn: { from: "2030-07-01", to: "2030-07-02" },
      checkOut: { from: "2030-07-04", to: "2030-07-05" },
    };
    expect(observations("changed")).toMatchObject([
      { ref, previousStatus: "Confirmed", status: "Confirmed", changes },
    ]);
    await webhooks.drain();
    expect(events.at(-1)).toMatchObject({ source: "reconcile", changed: true, changes });
    expect(await reconciler.run()).toMatchObject({ checked: 1, changed: 0 });
  });

  test("include the stay, whatever `track` returns", async () => {
    const { sandbox, reconciler, bookingCode } = await known({ track: { booking: () => ({}) } });
    await sandbox.bookings.alter(bookingCode, { checkIn: "2030-07-02", checkOut: "2030-07-05" });
    expect(await reconciler.run()).toMatchObject({ checked: 1, changed: 1 });
  });

  test("fail the record if `track` throws, and the pass goes on", async () => {
    const listing = () => {
      throw new Error("no such field");
    };
    const { sandbox, reconciler, observations } = await known({ track: { listing } });
    const { listingId } = await sandbox.listings.create({ status: "Published" });
    expect(await reconciler.run()).toMatchObject({ checked: 1, failed: 1 });
    expect(observations("failed")).toMatchObject([
      {
        ref: `listing:${listingId}`,
        error: expect.objectContaining({
          message: `track.listing threw for listing:${listingId}: Error: no such field`,
        }),
      },
    ]);
  });

  test("are not found if the rows of the list only have fewer fields", async () => {
    const { sandbox, webhooks, notify, client, told } = await scene({
      handler: { autoStart: false },
    });
    const { listingId } = await sandbox.listings.create({ status: "Published", listingName: "Old Mill" });
    const list = client.listings.list.bind(client.listings);
    client.listings.list = (async () =>
      (await list()).map((row) => ({ listingId: row.listingId, status: row.status }))) as never;
    const reconciler = createReconciler(webhooks);
    // The rows lack the listing's name. The pass must not record the name as `null`. Otherwise the listing's first
    // event would count as a change.
    await reconciler.run();
    await notify({ listingId });
    await webhooks.drain();
    expect(told).toMatchObject([{ source: "webhook", changed: false }]);
    expect(await reconciler.run()).toMatchObject({ checked: 1, changed: 0 });
    await sandbox.listings.hide(listingId);
    expect(await reconciler.run()).toMatchObject({ checked: 1, changed: 1 });
  });
});

describe("missed", () => {
  test("is observed once for a change without a notification, by the handler as well", async () => {
    const { sandbox, reconciler, webhooks, observations, alarms, bookingCode, ref } = await known();
    await sandbox.bookings.cancel(bookingCode);
    await reconciler.run();
    await reconciler.run();
    const missed = {
      kind: "missed",
      ref,
      changes: { status: { from: "Confirmed", to: "Cancelled" } },
    };
    expect(observations("missed")).toEqual([missed]);
    expect(alarms.filter(({ kind }) => kind === "missed")).toEqual([missed]);
    await webhooks.drain();
    await reconciler.run();
    expect(observations("missed")).toHaveLength(1);
  });

  test("is not observed while an event of the record waits", async () => {
    const { sandbox, reconciler, notify, observations, bookingCode } = await known();
    await sandbox.bookings.cancel(bookingCode);
    await notify({ bookingCode });
    expect(await reconciler.run()).toMatchObject({ changed: 1 });
    expect(observations("missed")).toEqual([]);
  });

  test("is not observed for a change that was handled during the read", async () => {
    const { sandbox, reconciler, webhooks, client, notify, observations, bookingCode } = await known();
    const get = client.bookings.get.bind(client.bookings);
    client.bookings.get = (async (...args: Parameters<typeof get>) => {
      const booking = await get(...args);
      client.bookings.get = get;
      await sandbox.bookings.cancel(bookingCode);
      await notify({ bookingCode });
      await webhooks.drain();
      return booking;
    }) as never;
    expect(await reconciler.run()).toMatchObject({ checked: 1, changed: 0 });
    expect(observations("missed")).toEqual([]);
  });

  test("is observed for a new listing after the first pass", async () => {
    const { sandbox, reconciler, observations } = await known();
    await reconciler.run();
    const { listingId } = await sandbox.listings.create({ status: "Published", listingName: "Old Mill" });
    await reconciler.run();
    expect(observations("missed")).toEqual([
      {
        kind: "missed",
        ref: `listing:${listingId}`,
        changes: {
          status: { from: undefined, to: "Published" },
          listingName: { from: undefined, to: "Old Mill" },
        },
      },
    ]);
  });
});

describe("drift", () => {
  const bookings = "https://example.com/hooks?key=s3cret";
  const other = "https://example.com/other";
  const configOf = (...urls: string[]) => ({ isActive: true, endpoints: { bookings, listings: urls[0] } });

  test.each<[what: string, config: object | undefined, expected: unknown, drift: object | undefined]>([
    ["missing", undefined, undefined, { isActive: false, topics: [] }],
    ["off", { ...configOf(), isActive: false }, undefined, { isActive: false, topics: [] }],
    ["on", configOf(), undefined, undefined],
    ["on, with the URL", configOf(other), { bookings }, undefined],
    [
      "on, with the URL in another form",
      configOf(),
      { bookings: "https://EXAMPLE.com:443/hooks?key=s3cret" },
      undefined,
    ],
    [
      "on, with another URL",
      configOf(other),
      { bookings: other, listings: other },
      { isActive: true, topics: ["bookings"] },
    ],
    [
      "on, with a URL too many",
      configOf(other),
      { listings: null, messages: null },
      { isActive: true, topics: ["listings"] },
    ],
  ])("is observed if the configuration is not as expected: %s", async (_, config, expected, drift) => {
    const { client, reconciler, observations } = await scene({
      reconciler: { expectedEndpoints: expected as never },
    });
    if (config) await client.webhookConfig.create(config as never);
    await reconciler.run();
    expect(observations("drift")).toEqual(drift ? [{ kind: "drift", ...drift }] : []);
  });

  test("is observed by the handler, too", async () => {
    const { alarms, reconciler } = await known();
    await reconciler.run();
    expect(alarms).toEqual([{ kind: "drift", isActive: false, topics: [] }]);
  });

  test("compares one URL as `ensure` writes it", async () => {
    const { client, reconciler, observations } = await scene({ reconciler: { expectedEndpoints: bookings } });
    await client.webhookConfig.ensure({ endpoints: bookings });
    await reconciler.run();
    expect(observations("drift")).toEqual([]);
    await client.webhookConfig.ensure({ endpoints: { bookings } });
    await reconciler.run();
    expect(observations("drift")).toMatchObject([{ isActive: true, topics: ["bookings"] }]);
  });

  test("is not observed if the configuration cannot be read", async () => {
    const faults = [{ route: "GET /v2/webhooks/config", status: 403 }];
    const { reconciler, observations } = await scene({}, { faults });
    expect(await reconciler.run()).toMatchObject({ failed: 0 });
    expect(observations("drift")).toEqual([]);
  });
});

describe("a partial list", () => {
  const row = (listingId: number) => ({ listingId, status: "Published" });

  /** Makes a reconciler whose platform answers `GET /v2/listings` with `body()`. */
  function listing(body: () => unknown) {
    /** Listings whose own read finds none. */
    const gone = new Set<number>();
    const client = new StayhookClient({
      baseUrl: "https://platform.example",
      accessToken: "secret-token",
      fetch: async (url) => {
        const id = Number(/\/listings\/(\d+)$/.exec(String(url))?.[1]);
        if (gone.has(id)) return new Response("{}", { status: 404 });
        return Response.json(/\/listings$/.test(String(url)) ? body() : row(id || 1));
      },
    });
    const webhooks = createWebhookHandler({ client, store: memoryStore(), on: {}, logger: () => {} });
    const observed: { kind: string; ref?: string }[] = [];
    const reconciler = createReconciler(webhooks, { observe: (event) => void observed.push(event) });
    return { reconciler, observed, gone };
  }

  test("is reported as partial, and no listing as gone", async () => {
    let body: unknown = [row(1), row(2), row(3)];
    const { reconciler, observed } = listing(() => body);
    expect(await reconciler.run()).not.toHaveProperty("partial");
    body = { data: [row(1)], hasMore: true };
    expect(await reconciler.run()).toMatchObject({ checked: 1, failed: 0, partial: true });
    expect(observed.filter(({ kind }) => kind === "gone")).toEqual([]);
  });

  test("counts invalid rows as failed, and the other rows are compared", async () => {
    let body: unknown = [row(1), { listingId: "x" }, row(2), {}];
    const { reconciler, observed, gone } = listing(() => body);
    expect(await reconciler.run()).toMatchObject({ checked: 2, failed: 2 });
    expect(observed.filter(({ kind }) => kind === "learned")).toHaveLength(2);
    expect(observed.filter(({ kind }) => kind === "failed")).toMatchObject([{ ref: "listings" }]);
    // The first pass completes although one row stays invalid.
    body = [row(1), { listingId: "x" }, row(3)];
    expect(await reconciler.run()).toMatchObject({ checked: 3, failed: 1, changed: 1 });
    expect(observed.filter(({ kind }) => kind === "gone")).toEqual([]);
    // A listing that is not among the valid rows is read itself.
    gone.add(2);
    await reconciler.run();
    expect(observed.filter(({ kind }) => kind === "gone")).toMatchObject([{ ref: "listing:2" }]);
  });
});

test("watch adds the other bookings if one fails", async () => {
  const { sandbox, reconciler, observations, bookingCode } = await known();
  const codes = ["W1", "W2", "W3"];
  for (const code of codes) await sandbox.bookings.create({ bookingCode: code, status: "Confirmed" });
  await expect(reconciler.watch(["W1", "NONE", " W2 ", bookingCode])).rejects.toMatchObject({ status: 404 });
  await reconciler.watch([]);
  await reconciler.watch(codes);
  expect(observations("changed").map(({ ref }) => ref)).toEqual(["booking:W1", "booking:W2", "booking:W3"]);
  expect(observations("missed")).toEqual([]);
  await expect(reconciler.watch(["W1", ""])).rejects.toMatchObject({
    issues: [{ path: ["bookingCode", 1] }],
  });
});

test("watch uses the code of the platform's answer", async () => {
  const { sandbox, reconciler, client, observations } = await known();
  await sandbox.bookings.create({ bookingCode: "HX3K9", status: "Confirmed" });
  const get = client.bookings.get.bind(client.bookings);
  client.bookings.get = ((code: string) => get(code.toUpperCase())) as never;
  await reconciler.watch("hx3k9");
  expect(observations("changed")).toMatchObject([{ ref: "booking:HX3K9" }]);
});

describe("a loud first day: a pass logs that", () => {
  const on = { "booking.Confirmed": () => {}, "listing.Published": () => {} };
  const url = "https://subscriber.example/hooks";
  const help = "Run: npx stayhook config ensure";

  test.each([
    [undefined, "there is no webhook configuration, so the platform sends no notifications"],
    [
      { isActive: false, endpoints: { bookings: url, listings: url } },
      "the webhook configuration is off, so the platform sends no notifications",
    ],
    [
      { isActive: true, endpoints: { listings: url } },
      "the webhook configuration has no URL for bookings, so the platform sends no notifications of bookings",
    ],
    [{ isActive: true, endpoints: { bookings: url, listings: url } }, undefined],
  ])("the configuration will not do: %j", async (config, line) => {
    const { client, reconciler, logged } = await scene({
      handler: { on },
      reconciler: { expectedEndpoints: url },
    });
    if (config) await client.webhookConfig.create(config);
    await reconciler.run();
    expect(logged).toEqual(line === undefined ? [] : [`stayhook: ${line}. ${help}`]);
  });

  test("`stays` needs bookings, too", async () => {
    const stays = createStays({ want: () => [], apply: {} });
    const handler = { on: { "listing.Published": () => {} }, stays };
    const { client, reconciler, logged } = await scene({ handler, reconciler: { expectedEndpoints: url } });
    await client.webhookConfig.create({ isActive: true, endpoints: { listings: url } });
    await reconciler.run();
    expect(logged).toEqual([expect.stringContaining("has no URL for bookings")]);
  });

  test.each([true, false])("a booking has changed, if no notification has ever arrived: %j", async (ever) => {
    const { sandbox, reconciler, webhooks, notify, logged } = await scene({ handler: { autoStart: false } });
    const { bookingCode } = await sandbox.bookings.create({ status: "Confirmed", listingId: 7 });
    await reconciler.watch(bookingCode);
    if (!ever) await notify({ bookingCode });
    await webhooks.drain();
    await sandbox.bookings.cancel(bookingCode);
    await reconciler.run();
    const line = `stayhook: booking:${bookingCode} has changed, but no notification has ever arrived. To find out why, run: npx stayhook doctor`;
    expect(logged.includes(line)).toBe(ever);
  });
});
