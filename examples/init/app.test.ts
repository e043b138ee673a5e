// Starts this app beside a sandbox of the platform, and sends it a booking: `npm test`.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { StayhookClient } from "stayhook";
import { createSandbox } from "stayhook/testing";

test("the app takes the notification of a booking, and reads the booking", {
  timeout: 180_000,
}, async (t) => {
  const sandbox = createSandbox();
  const { url: baseUrl } = await sandbox.listen();
  const { accessToken } = sandbox;
  const directory = mkdtempSync(join(tmpdir(), "app-"));
  const port = await freePort();
  const secret = crypto.randomUUID();
  const app = spawn("npm start", {
    shell: true,
    detached: true, // so that the end of the test ends npm and the app
    stdio: ["ignore", "pipe", "inherit"],
    env: {
      ...process.env,
      STAYHOOK_BASE_URL: baseUrl,
      STAYHOOK_ACCESS_TOKEN: accessToken,
      WEBHOOK_SECRET: secret,
      EVENTS_DB: join(directory, "events.db"),
      PORT: String(port),
    },
  });
  // npm ends before the app does. "close" waits for this pipe, and so for the app.
  app.stdout.pipe(process.stdout);
  t.after(async () => {
    const ended = app.exitCode === null ? once(app, "close") : undefined;
    if (app.pid && app.exitCode === null) process.kill(-app.pid, "SIGTERM");
    await ended;
    await sandbox.close();
    rmSync(directory, { recursive: true, force: true });
  });
  while (!(await listens(port))) {
    assert.equal(app.exitCode, null, "the app has ended");
    await sleep(100);
  }

  const client = new StayhookClient({ baseUrl, accessToken });
  const endpoint = `http://127.0.0.1:${port}/hooks?key=${secret}`;
  await client.webhookConfig.ensure({ endpoints: { bookings: endpoint, listings: endpoint } });
  const { bookingCode } = await sandbox.bookings.instantBook();
  await sandbox.settled();
  assert.deepEqual(
    sandbox.deliveries.map(({ status }) => status),
    [200],
  );
  const isRead = () => sandbox.requests.some(({ path }) => path === `/v2/bookings/${bookingCode}`);
  for (let tries = 0; tries < 100 && !isRead(); tries += 1) await sleep(100);
  assert.ok(isRead(), "the app has not read the booking");
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  return typeof address === "object" && address !== null ? address.port : 3000;
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("error", () => resolve(false));
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
  });
}
