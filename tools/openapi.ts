import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { WebhookNotification } from "../src/models/notification.ts";
import { Booking, bookingStatuses, Listing, listingStatuses, WebhookConfig } from "../src/models/records.ts";
import { topics } from "../src/models/topics.ts";
import { documentModel, type Model } from "./model-docs.ts";

const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "../package.json"), "utf8"));

/** Returns an OpenAPI 3.1 description of the platform as this package reads it. */
export function openapi() {
  return {
    openapi: "3.1.1",
    info: {
      title: "Webhooks of a short-stay rental platform",
      version,
      summary: "The endpoints that stayhook calls, and the notifications that it receives.",
      description:
        "Made from the models of stayhook. The forms of answers and errors are not known: the client also reads a record in one or two wrappers, and the schemas here describe the record alone.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "{baseUrl}", variables: { baseUrl: { default: "https://api.example.com" } } }],
    security: [{ accessToken: [] }],
    tags: [
      { name: "webhookConfig", description: "The one webhook configuration of the account." },
      { name: "listings", description: "The listings of the account." },
      { name: "bookings", description: "The bookings of the account's listings." },
    ],
    paths: {
      "/v2/webhooks/config": {
        get: operation("webhookConfig.get", "Reads the configuration.", { ...answersConfig, ...absent }),
        post: operation("webhookConfig.create", "Creates the configuration.", writes, configBody),
        put: operation(
          "webhookConfig.update",
          "Replaces the configuration.",
          { ...writes, ...absent },
          configBody,
        ),
        delete: operation(
          "webhookConfig.delete",
          "Deletes the configuration, so that no notification is sent.",
          {
            ...writes,
            ...absent,
          },
        ),
      },
      "/v2/webhooks/config/toggle": {
        patch: operation(
          "webhookConfig.toggle",
          "Switches the notifications on or off.",
          { ...writes, ...absent },
          { parameters: [{ name: "isActive", in: "query", required: true, schema: { type: "boolean" } }] },
        ),
      },
      "/v2/listings": {
        get: operation("listings.list", "Lists all listings, each with its current status.", {
          200: answer("The listings.", { type: "array", items: { $ref: "#/components/schemas/Listing" } }),
        }),
      },
      "/v2/listings/{listingId}": {
        get: operation(
          "listings.get",
          "Reads one listing.",
          { 200: answer("The listing.", { $ref: "#/components/schemas/Listing" }), ...absent },
          { parameters: [{ name: "listingId", in: "path", required: true, schema: { type: "integer" } }] },
        ),
      },
      "/v2/bookings/{bookingCode}": {
        get: operation(
          "bookings.get",
          "Reads one booking.",
          { 200: answer("The booking.", { $ref: "#/components/schemas/Booking" }), ...absent },
          { parameters: [{ name: "bookingCode", in: "path", required: true, schema: { type: "string" } }] },
        ),
      },
    },
    webhooks: Object.fromEntries(topics.map((topic) => [topic, { post: notification(topic) }])),
    components: {
      securitySchemes: {
        accessToken: { type: "http", scheme: "bearer", description: "The access token of the account." },
      },
      schemas: {
        Booking: withStatuses(schemaOf("Booking", Booking), bookingStatuses),
        Listing: withStatuses(schemaOf("Listing", Listing), listingStatuses),
        WebhookConfig: schemaOf("WebhookConfig", WebhookConfig, ["otherEndpoints"]),
        WebhookConfigInput: {
          type: "object",
          description: "The configuration as it is written. A topic without a URL is left out.",
          required: ["isActive", "endpoints"],
          properties: {
            isActive: { type: "boolean", description: "Whether the platform sends notifications." },
            endpoints: {
              type: "object",
              description: "The https URLs that notifications go to, by topic.",
              properties: Object.fromEntries(
                topics.map((topic) => [topic, { type: "string", format: "uri" }]),
              ),
              additionalProperties: { type: "string", format: "uri" },
            },
          },
        },
        WebhookNotification: schemaOf("WebhookNotification", WebhookNotification),
      },
    },
  };
}

interface Schema {
  readonly description: string;
  readonly additionalProperties: boolean;
  readonly properties: Readonly<Record<string, object>>;
}

const answersConfig = { 200: answer("The configuration.", { $ref: "#/components/schemas/WebhookConfig" }) };
/** The platform's answer to a write is not documented, so its body is not described. */
const writes = { "2XX": { description: "Done. The body may show the configuration." } };
const absent = { 404: { description: "There is none." } };
const configBody = {
  requestBody: {
    required: true,
    content: { "application/json": { schema: { $ref: "#/components/schemas/WebhookConfigInput" } } },
  },
};

function answer(description: string, schema: object): object {
  return { description, content: { "application/json": { schema } } };
}

function operation(operationId: string, summary: string, responses: object, further: object = {}): object {
  const tags = [operationId.split(".")[0]];
  const refused = { "4XX": { description: "Refused. The form of the body is not known." } };
  return { operationId, summary, tags, ...further, responses: { ...responses, ...refused } };
}

function notification(topic: string): object {
  const about = {
    bookings: "a booking. `bookingCode` is set",
    listings: "a listing. `listingId` is set",
    messages: "a message. What it refers to is not known",
  }[topic];
  return {
    operationId: `receive.${topic}`,
    summary: `Tells of ${about}.`,
    description:
      "At least once: deliveries of one event have the same `eventId`. The endpoint answers within 30 seconds.",
    security: [],
    requestBody: {
      required: true,
      content: { "application/json": { schema: { $ref: "#/components/schemas/WebhookNotification" } } },
    },
    responses: {
      200: { description: "Recorded." },
      "4XX": { description: "The notification is not valid, or `verify` refused it." },
      503: { description: "Not recorded. Send it again." },
    },
  };
}

/** Lists the known statuses as examples, not as an `enum`: the platform may add others. */
function withStatuses(schema: Schema, examples: readonly string[]): Schema {
  const { properties } = schema;
  return { ...schema, properties: { ...properties, status: { ...properties.status, examples } } };
}

/** The ids that the client takes. JSON Schema cannot derive them from the models, which convert the ids. */
const listingId = (isOptional: boolean) => ({
  anyOf: [
    { type: "integer", minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
    { type: "string", pattern: "^\\d{1,15}$" },
    ...(isOptional ? [{ type: "null" }] : []),
  ],
});

/** Returns the JSON schema of a model as the platform sends it, with the sentences of its TSDoc. */
function schemaOf(model: Model, schema: z.ZodType, leftOut: readonly string[] = []): Schema {
  const { text, fields } = documentModel(model);
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  const properties = Object.fromEntries(
    Object.entries(json.properties ?? {})
      .filter(([name]) => !leftOut.includes(name))
      .map(([name, property]) => {
        const description = fields.find((field) => field.name === name)?.text;
        const form = name === "listingId" ? listingId(model !== "Listing") : property;
        return [name, { ...(form as object), ...(description && { description }) }];
      }),
  );
  return { ...json, description: text, properties, additionalProperties: true };
}
