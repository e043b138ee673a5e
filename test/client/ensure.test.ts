import { describe, expect, it } from "vitest";
import type { EnsureInput } from "../../src/client/ensure.ts";
import { clientOf, platform, type Received, type Reply, rejection } from "./support.ts";

const bookings = "https://hooks.example/b";
const listings = "https://hooks.example/l";

/** A platform that answers reads in turn, and writes as told. */
async function ensuring(
  reads: Reply[],
  input: EnsureInput,
  writes: Reply | ((request: Received) => Reply) = { status: 204 },
) {
  let read = 0;
  const server = await platform((request) => {
    if (request.method === "GET") return reads[Math.min(read++, reads.length - 1)] ?? {};
    return typeof writes === "function" ? writes(request) : writes;
  });
  const outcome = await clientOf(server, { maxRetries: 0 })
    .webhookConfig.ensure(input)
    .catch((error) => error);
  const sent = server.requests.map(({ method, body }) => (body ? [method, JSON.parse(body)] : [method]));
  return { outcome, sent };
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

  it("leaves alone what is as wanted, URLs compared normalised", async () => {
    const current = {
      isActive: true,
      endpoints: { bookings: "HTTPS://Hooks.Example:443/b", listings, reviews: "https://r.example" },
      id: 1,
    };
    const { outcome, sent } = await ensuring([{ json: { data: current } }], {
      endpoints: { bookings, reviews: "https://r.example/", listings: undefined },
    });
    expect(outcome).toEqual({ action: "unchanged", config: current });
    expect(sent).toEqual([["GET"]]);
  });

  it.each<[string, EnsureInput, unknown]>([
    [
      "another URL",
      { endpoints: { bookings: `${bookings}2` } },
      { isActive: true, endpoints: { bookings: `${bookings}2`, listings, reviews: "http://r.example" } },
    ],
    [
      "a further topic",
      { endpoints: { messages: bookings } },
      { isActive: true, endpoints: { bookings, listings, reviews: "http://r.example", messages: bookings } },
    ],
    [
      "one topic less",
      { endpoints: { listings: null } },
      { isActive: true, endpoints: { bookings, reviews: "http://r.example" } },
    ],
    [
      "the switch",
      { isActive: false, endpoints: {} },
      { isActive: false, endpoints: { bookings, listings, reviews: "http://r.example" } },
    ],
  ])("updates %s, and keeps topics that are left out, unknown ones too", async (_, input, wanted) => {
    const current = {
      isActive: true,
      endpoints: { bookings, listings, messages: null, reviews: "http://r.example" },
      id: 1,
    };
    const { outcome, sent } = await ensuring([{ json: current }], input);
    expect(outcome).toEqual({ action: "updated", config: wanted });
    expect(sent).toEqual([["GET"], ["PUT", wanted]]);
  });

  it("switches on by default", async () => {
    const { sent } = await ensuring([{ json: { isActive: false, endpoints: { bookings } } }], {
      endpoints: { bookings },
    });
    expect(sent[1]).toEqual(["PUT", { isActive: true, endpoints: { bookings } }]);
  });

  it("removing what is not there changes nothing", async () => {
    const { outcome } = await ensuring([{ json: { isActive: true, endpoints: { bookings } } }], {
      endpoints: { listings: null },
    });
    expect(outcome.action).toBe("unchanged");
  });

  it("gives the configuration as answered, where it was", async () => {
    const answered = { isActive: true, endpoints: { bookings }, version: 2 };
    for (const none of [{ status: 404 }, { json: { isActive: false, endpoints: {} } }])
      expect(
        (await ensuring([none], { endpoints: { bookings } }, { json: answered })).outcome.config,
      ).toEqual(answered);
  });

  it("reads again and updates where another machine was first", async () => {
    const theirs = { isActive: true, endpoints: { listings } };
    const { outcome, sent } = await ensuring(
      [{ status: 404 }, { json: theirs }],
      { endpoints: { bookings } },
      ({ method }) => ({ status: method === "POST" ? 409 : 204 }),
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

  it("gives up where the conflict is about something else", async () => {
    const { outcome, sent } = await ensuring([{ status: 404 }], { endpoints: { bookings } }, { status: 409 });
    expect(outcome).toMatchObject({ name: "ConflictError" });
    expect(sent.map(([method]) => method)).toEqual(["GET", "POST", "GET"]);
  });

  it.each<[Reply, string]>([
    [{ status: 500 }, "InternalServerError"],
    [{ status: 403 }, "PermissionDeniedError"],
    [{ status: 302, headers: { location: "https://login.example" } }, "APIError"],
    [{ json: { message: "maintenance" } }, "ResponseValidationError"],
    [{ text: "<html>" }, "ResponseValidationError"],
    [{ raw: (response) => void response.destroy() }, "ConnectionError"],
  ])("does not take an outage for none: %j", async (reply, name) => {
    const { outcome, sent } = await ensuring([reply], { endpoints: { bookings } });
    expect(outcome).toMatchObject({ name });
    expect(sent).toEqual([["GET"]]);
  });

  it("passes options on to each of its requests", async () => {
    const server = await platform(({ method }) => ({ status: method === "GET" ? 404 : 204 }));
    await clientOf(server).webhookConfig.ensure({ endpoints: { bookings } }, { headers: { "x-a": "b" } });
    expect(server.requests.map(({ headers }) => headers["x-a"])).toEqual(["b", "b"]);
    const error = await rejection(
      clientOf(server).webhookConfig.ensure({ endpoints: {} }, { signal: AbortSignal.abort() }),
    );
    expect(error.name).toBe("AbortError");
  });
});
