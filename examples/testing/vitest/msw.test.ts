import { setupServer } from "msw/node";
import { memoryStore, StayhookClient } from "stayhook";
import { createSandbox } from "stayhook/testing";
import { sandboxBaseUrl, sandboxHandlers } from "stayhook/testing/msw";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createSubscriber, memoryCalendar } from "../subscriber.ts";

const server = setupServer();
beforeAll(() => server.listen());
afterAll(() => server.close());

let sandbox: ReturnType<typeof createSandbox>;
beforeEach(() => {
  sandbox = createSandbox({ seed: 1 });
  server.resetHandlers(...sandboxHandlers(sandbox));
  return () => sandbox.close();
});

test("a stay is blocked, and released when it is cancelled", async () => {
  const client = new StayhookClient({ baseUrl: sandboxBaseUrl, accessToken: sandbox.accessToken });
  const { calendar, blocked } = memoryCalendar();
  const webhooks = createSubscriber(client, memoryStore(), calendar);
  sandbox.deliverTo(webhooks.fetch); // no server, no port
  await client.webhookConfig.ensure({ endpoints: { bookings: "https://app.example/?key=s3cret-of-a-test" } });

  const { bookingCode } = await sandbox.bookings.instantBook({
    listingId: 7,
    checkIn: "2027-05-01",
    checkOut: "2027-05-04",
  });
  await sandbox.settled(); // delivered, and answered
  expect(await webhooks.drain()).toEqual({ done: 1, failed: 0 }); // and handled
  expect([...blocked.values()]).toEqual(["7: 2027-05-01 to 2027-05-04"]);

  await sandbox.bookings.cancel(bookingCode);
  await sandbox.settled();
  await webhooks.drain();
  expect(blocked.size).toBe(0);
});
