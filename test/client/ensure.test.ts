import { describe, expect, it } from "vitest";
import type { EnsureInput } from "../../src/client/webhook-config.ts";
import { clientOf, platform, type Received, type Reply, rejection } from "./support.ts";

const bookings = "https://hooks.example/b";
const listings = "https://hooks.example/l";

/**
 * Calls `ensure`. The platform answers each GET with the next of `reads`, and every other request with `writes`. After
 * a write with 204, it answers GET with `after`, by default the written configuration. `sent` leaves out this GET.
 */
async function ensuring(
  reads: Reply[],
  input: EnsureInput,
  writes: Reply | ((request: Received) => Reply) = { status: 204 },
  after?: Reply,
) {
  let read = 0;
  let written: string | undefined;
  const sent: [method: string, body?: unknown][] = [];
  const server = await platform((request) => {
    const { method, body } = request;
    if (method === "GET" && written !== undefined) return after ?? { text: written };
    sent.push(body ? [method, JSON.parse(body)] : [method]);
    if (method === "GET") return reads[Math.min(read++, reads.length - 1)] ?? {};
    const reply = typeof writes === "function" ? writes(request) : writes;
    if (reply.status === 204) written = body;
    return reply;
  });
  const outcome = await clientOf(server, { maxRetries: 0 })
    .webhookConfig.ensure(input)
    .catch((error) => error);
  return { outcome, sent, requests: server.requests.length };
}

