import { createWebhookHandler, localTime, memoryStore, StayhookClient, stay } from "stayhook";
import { createSandbox } from "stayhook/testing";
import { expect, onTestFinished, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { heldCallback } from "../webhooks/support.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** Starts a sandbox, and a handler that opens the door at 15:00 on the day of arrival. */
async function start(onDoorCode: (at: Date) => unknown = () => {}) {
  const sandbox = createSandbox({ seed: 1 });
  const fired: Date[] = [];
  const client = new StayhookClient({
    baseUrl: "https://platform.example",
    accessToken: sandbox.accessToken,
    fetch: sandbox.fetch,
  });
  const webhooks = createWebhookHandler({
    client,
    store: memoryStore(),
    verify: false,
    on: {
      "booking.Confirmed": ({ booking, timers }) =>
        timers.set("door-code", localTime(stay(booking).checkIn, "15:00", "Europe/Lisbon")),
      "booking.Cancelled": ({ timers }) => timers.clear(),
      "booking.timer.door-code": ({ timer }) => {
        fired.push(timer.at);
        return onDoorCode(timer.at);
      },
    },
  });
  onTestFinished(() => webhooks.close({ timeout: 100 }));
  onTestFinished(() => sandbox.close());
  sandbox.deliverTo(webhooks.fetch);
  await client.webhookConfig.ensure({ endpoints: { bookings: "https://app.example/" } });
  const day = (n: number) => new Date(Date.now() + n * DAY).toISOString().slice(0, 10);
  const book = async () => {
    const booking = await sandbox.bookings.instantBook({ checkIn: day(10), checkOut: day(12) });
    await sandbox.settled();
    await webhooks.drain();
    return { ...booking, opens: localTime(day(10), "15:00", "Europe/Lisbon") };
  };
  return { sandbox, webhooks, fired, book };
}

test("advance fires timers: those that are due, and no others", async () => {
  const { sandbox, webhooks, fired, book } = await start();
  const { opens, bookingCode } = await book();
  await sandbox.advance(9 * DAY);
  await webhooks.drain();
  expect(fired).toEqual([]);
  await sandbox.advance(2 * DAY);
  await eventually(() => expect(fired).toEqual([opens])); // without a drain: the handler's loop was woken
  expect(await webhooks.timers(`booking:${bookingCode}`).list()).toMatchObject([{ state: "done" }]);
});

test("a booking that is cancelled meanwhile opens no door", async () => {
  const { sandbox, webhooks, fired, book } = await start();
  const { bookingCode } = await book();
  await sandbox.bookings.cancel(bookingCode);
  await sandbox.advance(20 * DAY);
  await webhooks.drain();
  expect(fired).toEqual([]);
});

test("an attempt that runs while the clock moves keeps its lease", async () => {
  const { callback, release } = heldCallback();
  const { sandbox, webhooks, fired, book } = await start(callback);
  await book();
  await sandbox.advance(11 * DAY);
  await eventually(() => expect(fired).toHaveLength(1));
  await sandbox.advance(DAY);
  await new Promise((resolve) => setTimeout(resolve, 50));
  release();
  await webhooks.drain();
  expect(fired).toHaveLength(1);
  expect((await webhooks.health()).counts).toMatchObject({ retrying: 0, processing: 0 });
});

test.each(["before", "after"])(
  "when the sandbox is closed, the clock is the machine's again: advance %s close",
  async (order) => {
    const { sandbox, webhooks, fired } = await start();
    if (order === "before") await sandbox.advance(30 * DAY);
    await sandbox.close();
    if (order === "after") await sandbox.advance(30 * DAY);
    await webhooks.timers("booking:A1").set("door-code", new Date(Date.now() + DAY));
    await webhooks.drain();
    expect(fired).toEqual([]);
    expect(await webhooks.timers("booking:A1").list()).toMatchObject([{ state: "scheduled" }]);
  },
);
