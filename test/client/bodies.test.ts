import { type } from "arktype";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { Booking } from "../../src/models/booking.ts";
import { clientOf, keepingLogger, platform, type Reply, rejection } from "./support.ts";

const config = { isActive: true, endpoints: { bookings: "https://hooks.example/b" } };
const booking = { bookingCode: "A", status: "Request" };
const listing = { listingId: 7, status: "Hidden" };
const answering = async (reply: Reply, options = {}) =>
  clientOf(await platform([reply]), { maxRetries: 0, ...options });

describe("what create, update, toggle and delete are answered with", () => {
  const writes = (client: Awaited<ReturnType<typeof answering>>) => [
    client.webhookConfig.create(config),
    client.webhookConfig.update(config),
    client.webhookConfig.toggle(true),
    client.webhookConfig.delete(),
  ];

  it.each<[Reply]>([
    [{ status: 204 }],
    [{ text: "" }],
    [{ json: {} }],
    [{ json: null }],
    [{ json: [] }],
    [{ json: { message: "saved" } }],
    [{ json: { isActive: true } }],
    [{ json: { isActive: "true", endpoints: {} } }],
    [{ json: { data: { id: 1 } } }],
    [{ text: "OK" }],
    [{ text: "<html></html>", status: 202 }],
    [{ text: '{"isActive":' }],
  ])("resolves to undefined where it is no configuration: %j", async (reply) => {
    expect(await Promise.all(writes(await answering(reply)))).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });

  it.each<[Reply]>([
    [{ json: config }],
    [{ json: config, status: 201, headers: { "content-type": "text/plain" } }],
    [{ json: { data: config } }],
    [{ json: { success: true, config } }],
    [{ json: { message: "saved", anything: config } }],
    [{ text: `\ufeff${JSON.stringify(config)}` }],
    [{ json: { ...config, endpoints: { ...config.endpoints, messages: null } } }],
  ])("resolves to the configuration where it is one: %j", async (reply) => {
    expect(await Promise.all(writes(await answering(reply)))).toEqual([config, config, config, config]);
  });
});

describe("webhookConfig.get", () => {
  it.each<[Reply]>([
    [{ status: 404, json: { message: "none" } }],
    [{ status: 204 }],
    [{ text: "" }],
    [{ json: null }],
    [{ json: {} }],
    [{ json: { data: null } }],
    [{ json: { config: {} } }],
    [{ json: { success: true, data: null } }],
  ])("resolves to undefined where there is none: %j", async (reply) => {
    expect(await (await answering(reply)).webhookConfig.get()).toBeUndefined();
  });

  it.each<[Reply]>([
    [{ json: { message: "no configuration" } }],
    [{ json: { data: null, error: "database down" } }],
    [{ json: { success: false, data: null } }],
    [{ text: "<html>maintenance</html>" }],
    [{ json: { isActive: true } }],
    [{ json: "none" }],
    [{ json: { data: { message: "x" } } }],
  ])("is an error where that is not clear: %j", async (reply) => {
    const error = await rejection((await answering(reply)).webhookConfig.get());
    expect(error.name).toBe("ResponseValidationError");
    expect(error.body).toEqual(reply.json ?? reply.text);
  });

  it.each<[Reply]>([
    [{ json: config }],
    [{ json: { data: config } }],
    [{ json: { whatever: config, meta: {} } }],
  ])("finds it in %j", async (reply) => {
    expect(await (await answering(reply)).webhookConfig.get()).toEqual(config);
  });
});

