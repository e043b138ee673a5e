// Ids that a number cannot hold are never rounded, and references of which one is unusable.
import { Booking, type BookingEvent, listingIdOf, type WebhookCallbacks } from "stayhook";
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { advance, clientOf, handlerOf, notificationOf, useFakeTime } from "./support.ts";

useFakeTime();

const one = "1552696793824068710";
const other = "1552696793824068650";

/** Writes the JSON of an object, with the digits of its texts `#…` as numbers. */
const jsonOf = (value: unknown) => JSON.stringify(value).replace(/"#(-?[\d.]+)"/g, "$1");

/** A platform whose answers are texts of JSON. */
function withAnswers(
  answers: Record<string, unknown>,
  options: Parameters<typeof handlerOf>[0] = {},
  clientOptions: Parameters<typeof clientOf>[1] = {},
) {
  const paths: string[] = [];
  const fetch = async (url: string): Promise<Response> => {
    const path = new URL(url).pathname;
    paths.push(path);
    const answer = answers[path.split("/").at(-1)!];
    return answer === undefined ? new Response("{}", { status: 404 }) : new Response(jsonOf(answer));
  };
  const makeClient = () => clientOf({ fetch }, clientOptions);
  return {
    ...handlerOf({ recheckAfter: false, clientOf: makeClient, ...options }),
    paths,
    client: makeClient(),
  };
}

const nights = { checkIn: "2026-07-01", checkOut: "2026-07-04" };

test.each(["#", ""])("two bookings of two listings stay apart (%j before the digits)", async (mark) => {
  const seen: unknown[] = [];
  const on: WebhookCallbacks = {
    booking: ({ booking, changes }: BookingEvent) => {
      seen.push(booking.listingId, changes.listingId?.to);
      expect(() => listingIdOf(booking)).toThrow(String(booking.listingId));
    },
  };
  const answers: Record<string, unknown> = {};
  const { store, notify } = withAnswers(answers, { on });
  for (const id of [one, other]) {
    answers.A1 = { bookingCode: "A1", status: "Confirmed", ...nights, listingId: `${mark}${id}` };
    await notify("A1");
  }
  expect(seen).toEqual([one, one, other, other]);
  expect((await store.snapshotOf("booking:A1"))?.snapshot.fields.listingId).toBe(other);
});

test("a move to a listing that a number cannot hold is a stay that cannot be read", async () => {
  const seen: unknown[] = [];
  const on: WebhookCallbacks = {
    booking: (event: BookingEvent) => void seen.push(event.stayChange.to?.listingId),
  };
  const answers: Record<string, unknown> = {};
  const { notify } = withAnswers(answers, { on });
  for (const listingId of [7, `#${one}`, 8]) {
    answers.A1 = { bookingCode: "A1", status: "Confirmed", ...nights, listingId };
    await notify("A1");
  }
  expect(seen).toEqual([7, 7, 8]);
});

test.each([
  [`#-${one}`, `-${one}`],
  [`-${one}`, `-${one}`],
])("the id %s keeps its digits, too", async (listingId, digits) => {
  const { client } = withAnswers({ A1: { bookingCode: "A1", status: "Confirmed", listingId } });
  const booking = await client.bookings.get("A1");
  expect(booking.listingId).toBe(digits);
  expect(() => listingIdOf(booking)).toThrow(`not ${digits}`);
});

test("no integer is rounded in a record: in the client, a model, `track`, a snapshot and a callback", async () => {
  const seen: unknown[] = [];
  const Thread = Booking.extend({
    threadId: z.string(),
    guest: z.object({ id: z.string() }),
    amount: z.number(),
  });
  const answers: Record<string, unknown> = {};
  const model = { models: { booking: Thread } };
  const track = ({
    threadId,
    guest,
    pets,
    amount,
  }: z.output<typeof Thread> & { readonly pets?: unknown }) => ({
    threadId,
    guest: guest.id,
    pet: (pets as unknown[])[0] as string,
    amount,
  });
  const { store, client, notify } = withAnswers(
    answers,
    {
      track: { booking: track as never },
      on: {
        booking: ({ changed, changes }: BookingEvent) => void seen.push(changed && Object.keys(changes)),
      },
    },
    model,
  );
  const play = async (fields: object) => {
    answers.A1 = { bookingCode: "A1", status: "Confirmed", ...nights, listingId: 7, amount: 12.5, ...fields };
    await notify("A1");
  };
  const [first, second] = [`#${one}`, `#${other}`];
  await play({ threadId: first, guest: { id: first }, pets: [first] });
  await play({ threadId: second, guest: { id: first }, pets: [first] });
  await play({ threadId: second, guest: { id: second }, pets: [second] });
  expect(seen.slice(1)).toEqual([["threadId"], ["guest", "pet"]]);
  const { snapshot } = (await store.snapshotOf("booking:A1"))!;
  expect(snapshot.fields).toMatchObject({
    threadId: other,
    guest: other,
    pet: other,
    amount: 12.5,
    listingId: 7,
  });
  expect(await client.bookings.get("A1")).toMatchObject({
    threadId: other,
    guest: { id: other },
    amount: 12.5,
  });
  expect(await client.request("GET", "/v2/bookings/A1")).toMatchObject({ pets: [other], amount: 12.5 });
});

test("an event of a listing whose id is negative is handled", async () => {
  const seen: unknown[] = [];
  const on: WebhookCallbacks = { listing: ({ ref, listing }) => void seen.push(ref, listing.listingId) };
  const { paths, notify } = withAnswers({ "-3": { listingId: -3, status: "Published" } }, { on });
  await notify(-3);
  expect(paths).toEqual(["/v2/listings/-3"]);
  expect(seen).toEqual(["listing:-3", -3]);
});

