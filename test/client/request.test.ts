import { describe, expect, it } from "vitest";
import * as z from "zod";
import { clientOf, platform, type Reply, rejection } from "./support.ts";

const listing = { listingId: 7, status: "Hidden" };
const answering = async (reply: Reply, options = {}) =>
  clientOf(await platform([reply]), { maxRetries: 0, ...options });

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
