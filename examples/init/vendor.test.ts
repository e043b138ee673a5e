// Starts this app beside a sandbox of the platform, lets an account join, and sends it a booking: `npm test`.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { createSandbox } from "stayhook/testing";

test("an account joins, and its booking is in its calendar", { timeout: 180_000 }, async (t) => {
  const sandbox = createSandbox({ accounts: ["a17"] });
  const { url: baseUrl } = await sandbox.listen();
  const a17 = sandbox.account("a17");
  const directory = mkdtempSync(join(tmpdir(), "app-"));
  const secret = () => randomBytes(32).toString("hex");
  const admin = secret();
  const port = await freePort();
  const app = spawn("npm start", {
    shell: true,
    detached: true, // so that the end of the test ends npm and the app
    stdio: ["ignore", "pipe", "inherit"],
    env: {
      ...process.env,
      STAYHOOK_BASE_URL: baseUrl,
      WEBHOOK_SECRET: secret(),
      ADMIN_SECRET: admin,
      ACCOUNTS_KEY: secret(),
      DATABASE_URL: "",
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

  const call = (path: string, body?: object) =>
    fetch(`http://127.0.0.1:${port}${path}`, {
      method: body ? "POST" : "GET",
      headers: { authorization: `Bearer ${admin}`, "content-type": "application/json" },
      ...(body && { body: JSON.stringify(body) }),
    });
  const isHealthy = () =>
    call("/healthz").then(
      ({ ok }) => ok,
      () => false,
    );
  while (!(await isHealthy())) {
    assert.equal(app.exitCode, null, "the app has ended");
    await sleep(100);
  }

  const joined = await call("/accounts", { account: "a17", token: a17.accessToken });
  assert.equal(joined.status, 201);
  const { bookingCode } = await a17.bookings.instantBook();
  const hasStay = async () => (await (await call("/accounts/a17/calendar")).text()).includes(bookingCode);
  for (let tries = 0; tries < 100 && !(await hasStay()); tries += 1) await sleep(100);
  assert.ok(await hasStay(), "the calendar does not have the stay");
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}
