import { randomUUID } from "node:crypto";
import { expect, type TestContext, vi } from "vitest";
import { StayhookClient } from "../../../src/index.ts";
import { tcpProxy, through } from "../../support/tcp-proxy.ts";
import { watchedPlatform } from "./platform.ts";
import { ExampleProcess } from "./process.ts";

export interface Engine {
  readonly file: string;
  /** URL of the engine's server. */
  readonly server: string;
  /** @param server - its URL, by a way that can be cut */
  env(server: string): NodeJS.ProcessEnv;
  /** Puts something into the queue that is no notification. */
  sendJunk(id: string): Promise<void>;
  /** Puts something into the queue that has ended its workers as often as it may, where a worker has to see to that. */
  sendDeadly?(id: string): Promise<void>;
  /** The dead letters, each as text in which its event can be found, or the id of the junk. */
  deadLetters(): Promise<string[]>;
}

/** What every engine's example has to do, on two processes, with its real server. */
export async function proveEngine(
  { file, server, env, sendJunk, sendDeadly, deadLetters }: Engine,
  { onTestFinished }: TestContext,
): Promise<void> {
  const platform = await watchedPlatform(onTestFinished);
  const { sandbox } = platform;
  const way = await tcpProxy(server);
  onTestFinished(() => way.close());
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
          ...env(through(way, server)),
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
  /** Lines of callbacks: they begin with the event's id. */
  const handled = (eventId: string) => output.match(new RegExp(`^${eventId}: .*`, "gm")) ?? [];
  const until = (check: () => void | Promise<void>) => vi.waitFor(check, { timeout: 40_000, interval: 100 });
  /** To both processes at the same instant, each twice. */
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

  // A booking and a listing, each notified twice: a callback each.
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

  // Many, each to both processes: once each, and no booking twice at once.
  platform.hold = 30;
  const bookings = await Promise.all(
    Array.from({ length: 6 }, () => sandbox.bookings.create({ status: "Request" })),
  );
  const many = Array.from({ length: 36 }, (_, i) => notify(bookings[i % 6]?.bookingCode as string));
  await Promise.all(many.map(({ sent }) => sent));
  await until(() => expect(many.filter(({ eventId }) => handled(eventId).length === 0)).toEqual([]));
  expect(platform.most.ofOne, "one booking at a time").toBe(1);
  expect(platform.most.inAll, "others beside it").toBeGreaterThan(1);

  // At the same time: an outage that says how long, a record that is not there, what is no notification at all, and
  // an event that waits for its next attempt, behind which no other of its record waits.
  platform.hold = 0;
  const outage = await sandbox.bookings.create({ status: "Cancelled" });
  const seconds = [5, 1]; // that it asks to wait; more attempts than there are in all, were they counted
  const asked: number[] = [];
  let forbidden = "none yet";
  let refused = false;
  platform.fault = (path) => {
    if (path.endsWith(outage.bookingCode)) {
      const wait = seconds[asked.push(performance.now()) - 1];
      // Not 503: this is not tried again by the client, which would wait by itself.
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
  // In three rounds: on a slow machine the wait may be over too early to see it.
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

  // With the engine out of reach, nothing is answered 200; then all goes on by itself.
  const lost = { eventId: randomUUID(), timestamp: new Date().toISOString(), bookingCode, listingId: null };
  way.cut();
  expect((await sandbox.send(lost, { url })).status).toBe(503);
  way.restore();
  await until(async () => expect((await sandbox.send(lost, { url })).status).toBe(200));
  await until(() => expect(handled(lost.eventId)).toHaveLength(1));

  // Nothing ran twice, even now; and a duplicate that is as late as this is known.
  await send({ eventId: booked, timestamp: new Date().toISOString(), bookingCode, listingId: null });
  const last = notify(bookingCode);
  await until(() => expect(handled(last.eventId)).toHaveLength(1));
  for (const id of [booked, live, lost.eventId, late.eventId, ...many.map(({ eventId }) => eventId)]) {
    expect(handled(id)).toHaveLength(1);
  }
  expect(await Promise.all(processes.map((one) => one.end())), output).toEqual([0, 0]);
}
