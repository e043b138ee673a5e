const { memoryStore, StayhookClient, createWebhookHandler } = require("stayhook");
const { createSandbox } = require("stayhook/testing");

afterEach(() => jest.useRealTimers());

test("a failed callback runs again when its wait is over", async () => {
  jest.useFakeTimers();
  const sandbox = createSandbox({ seed: 1 });
  const { fetch, accessToken } = sandbox;
  const client = new StayhookClient({ baseUrl: "https://sandbox.example", accessToken, fetch });
  const block = jest.fn().mockRejectedValueOnce(new Error("the calendar is down"));
  const store = memoryStore();
  const on = { "booking.Confirmed": block };
  const webhooks = createWebhookHandler({ client, store, verify: false, logger: () => {}, on });
  sandbox.deliverTo(webhooks.fetch);
  await client.webhookConfig.ensure({ endpoints: { bookings: "https://app.example/hooks" } });
  await sandbox.bookings.instantBook({ listingId: 7 });
  await sandbox.settled();
  await jest.advanceTimersByTimeAsync(10_000);
  expect(block).toHaveBeenCalledTimes(2);
  await webhooks.close();
  await store.close();
  await sandbox.close();
});
