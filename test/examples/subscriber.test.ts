import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { StayhookClient } from "../../src/index.ts";
import { createSandbox } from "../../src/testing/index.ts";
import { built, root } from "./built.ts";

/** A port that nothing listens on. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0);
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, "close");
  return port;
}

/** Where a subscriber keeps its events. */
function newDatabase(): string {
  const directory = mkdtempSync(join(tmpdir(), "stayhook-subscriber-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return join(directory, "events.db");
}

function start({ EVENTS_DB = newDatabase(), ...env }: NodeJS.ProcessEnv) {
  built();
  const child = spawn(process.execPath, ["examples/subscriber.ts"], {
    cwd: root,
    env: { ...process.env, EVENTS_DB, ...env },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const output = { text: "" };
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      output.text += chunk;
    });
  const said = (text: string) => vi.waitFor(() => expect(output.text).toContain(text), { timeout: 8000 });
  return { child, output, said };
}

it("is told of bookings and listings, once each, and ends when it is asked to", {
  timeout: 15_000,
}, async () => {
  const sandbox = createSandbox({ delivery: { duplicates: 1 } });
  onTestFinished(() => sandbox.close());
  const { url: baseUrl } = await sandbox.listen();
  const port = await freePort();
  const { child, output, said } = start({
    STAYHOOK_BASE_URL: baseUrl,
    STAYHOOK_ACCESS_TOKEN: sandbox.accessToken,
    WEBHOOK_SECRET: "s3cret",
    PORT: String(port),
  });
  await said(`listening on port ${port}`);

  const url = `http://127.0.0.1:${port}/?key=s3cret`;
  const client = new StayhookClient({ baseUrl, accessToken: sandbox.accessToken });
  await client.webhookConfig.ensure({ endpoints: { bookings: url, listings: url } });

  const { bookingCode } = await sandbox.bookings.request();
  await said(`decide on ${bookingCode} by`);
  await sandbox.bookings.approve(bookingCode);
  await said(`block ${bookingCode}:`);
  await sandbox.bookings.cancel(bookingCode);
  await said(`release ${bookingCode}:`);
  const { listingId } = await sandbox.listings.submit();
  await sandbox.listings.publish(listingId);
  await said(`listing ${listingId} is live`);
  const declined = await sandbox.bookings.create({ status: "Request" });
  await sandbox.bookings.decline(declined.bookingCode);
  await said("nothing to do for booking.Declined");

  await sandbox.settled();
  expect(sandbox.deliveries.map(({ status }) => status)).toEqual(Array(10).fill(200));
  expect(output.text.split(`block ${bookingCode}:`)).toHaveLength(2);
  const forged = await fetch(`http://127.0.0.1:${port}/?key=guess`, { method: "POST", body: "{}" });
  expect(forged.status).toBe(401);

  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([0, null]);
});

it("knows after a kill -9 what it has handled", { timeout: 15_000 }, async () => {
  const sandbox = createSandbox();
  onTestFinished(() => sandbox.close());
  const { url: baseUrl } = await sandbox.listen();
  const port = await freePort();
  const env = {
    STAYHOOK_BASE_URL: baseUrl,
    STAYHOOK_ACCESS_TOKEN: sandbox.accessToken,
    WEBHOOK_SECRET: "s3cret",
    PORT: String(port),
    EVENTS_DB: newDatabase(),
  };
  const first = start(env);
  await first.said(`listening on port ${port}`);
  const url = `http://127.0.0.1:${port}/?key=s3cret`;
  const client = new StayhookClient({ baseUrl, accessToken: sandbox.accessToken });
  await client.webhookConfig.ensure({ endpoints: { bookings: url } });
  const { bookingCode } = await sandbox.bookings.request();
  await first.said(`decide on ${bookingCode} by`);
  await sandbox.bookings.approve(bookingCode);
  // The request's end is on disk then: never two at once for one booking.
  await first.said(`block ${bookingCode}:`);
  first.child.kill("SIGKILL");
  await once(first.child, "exit");

  const second = start(env);
  await second.said(`listening on port ${port}`);
  const [delivery] = sandbox.deliveries;
  expect(await sandbox.send(delivery?.notification)).toMatchObject({ status: 200 });
  const other = await sandbox.bookings.request();
  await second.said(`decide on ${other.bookingCode} by`);
  expect(second.output.text).not.toContain(bookingCode);
});

it("says which setting is missing", { timeout: 15_000 }, async () => {
  const { child, output } = start({
    STAYHOOK_BASE_URL: "http://127.0.0.1:1",
    STAYHOOK_ACCESS_TOKEN: "t",
    WEBHOOK_SECRET: undefined,
  });
  expect((await once(child, "exit"))[0]).not.toBe(0);
  expect(output.text).toContain("secret: must not be missing");
});
