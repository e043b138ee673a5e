import type { WebhookHandlerOptions } from "stayhook";
import { createWebhookHandler, StayhookClient } from "stayhook";
import { createReconciler, type ReconcilerAlarm, type ReconcilerOptions } from "stayhook/reconcile";
import type { Sandbox } from "stayhook/testing";
import { describe, expect, test } from "vitest";
import { machineOf, readsOf, scene, startSandbox, stores } from "./support.ts";

const memory = () => stores.memory!()();

/** Makes a machine that has handled one confirmed booking. */
async function known(handler: Partial<WebhookHandlerOptions> = {}) {
  const sandbox = await startSandbox();
  const alarms: ReconcilerAlarm[] = [];
  const machine = machineOf(sandbox, memory(), {
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

  test("do not include fields that the handler does not track", async () => {
    const { sandbox, reconciler, bookingCode } = await known({ track: { booking: () => ({}) } });
    await sandbox.bookings.alter(bookingCode, { checkIn: "2030-07-02", checkOut: "2030-07-05" });
    expect(await reconciler.run()).toMatchObject({ checked: 1, changed: 0 });
  });

  test("fail the record if `track` throws, and the pass goes on", async () => {
    const listing = () => {
      throw new Error("no such field");
    };
    const { sandbox, reconciler, observations } = await known({ track: { listing } });
    const { listingId } = await sandbox.listings.create({ status: "Published" });
    expect(await reconciler.run()).toMatchObject({ checked: 1, failed: 1 });
    expect(observations("failed")).toMatchObject([
      { ref: `listing:${listingId}`, error: new Error("no such field") },
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
  const url = "https://example.com/hooks?key=s3cret";
  const other = "https://example.com/other";

  /** Runs a pass, and returns the configuration drift that it reports. */
  async function driftAt(sandbox: Sandbox, expected: Partial<ReconcilerOptions> = {}) {
    const { reconciler, observations } = machineOf(sandbox, memory(), { reconciler: expected });
    await reconciler.run();
    return observations("drift").map(({ isActive, topics }) => ({ isActive, topics }));
  }

  test("is observed if the configuration is missing or off", async () => {
    const { sandbox, client, alarms, reconciler } = await known();
    expect(await driftAt(sandbox)).toEqual([{ isActive: false, topics: [] }]);
    await client.webhookConfig.ensure({ endpoints: { bookings: url } });
    expect(await driftAt(sandbox)).toEqual([]);
    await client.webhookConfig.toggle(false);
    expect(await driftAt(sandbox)).toEqual([{ isActive: false, topics: [] }]);
    await reconciler.run();
    expect(alarms).toEqual([{ kind: "drift", isActive: false, topics: [] }]);
  });

  test("is observed for an endpoint that differs from `expect`", async () => {
    const { sandbox, client } = await known();
    await client.webhookConfig.ensure({ endpoints: { bookings: url, listings: other } });
    expect(await driftAt(sandbox, { expectedEndpoints: { bookings: url } })).toEqual([]);
    expect(
      await driftAt(sandbox, { expectedEndpoints: { bookings: "https://EXAMPLE.com:443/hooks?key=s3cret" } }),
    ).toEqual([]);
    expect(await driftAt(sandbox, { expectedEndpoints: { bookings: other, listings: other } })).toEqual([
      { isActive: true, topics: ["bookings"] },
    ]);
    expect(await driftAt(sandbox, { expectedEndpoints: { listings: null, messages: null } })).toEqual([
      { isActive: true, topics: ["listings"] },
    ]);
  });

  test("compares one URL in `expect` as `ensure` writes it", async () => {
    const { sandbox, client } = await known();
    await client.webhookConfig.ensure({ endpoints: url });
    expect(await driftAt(sandbox, { expectedEndpoints: url })).toEqual([]);
    await client.webhookConfig.ensure({ endpoints: { bookings: url } });
    expect(await driftAt(sandbox, { expectedEndpoints: url })).toEqual([
      { isActive: true, topics: ["bookings"] },
    ]);
  });

  test("is not observed if the configuration cannot be read", async () => {
    const { sandbox } = await known();
    sandbox.faults.set([{ route: "GET /v2/webhooks/config", status: 403 }]);
    const { reconciler, observations } = machineOf(sandbox, memory());
    expect(await reconciler.run()).toMatchObject({ failed: 0 });
    expect(observations("drift")).toEqual([]);
  });
});

describe("a partial list", () => {
  /** Makes a machine whose platform answers `GET /v2/listings` with `body()`. */
  function listing(body: () => unknown, client: object = {}) {
    const platform = { url: "https://platform.example", accessToken: "secret-token" };
    const machine = machineOf(platform, memory());
    const webhooks = createWebhookHandler({
      client: new StayhookClient({
        baseUrl: platform.url,
        accessToken: platform.accessToken,
        logger: () => {},
        fetch: async (url) =>
          Response.json(/\/listings$/.test(String(url)) ? body() : { listingId: 1, status: "Published" }),
        ...client,
      }),
      store: machine.store,
      on: {},
      logger: () => {},
    });
    const observed: { kind: string; ref?: string }[] = [];
    const reconciler = createReconciler(webhooks, { observe: (event) => void observed.push(event) });
    return { ...machine, reconciler, observed };
  }
  const row = (listingId: number) => ({ listingId, status: "Published" });

  test("is reported as partial, and no listing as vanished", async () => {
    let body: unknown = [row(1), row(2)];
    const { reconciler, observed } = listing(() => body);
    expect(await reconciler.run()).not.toHaveProperty("partial");
    body = { data: [row(1)], hasMore: true };
    expect(await reconciler.run()).toMatchObject({ checked: 1, failed: 0, partial: true });
    expect(observed.filter(({ kind }) => kind === "vanished")).toEqual([]);
    body = { data: [row(1)] };
    expect(await reconciler.run()).not.toHaveProperty("partial");
    expect(observed.filter(({ kind }) => kind === "vanished")).toMatchObject([{ ref: "listing:2" }]);
  });

  test("counts invalid rows as failed, and the other rows are compared", async () => {
    let body: unknown = [row(1), { listingId: "x" }, row(2), {}];
    const { reconciler, observed } = listing(() => body);
    expect(await reconciler.run()).toMatchObject({ checked: 2, failed: 2 });
    expect(observed.filter(({ kind }) => kind === "learned")).toHaveLength(2);
    expect(observed.filter(({ kind }) => kind === "failed")).toMatchObject([{ ref: "listings" }]);
    // The first pass completes although one row stays invalid.
    body = [row(1), { listingId: "x" }, row(3)];
    expect(await reconciler.run()).toMatchObject({ checked: 2, failed: 1, changed: 1 });
    expect(observed.filter(({ kind }) => kind === "vanished")).toEqual([]);
  });
});

test("passes without changes add no event", async () => {
  const { sandbox, reconciler, store, webhooks } = await known();
  await sandbox.listings.create({ status: "Published" });
  await reconciler.run();
  const counts = await store.counts();
  for (let n = 0; n < 3; n += 1) await reconciler.run();
  await webhooks.drain();
  expect(await store.counts()).toEqual(counts);
  expect(counts.done).toBe(1);
});

test("a pass reads the configuration, the list and each booking once", async () => {
  const { sandbox, reconciler, bookingCode } = await known();
  await sandbox.listings.create({ status: "Published" });
  const reads = readsOf(sandbox);
  reads();
  await reconciler.run();
  expect(reads()).toEqual(["/v2/listings", `/v2/bookings/${bookingCode}`]);
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
    const { client, reconciler, logged } = machineOf(await startSandbox(), memory(), {
      handler: { on },
      reconciler: { expectedEndpoints: url },
    });
    if (config) await client.webhookConfig.create(config);
    await reconciler.run();
    expect(logged).toEqual(line === undefined ? [] : [`stayhook: ${line}. ${help}`]);
  });

  test.each([true, false])("a booking has changed, if no notification has ever arrived: %j", async (ever) => {
    const sandbox = await startSandbox();
    const { reconciler, webhooks, notify, logged } = machineOf(sandbox, memory(), {
      handler: { autoStart: false },
    });
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
