import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { memoryStore, StayhookClient } from "stayhook";
import { toNodeHandler } from "stayhook/node";
import { createSandbox, type SandboxOptions } from "stayhook/testing";
import { createSubscriber, memoryCalendar } from "../subscriber.ts";

/** Starts the platform and the subscriber, each with its own server. */
async function start(t: TestContext, options: SandboxOptions) {
  const sandbox = createSandbox(options);
  const { url: baseUrl } = await sandbox.listen();
  const client = new StayhookClient({ baseUrl, accessToken: sandbox.accessToken, maxRetries: 0 });
  const { calendar, blocked } = memoryCalendar();
  const webhooks = createSubscriber(client, memoryStore(), calendar);
  const server = createServer(toNodeHandler(webhooks)).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const bookings = `http://127.0.0.1:${port}/?key=s3cret-of-a-test`;
  await client.webhookConfig.ensure({ endpoints: { bookings } });
  t.after(async () => {
    await sandbox.close();
    server.close();
    await webhooks.close();
  });
  return { sandbox, webhooks, blocked };
}

test("duplicate and disordered notifications count once", async (t) => {
  const { sandbox, webhooks, blocked } = await start(t, {
    seed: 7,
    delivery: { duplicates: 1, shuffle: true },
  });
  for (let count = 0; count < 5; count++) {
    const { bookingCode } = await sandbox.bookings.request();
    await sandbox.bookings.approve(bookingCode);
  }
  await sandbox.settled();
  await webhooks.drain();
  assert.equal(sandbox.deliveries.length, 20);
  assert.equal(blocked.size, 5);
});

test("a duplicate that comes six hours later changes nothing", async (t) => {
  const hours = 3_600_000;
  const { sandbox, webhooks, blocked } = await start(t, {
    delivery: { duplicates: 1, duplicateAfter: 6 * hours },
  });
  const { bookingCode } = await sandbox.bookings.instantBook();
  await sandbox.advance(0); // deliver what is due now
  await sandbox.bookings.cancel(bookingCode);
  await sandbox.advance(0);
  await webhooks.drain();
  await sandbox.advance(6 * hours); // the sandbox's clock, not yours
  await webhooks.drain();
  assert.equal(sandbox.deliveries.length, 4);
  assert.equal(blocked.size, 0);
});

test("an event waits while the platform is down", async (t) => {
  const { sandbox, webhooks, blocked } = await start(t, { seed: 7 });
  sandbox.faults.set([{ route: "GET /v2/bookings/{bookingCode}", status: 503, times: 1 }]);
  await sandbox.bookings.instantBook();
  await sandbox.settled();
  assert.deepEqual(await webhooks.drain(), { done: 0, failed: 1 });
  const { counts } = await webhooks.health();
  assert.equal(counts?.retrying, 1); // it is retried after its backoff
  assert.equal(blocked.size, 0);
});

test("an account that has lost its token does not stop another", async (t) => {
  const sandbox = createSandbox({ accounts: ["a17", "b2"] });
  t.after(() => sandbox.close());
  const { fetch } = sandbox;
  const accessToken = ({ account = "" }) => sandbox.account(account).accessToken; // sandbox-token-a17
  const client = new StayhookClient({ baseUrl: "https://sandbox.example", accessToken, fetch });
  sandbox.account("a17").faults.set([{ status: 401 }]);
  await assert.rejects(client.account("a17").listings.list(), { status: 401 });
  assert.deepEqual(await client.account("b2").listings.list(), []);
});