test("a listing's notification is taken with its digits, and parked with them", async () => {
  const answers = { [one]: { listingId: `#${one}`, status: "Published" } };
  const { deliver, store, paths, webhooks, logger } = withAnswers(answers, {
    maxAttempts: 1,
    on: { "listing.timer.x": () => {} },
  });
  const { eventId, ...sent } = notificationOf({ listingId: `#${one}` as never });
  expect((await deliver(jsonOf({ eventId, ...sent }))).status).toBe(200);
  await advance();
  expect(paths).toEqual([`/v2/listings/${one}`]);
  const event = await store.get(eventId);
  expect(event).toMatchObject({ ref: `listing:${one}`, state: "parked", reason: "invalid-record" });
  expect(event?.history[0]?.error).toContain(`must be an integer that a number can hold, not ${one}`);
  expect(logger.lines.join("\n")).toContain(one);
  await webhooks.timers(`listing:${one}`).set("x", new Date(Date.now() + 1000));
  expect(await webhooks.timers(`listing:${one}`).list()).toHaveLength(1);
});

test("a callback gets the digits of the notification", async () => {
  const seen: unknown[] = [];
  const on: WebhookCallbacks = { booking: ({ notification }: BookingEvent) => void seen.push(notification) };
  const { deliver } = withAnswers({ A1: { bookingCode: "A1", status: "Confirmed" } }, { on });
  const sent = notificationOf({ bookingCode: "A1", listingId: `#${one}` as never });
  await deliver(jsonOf(sent));
  await advance();
  expect(seen).toEqual([{ ...sent, listingId: one }]);
});

test("a list names the digits of its invalid row, and gives the others", async () => {
  const rows = [
    { listingId: `#${one}`, status: "Published" },
    { listingId: 7, status: "Published" },
  ];
  const { client } = withAnswers({ listings: rows });
  await expect(client.listings.list()).rejects.toMatchObject({
    message: expect.stringContaining(one),
    valid: [{ listingId: 7 }],
  });
});

test.each([7, "#1552696793824068710"])(
  "a record with the numeric booking code %j has its digits",
  async (code) => {
    const digits = String(code).replace("#", "");
    const seen: unknown[] = [];
    const on: WebhookCallbacks = {
      booking: ({ booking }: BookingEvent) => void seen.push(booking.bookingCode),
    };
    const { deliver, client } = withAnswers({ [digits]: { bookingCode: code, status: "Confirmed" } }, { on });
    await deliver(jsonOf(notificationOf({ bookingCode: code as never })));
    await advance();
    expect(seen).toEqual([digits]);
    expect((await client.bookings.get(digits)).bookingCode).toBe(digits);
  },
);

test("an id that was rounded before is refused, by `process` and behind a body parser", async () => {
  const { webhooks } = withAnswers({});
  const rounded = notificationOf({ listingId: Number(one) });
  await expect(webhooks.process(rounded)).rejects.toThrow("is larger than a number can hold");
  const request = { method: "POST", url: "/hooks", headers: {}, body: rounded };
  expect((await webhooks.receive(request)).status).toBe(400);
  await expect(webhooks.process(jsonOf({ ...rounded, listingId: `#${one}` }))).rejects.toMatchObject({
    reason: "not-found",
  });
});

describe("a notification with two references of which one is unusable", () => {
  test.each([
    ["bookings", "A1", "the yellow house", "booking:A1"],
    ["bookings", "A1", 7.5, "booking:A1"],
    ["listings", "A1", "0d0c6f3e-7a55-4a0b-9a43-6a1f3f0f5d27", "booking:A1"],
    [undefined, "A1", {}, "booking:A1"],
    ["listings", { code: "A1" }, 7, "listing:7"],
    ["bookings", "..", 7, "listing:7"],
    [undefined, true, 7, "listing:7"],
  ])(
    "of the topic %s with %j and %j is taken as %s, with a warning",
    async (topic, bookingCode, listingId, ref) => {
      const handler = withAnswers({});
      const notification = notificationOf({
        bookingCode: bookingCode as never,
        listingId: listingId as never,
      });
      const body = JSON.stringify(notification);
      const result = await handler.webhooks.receive({
        method: "POST",
        url: "/hooks",
        headers: {},
        body,
        topic,
      });
      expect(result.status).toBe(200);
      expect((await handler.store.get(notification.eventId))?.ref).toBe(ref);
      expect(handler.logger.lines.filter((line) => line.includes("that is unusable"))).toHaveLength(1);
    },
  );

  test.each([
    ["..", "x"],
    [null, 7.5],
    [{}, null],
  ])("is refused if none is usable: %j and %j", async (bookingCode, listingId) => {
    const { deliver } = withAnswers({});
    const sent = notificationOf({ bookingCode: bookingCode as never, listingId: listingId as never });
    expect((await deliver(sent)).status).toBe(400);
  });
});

test.each([
  ["takes text", z.object({ bookingCode: z.string(), status: z.string() })],
  [
    "takes a number",
    z.object({ bookingCode: z.number().transform((code) => `N${code}`.slice(1)), status: z.string() }),
  ],
])("a model that %s reads a numeric booking code", async (_, booking) => {
  const fetch = async () => Response.json({ bookingCode: 40217, status: "Confirmed" });
  const client = clientOf({ fetch }, { models: { booking } });
  expect(await client.bookings.get("40217")).toEqual({ bookingCode: "40217", status: "Confirmed" });
  const invalid = async () => Response.json({ bookingCode: 7.5, status: "Confirmed" });
  await expect(clientOf({ fetch: invalid }, { models: { booking } }).bookings.get("7.5x")).rejects.toThrow();
});
