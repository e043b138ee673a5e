const { createServer } = require("node:http");
const { memoryStore, StayhookClient } = require("stayhook");
const { toNodeHandler } = require("stayhook/node");
const { createSandbox, createTestEvent } = require("stayhook/testing");
const { createSubscriber, onConfirmed } = require("./subscriber.cjs");

test("a confirmed booking blocks its nights", async () => {
  const calendar = { set: jest.fn() };
  const booking = { bookingCode: "HX3K9", listingId: 7, checkIn: "2027-05-01", checkOut: "2027-05-04" };
  await onConfirmed(calendar)(createTestEvent("booking.Confirmed", { booking }));
  expect(calendar.set).toHaveBeenCalledWith("HX3K9", 7, "2027-05-01", "2027-05-04");
});

describe("against the sandbox", () => {
  const calendar = { set: jest.fn() };
  let sandbox, client, webhooks, server;

  beforeEach(async () => {
    sandbox = createSandbox({ seed: 1, delivery: { duplicates: 1 } });
    const { url: baseUrl } = await sandbox.listen();
    client = new StayhookClient({ baseUrl, accessToken: sandbox.accessToken });
    webhooks = createSubscriber(client, memoryStore(), calendar);
    server = createServer(toNodeHandler(webhooks));
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    const bookings = `http://127.0.0.1:${server.address().port}/?key=s3cret-of-a-test`;
    await client.webhookConfig.ensure({ endpoints: { bookings } });
  });

  afterEach(async () => {
    await sandbox.close();
    await webhooks.close();
    await new Promise((resolve) => server.close(resolve));
  });

  test("an approved request is blocked once", async () => {
    const { bookingCode } = await sandbox.bookings.request({ listingId: 7 });
    await sandbox.bookings.approve(bookingCode);
    await sandbox.settled();
    await webhooks.drain();
    expect(sandbox.deliveries.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(calendar.set).toHaveBeenCalledTimes(1);
  });
});
