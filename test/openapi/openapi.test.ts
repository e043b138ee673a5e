import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { Ajv2020 } from "ajv/dist/2020.js";
import { StayhookClient, topics } from "stayhook";
import { createSandbox } from "stayhook/testing";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openapi } from "../../tools/openapi.ts";
import { eventually } from "../support/eventually.ts";

const document = openapi();
const ajv = new Ajv2020({ strict: false, validateFormats: false });
ajv.addSchema(document, "openapi");

interface Operation {
  readonly operationId: string;
  readonly requestBody?: unknown;
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly responses: Readonly<Record<string, { readonly content?: unknown }>>;
}

const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods as Readonly<Record<string, Operation>>).map(([method, operation]) => ({
    path,
    method: method.toUpperCase(),
    ...operation,
  })),
);

/** Validates a value with the schema at a JSON pointer of the document. Returns the errors. */
function problems(pointer: string, value: unknown): unknown {
  const validate = ajv.compile({ $ref: `openapi#${pointer}` });
  return validate(value) ? [] : validate.errors;
}

const escaped = (segment: string) => segment.replaceAll("~", "~0").replaceAll("/", "~1");

interface Exchange {
  readonly method: string;
  readonly url: URL;
  readonly requestBody: unknown;
  readonly status: number;
  readonly responseBody: unknown;
}

const exchanges: Exchange[] = [];
const received: unknown[] = [];
const sandbox = createSandbox({ seed: 1 });
const subscriber = createServer(async (request, response) => {
  received.push(JSON.parse(await text(request)));
  response.end();
});
let endpoint: string;
let client: StayhookClient;

const json = (body: string): unknown => (body === "" ? undefined : JSON.parse(body));

/** Sends a request to the sandbox, and keeps the request and the answer. */
const record: typeof fetch = async (input, init) => {
  const request = new Request(input, init);
  const requestBody = json(await request.clone().text());
  const response = await fetch(request);
  const responseBody = json(await response.clone().text());
  const { method } = request;
  exchanges.push({ method, url: new URL(request.url), requestBody, status: response.status, responseBody });
  return response;
};

/** A call of each operation, except `webhookConfig.delete`, which must come last. */
const calls: Readonly<Record<string, () => Promise<unknown>>> = {
  "webhookConfig.create": () =>
    client.webhookConfig.create({ isActive: true, endpoints: { bookings: endpoint } }),
  "webhookConfig.get": () => client.webhookConfig.get(),
  "webhookConfig.update": () =>
    client.webhookConfig.update({
      isActive: true,
      endpoints: {
        bookings: endpoint,
        listings: endpoint,
        messages: endpoint,
      },
    }),
  "webhookConfig.toggle": () => client.webhookConfig.toggle(true),
  "listings.list": () => client.listings.list(),
  "listings.get": () => client.listings.get(5717008),
  "bookings.get": () => client.bookings.get("HX3K9"),
};

beforeAll(async () => {
  await once(subscriber.listen(0, "127.0.0.1"), "listening");
  endpoint = `http://127.0.0.1:${(subscriber.address() as AddressInfo).port}/hooks`;
  const { url: baseUrl } = await sandbox.listen();
  client = new StayhookClient({ baseUrl, accessToken: sandbox.accessToken, maxRetries: 0, fetch: record });
  await sandbox.listings.create({ listingId: 5717008, status: "InReview", listingName: "By the sea" });
  await sandbox.bookings.create({ bookingCode: "HX3K9", status: "Request", listingId: 5717008 });
  for (const call of Object.values(calls)) await call();
  await sandbox.bookings.approve("HX3K9");
  await sandbox.listings.publish(5717008);
  await eventually(() => expect(received.length).toBeGreaterThanOrEqual(2));
  await client.webhookConfig.delete();
  for (const missing of [
    () => client.webhookConfig.get(),
    () => client.webhookConfig.toggle(true).catch(() => undefined),
    () => client.listings.get(1).catch(() => undefined),
    () => client.bookings.get("NONE").catch(() => undefined),
  ])
    await missing();
});
afterAll(async () => {
  await sandbox.close();
  subscriber.close();
});