describe("ensure", () => {
  it.each<[Reply]>([[{ status: 404 }], [{ status: 204 }], [{ json: {} }], [{ json: { data: null } }]])(
    "creates where there is none: %j",
    async (none) => {
      const { outcome, sent } = await ensuring([none], { endpoints: { bookings, messages: null } });
      const config = { isActive: true, endpoints: { bookings } };
      expect(outcome).toEqual({ action: "created", config });
      expect(sent).toEqual([["GET"], ["POST", config]]);
    },
  );

  it("changes nothing where the URLs are the same after normalization", async () => {
    const current = {
      isActive: true,
      endpoints: { bookings: "HTTPS://Hooks.Example:443/b", listings, reviews: "https://r.example" },
      id: 1,
    };
    const { outcome, sent } = await ensuring([{ json: { data: current } }], {
      endpoints: { bookings, listings: undefined },
      otherEndpoints: { reviews: "https://r.example/" },
    });
    const { reviews, ...endpoints } = current.endpoints;
    expect(outcome).toEqual({
      action: "unchanged",
      config: { ...current, endpoints, otherEndpoints: { reviews } },
    });
    expect(sent).toEqual([["GET"]]);
  });

  const reviews = { reviews: "http://r.example" };
  it.each<[string, EnsureInput, object, object]>([
    [
      "another URL",
      { endpoints: { bookings: `${bookings}2` } },
      { bookings: `${bookings}2`, listings },
      reviews,
    ],
    [
      "a further topic",
      { endpoints: { messages: listings } },
      { bookings, listings, messages: listings },
      reviews,
    ],
    ["one topic less", { endpoints: { listings: null } }, { bookings }, reviews],
    ["the switch", { isActive: false, endpoints: {} }, { bookings, listings }, reviews],
    [
      "a topic newer than this package",
      { endpoints: {}, otherEndpoints: { surveys: bookings } },
      { bookings, listings },
      { ...reviews, surveys: bookings },
    ],
    ["such a topic less", { endpoints: {}, otherEndpoints: { reviews: null } }, { bookings, listings }, {}],
  ])("updates %s, and keeps topics that are left out", async (_, input, endpoints, otherEndpoints) => {
    const current = {
      isActive: true,
      endpoints: { bookings, listings, messages: null, ...reviews },
      id: 1,
    };
    const { outcome, sent } = await ensuring([{ json: current }], input);
    const { isActive = true } = input;
    const further = Object.keys(otherEndpoints).length > 0 && { otherEndpoints };
    expect(outcome).toEqual({ action: "updated", config: { isActive, endpoints, ...further } });
    expect(sent).toEqual([["GET"], ["PUT", { isActive, endpoints: { ...endpoints, ...otherEndpoints } }]]);
  });

  it("takes an empty URL for none, and does not send it back", async () => {
    const current = { isActive: false, endpoints: { bookings, listings: "", reviews: "" } };
    const { outcome, sent } = await ensuring([{ json: current }], { endpoints: { messages: listings } });
    const config = { isActive: true, endpoints: { bookings, messages: listings } };
    expect(outcome).toEqual({ action: "updated", config });
    expect(sent[1]).toEqual(["PUT", config]);
    const unset = { isActive: true, endpoints: { bookings, listings: "" } };
    expect((await ensuring([{ json: unset }], { endpoints: { bookings, listings: null } })).outcome).toEqual({
      action: "unchanged",
      config: { isActive: true, endpoints: { bookings } },
    });
  });

  it("sets isActive to true by default", async () => {
    const { sent } = await ensuring([{ json: { isActive: false, endpoints: { bookings } } }], {
      endpoints: { bookings },
    });
    expect(sent[1]).toEqual(["PUT", { isActive: true, endpoints: { bookings } }]);
  });

  it("removing a topic without a URL changes nothing", async () => {
    const { outcome } = await ensuring([{ json: { isActive: true, endpoints: { bookings } } }], {
      endpoints: { listings: null },
    });
    expect(outcome.action).toBe("unchanged");
  });

  it("gives the configuration that the platform answered", async () => {
    const answered = { isActive: true, endpoints: { bookings }, version: 2 };
    for (const none of [{ status: 404 }, { json: { isActive: false, endpoints: {} } }])
      expect(
        (await ensuring([none], { endpoints: { bookings } }, { json: answered })).outcome.config,
      ).toEqual(answered);
  });

  it.each([400, 409, 422])("reads again and updates if another machine was first: %i", async (status) => {
    const theirs = { isActive: true, endpoints: { listings } };
    const { outcome, sent } = await ensuring(
      [{ status: 404 }, { json: theirs }],
      { endpoints: { bookings } },
      ({ method }) => ({ status: method === "POST" ? status : 204 }),
    );
    const config = { isActive: true, endpoints: { listings, bookings } };
    expect(outcome).toEqual({ action: "updated", config });
    expect(sent).toEqual([
      ["GET"],
      ["POST", { isActive: true, endpoints: { bookings } }],
      ["GET"],
      ["PUT", config],
    ]);
  });

  it("changes nothing if another machine has created the same", async () => {
    const theirs = { isActive: true, endpoints: { bookings } };
    const { outcome, sent } = await ensuring(
      [{ status: 404 }, { json: theirs }],
      { endpoints: { bookings } },
      { status: 409 },
    );
    expect(outcome).toEqual({ action: "unchanged", config: theirs });
    expect(sent.map(([method]) => method)).toEqual(["GET", "POST", "GET"]);
  });

  it.each([
    [400, "BadRequestError"],
    [409, "ConflictError"],
    [422, "UnprocessableEntityError"],
  ])("rejects if a create is refused with %i and there is still none", async (status, name) => {
    const { outcome, sent } = await ensuring([{ status: 404 }], { endpoints: { bookings } }, { status });
    expect(outcome).toMatchObject({ name });
    expect(sent.map(([method]) => method)).toEqual(["GET", "POST", "GET"]);
  });

  it.each([401, 403, 404, 500])("does not read again if a create fails with %i", async (status) => {
    const { outcome, sent } = await ensuring([{ status: 404 }], { endpoints: { bookings } }, { status });
    expect(outcome).toMatchObject({ status });
    expect(sent.map(([method]) => method)).toEqual(["GET", "POST"]);
  });

  it.each<[Reply]>([[{ status: 404 }], [{ status: 410 }], [{ json: { code: 404 } }]])(
    "creates if an update finds none, with the topics that were there: %j",
    async (none) => {
      const current = { isActive: true, endpoints: { listings, reviews: bookings } };
      const { outcome, sent } = await ensuring(
        [{ json: current }],
        { endpoints: { bookings } },
        ({ method }) => (method === "PUT" ? none : { status: 204 }),
      );
      const wire = { isActive: true, endpoints: { listings, reviews: bookings, bookings } };
      expect(outcome).toEqual({
        action: "created",
        config: { isActive: true, endpoints: { listings, bookings }, otherEndpoints: { reviews: bookings } },
      });
      expect(sent).toEqual([["GET"], ["PUT", wire], ["POST", wire]]);
    },
  );

  it("does not create if an update fails otherwise", async () => {
    const current = { isActive: true, endpoints: {} };
    const { outcome, sent } = await ensuring(
      [{ json: current }],
      { endpoints: { bookings } },
      { status: 409 },
    );
    expect(outcome).toMatchObject({ name: "ConflictError" });
    expect(sent.map(([method]) => method)).toEqual(["GET", "PUT"]);
  });

  describe("with one URL", () => {
    it.each([
      ["https://hooks.example/in", "https://hooks.example/in?topic="],
      ["https://hooks.example/in?key=a+b%20c%2Fd~", "https://hooks.example/in?key=a+b%20c%2Fd~&topic="],
      ["https://hooks.example", "https://hooks.example/?topic="],
      ["https://hooks.example/in?", "https://hooks.example/in?topic="],
    ])("gives it to each topic, with the topic in its query: %s", async (url, begin) => {
      const { outcome, sent } = await ensuring([{ status: 404 }], { endpoints: url });
      const endpoints = {
        bookings: `${begin}bookings`,
        listings: `${begin}listings`,
        messages: `${begin}messages`,
      };
      expect(outcome).toEqual({ action: "created", config: { isActive: true, endpoints } });
      expect(sent[1]).toEqual(["POST", { isActive: true, endpoints }]);
      const again = await ensuring([{ json: { isActive: true, endpoints } }], { endpoints: url });
      expect(again.outcome.action).toBe("unchanged");
    });

    it("keeps further topics, or sets them", async () => {
      const current = { isActive: true, endpoints: { bookings, reviews: listings } };
      const { outcome } = await ensuring([{ json: current }], {
        endpoints: "https://hooks.example/in",
        otherEndpoints: { surveys: bookings },
      });
      expect(outcome.config).toMatchObject({
        endpoints: { bookings: "https://hooks.example/in?topic=bookings" },
        otherEndpoints: { reviews: listings, surveys: bookings },
      });
    });

    it.each([
      ["", /endpoints: must not be empty/],
      ["http://hooks.example", /endpoints: must be https/],
      ["hooks", /endpoints: must be an absolute https URL/],
      ["https://hooks.example/?topic=bookings", /endpoints: must not have a `topic`/],
    ])("refuses %j", async (url, message) => {
      const { outcome, sent } = await ensuring([{ status: 404 }], { endpoints: url });
      expect(outcome).toMatchObject({
        name: "InvalidArgumentError",
        message: expect.stringMatching(message),
        issues: [{ path: ["endpoints"] }],
      });
      expect(sent).toEqual([]);
    });
  });

  it.each<[Reply, string]>([
    [{ status: 500 }, "InternalServerError"],
    [{ status: 403 }, "PermissionDeniedError"],
    [{ status: 302, headers: { location: "https://login.example" } }, "APIError"],
    [{ json: { message: "maintenance" } }, "ResponseValidationError"],
    [{ json: { data: null, error: "database down" } }, "APIError"],
    [{ json: { success: false } }, "APIError"],
    [{ text: "<html>" }, "ResponseValidationError"],
    [{ raw: (response) => void response.destroy() }, "ConnectionError"],
  ])("does not take an outage for none: %j", async (reply, name) => {
    const { outcome, sent } = await ensuring([reply], { endpoints: { bookings } });
    expect(outcome).toMatchObject({ name });
    expect(sent).toEqual([["GET"]]);
  });

  const current = { isActive: true, endpoints: { listings } };

  it.each<[string, Reply]>([
    ["create", { status: 404 }],
    ["update", { json: current }],
  ])("reads the configuration back after a %s whose answer shows none", async (_, first) => {
    const held = { isActive: true, endpoints: { bookings }, version: 9 };
    const { outcome, requests } = await ensuring([first], { endpoints: { bookings } }, undefined, {
      json: held,
    });
    expect(outcome.config).toEqual(held);
    expect(requests).toBe(3);
    const gone = await ensuring([first], { endpoints: { bookings } }, undefined, { status: 404 });
    expect(gone.outcome).toMatchObject({
      name: "NotFoundError",
      code: "not_found",
      message: expect.stringContaining("the platform does not have it"),
    });
    expect(gone.requests).toBe(3);
  });

  it.each([
    [{ status: "error" }],
    [{ ok: false }],
    [{ code: 500, message: "down" }],
    [{ success: false }],
    [{ error: "down" }],
  ])("rejects if a write is answered with 2xx and a failure: %j", async (json) => {
    for (const first of [{ status: 404 }, { json: current }]) {
      const { outcome, requests } = await ensuring([first], { endpoints: { bookings } }, { json });
      expect(outcome).toMatchObject({ name: "APIError", status: 200, body: json });
      expect(requests).toBe(2);
    }
  });

  it("passes options on to each of its requests", async () => {
    let reads = 0;
    const server = await platform(({ method }) =>
      method === "GET" ? (reads++ === 0 ? { status: 404 } : { json: current }) : { status: 204 },
    );
    await clientOf(server).webhookConfig.ensure({ endpoints: { bookings } }, { headers: { "x-a": "b" } });
    expect(server.requests.map(({ headers }) => headers["x-a"])).toEqual(["b", "b", "b"]);
    const error = await rejection(
      clientOf(server).webhookConfig.ensure({ endpoints: {} }, { signal: AbortSignal.abort() }),
    );
    expect(error.name).toBe("AbortError");
  });
});
