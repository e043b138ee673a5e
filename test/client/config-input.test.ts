import { describe, expect, it } from "vitest";
import { StayhookClient } from "../../src/client/client.ts";
import { accessToken, fakeFetch, rejection } from "./support.ts";

const config = { isActive: true, endpoints: { bookings: "https://hooks.example/b" } };

describe("endpoint URLs", () => {
  const issuesOf = async (
    baseUrl: string,
    endpoints: unknown,
    isActive: unknown = true,
    more: object = {},
  ): Promise<string[]> => {
    const { fetch, calls } = fakeFetch([new Response("{}")]);
    const client = new StayhookClient({ baseUrl, accessToken, fetch });
    const input = { isActive, endpoints, ...more } as typeof config;
    const outcomes = [
      client.webhookConfig.create(input),
      client.webhookConfig.update(input),
      client.webhookConfig.ensure(input),
    ];
    const all = await Promise.all(
      outcomes.map((call) =>
        call.then(
          () => [],
          (error) => {
            // The answer has no configuration, so that `ensure` finds none when it reads it back.
            if (error.name === "NotFoundError") return [];
            expect(error.name).toBe("InvalidArgumentError");
            expect(String(error)).not.toContain("s3cr3t");
            return error.issues.map((issue: { path: string[] }) => issue.path.join("."));
          },
        ),
      ),
    );
    expect(all[1]).toEqual(all[0]);
    expect(all[2]).toEqual(all[0]);
    if (all[0]?.length) expect(calls).toEqual([]);
    return all[0] ?? [];
  };

  it.each([[{}], [{ bookings: "https://a.example/x?key=1", listings: undefined }]])(
    "are taken: %j",
    async (endpoints) => {
      expect(await issuesOf("https://h.example", endpoints)).toEqual([]);
    },
  );

  it.each([
    [{ bookings: "http://a.example/?k=s3cr3t" }, "endpoints.bookings"],
    [{ listings: "http://localhost/x" }, "endpoints.listings"],
    [{ messages: "a.example" }, "endpoints.messages"],
    [{ messages: "ftp://a.example" }, "endpoints.messages"],
    [{ messages: "https://a.example/ x" }, "endpoints.messages"],
    [{ bookings: "" }, "endpoints.bookings"],
    [{ reviews: "https://a.example" }, "endpoints.reviews"],
    [{ booking: undefined }, "endpoints.booking"],
    [{ bookings: 5 }, "endpoints.bookings"],
    [undefined, "endpoints"],
    [null, "endpoints"],
    [[], "endpoints"],
    [5, "endpoints"],
  ])("are refused: %j", async (endpoints, path) => {
    expect(await issuesOf("https://h.example", endpoints)).toEqual([path]);
  });

  it.each([
    [{ reviews: "https://a.example/x?key=1", surveys: null, other: undefined }, []],
    [undefined, []],
    [{ reviews: "" }, ["otherEndpoints.reviews"]],
    [{ reviews: "http://a.example" }, ["otherEndpoints.reviews"]],
    [{ reviews: 5 }, ["otherEndpoints.reviews"]],
    [{ bookings: "https://a.example" }, ["otherEndpoints.bookings"]],
    ["https://a.example", ["otherEndpoints"]],
    [null, ["otherEndpoints"]],
  ])("of further topics: %j", async (otherEndpoints, issues) => {
    expect(await issuesOf("https://h.example", {}, true, { otherEndpoints })).toEqual(issues);
  });

  it("may be http on a loopback host where the platform is on one too", async () => {
    expect(await issuesOf("http://127.0.0.1:9", { bookings: "http://localhost:3000/x" })).toEqual([]);
    expect(await issuesOf("http://127.0.0.1:9", { bookings: "http://a.example/x" })).toEqual([
      "endpoints.bookings",
    ]);
  });

  it("null URLs, and an isActive that is no boolean, reject create and update", async () => {
    const client = new StayhookClient({
      baseUrl: "https://h.example",
      accessToken,
      fetch: fakeFetch([new Response("{}")]).fetch,
    });
    const input = { isActive: true, endpoints: { bookings: null } } as never;
    expect(await rejection(client.webhookConfig.create(input))).toMatchObject({
      issues: [{ path: ["endpoints", "bookings"] }],
    });
    expect(await issuesOf("https://h.example", {}, "yes")).toEqual(["isActive"]);
    expect(await rejection(client.webhookConfig.toggle("true" as never))).toMatchObject({
      issues: [{ path: ["isActive"] }],
    });
    expect(await rejection(client.webhookConfig.create(undefined as never))).toMatchObject({
      name: "InvalidArgumentError",
    });
    expect(await rejection(client.webhookConfig.ensure(undefined as never))).toMatchObject({
      name: "InvalidArgumentError",
    });
  });
});