test("each operation is a method of the client, and each method an operation", () => {
  const methods = [...Object.keys(calls), "webhookConfig.delete"];
  expect(operations.map(({ operationId }) => operationId).sort()).toEqual(methods.sort());
  const resources = {
    webhookConfig: client.webhookConfig,
    listings: client.listings,
    bookings: client.bookings,
  };
  const own = Object.entries(resources).flatMap(([name, resource]) =>
    Object.keys(resource).map((method) => `${name}.${method}`),
  );
  // `ensure` has no route of its own: it calls the others.
  expect(own.filter((name) => name !== "webhookConfig.ensure").sort()).toEqual(methods.sort());
});

test("each request of the client, and each answer of the sandbox, is described", () => {
  const seen = new Set<string>();
  for (const { method, url, requestBody, status, responseBody } of exchanges) {
    const operation = operations.find(
      (candidate) =>
        candidate.method === method &&
        new RegExp(`^${candidate.path.replaceAll(/\{\w+\}/g, "[^/]+")}$`).test(url.pathname),
    );
    expect(operation, `${method} ${url.pathname}`).toBeDefined();
    if (operation === undefined) continue;
    const place = `/paths/${escaped(operation.path)}/${method.toLowerCase()}`;
    const query = (operation.parameters ?? []).filter((parameter) => parameter.in === "query");
    expect([...url.searchParams.keys()]).toEqual(query.map(({ name }) => name));
    expect(requestBody !== undefined).toBe(operation.requestBody !== undefined);
    if (requestBody !== undefined)
      expect(problems(`${place}/requestBody/content/application~1json/schema`, requestBody)).toEqual([]);
    const kind = [String(status), `${Math.floor(status / 100)}XX`].find((key) => key in operation.responses);
    expect(kind, `${status} of ${operation.operationId}`).toBeDefined();
    seen.add(`${operation.operationId} ${kind}`);
    if (operation.responses[kind as string]?.content !== undefined)
      expect(problems(`${place}/responses/${kind}/content/application~1json/schema`, responseBody)).toEqual(
        [],
      );
  }
  expect(seen.size).toBe(8 + 4);
});

test("each notification of the sandbox is described, under the topic it goes to", () => {
  expect(Object.keys(document.webhooks)).toEqual([...topics]);
  expect(received.length).toBeGreaterThanOrEqual(2);
  for (const notification of received)
    expect(problems("/components/schemas/WebhookNotification", notification)).toEqual([]);
});

test.each([
  ["Booking", { bookingCode: "HX3K9" }],
  ["Listing", { status: "Published" }],
  ["WebhookNotification", { eventId: "no UUID" }],
  ["WebhookConfigInput", { isActive: "yes", endpoints: {} }],
])("a %s that the models refuse is refused by its schema", (name, value) => {
  expect(problems(`/components/schemas/${name}`, value)).not.toEqual([]);
});

test("the description has the ids of listings that the client takes, and no others", async () => {
  for (const listingId of [
    7,
    0,
    "7",
    "007",
    2 ** 53 - 1,
    7.5,
    2 ** 53,
    "7.5",
    "seven",
    "",
    " 7",
    null,
    true,
  ]) {
    const row = { listingId, status: "Hidden" };
    const fetch = async () => Response.json([row]);
    const mocked = new StayhookClient({ baseUrl: "https://h.example", accessToken: "t", fetch });
    const isTaken = await mocked.listings.list().then(
      () => true,
      () => false,
    );
    const isDescribed = String(problems("/components/schemas/Listing", row)) === "";
    expect([listingId, isDescribed]).toEqual([listingId, isTaken]);
  }
  const booking = { bookingCode: "A", status: "Confirmed" };
  for (const [listingId, isDescribed] of [
    ["7", true],
    [null, true],
    [undefined, true],
    [7.5, false],
    ["x", false],
  ])
    expect(String(problems("/components/schemas/Booking", { ...booking, listingId })) === "").toBe(
      isDescribed,
    );
});
