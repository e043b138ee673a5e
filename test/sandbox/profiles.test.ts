import { describe, expect, it, onTestFinished } from "vitest";
import { InvalidArgumentError } from "../../src/errors.ts";
import { createProfile, type SandboxProfile, sandboxProfiles } from "../support/answers/profiles.ts";
import { createProfiledSandbox } from "../support/answers/sandbox.ts";

const config = { isActive: true, endpoints: { bookings: "https://subscriber.example/" } };
const booking = {
  bookingCode: "B1",
  status: "Confirmed",
  listingId: 7,
  checkIn: "2026-07-01",
  checkOut: "2026-07-04",
};
const listing = { listingId: 7, listingName: "Loft", status: "Published" };

/** A sandbox with one booking and one listing, and what its API answers, as it goes over the wire. */
async function start(profile: SandboxProfile, seed = 1) {
  const sandbox = createProfiledSandbox({ seed, profile });
  onTestFinished(() => sandbox.close());
  await sandbox.bookings.create(booking);
  await sandbox.listings.create(listing);
  const ask = async (method: string, path: string, body?: unknown) => {
    const response = await sandbox.fetch(`https://any.example${path}`, {
      method,
      headers: { authorization: "Bearer sandbox" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const type = response.headers.get("content-type")?.split(";")[0];
    const text = await response.text();
    return {
      status: response.status,
      type,
      text,
      headers: response.headers,
      json: type?.includes("json") ? JSON.parse(text) : undefined,
    };
  };
  return { sandbox, ask, post: () => ask("POST", "/v2/webhooks/config", config) };
}

describe("writes", () => {
  it.each<[SandboxProfile, [number, unknown], [number, unknown]]>([
    [{}, [201, config], [204, ""]],
    [{ writes: "config", writeStatus: 202 }, [202, config], [204, ""]],
    [{ writes: "no-content", writeStatus: 200 }, [204, ""], [204, ""]],
    [{ writes: "empty" }, [201, ""], [200, ""]],
    [{ writes: "object", writeStatus: 200 }, [200, {}], [200, {}]],
    [{ writes: "message" }, [201, { message: expect.any(String) }], [200, { message: expect.any(String) }]],
    [{ writes: "text" }, [201, "OK"], [200, "OK"]],
    [{ writes: "wrapped", writeStatus: 201 }, [201, { data: config }], [201, { data: null }]],
    [{ writes: "named" }, [201, { success: true, config }], [200, { success: true, config: null }]],
    [
      { fields: "more" },
      [
        201,
        expect.objectContaining({
          endpoints: { bookings: "https://subscriber.example/", listings: null, messages: null },
        }),
      ],
      [204, ""],
    ],
  ])("%j", async (profile, created, deleted) => {
    const { ask, post, sandbox } = await start(profile);
    for (const [answer, [status, body]] of [
      [await post(), created],
      [await ask("DELETE", "/v2/webhooks/config"), deleted],
    ] as const) {
      expect(answer.status).toBe(status);
      expect(answer.json ?? answer.text).toEqual(body);
    }
    // What is answered is one thing, what is done another.
    expect(sandbox.webhookConfig).toBeUndefined();
    await post();
    expect(sandbox.webhookConfig).toEqual(config);
    await ask("PATCH", "/v2/webhooks/config/toggle?isActive=false");
    expect(sandbox.webhookConfig).toEqual({ ...config, isActive: false });
  });
});

it.each<[SandboxProfile, number, unknown]>([
  [{}, 404, { error: { code: "not_found", message: expect.any(String) } }],
  [{ noConfig: "no-content" }, 204, ""],
  [{ noConfig: "empty" }, 200, ""],
  [{ noConfig: "null" }, 200, null],
  [{ noConfig: "object" }, 200, {}],
  [{ noConfig: "wrapped" }, 200, { data: null }],
  [{ noConfig: "named" }, 200, { success: true, config: null }],
])("no configuration, by %j", async (profile, status, body) => {
  const { ask } = await start(profile);
  const answer = await ask("GET", "/v2/webhooks/config");
  expect(answer.status).toBe(status);
  expect(answer.json === undefined ? answer.text : answer.json).toEqual(body);
});

const { checkIn: _in, checkOut: _out, ...undated } = booking;

it.each<[SandboxProfile, unknown, unknown]>([
  [{}, booking, listing],
  [{ records: "data" }, { data: booking }, { data: listing }],
  [{ records: "named" }, { booking }, { listing }],
  [{ listingIds: "string" }, { ...booking, listingId: "7" }, { ...listing, listingId: "7" }],
  [
    { statuses: "unlisted" },
    { ...booking, status: "NewerConfirmed" },
    { ...listing, status: "NewerPublished" },
  ],
  [
    { dates: "date-time" },
    { ...booking, checkIn: "2026-07-01T15:00:00+02:00", checkOut: "2026-07-04T11:00:00+02:00" },
    listing,
  ],
  [{ dates: "seconds" }, { ...booking, checkIn: 1782864000, checkOut: 1783123200 }, listing],
  [{ dates: "milliseconds" }, { ...booking, checkIn: 1782864000000, checkOut: 1783123200000 }, listing],
  [{ dates: "null" }, { ...booking, checkIn: null, checkOut: null }, listing],
  [{ dates: "absent" }, undated, listing],
  [
    { fields: "more" },
    expect.objectContaining({ ...booking, guest: expect.anything(), data: null }),
    expect.objectContaining({ ...listing, booking: null }),
  ],
  [
    { fields: "more", records: "named" },
    {
      success: true,
      requestedAt: expect.any(String),
      warnings: [],
      booking: expect.objectContaining(booking),
    },
    expect.objectContaining({ listing: expect.objectContaining(listing) }),
  ],
])("records, by %j", async (profile, ofBooking, ofListing) => {
  const { ask, sandbox } = await start(profile);
  expect((await ask("GET", "/v2/bookings/B1")).json).toEqual(ofBooking);
  expect((await ask("GET", "/v2/listings/7")).json).toEqual(ofListing);
  expect(sandbox.bookings.get("B1")).toEqual(booking);
});

it("shows dates that were given in another format as they were given", async () => {
  const { ask, sandbox } = await start({ dates: "seconds" });
  await sandbox.bookings.create({
    bookingCode: "B2",
    status: "Confirmed",
    checkIn: "1 July",
    checkOut: "20260704",
  });
  expect((await ask("GET", "/v2/bookings/B2")).json).toMatchObject({
    checkIn: "1 July",
    checkOut: "20260704",
  });
});

const last = { meta: { page: 1, totalPages: 1, total: 1 }, next: null, hasMore: false };
const more = { meta: { page: 1, totalPages: 2, total: 21 }, next: "/v2/listings?page=2" };

it.each<[SandboxProfile, unknown]>([
  [{}, [listing]],
  [{ lists: "listings" }, { listings: [listing] }],
  [{ lists: "data" }, { data: [listing] }],
  [
    { lists: "items", paging: "last" },
    { items: [listing], ...last },
  ],
  [
    { lists: "results", paging: "more" },
    { results: [listing], ...more },
  ],
  [{ lists: "nested" }, { data: { listings: [listing] } }],
  [
    { lists: "nested", paging: "more" },
    { data: { listings: [listing], ...more }, ...more },
  ],
])("lists, by %j", async (profile, body) => {
  expect((await (await start(profile)).ask("GET", "/v2/listings")).json).toEqual(body);
});

it("a bare list tells of pages in its headers", async () => {
  const headers = async (paging: "none" | "last" | "more") => {
    const { headers } = await (await start({ paging })).ask("GET", "/v2/listings");
    return [headers.get("x-total-count"), headers.get("link")];
  };
  expect(await headers("none")).toEqual([null, null]);
  expect(await headers("last")).toEqual(["1", null]);
  expect(await headers("more")).toEqual(["21", '</v2/listings?page=2>; rel="next"']);
});

it.each<[SandboxProfile, string | undefined, unknown]>([
  [{}, "application/json", { error: { code: "not_found", message: "There is no such booking." } }],
  [{ errors: "message" }, "application/json", { error: "There is no such booking." }],
  [
    { errors: "list" },
    "application/json",
    { errors: [{ code: "not_found", message: "There is no such booking." }] },
  ],
  [
    { errors: "problem" },
    "application/problem+json",
    { type: "about:blank", title: "not_found", status: 404, detail: "There is no such booking.", errors: [] },
  ],
  [{ errors: "text" }, "text/plain", "There is no such booking."],
  [{ errors: "html" }, "text/html", expect.stringContaining("<h1>404</h1>")],
  [{ errors: "empty" }, undefined, ""],
])("errors, by %j", async (profile, type, body) => {
  const { ask, sandbox } = await start(profile);
  const answer = await ask("GET", "/v2/bookings/B9");
  expect([answer.status, answer.type]).toEqual([404, type]);
  expect(answer.json ?? answer.text).toEqual(body);
  sandbox.faults.set([{ status: 503 }]);
  expect(await ask("GET", "/v2/listings")).toMatchObject({ status: 503, type });
});

it("an error's list names each field that is wrong", async () => {
  const { ask } = await start({ errors: "list" });
  const { json } = await ask("POST", "/v2/webhooks/config", { isActive: 1, endpoints: { bookings: "x" } });
  expect(json.errors).toMatchObject([
    { code: "bad_request" },
    { field: "isActive" },
    { field: "endpoints.bookings" },
  ]);
});

describe("a list of forms", () => {
  const types = async (seed: number, times = 30) => {
    const { ask } = await start({ errors: ["text", "html"] }, seed);
    const seen = [];
    for (let count = 0; count < times; count++) seen.push((await ask("GET", "/v2/bookings/B9")).type);
    return seen;
  };

  it("is drawn from for each answer, by the seed", async () => {
    const seen = await types(1);
    expect(new Set(seen)).toEqual(new Set(["text/plain", "text/html"]));
    expect(await types(1)).toEqual(seen);
    expect(await types(2)).not.toEqual(seen);
  });
});

describe("set", () => {
  it("takes a name, or forms, composed too", async () => {
    const { sandbox, ask } = await start({});
    sandbox.profile.set("wrapped");
    expect(sandbox.profile.current).toEqual(sandboxProfiles.wrapped);
    expect((await ask("GET", "/v2/bookings/B1")).json).toEqual({ data: booking });
    sandbox.profile.set({ ...sandboxProfiles.wrapped, dates: "null" });
    expect((await ask("GET", "/v2/bookings/B1")).json).toEqual({
      data: { ...booking, checkIn: null, checkOut: null },
    });
    sandbox.profile.set({ errors: "text" });
    expect((await ask("GET", "/v2/bookings/B1")).json).toEqual(booking);
    sandbox.profile.set("default");
    expect(sandbox.profile.current).toEqual({});
  });

  it("refuses what there is not, and stays as it was", async () => {
    const { sandbox } = await start({ dates: "null" });
    expect(() => sandbox.profile.set("wraped" as never)).toThrow(
      /^profile: must be one of default, .*wrapped/,
    );
    expect(() => sandbox.profile.set({ dates: "week" } as never)).toThrow(
      /^profile\.dates: must be one of date, /,
    );
    expect(() => sandbox.profile.set({ date: "date" } as never)).toThrow("profile: unknown option `date`");
    expect(() => sandbox.profile.set(null as never)).toThrow(InvalidArgumentError);
    expect(sandbox.profile.current).toEqual({ dates: "null" });
  });
});

it("begins its draws anew when a profile is set", () => {
  const profile = createProfile(7, "mixed");
  const draws = () => Array.from({ length: 8 }, () => profile.draw());
  const first = draws();
  expect(draws()).not.toEqual(first);
  profile.set("mixed");
  expect(draws()).toEqual(first);
});
