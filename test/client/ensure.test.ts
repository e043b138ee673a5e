import { describe, expect, it } from "vitest";
import type { EnsureInput } from "../../src/client/webhook-config.ts";
import { clientOf, platform, type Received, type Reply, rejection } from "./support.ts";

const bookings = "https://hooks.example/b";
const listings = "https://hooks.example/l";
const current = { isActive: true, endpoints: { listings } };

/**
 * Calls `ensure`. The platform answers each GET with the next of `reads`, and every other request with `writes`. After
 * a write with 204, it answers GET with `after`, by default the written configuration. `sent` leaves out this GET.
 */
async function ensuring(
  reads: Reply[],
  input: EnsureInput = { endpoints: { bookings } },
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
  return { outcome, sent, verbs: sent.map(([verb]) => verb).join(), requests: server.requests.length };
}

describe("ensure", () => {
  const input = { endpoints: { bookings } };
  const written = { isActive: true, endpoints: { bookings } };
  const dropped: Reply = { raw: (response) => void response.destroy() };

  it.each<[string, Reply, Reply]>([
    ["a lost create", { json: { data: null } }, dropped],
    ["a lost update", { json: { isActive: false, endpoints: {} } }, dropped],
    ["a create behind a gateway that lost the answer", { json: { data: null } }, { status: 504 }],
  ])("is content with %s that was done", async (_, before, lost) => {
    let isDone = false;
    const server = await platform(({ method }) => {
      if (method === "GET") return isDone ? { json: written } : before;
      isDone = true;
      return lost;
    });
    const { action, config } = await clientOf(server, { maxRetries: 0 }).webhookConfig.ensure(input);
    expect([action, config]).toEqual([
      "isActive" in (before.json as object) ? "updated" : "created",
      written,
    ]);
  });

  it("warns of a URL of another host that it replaces, without the secret of either URL", async () => {
    const lines: string[] = [];
    const log = (...parts: unknown[]) => void lines.push(parts.map(String).join(" "));
    let stored = JSON.stringify({
      isActive: true,
      endpoints: { bookings: "https://old.example/in?key=0ld-s3cret" },
    });
    const server = await platform(({ method, body }) => {
      if (method === "GET") return { text: stored };
      stored = body;
      return { status: 204 };
    });
    const client = clientOf(server, { logger: { debug: log, info: log, warn: log, error: log } });
    await client.webhookConfig.ensure({ endpoints: { bookings: "https://new.example/in?key=n3w-s3cret" } });
    expect(lines.join()).toMatch(
      /replaced the URLs of another host: bookings: https:\/\/old\.example\/.* by https:\/\/new\.example\//,
    );
    expect(lines.join()).not.toContain("s3cret");
  });

  it("throws the error of a lost write that was not done", async () => {
    const server = await platform(({ method }) => (method === "GET" ? { json: { data: null } } : dropped));
    const ensured = clientOf(server, { maxRetries: 0 }).webhookConfig.ensure(input);
    expect(await rejection(ensured)).toMatchObject({ name: "ConnectionError" });
    expect(server.requests.map(({ method }) => method).join()).toBe("GET,POST,GET,GET");
  });

  it("does not create or update after an answer without a byte", async () => {
    for (const replies of [[{ text: "" }], [{ json: { data: null } }, { status: 204 }, { text: "" }]]) {
      const server = await platform(replies);
      const ensured = clientOf(server, { maxRetries: 1 }).webhookConfig.ensure(input);
      expect(await rejection(ensured)).toMatchObject({ name: "ConnectionError" });
      expect(server.requests.filter(({ method }) => method !== "GET")).toHaveLength(
        replies.length === 1 ? 0 : 1,
      );
    }
  });

  it("creates a configuration if there is none", async () => {
    const input = { endpoints: { bookings, messages: null } };
    const { outcome, sent } = await ensuring([{ json: { data: null } }], input);
    const config = { isActive: true, endpoints: { bookings } };
    expect(outcome).toEqual({ action: "created", config });
    expect(sent).toEqual([["GET"], ["POST", config]]);
  });

  it("changes nothing if the URLs are the same after normalization", async () => {
    const known = { bookings: "HTTPS://Hooks.Example:443/b", listings };
    const data = { isActive: true, endpoints: { ...known, reviews: "https://r.example" }, id: 1 };
    const { outcome, verbs } = await ensuring([{ json: { data } }], {
      endpoints: { bookings, listings: undefined, messages: null },
      otherEndpoints: { reviews: "https://r.example/" },
    });
    const config = { ...data, endpoints: known, otherEndpoints: { reviews: "https://r.example" } };
    expect(outcome).toEqual({ action: "unchanged", config });
    expect(verbs).toBe("GET");
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
    // The platform may show a topic without a URL as `null` or "". A write must not send such a topic back.
    const shown = { bookings, listings, messages: null, surveys: "", ...reviews };
    const { outcome, sent } = await ensuring([{ json: { isActive: true, endpoints: shown, id: 1 } }], input);
    const { isActive = true } = input;
    const further = Object.keys(otherEndpoints).length > 0 && { otherEndpoints };
    const previous = { isActive: true, endpoints: { bookings, listings } };
    expect(outcome).toMatchObject({ action: "updated", previous });
    expect(outcome).toHaveProperty("config", { isActive, endpoints, ...further });
    expect(sent).toEqual([["GET"], ["PUT", { isActive, endpoints: { ...endpoints, ...otherEndpoints } }]]);
  });

  it("switches notifications on by default", async () => {
    const { sent } = await ensuring([{ json: { isActive: false, endpoints: { bookings } } }]);
    expect(sent[1]).toEqual(["PUT", { isActive: true, endpoints: { bookings } }]);
  });

  it.each([400, 409, 422])(
    "reads again after a create with %i: another machine may be first",
    async (status) => {
      const refuseCreate = ({ method }: Received) => ({ status: method === "POST" ? status : 204 });
      const { outcome, sent } = await ensuring([{ status: 404 }, { json: current }], undefined, refuseCreate);
      const config = { isActive: true, endpoints: { listings, bookings } };
      expect(outcome).toEqual({ action: "updated", previous: expect.anything(), config });
      expect(sent).toEqual([
        ["GET"],
        ["POST", { isActive: true, endpoints: { bookings } }],
        ["GET"],
        ["PUT", config],
      ]);
      const same = { isActive: true, endpoints: { bookings } };
      const both = await ensuring([{ status: 404 }, { json: same }], undefined, { status });
      expect([both.outcome, both.verbs]).toEqual([{ action: "unchanged", config: same }, "GET,POST,GET"]);
      const none = await ensuring([{ status: 404 }], undefined, { status });
      expect([none.outcome.status, none.verbs]).toEqual([status, "GET,POST,GET"]);
    },
  );

  it.each([401, 403, 404, 500])("does not read again if a create fails with %i", async (status) => {
    const { outcome, verbs } = await ensuring([{ status: 404 }], undefined, { status });
    expect([outcome.status, verbs]).toEqual([status, "GET,POST"]);
  });

  it.each<[Reply]>([[{ status: 410 }], [{ json: { code: 404 } }]])(
    "creates if an update finds none, with the topics that were there: %j",
    async (none) => {
      const shown = { isActive: true, endpoints: { listings, reviews: bookings } };
      const { outcome, sent } = await ensuring([{ json: shown }], undefined, ({ method }) =>
        method === "PUT" ? none : { status: 204 },
      );
      const wire = { isActive: true, endpoints: { listings, reviews: bookings, bookings } };
      expect(outcome.action).toBe("created");
      expect(sent).toEqual([["GET"], ["PUT", wire], ["POST", wire]]);
    },
  );

  it("does not create if an update fails otherwise", async () => {
    const { outcome, verbs } = await ensuring([{ json: current }], undefined, { status: 409 });
    expect([outcome.name, verbs]).toEqual(["ConflictError", "GET,PUT"]);
  });

  it.each<[string, Reply, string]>([
    ["create", { status: 404 }, "created"],
    ["update", { json: current }, "updated"],
  ])("reads the configuration back after a %s", async (_, first, action) => {
    const held = { isActive: true, endpoints: { bookings }, version: 9 };
    const back = await ensuring([first], undefined, undefined, { json: held });
    expect(back).toMatchObject({ outcome: { action, config: held }, requests: 3 });
    const gone = await ensuring([first], undefined, undefined, { status: 404 });
    expect(gone.outcome).toMatchObject({
      code: "not_found",
      message: expect.stringContaining("the platform does not have it"),
    });
    const json = { ok: false };
    expect((await ensuring([first], undefined, { json })).outcome).toMatchObject({ status: 200, body: json });
  });

  describe("if the platform keeps another configuration", () => {
    const asked = { bookings: "https://hooks.example/new?key=asked-secret", listings: null };
    const old = { bookings: "https://hooks.example/old?key=older-secret", listings };
    const kept = { isActive: false, endpoints: old };

    it.each<[string, (request: Received) => Reply]>([
      ["204", () => ({ status: 204 })],
      ["200 without a body", () => ({})],
      ["200 with what it keeps", () => ({ json: kept })],
      ["200 with what it got", ({ body }) => ({ text: body })],
    ])("rejects with what it asked for and what it read: %s", async (_, answer) => {
      const server = await platform((request) =>
        request.method === "GET" ? { json: kept } : answer(request),
      );
      const error = await rejection(clientOf(server).webhookConfig.ensure({ endpoints: asked }));
      expect(error.name).toBe("ResponseValidationError");
      expect(error.issues).toEqual([
        { path: ["isActive"], message: "ensure() asked for true, but the platform has false" },
        {
          path: ["endpoints", "bookings"],
          message:
            "ensure() asked for https://hooks.example/new?key=***, but the platform has https://hooks.example/old?key=***",
        },
        {
          path: ["endpoints", "listings"],
          message: `ensure() asked for no URL, but the platform has ${listings}`,
        },
      ]);
      for (const { message } of error.issues as { message: string }[])
        expect(error.message).toContain(message);
      expect(JSON.stringify(error)).not.toMatch(/(asked|older)-secret/);
      expect(server.requests.map(({ method }) => method)).toEqual(["GET", "PUT", "GET", "GET"]);
    });

    it("reads once more: another machine of the platform may not have the write yet", async () => {
      const wanted = { isActive: true, endpoints: { bookings } };
      const answers = [{ json: kept }, { status: 204 }, { json: kept }, { json: wanted }];
      const server = await platform(answers);
      const ensured = await clientOf(server).webhookConfig.ensure({ endpoints: { bookings } });
      expect(ensured).toEqual({ action: "updated", previous: expect.anything(), config: wanted });
      expect(server.requests).toHaveLength(4);
    });

    it("tells two URLs apart that differ only in their secrets", async () => {
      const server = await platform(({ method }) => (method === "GET" ? { json: kept } : { status: 204 }));
      const endpoints = { bookings: old.bookings.replace("older", "newer") };
      const error = await rejection(clientOf(server).webhookConfig.ensure({ isActive: false, endpoints }));
      expect(error.message).toContain(
        "the platform has https://hooks.example/old?key=*** with another secret",
      );
    });

    it("does not compare a topic that was left out", async () => {
      const server = await platform(({ method }, index) => {
        const json = { isActive: true, endpoints: { bookings, ...(index === 0 ? { listings } : {}) } };
        return method === "GET" ? { json: index === 0 ? { ...json, isActive: false } : json } : {};
      });
      expect(await clientOf(server).webhookConfig.ensure({ endpoints: { bookings } })).toMatchObject({
        action: "updated",
      });
    });
  });

  it.each([
    ["https://hooks.example/in?key=a+b%20c%2Fd~", "https://hooks.example/in?key=a+b%20c%2Fd~&topic="],
    ["https://hooks.example", "https://hooks.example/?topic="],
    ["https://hooks.example/in?", "https://hooks.example/in?topic="],
  ])("gives one URL to each topic, with the topic in its query: %s", async (url, begin) => {
    const { outcome } = await ensuring([{ status: 404 }], { endpoints: url });
    const endpoints = {
      bookings: `${begin}bookings`,
      listings: `${begin}listings`,
      messages: `${begin}messages`,
    };
    expect(outcome).toEqual({ action: "created", config: { isActive: true, endpoints } });
    const others = { ...endpoints, reviews: listings };
    const again = await ensuring([{ json: { isActive: true, endpoints: others } }], { endpoints: url });
    expect(again.outcome.action).toBe("unchanged");
  });

  it.each([
    ["", /endpoints: must not be empty/],
    ["http://hooks.example", /endpoints: must be https/],
    ["hooks", /endpoints: must be an absolute https URL/],
    ["https://hooks.example/?topic=bookings", /endpoints: must not have a `topic`/],
  ])("refuses the one URL %j", async (url, message) => {
    const { outcome, requests } = await ensuring([{ status: 404 }], { endpoints: url });
    expect(outcome).toMatchObject({ name: "InvalidArgumentError", issues: [{ path: ["endpoints"] }] });
    expect([outcome.message, requests]).toEqual([expect.stringMatching(message), 0]);
  });

  it.each<[Reply, string]>([
    [{ status: 500 }, "InternalServerError"],
    [{ status: 302, headers: { location: "https://login.example" } }, "APIError"],
    [{ json: { message: "maintenance" } }, "ResponseValidationError"],
    [{ json: { data: null, error: "database down" } }, "APIError"],
    [{ text: "<html>" }, "ResponseValidationError"],
    [{ raw: (response) => void response.destroy() }, "ConnectionError"],
  ])("does not write during an outage: %j", async (reply, name) => {
    const { outcome, verbs } = await ensuring([reply]);
    expect([outcome.name, verbs]).toEqual([name, "GET"]);
  });

  it("passes its options on to each request", async () => {
    let reads = 0;
    const server = await platform(({ method }) =>
      method === "GET" ? (reads++ === 0 ? { status: 404 } : { json: current }) : { status: 204 },
    );
    const { webhookConfig } = clientOf(server);
    await webhookConfig.ensure({ endpoints: { listings } }, { headers: { "x-a": "b" } });
    expect(server.requests.map(({ headers }) => headers["x-a"])).toEqual(["b", "b", "b"]);
    const aborted = webhookConfig.ensure({ endpoints: {} }, { signal: AbortSignal.abort() });
    expect((await rejection(aborted)).name).toBe("AbortError");
  });
});
