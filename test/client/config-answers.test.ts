import { describe, expect, it } from "vitest";
import { failing, none, unclear } from "./bodies.ts";
import { clientOf, platform, type Reply, rejection } from "./support.ts";

const config = { isActive: true, endpoints: { bookings: "https://hooks.example/b" } };
const answering = async (reply: Reply, options = {}) =>
  clientOf(await platform([reply]), { maxRetries: 0, ...options });

describe("create, update, toggle and delete", () => {
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
    [{ json: { status: "saved", code: 0, message: "ok" } }],
    [{ json: { one: config, other: { ...config, isActive: false } } }],
    [{ text: "OK" }],
    [{ text: "<html></html>", status: 202 }],
    [{ text: '{"isActive":' }],
  ])("resolve to undefined if the answer shows no configuration: %j", async (reply) => {
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
    [{ json: { success: true, data: { config } } }],
    [{ json: [config] }],
    [{ json: { success: false, error: "late", config } }],
    [{ text: `\ufeff${JSON.stringify(config)}` }],
    [{ json: { ...config, endpoints: { ...config.endpoints, messages: null } } }],
    [{ json: { before: { ...config, isActive: false }, after: config } }],
  ])("resolve to the configuration if the answer shows it: %j", async (reply) => {
    expect(await Promise.all(writes(await answering(reply)))).toEqual([config, config, config, config]);
  });
});

describe("create, update and toggle", () => {
  it.each([
    [{ success: false, message: "limit reached" }, "limit reached"],
    [{ success: "false" }, 'the body reports a failure: {"success":"false"}'],
    [{ error: "limit reached" }, "limit reached"],
    [{ error: { message: "limit reached" } }, "limit reached"],
    [{ error: true }, 'the body reports a failure: {"error":true}'],
    [{ errors: [{ code: 7 }] }, 'the body reports a failure: {"errors":[{"code":7}]}'],
    [{ status: "error" }, 'the body reports a failure: {"status":"error"}'],
    [{ ok: false }, 'the body reports a failure: {"ok":false}'],
    [{ code: 500 }, 'the body reports a failure: {"code":500}'],
    [{ statusCode: "503", data: null }, 'the body reports a failure: {"statusCode":"503"}'],
    [{ data: { id: 1 }, error: "limit reached" }, "limit reached"],
  ])("reject with an APIError if a 2xx answer reports a failure: %j", async (json, detail) => {
    const { webhookConfig } = await answering({ json, status: 201 });
    for (const error of await Promise.all(
      [
        webhookConfig.create(config),
        webhookConfig.update(config),
        webhookConfig.toggle(true),
        webhookConfig.delete(),
      ].map((call) => rejection(call)),
    )) {
      expect(error).toMatchObject({ name: "APIError", status: 201, body: json });
      expect(error.message.split(" was answered with 201: ")[1]).toBe(detail);
    }
  });

  it.each([
    [{ error: null }],
    [{ error: "" }],
    [{ error: {} }],
    [{ errors: [] }],
    [{ error: 0 }],
    [{ error: false }],
  ])("do not take an empty error for a failure: %j", async (json) => {
    expect(await (await answering({ json })).webhookConfig.create(config)).toBeUndefined();
  });

  it.each([[{ code: 404 }], [{ status: 410, message: "no configuration" }], [{ code: "404", data: null }]])(
    "reject with a NotFoundError if a 2xx answer says 404 or 410, and delete resolves: %j",
    async (json) => {
      const { webhookConfig } = await answering({ json });
      for (const error of await Promise.all(
        [webhookConfig.create(config), webhookConfig.update(config), webhookConfig.toggle(true)].map((call) =>
          rejection(call),
        ),
      ))
        expect(error).toMatchObject({ name: "NotFoundError", status: 200, body: json });
      expect(await webhookConfig.delete()).toBeUndefined();
    },
  );
});

describe("delete", () => {
  it.each<[Reply]>([
    [{ status: 404 }],
    [{ status: 410, json: { error: "gone" } }],
    [{ status: 404, json: { success: false } }],
  ])("resolves if there is no configuration: %j", async (reply) => {
    expect(await (await answering(reply)).webhookConfig.delete()).toBeUndefined();
  });
});
describe("webhookConfig.get", () => {
  it.each(none)("resolves to undefined if there is none: %j", async (reply) => {
    expect(await (await answering(reply)).webhookConfig.get()).toBeUndefined();
  });

  it.each([...unclear, [{ json: { isActive: true } }], [{ json: { isActive: true, data: null } }]])(
    "rejects if the answer does not say so clearly: %j",
    async (reply: Reply) => {
      const error = await rejection((await answering(reply)).webhookConfig.get());
      expect(error.name).toBe("ResponseValidationError");
      expect(error.body).toEqual(reply.json ?? reply.text);
    },
  );

  it.each(failing)("rejects with an APIError if the answer reports a failure: %j", async (reply) => {
    const error = await rejection((await answering(reply)).webhookConfig.get());
    expect(error).toMatchObject({ name: "APIError", status: 200, body: reply.json });
  });

  it.each<[Reply]>([
    [{ json: config }],
    [{ json: { data: config } }],
    [{ json: { whatever: config, meta: {} } }],
    [{ json: { response: { anything: config } } }],
    [{ json: { data: { config }, error: null } }],
    [{ json: [{ config }] }],
  ])("finds the configuration in %j", async (reply) => {
    expect(await (await answering(reply)).webhookConfig.get()).toEqual(config);
  });
});
