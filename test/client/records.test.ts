import { type } from "arktype";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import * as z3 from "zod/v3";
import { StayhookClient } from "../../src/client/client.ts";
import { Booking } from "../../src/models/records.ts";
import { failing, none, unclear } from "./bodies.ts";
import { clientOf, keepingLogger, platform, type Reply, rejection } from "./support.ts";

const booking = { bookingCode: "A", status: "Request" };
const listing = { listingId: 7, status: "Hidden" };
const answering = async (reply: Reply, options = {}) =>
  clientOf(await platform([reply]), { maxRetries: 0, ...options });

describe("a record", () => {
  it.each([
    [booking],
    [{ data: booking }],
    [{ booking }],
    [{ success: true, result: booking }],
    [{ anything: booking, other: { x: 1 } }],
    [{ bookingCode: "A", data: booking }],
    [{ data: { booking } }],
    [{ anything: { other: booking } }],
    [[booking]],
    [{ data: [booking] }],
    [{ data: { bookings: [booking] } }],
    [[{ booking }]],
    [{ success: false, error: "late", data: booking }],
  ])("is found up to two wrappers deep, and as the only element of an array: %j", async (json) => {
    expect(await (await answering({ json })).bookings.get("A")).toEqual(booking);
  });

  it.each([[{ a: { b: { c: booking } } }], [[booking, booking]], [[[booking]]], [{ data: [] }]])(
    "is not looked for elsewhere: %j",
    async (json) => {
      const error = await rejection((await answering({ json })).bookings.get("A"));
      expect(error.name).toBe("ResponseValidationError");
    },
  );

  it("is the outermost one, even if a field of it is one too", async () => {
    const json = {
      ...booking,
      previous: { bookingCode: "B", status: "Declined" },
      data: { bookingCode: "C", status: "x" },
    };
    expect(await (await answering({ json })).bookings.get("A")).toEqual(json);
  });

  const older = { ...booking, status: "Initiated" };
  it.each([
    [{ before: older, after: booking }],
    [{ after: booking, before: older }],
    [{ data: { old: older, new: booking } }],
    [{ previous: older, current: booking }],
    [{ oldBooking: older, newBooking: booking }],
    [{ data: booking, result: booking }],
    [{ bookingCode: "A", status: "Request", data: booking }],
    [{ data: booking, related: { ...older, bookingCode: "B" } }],
    [{ booking, listing: { listingId: 7, status: "Published" } }],
  ])("is the newer of a pair: %j", async (json) => {
    const read = await (await answering({ json })).bookings.get("A");
    expect(read).toMatchObject(booking);
  });

  it("of a listing is not the booking beside it", async () => {
    const json = { booking: { ...booking, listingId: 7 }, listing };
    expect(await (await answering({ json })).listings.get(7)).toEqual(listing);
  });

  it.each<[unknown, unknown[][]]>([
    [{ one: older, other: booking }, [["one"], ["other"]]],
    [
      { data: { booking: older, result: booking } },
      [
        ["data", "booking"],
        ["data", "result"],
      ],
    ],
    [{ bookingCode: "A", status: "ok", data: booking }, [[], ["data"]]],
    [{ data: { bookingCode: "a", status: "success", booking } }, [["data"], ["data", "booking"]]],
  ])("rejects with both paths if two parts look like it and differ: %j", async (json, paths) => {
    const error = await rejection((await answering({ json })).bookings.get("A"));
    expect(error).toMatchObject({ name: "ResponseValidationError", issues: paths.map((path) => ({ path })) });
    for (const path of paths) expect(error.message).toContain(path.join("."));
  });

  it.each([[{ before: booking, after: null }], [{ old: booking }]])(
    "is never the older of a pair: %j",
    async (json) => {
      const error = await rejection((await answering({ json })).bookings.get("A"));
      expect(error.name).toBe("ResponseValidationError");
    },
  );

  it.each([
    [{ bookingCode: "A" }, ["status"]],
    [{ data: { bookingCode: "A" } }, ["data", "status"]],
    [{ bookingCode: "A", status: 5 }, ["status"]],
    [{ bookingCode: "A", status: { toString: 1, valueOf: 1 } }, ["status"]],
    [{ message: "x" }, ["bookingCode"]],
    [{ bookingCode: "A", data: null }, ["status"]],
    [{ data: { bookingCode: "A", result: {} } }, ["data", "status"]],
    [[{ bookingCode: "A" }], [0, "status"]],
    [["x"], [0]],
    ["x", []],
  ])("rejects without a code or a status, and names the path: %j", async (json, path) => {
    const error = await rejection((await answering({ json })).bookings.get("A"));
    expect(error).toMatchObject({ name: "ResponseValidationError", body: json });
    expect((error.issues as { path: unknown }[])[0]?.path).toEqual(path);
    expect(error.message).toMatch(/^GET \/v2\/bookings\/A /);
  });

  it.each(none)("rejects with a NotFoundError if there is none: %j", async (reply) => {
    const client = await answering(reply);
    for (const error of await Promise.all(
      [client.bookings.get("A"), client.listings.get(7)].map((call) => rejection(call)),
    ))
      expect(error).toMatchObject({ name: "NotFoundError", status: reply.status ?? 200 });
  });

  it.each(unclear)("rejects if the answer does not say so clearly: %j", async (reply) => {
    const client = await answering(reply);
    for (const error of await Promise.all(
      [client.bookings.get("A"), client.listings.get(7)].map((call) => rejection(call)),
    ))
      expect(error).toMatchObject({ name: "ResponseValidationError", valid: [] });
  });

  it.each(failing)("rejects with an APIError if the answer reports a failure: %j", async (reply) => {
    const error = await rejection((await answering(reply)).bookings.get("A"));
    expect(error).toMatchObject({ name: "APIError", status: 200, body: reply.json });
  });

  it("is not requested again if a 2xx answer reports a failure", async () => {
    const server = await platform([{ json: { success: false } }]);
    expect(await rejection(clientOf(server, { maxRetries: 2 }).bookings.get("A"))).toMatchObject({
      status: 200,
    });
    expect(server.requests).toHaveLength(1);
  });

  it("may have a field called code", async () => {
    const json = { ...booking, code: 404 };
    expect(await (await answering({ json })).bookings.get("A")).toEqual(json);
  });

  it.each([
    ["HX3K9", "HX3K9"],
    ["hx3k9", "HX3K9"],
    ["HX3K9", "hx3k9"],
    [" HX3K9", "HX3K9\t"],
    ["\u00a0HX3K9 ", " hx3k9"],
  ])("asked for as %j may come as %j", async (asked, bookingCode) => {
    const json = { data: { ...booking, bookingCode } };
    expect(await (await answering({ json })).bookings.get(asked)).toEqual(json.data);
  });

  it.each([
    ["HX3K9", "HX3K8"],
    ["HX3K9", "HX3K99"],
    ["HX3K9", "HX 3K9"],
    ["HX3K9", ""],
    ["O", "0"],
  ])("asked for as %j must not come as %j", async (asked, bookingCode) => {
    const wrapped: [unknown, unknown[]][] = [
      [{ ...booking, bookingCode }, ["bookingCode"]],
      [{ data: [{ ...booking, bookingCode }] }, ["data", 0, "bookingCode"]],
    ];
    for (const [json, path] of wrapped) {
      const error = await rejection((await answering({ json })).bookings.get(asked));
      expect(error).toMatchObject({ name: "ResponseValidationError", issues: [{ path }], body: json });
      expect(error.message).toContain("bookingCode: is not the requested bookingCode");
    }
  });

  it("that is a listing must have the id that was asked for", async () => {
    for (const listingId of [7, "7", "07"])
      expect(
        (await (await answering({ json: { ...listing, listingId } })).listings.get("007")).listingId,
      ).toBe(7);
    const error = await rejection(
      (await answering({ json: { data: { ...listing, listingId: "8" } } })).listings.get(7),
    );
    expect(error).toMatchObject({
      name: "ResponseValidationError",
      issues: [{ path: ["data", "listingId"] }],
    });
  });

  it("that a model changes must have the code that was asked for afterwards", async () => {
    const model = z.looseObject({ code: z.string(), status: z.string() }).transform(({ code, status }) => ({
      bookingCode: code,
      status,
    }));
    const client = await answering({ json: { code: "A", status: "x" } }, { models: { booking: model } });
    expect(await client.bookings.get("a")).toEqual({ bookingCode: "A", status: "x" });
    expect(await rejection(client.bookings.get("B"))).toMatchObject({ issues: [{ path: ["bookingCode"] }] });
  });

  it("keeps unknown fields and statuses; ids in digits are numbers", async () => {
    const json = { listingId: "7", status: "Archived", rooms: [{ beds: 2 }], listingName: null };
    expect(await (await answering({ json })).listings.get(7)).toEqual({ ...json, listingId: 7 });
  });

  it("passes on values of unexpected types, with one warning for each field", async () => {
    const { logger, warnings } = keepingLogger();
    const odd = { ...booking, checkIn: { on: "2026-07-01" } };
    const client = await answering({ json: odd }, { logger });
    expect(await client.bookings.get("A")).toEqual(odd);
    expect(await client.bookings.get("A")).toEqual(odd);
    expect(warnings).toEqual([expect.stringContaining("booking.checkIn")]);
  });

  it("warns of a topic whose URL is no string, and passes it on", async () => {
    const { logger, warnings } = keepingLogger();
    const json = { isActive: true, endpoints: { bookings: { url: "https://a.example" } } };
    expect(await (await answering({ json }, { logger })).webhookConfig.get()).toEqual(json);
    expect(warnings).toEqual([expect.stringContaining("endpoints.bookings")]);
  });

  it("does not warn of expected types", async () => {
    const { logger, warnings } = keepingLogger();
    for (const checkIn of ["2026-07-01", 1782864000, null, undefined])
      await (await answering({ json: { ...booking, checkIn, listingId: "x" } }, { logger })).bookings.get(
        "A",
      );
    expect(warnings).toEqual([]);
  });

  it("survives a logger that throws", async () => {
    const throwing = () => {
      throw new Error("logger");
    };
    const logger = { debug: throwing, info: throwing, warn: throwing, error: throwing };
    const client = await answering({ json: { ...booking, checkIn: {} } }, { logger });
    expect(await client.bookings.get("A")).toMatchObject(booking);
  });

  it("rejects beyond 10 MiB", async () => {
    const long = "x".repeat(10 * 1024 * 1024);
    const error = await rejection((await answering({ json: { ...booking, long } })).bookings.get("A"));
    expect(error).toMatchObject({
      name: "ResponseValidationError",
      issues: [{ path: [], message: expect.stringContaining("longer") }],
    });
    expect(await rejection((await answering({ text: `"${long}"` })).request("GET", "/x"))).toMatchObject({
      name: "ResponseValidationError",
    });
    const other = await (await answering({ json: { ...booking, long: long.slice(100) } })).bookings.get("A");
    expect(other.bookingCode).toBe("A");
    expect(
      await rejection((await answering({ text: long.repeat(2), status: 500 })).bookings.get("A")),
    ).toMatchObject({ status: 500 });
  });
});
describe("models.booking", () => {
  const json = { ...booking, guestName: "N", extra: 1 };
  it.each([
    ["zod", Booking.extend({ guestName: z.string() })],
    ["valibot", v.looseObject({ bookingCode: v.string(), status: v.string(), guestName: v.string() })],
    ["arktype", type({ bookingCode: "string", status: "string", guestName: "string" })],
  ])("may be a schema of %s", async (_, schema) => {
    expect(
      await (await answering({ json: { data: json } }, { models: { booking: schema } })).bookings.get("A"),
    ).toEqual(json);
    const error = await rejection(
      (await answering({ json: { data: booking } }, { models: { booking: schema } })).bookings.get("A"),
    );
    expect(error).toMatchObject({
      name: "ResponseValidationError",
      issues: [{ path: ["data", "guestName"] }],
    });
  });

  it.each([
    ["a zod 3 field in a zod 4 object", () => Booking.extend({ guestName: z3.string() as never })],
    [
      "deep down",
      () => Booking.extend({ guests: z.array(z.object({ name: z3.string().optional() as never })) }),
    ],
    ["in a union", () => Booking.extend({ guest: z.union([z.string(), z3.string() as never]).nullish() })],
    [
      "a zod 4 field in a zod 3 object",
      () => z3.object({ bookingCode: z3.string(), status: z.string() as never }).passthrough(),
    ],
  ])("must not mix versions of zod: %s", (_, schema) => {
    const make = (models: object) =>
      new StayhookClient({ baseUrl: "https://h.example", accessToken: "t", models: models as never });
    expect(() => make({ booking: schema() })).toThrow("`models.booking` mixes zod 3 and zod 4");
    expect(() => make({ listing: schema() })).toThrow("`models.listing` mixes zod 3 and zod 4");
  });

  it("may be of zod 3 alone, and may refer to itself", async () => {
    const three = z3.object({ bookingCode: z3.string(), status: z3.string(), rooms: z3.array(z3.number()) });
    const json = { ...booking, rooms: [1] };
    expect(await (await answering({ json }, { models: { booking: three } })).bookings.get("A")).toEqual(json);
    const Guest = z.object({
      name: z.string(),
      get friends() {
        return z.array(Guest);
      },
    });
    const recursive = Booking.extend({ guest: Guest, lazy: z.lazy(() => Guest).optional() });
    expect(
      () =>
        new StayhookClient({
          baseUrl: "https://h.example",
          accessToken: "t",
          models: { booking: recursive },
        }),
    ).not.toThrow();
  });

  it("for listings validates the rows of a list too", async () => {
    const schema = v.looseObject({ listingId: v.number(), status: v.string(), beds: v.number() });
    const client = await answering(
      { json: [{ ...listing, beds: 2 }, listing] },
      { models: { listing: schema } },
    );
    expect(await rejection(client.listings.list())).toMatchObject({ issues: [{ path: [1, "beds"] }] });
  });
});
