import { randomUUID } from "node:crypto";
import { expect, type TestContext, vi } from "vitest";
import { StayhookClient } from "../../../src/index.ts";
import { createProxy } from "../../stores/every/proxy.ts";
import { watchedPlatform } from "./platform.ts";
import { ExampleProcess } from "./process.ts";

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
  const platform = await watchedPlatform(onTestFinished);
  const { sandbox } = platform;
  const way = await createProxy(server, onTestFinished);
  let output = "";
  const processes = [0, 1].map(
    () =>
      new ExampleProcess(
        file,
        {
          STAYHOOK_BASE_URL: platform.url,
          STAYHOOK_ACCESS_TOKEN: sandbox.accessToken,
          WEBHOOK_SECRET: "s3cret",
          PORT: "0",
          MAX_ATTEMPTS: "2",
          RETRY_SECONDS: "2",
          ...env(way.url),
        },
        (text) => {
          output += text;
        },
      ),
  );
  onTestFinished(() => {
    for (const one of processes) one.kill();
  });
  const urls = await Promise.all(processes.map((one) => one.url()));
  /** Returns the lines of callbacks, which begin with the event's id. */
  const handled = (eventId: string) => output.match(new RegExp(`^${eventId}: .*`, "gm")) ?? [];
  const until = (check: () => void | Promise<void>) => vi.waitFor(check, { timeout: 40_000, interval: 100 });
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
  platform.hold = 30;
  const bookings = await Promise.all(
    Array.from({ length: 6 }, () => sandbox.bookings.create({ status: "Request" })),
  );
  const many = Array.from({ length: 36 }, (_, i) => notify(bookings[i % 6]?.bookingCode as string));
  await Promise.all(many.map(({ sent }) => sent));
  await until(() => expect(many.filter(({ eventId }) => handled(eventId).length === 0)).toEqual([]));
  expect(platform.most.ofOne, "one booking at a time").toBe(1);
  expect(platform.most.inAll, "others beside it").toBeGreaterThan(1);

  // Test four problems at the same time: an outage with Retry-After, a missing record, a message that is not a
  // notification, and an event that waits for a retry. No other event of the same record may wait behind that retry.
  platform.hold = 0;
  const outage = await sandbox.bookings.create({ status: "Cancelled" });
  const seconds = [5, 1]; // these waits would use up all attempts if each counted as one
  const asked: number[] = [];
  let forbidden = "none yet";
  let refused = false;
  platform.fault = (path) => {
    if (path.endsWith(outage.bookingCode)) {
      const wait = seconds[asked.push(performance.now()) - 1];
      // Use 401, not 503: the client itself would retry a 503.
      return wait === undefined ? undefined : { status: 401, headers: { "retry-after": String(wait) } };
    }
    if (refused || !path.endsWith(forbidden)) return undefined;
    refused = true;
    return { status: 403 };
  };
  const late = notify(outage.bookingCode);
  const missing = notify("NOT-THERE");
  const junk = randomUUID();
  await sendJunk(junk);
  const deadly = randomUUID();
  await sendDeadly?.(deadly);
  // Try up to three rounds: on a slow machine, the wait may end before the test sees it.
  for (let round = 1; ; round += 1) {
    refused = false;
    ({ bookingCode: forbidden } = await sandbox.bookings.create({ status: "Declined" }));
    const first = notify(forbidden);
    await until(() => expect(refused).toBe(true));
    const second = notify(forbidden);
    await until(() => expect([first, second].map(({ eventId }) => handled(eventId).length)).toEqual([1, 1]));
    const [secondAt, firstAt] = [second, first].map(({ eventId }) => output.indexOf(`${eventId}: `));
    if ((secondAt as number) < (firstAt as number)) break;
    expect(round, "the second waited for the first").toBeLessThan(3);
  }
  await until(() => expect(handled(late.eventId)).toHaveLength(1));
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
  expect(platform.asked.get("/v2/bookings/NOT-THERE"), "its attempts").toBe(2);

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
  expect(await Promise.all(processes.map((one) => one.end())), output).toEqual([0, 0]);
}
