const { createServer } = require("node:http");
const stayhook = require("stayhook");
const { toNodeHandler } = require("stayhook/node");
const { sqliteStore } = require("stayhook/sqlite");
const { storeContract } = require("stayhook/store/contract");
const { createSandbox } = require("stayhook/testing");
const { calendar, on } = require("./subscriber.js");

const { createWebhookHandler, memoryStore, NotFoundError, sharedSecret, StayhookClient, StayhookError } =
  stayhook;

let sandbox;
let client;
beforeAll(async () => {
  sandbox = createSandbox({ delivery: { duplicates: 1 } });
  await sandbox.listen();
  client = new StayhookClient({ baseUrl: sandbox.url, accessToken: sandbox.accessToken });
});
afterAll(() => sandbox.close());

test("a callback alone", async () => {
  await on["booking.Confirmed"]({ booking: { bookingCode: "HX3K9" }, stay: "three nights" });
  expect(calendar.get("HX3K9")).toBe("three nights");
  await on["booking.Cancelled"]({ booking: { bookingCode: "HX3K9" } });
  expect(calendar.size).toBe(0);
});

test("the client", async () => {
  const { listingId } = await sandbox.listings.create({ status: "Published" });
  expect(await client.listings.list()).toContainEqual(expect.objectContaining({ listingId }));
  const error = await client.bookings.get("NONE1").catch((reason) => reason);
  expect(error).toBeInstanceOf(NotFoundError);
  expect(error).toBeInstanceOf(StayhookError);
  // Jest runs tests in their own realm, so `Error` differs from Node's.
  expect(error).toBeInstanceOf(Error);
  expect(() => createSandbox({ seed: "x" })).toThrow(stayhook.InvalidArgumentError);
});

test("the handler, by what the sandbox delivers, twice", async () => {
  const webhooks = createWebhookHandler({
    client,
    store: sqliteStore(":memory:"),
    verify: sharedSecret({ query: "key", secret: "s3cret" }),
    on,
    logger: { debug() {}, info() {}, warn() {}, error() {} },
  });
  const server = createServer(toNodeHandler(webhooks));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${server.address().port}/?key=s3cret`;
  await client.webhookConfig.ensure({ endpoints: { bookings: url } });
  const { bookingCode } = await sandbox.bookings.instantBook();
  await sandbox.settled();
  await webhooks.drain();
  expect(sandbox.deliveries.map(({ status }) => status)).toEqual([200, 200]);
  expect([...calendar.keys()]).toEqual([bookingCode]);
  expect((await webhooks.health()).counts.done).toBe(1);
  await webhooks.close();
  await new Promise((resolve) => server.close(resolve));
});

test("the contract of a store", async () => {
  const named = storeContract(() => memoryStore()).find(({ name }) => name.startsWith("add:"));
  await named.run();
});
