import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { expect, type TestContext } from "vitest";
import { StayhookClient } from "../../../src/index.ts";
import { createSandbox } from "../../../src/testing/index.ts";
import { built, root } from "../../examples/built.ts";
import { createProxy } from "../../stores/every/proxy.ts";
import { eventually } from "../../support/eventually.ts";

export interface Engine {
  readonly file: string;
  /** URL of the engine's server. */
  readonly server: string;
  /** @param server - its URL, through a proxy that the test can cut */
  env(server: string): NodeJS.ProcessEnv;
  /** Queues a message that is not a notification. */
  sendJunk(id: string): Promise<void>;
  /**
   * Queues a message that has crashed its workers as often as allowed. Absent if the engine itself handles such a
   * message.
   */
  sendDeadly?(id: string): Promise<void>;
  /** Returns the dead letters as text. Each text contains the event's id or the junk's id. */
  deadLetters(): Promise<string[]>;
}

/** Tests an engine's example on two processes with its real server. */
export async function proveEngine(
  { file, server, env, sendJunk, sendDeadly, deadLetters }: Engine,
  { onTestFinished }: TestContext,
): Promise<void> {
  built();
  const sandbox = createSandbox({ delivery: { duplicates: 1 } });
  onTestFinished(() => sandbox.close());
  const way = await createProxy(server, onTestFinished);
  let output = "";
  const settings = {
    STAYHOOK_BASE_URL: (await sandbox.listen()).url,
    STAYHOOK_ACCESS_TOKEN: sandbox.accessToken,
    ...{ WEBHOOK_SECRET: "s3cret", PORT: "0", MAX_ATTEMPTS: "2", RETRY_SECONDS: "2", NO_COLOR: "1" },
    ...env(way.url),
  };
  const processes = [0, 1].map(() => {
    const child = spawn(process.execPath, [file], { cwd: root, env: { ...process.env, ...settings } });
    onTestFinished(() => void child.kill("SIGKILL"));
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (chunk: string) => {
        output += chunk;
      });
    return child;
  });
  const urls = await eventually(() => {
    const ports = Array.from(
      output.matchAll(/^listening on port (\d+) of 127\.0\.0\.1$/gm),
      ([, port]) => port,
    );
    expect(ports, output).toHaveLength(2);
    return ports.map((port) => `http://127.0.0.1:${port}/?key=s3cret`);
  }, 30_000);
  /** Returns when the examples have read a booking or listing, in ms. */
  const readsOf = (id: string | number) =>
    sandbox.requests
      .filter(({ path }) => path.endsWith(`/${id}`))
      .map(({ receivedAt }) => receivedAt.getTime());
  /** Returns the lines of callbacks, which begin with the event's id. */
  const handled = (eventId: string) => output.match(new RegExp(`^${eventId}: .*`, "gm")) ?? [];
  const until = (check: () => void | Promise<void>) => eventually(check);
  /** Sends the notification to both processes at the same instant, twice to each. */
  const send = (notification: object) =>
    Promise.all(
      urls.map(async (url) =>
        expect(await sandbox.send(notification, { url })).toMatchObject({ status: 200 }),
      ),
    );
  const notify = (bookingCode: string) => {
    const eventId = randomUUID();
    return {
      eventId,
      sent: send({ eventId, timestamp: new Date().toISOString(), bookingCode, listingId: null }),
    };
  };

  // A booking and a listing, each notified twice, get one callback each.
  const [url = ""] = urls;
  const client = new StayhookClient({ baseUrl: sandbox.url, accessToken: sandbox.accessToken });
  await client.webhookConfig.ensure({ endpoints: { bookings: url, listings: url } });
  const { bookingCode } = await sandbox.bookings.instantBook();
  const { listingId } = await sandbox.listings.submit();
  await sandbox.listings.publish(listingId);
  await sandbox.settled();
  expect(sandbox.deliveries.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  const eventIdOf = (topic: string) =>
    sandbox.deliveries.find((delivery) => delivery.topic === topic)?.eventId as string;
  const [booked, live] = [eventIdOf("bookings"), eventIdOf("listings")];
  await until(() => {
    expect(handled(booked)).toEqual([expect.stringContaining(`block ${bookingCode}`)]);
    expect(handled(live)).toEqual([expect.stringContaining(`${listingId} is live`)]);
  });

  // Send many notifications, each to both processes. Each event runs once. Events of one booking never run in parallel.
  sandbox.faults.set([{ route: "GET /v2/bookings/{bookingCode}", delay: 150 }]);
  const bookings = await Promise.all(
    Array.from({ length: 6 }, () => sandbox.bookings.create({ status: "Request" })),
  );
  const many = Array.from({ length: 36 }, (_, i) => notify(bookings[i % 6]?.bookingCode as string));
  await Promise.all(many.map(({ sent }) => sent));
  await until(() => expect(many.filter(({ eventId }) => handled(eventId).length === 0)).toEqual([]));
  const reads = bookings.map((booking) => readsOf(booking.bookingCode));
  // Each read takes 150 ms, so reads that begin within less than that overlap.
  const least = (times: number[]) =>
    Math.min(...times.sort((a, b) => a - b).map((time, i) => time - (times[i - 1] ?? -Infinity)));
  expect(Math.min(...reads.map(least)), "one booking at a time").toBeGreaterThanOrEqual(149);
  expect(least(reads.flat()), "others beside it").toBeLessThan(149);

  // Test four problems at the same time: an outage with Retry-After, a missing record, a message that is not a
  // notification, and an event that waits for a retry. No other event of the same record may wait behind that retry.
  const outage = await sandbox.bookings.create({ status: "Cancelled" });
  // Use 401, not 503: the client itself would retry a 503. These waits would use up all attempts if each counted.
  const outages = [5, 1].map((retryAfter) => ({
    ...{ route: `GET /v2/bookings/${outage.bookingCode}`, status: 401, retryAfter, times: 1 },
  }));
  sandbox.faults.set(outages);
  const late = notify(outage.bookingCode);
  const missing = notify("NOT-THERE");
  const junk = randomUUID();
  await sendJunk(junk);
  const deadly = randomUUID();
  await sendDeadly?.(deadly);
  // Try up to three rounds: on a slow machine, the wait may end before the test sees it.
  for (let round = 1; ; round += 1) {
    const { bookingCode: forbidden } = await sandbox.bookings.create({ status: "Declined" });
    const route = `GET /v2/bookings/${forbidden}`;
    sandbox.faults.set([
      ...outages.slice(readsOf(outage.bookingCode).length),
      { route, status: 403, times: 1 },
    ]);
    const first = notify(forbidden);
    await until(() => expect(readsOf(forbidden)).toHaveLength(1));
    const second = notify(forbidden);
    await until(() => expect([first, second].map(({ eventId }) => handled(eventId).length)).toEqual([1, 1]));
    const [secondAt, firstAt] = [second, first].map(({ eventId }) => output.indexOf(`${eventId}: `));
    if ((secondAt as number) < (firstAt as number)) break;
    expect(round, "the second waited for the first").toBeLessThan(3);
  }
  await until(() => expect(handled(late.eventId)).toHaveLength(1));
  const asked = readsOf(outage.bookingCode);
  const waits = asked.slice(1).map((time, i) => (time - (asked[i] as number)) / 1000);
  expect(waits).toHaveLength(2);
  expect(waits[0], "as long as it asked").toBeGreaterThan(4.9);
  expect(waits[1], "not as long as it would have been else").toBeLessThan(20);
  await until(async () => {
    const dead = await deadLetters();
    expect(dead.filter((text) => text.includes(missing.eventId))).toHaveLength(1);
    expect(dead.filter((text) => text.includes(junk))).toHaveLength(1);
    if (sendDeadly) expect(dead.filter((text) => text.includes(deadly))).toHaveLength(1);
    expect(dead).toHaveLength(sendDeadly ? 3 : 2);
  });
  expect(readsOf("NOT-THERE"), "its attempts").toHaveLength(2);

  // While the engine is out of reach, no notification is answered 200. Afterwards the example recovers on its own.
  const lost = { eventId: randomUUID(), timestamp: new Date().toISOString(), bookingCode, listingId: null };
  way.cut();
  expect((await sandbox.send(lost, { url })).status).toBe(503);
  way.restore();
  await until(async () => expect((await sandbox.send(lost, { url })).status).toBe(200));
  await until(() => expect(handled(lost.eventId)).toHaveLength(1));

  // Nothing has run twice, and even a late duplicate is recognized.
  await send({ eventId: booked, timestamp: new Date().toISOString(), bookingCode, listingId: null });
  const last = notify(bookingCode);
  await until(() => expect(handled(last.eventId)).toHaveLength(1));
  for (const id of [booked, live, lost.eventId, late.eventId, ...many.map(({ eventId }) => eventId)]) {
    expect(handled(id)).toHaveLength(1);
  }
  const ended = processes.map(async (child) => {
    const exited = once(child, "exit");
    child.kill("SIGTERM");
    return (await exited)[0];
  });
  expect(await Promise.all(ended), output).toEqual([0, 0]);
}
