import { randomUUID } from "node:crypto";
import { expect, vi } from "vitest";
import { StayhookClient } from "../../../src/index.ts";
import { watchedPlatform } from "./platform.ts";
import { ExampleProcess } from "./process.ts";

export interface Engine {
  readonly file: string;
  readonly env: NodeJS.ProcessEnv;
  /** Puts something into the queue that is no notification. */
  sendJunk(id: string): Promise<void>;
  /** The dead letters, each as text in which its event can be found, or the id of the junk. */
  deadLetters(): Promise<string[]>;
}

/** What every engine's example has to do, on two processes, with its real server. */
export async function proveEngine({ file, env, sendJunk, deadLetters }: Engine): Promise<void> {
  const platform = await watchedPlatform();
  const { sandbox } = platform;
  const processes = [0, 1].map(
    () =>
      new ExampleProcess(file, {
        STAYHOOK_BASE_URL: platform.url,
        STAYHOOK_ACCESS_TOKEN: sandbox.accessToken,
        WEBHOOK_SECRET: "s3cret",
        PORT: "0",
        MAX_ATTEMPTS: "2",
        ...env,
      }),
  );
  const urls = await Promise.all(processes.map((one) => one.url()));
  const output = () => processes.map((one) => one.output).join("\n");
  /** Lines of callbacks: they begin with the event's id. */
  const handled = (eventId: string) => output().match(new RegExp(`^${eventId}: .*`, "gm")) ?? [];
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
  const [booked, , live] = sandbox.deliveries
    .map(({ eventId }) => eventId ?? "")
    .sort((a, b) => order(a) - order(b));
  function order(id: string): number {
    return sandbox.deliveries.findIndex(({ eventId }) => eventId === id);
  }
  await until(() => {
    expect(handled(booked as string)).toEqual([expect.stringContaining(`block ${bookingCode}`)]);
    expect(handled(live as string)).toEqual([expect.stringContaining(`${listingId} is live`)]);
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
  expect(
    processes.every((one) => one.output.includes("nothing to do")),
    "both share the work",
  ).toBe(true);

  // What fails and what does not get on with each other: an outage that says how long, a record that is not there,
  // and what is no notification at all.
  platform.hold = 0;
  const outage = await sandbox.bookings.create({ status: "Cancelled" });
  let refusals = 0;
  platform.fault = (path) => {
    if (!path.endsWith(outage.bookingCode) || refusals > 4) return undefined;
    refusals += 1;
    return { status: 503, headers: { "retry-after": "1" } };
  };
  const late = notify(outage.bookingCode);
  const missing = notify("NOT-THERE");
  const junk = randomUUID();
  await Promise.all([late.sent, missing.sent, sendJunk(junk)]);
  const other = notify(bookingCode);
  await until(() => expect(handled(other.eventId)).toHaveLength(1));
  await until(() => expect(handled(late.eventId)).toHaveLength(1));
  expect(refusals).toBe(5);
  await until(async () => {
    const dead = await deadLetters();
    expect(dead.filter((text) => text.includes(missing.eventId))).toHaveLength(1);
    expect(dead.filter((text) => text.includes(junk))).toHaveLength(1);
    expect(dead).toHaveLength(2);
  });
  expect(platform.asked.get("/v2/bookings/NOT-THERE"), "its attempts").toBe(2);

  // Nothing ran twice, even now; and a duplicate that is as late as this is known.
  await send({ eventId: booked, timestamp: new Date().toISOString(), bookingCode, listingId: null });
  const last = notify(bookingCode);
  await until(() => expect(handled(last.eventId)).toHaveLength(1));
  for (const id of [booked as string, live as string, late.eventId, ...many.map(({ eventId }) => eventId)]) {
    expect(handled(id)).toHaveLength(1);
  }
  expect(await Promise.all(processes.map((one) => one.end())), output()).toEqual([0, 0]);
}