describe("a record", () => {
  it.each([
    [booking],
    [{ data: booking }],
    [{ booking }],
    [{ success: true, result: booking }],
    [{ anything: booking, other: { x: 1 } }],
    [{ bookingCode: "A", data: booking }],
  ])("stands alone or in one wrapping property: %j", async (json) => {
    expect(await (await answering({ json })).bookings.get("A")).toEqual(booking);
  });

  it("is taken whole where one of its fields looks like one too", async () => {
    const json = {
      ...booking,
      previous: { bookingCode: "B", status: "Declined" },
      data: { bookingCode: "C", status: "x" },
    };
    expect(await (await answering({ json })).bookings.get("A")).toEqual(json);
  });

  it.each([
    [{ bookingCode: "A" }, ["status"]],
    [{ data: { bookingCode: "A" } }, ["data", "status"]],
    [{ bookingCode: "A", status: 5 }, ["status"]],
    [{ message: "x" }, ["bookingCode"]],
    [null, []],
    [[booking], []],
  ])("is an error where it lacks identity or status: %j", async (json, path) => {
    const error = await rejection((await answering({ json })).bookings.get("A"));
    expect(error).toMatchObject({ name: "ResponseValidationError", body: json });
    expect((error.issues as { path: unknown }[])[0]?.path).toEqual(path);
    expect(error.message).toMatch(/^GET \/v2\/bookings\/A /);
  });

  it.each<[Reply]>([[{ status: 204 }], [{ text: "" }], [{ text: "OK" }]])(
    "is an error where there is none: %j",
    async (reply) => {
      const error = await rejection((await answering(reply)).bookings.get("A"));
      expect(error).toMatchObject({ name: "ResponseValidationError", body: reply.text || undefined });
    },
  );

  it("keeps unknown fields and statuses; ids in digits are numbers", async () => {
    const json = { listingId: "7", status: "Archived", rooms: [{ beds: 2 }], listingName: null };
    expect(await (await answering({ json })).listings.get(7)).toEqual({ ...json, listingId: 7 });
  });

  it("passes on values of unforeseen kinds, with one warning for each field", async () => {
    const { logger, warnings } = keepingLogger();
    const odd = { ...booking, checkIn: { on: "2026-07-01" } };
    const client = await answering({ json: odd }, { logger });
    expect(await client.bookings.get("A")).toEqual(odd);
    expect(await client.bookings.get("A")).toEqual(odd);
    expect(warnings).toEqual([expect.stringContaining("booking.checkIn")]);
  });

  it("warns of a topic's URL that is none, and passes it on", async () => {
    const { logger, warnings } = keepingLogger();
    const json = { isActive: true, endpoints: { bookings: { url: "https://a.example" } } };
    expect(await (await answering({ json }, { logger })).webhookConfig.get()).toEqual(json);
    expect(warnings).toEqual([expect.stringContaining("endpoints.bookings")]);
  });

  it("does not warn of what is foreseen", async () => {
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

  it("is an error beyond 10 MiB", async () => {
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

describe("a list", () => {
  const rows = [listing, { listingId: "8", status: "Published" }];
  const read = [listing, { listingId: 8, status: "Published" }];

  it.each([
    [rows],
    [{ listings: rows }],
    [{ data: rows }],
    [{ items: rows, total: 2 }],
    [{ results: rows }],
    [{ data: { listings: rows } }],
    [{ data: { items: rows } }],
    [{ response: { results: rows } }],
    [{ rentals: rows }],
    [{ response: { rentals: rows } }],
    [{ errors: [{ code: 1 }], data: { listings: rows } }],
    [{ amenities: [{ id: 1 }], data: { listings: rows } }],
    [{ facets: [{ id: 1 }], rentals: rows }],
    [{ tags: ["a"], rentals: rows }],
    [{ data: ["a"], results: rows }],
  ])("is found: %j", async (json) => {
    expect(await (await answering({ json })).listings.list()).toEqual(read);
  });

  it.each([
    [[]],
    [{ listings: [] }],
    [{ listings: [], amenities: [{ id: 1 }] }],
    [{ data: { items: [] } }],
    [{ rentals: [] }],
  ])("may have no rows: %j", async (json) => {
    expect(await (await answering({ json })).listings.list()).toEqual([]);
  });

  it.each<[Reply]>([
    [{ status: 204 }],
    [{ text: "" }],
    [{ json: null }],
    [{ json: {} }],
    [{ json: { message: "x" } }],
    [{ json: { errors: [] } }],
    [{ json: { a: [], b: [] } }],
    [{ json: { data: null } }],
    [{ json: { data: ["a"] } }],
    [{ json: { a: { b: { listings: rows } } } }],
    [{ text: "<html></html>" }],
    [{ status: 202, text: "accepted" }],
  ])("is an error where there is none, as no listing must look gone: %j", async (reply) => {
    expect(await rejection((await answering(reply)).listings.list())).toMatchObject({
      name: "ResponseValidationError",
    });
  });

  it.each([
    [
      [listing, { status: "Hidden" }],
      [1, "listingId"],
    ],
    [{ data: { items: [listing, listing, { listingId: 1 }] } }, ["data", "items", 2, "status"]],
    [[listing, null], [1]],
    [["a"], [0]],
  ])("fails where a row does not validate, naming its index: %j", async (json, path) => {
    const error = await rejection((await answering({ json })).listings.list());
    expect(error).toMatchObject({ name: "ResponseValidationError", issues: [{ path }], body: json });
  });

  it.each<[Reply]>([
    [{ json: { data: rows, next: "/v2/listings?page=2" } }],
    [{ json: { data: rows, meta: { totalPages: 3 } } }],
    [{ json: { data: rows, meta: { pagination: { has_more: true } } } }],
    [{ json: { data: rows, total: 30 } }],
    [{ json: { data: { items: rows, nextPageToken: "x" } } }],
    [{ json: { data: rows, _links: { next: { href: "/x" } } } }],
    [{ json: rows, headers: { link: '</v2/listings?page=2>; rel="next"' } }],
    [{ json: rows, headers: { "x-total-count": "30" } }],
    [{ json: rows, headers: { "x-next-page": "2" } }],
  ])("that hints at further pages is logged as a warning: %j", async (reply) => {
    const { logger, warnings } = keepingLogger();
    expect(await (await answering(reply, { logger })).listings.list()).toEqual(read);
    expect(warnings).toEqual([expect.stringContaining("further pages")]);
  });

  it.each<[Reply]>([
    [{ json: { data: rows, next: null, hasMore: false, total: 2, totalPages: 1, page: 1 } }],
    [
      {
        json: rows,
        headers: { link: '</v2/listings>; rel="self"', "x-total-count": "2", "x-next-page": "" },
      },
    ],
    [{ json: { data: rows, links: { next: null, prev: "/x" } } }],
  ])("that is whole is not: %j", async (reply) => {
    const { logger, warnings } = keepingLogger();
    await (await answering(reply, { logger })).listings.list();
    expect(warnings).toEqual([]);
  });
});

describe("withResponse", () => {
  it("gives the data, the response and the body as it came", async () => {
    const json = { data: { listingId: "7", status: "Hidden" } };
    const client = await answering({ json, status: 203, headers: { "x-limit": "5" } });
    const { data, response, body } = await client.listings.get(7).withResponse();
    expect(data).toEqual(listing);
    expect(response.status).toBe(203);
    expect(response.headers.get("x-limit")).toBe("5");
    expect(body).toEqual(json);
  });

  it("gives the text where it is not JSON, undefined where it is empty", async () => {
    expect(
      await (await answering({ text: "saved" })).webhookConfig.toggle(true).withResponse(),
    ).toMatchObject({ data: undefined, body: "saved" });
    expect(
      (await (await answering({ status: 204 })).webhookConfig.delete().withResponse()).body,
    ).toBeUndefined();
    expect(
      (await (await answering({ status: 404, json: { a: 1 } })).webhookConfig.get().withResponse()).response
        .status,
    ).toBe(404);
  });

  it("alone leaves no unhandled rejection behind, and neither does the promise alone", async () => {
    const unhandled: unknown[] = [];
    const listen = (reason: unknown) => unhandled.push(reason);
    process.on("unhandledRejection", listen);
    try {
      const client = await answering({ status: 403 });
      expect(await rejection(client.bookings.get("A").withResponse())).toMatchObject({ status: 403 });
      expect(await rejection(client.bookings.get("..").withResponse())).toMatchObject({
        name: "InvalidArgumentError",
      });
      expect(await rejection(client.bookings.get("A"))).toMatchObject({ status: 403 });
      await new Promise((resolve) => setTimeout(resolve, 20));
    } finally {
      process.off("unhandledRejection", listen);
    }
    expect(unhandled).toEqual([]);
  });
});

describe("request", () => {
  it.each<[Reply, unknown]>([
    [{ json: { a: [1] } }, { a: [1] }],
    [{ json: "x" }, "x"],
    [{ status: 204 }, undefined],
    [{ text: "plain" }, undefined],
  ])("resolves to the parsed JSON, of %j", async (reply, expected) => {
    expect(await (await answering(reply)).request("GET", "/x")).toEqual(expected);
  });

  it("resolves to what a schema makes of it, or rejects with its issues", async () => {
    const client = await answering({ json: { n: "5" } });
    expect(await client.request("GET", "/x", { schema: z.object({ n: z.coerce.number() }) })).toEqual({
      n: 5,
    });
    const error = await rejection(
      client.request("GET", "/x", { schema: z.object({ n: z.object({ m: z.number() }) }) }),
    );
    expect(error).toMatchObject({
      name: "ResponseValidationError",
      issues: [{ path: ["n"] }],
      body: { n: "5" },
    });
    const slow = z.object({ n: z.string() }).refine(async () => false, "never");
    expect(await rejection(client.request("GET", "/x", { schema: slow }))).toMatchObject({
      issues: [{ path: [], message: "never" }],
    });
    const throwing = z.unknown().transform(() => {
      throw new Error("mine");
    });
    expect(await rejection(client.request("GET", "/x", { schema: throwing }))).toMatchObject({
      name: "ResponseValidationError",
      cause: { message: "mine" },
    });
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

  it("for listings goes for rows too", async () => {
    const schema = v.looseObject({ listingId: v.number(), status: v.string(), beds: v.number() });
    const client = await answering(
      { json: [{ ...listing, beds: 2 }, listing] },
      { models: { listing: schema } },
    );
    expect(await rejection(client.listings.list())).toMatchObject({ issues: [{ path: [1, "beds"] }] });
  });
});
