import { expect, it } from "vitest";
import type { ConfigInput, EnsureInput } from "../../src/client/webhook-config.ts";
import { clientOf, fakeFetch, rejection } from "./support.ts";

/** Gives a configuration to `create`, `update` and `ensure`. Returns the paths of the issues of each call. */
async function refusals(input: unknown, url = "https://h.example"): Promise<string[]> {
  const { fetch, calls } = fakeFetch([new Response("{}")]);
  const { webhookConfig } = clientOf({ url, requests: [] }, { fetch });
  const outcomes = await Promise.allSettled([
    webhookConfig.create(input as ConfigInput),
    webhookConfig.update(input as ConfigInput),
    webhookConfig.ensure(input as EnsureInput),
  ]);
  const paths = outcomes.map((outcome) => {
    // The answer has no configuration, so that `ensure` finds none when it reads it back.
    if (outcome.status === "fulfilled" || outcome.reason.name === "NotFoundError") return "";
    expect(outcome.reason.name).toBe("InvalidArgumentError");
    expect(String(outcome.reason)).not.toContain("s3cr3t");
    return outcome.reason.issues.map((issue: { path: string[] }) => issue.path.join(".")).join();
  });
  if (paths.every(Boolean)) expect(calls).toEqual([]);
  return paths;
}

const both = (endpoints: unknown, otherEndpoints?: unknown) => ({
  isActive: true,
  endpoints,
  ...(otherEndpoints !== undefined && { otherEndpoints }),
});
const url = "https://a.example/x?key=1";

it.each<[unknown, string]>([
  [both({}), ""],
  [both({ bookings: url, listings: undefined }, { reviews: url, surveys: null, other: undefined }), ""],
  [both({ bookings: "http://a.example/?k=s3cr3t" }), "endpoints.bookings"],
  [both({ listings: "http://localhost/x" }), "endpoints.listings"],
  [both({ messages: "a.example" }), "endpoints.messages"],
  [both({ messages: "https://a.example/ x" }), "endpoints.messages"],
  [both({ bookings: "" }), "endpoints.bookings"],
  [both({ bookings: 5 }), "endpoints.bookings"],
  [both({ reviews: url }), "endpoints.reviews"],
  [both(undefined), "endpoints"],
  [both([]), "endpoints"],
  [both({}, { reviews: "" }), "otherEndpoints.reviews"],
  [both({}, { reviews: "http://a.example" }), "otherEndpoints.reviews"],
  [both({}, { bookings: url }), "otherEndpoints.bookings"],
  [both({}, url), "otherEndpoints"],
  [{ isActive: "yes", endpoints: {} }, "isActive"],
  [{ isActive: "yes", endpoints: { listings: "x" } }, "isActive,endpoints.listings"],
])("a configuration is checked before anything is sent: %j", async (input, path) => {
  expect(await refusals(input)).toEqual([path, path, path]);
});

it("a topic may be null in ensure only", async () => {
  const path = "endpoints.bookings";
  expect(await refusals(both({ bookings: null }))).toEqual([path, path, ""]);
});

it("a URL may be http on a loopback host if the platform is on one, too", async () => {
  const loopback = "http://127.0.0.1:9";
  expect(await refusals(both({ bookings: "http://localhost:3000/x" }), loopback)).toEqual(["", "", ""]);
  const path = "endpoints.bookings";
  expect(await refusals(both({ bookings: "http://a.example/x" }), loopback)).toEqual([path, path, path]);
});

it("missing input, and an isActive that is no boolean, reject", async () => {
  const { webhookConfig } = clientOf({ url: "https://h.example", requests: [] });
  expect(await rejection(webhookConfig.toggle("true" as never))).toMatchObject({
    issues: [{ path: ["isActive"] }],
  });
  for (const call of [webhookConfig.create, webhookConfig.ensure])
    expect((await rejection(call(undefined as never))).name).toBe("InvalidArgumentError");
});
