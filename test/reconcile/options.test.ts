import { createWebhookHandler, forwardTo, InvalidArgumentError, memoryStore, StayhookClient } from "stayhook";
import { createReconciler } from "stayhook/reconcile";
import { expect, test } from "vitest";
import { parseDuration } from "../../src/duration.ts";

const client = new StayhookClient({ baseUrl: "https://platform.example", accessToken: "secret-token" });
const store = memoryStore();
const webhooks = createWebhookHandler({ client, store, on: {} });

const refused = (options: object, handler: unknown = webhooks): string[] => {
  try {
    createReconciler(handler as never, options as never);
  } catch (error) {
    expect(error).toBeInstanceOf(InvalidArgumentError);
    return (error as InvalidArgumentError).issues.map(({ path }) => path.join("."));
  }
  return [];
};

test.each([
  [{ every: 0 }, ["every"]],
  [{ every: "daily" }, ["every"]],
  [{ expectedEndpoints: "http://example.com/hooks" }, ["expectedEndpoints"]],
  [{ expectedEndpoints: { bookings: "hooks" } }, ["expectedEndpoints.bookings"]],
  [{ expectedEndpoints: { booking: "https://example.com/hooks" } }, ["expectedEndpoints.booking"]],
  [{ concurrency: 0 }, ["concurrency"]],
  [{ concurrency: 1.5 }, ["concurrency"]],
  [{ lookBack: "a week" }, ["lookBack"]],
  [{ lookBack: -1 }, ["lookBack"]],
  [{ baseline: "yes" }, ["baseline"]],
  [{ backoff: () => 100 }, ["backoff"]],
  [{ observe: {} }, ["observe"]],
  [{ logger: {} }, ["logger"]],
  [{ evry: "1h", client }, ["evry", "client"]],
  [{ every: -1, concurrency: "4" }, ["every", "concurrency"]],
  [{ every: "7d", concurrency: 1, lookBack: "30d", baseline: false }, []],
  [{ expectedEndpoints: "https://example.com/hooks?key=s3cret", observe: () => {}, logger: () => {} }, []],
  [{ expectedEndpoints: { bookings: "https://example.com/hooks", messages: null } }, []],
])("createReconciler with %j rejects the options %j", (options, names) => {
  expect(refused(options)).toEqual(names);
});

test("createReconciler throws without a handler, or if the options are no object", () => {
  for (const handler of [null, 7, client, { ...webhooks }])
    expect(refused({}, handler)).toEqual(["webhooks"]);
  for (const options of [null, 7, []]) expect(refused(options as never)).toEqual([""]);
  expect(refused({ every: 0 }, {})).toEqual(["webhooks", "every"]);
  createReconciler(webhooks);
});

test("createReconciler throws for a handler on forwardTo", () => {
  const forwards = createWebhookHandler({ client, store: forwardTo(() => {}), on: {} });
  expect(() => createReconciler(forwards as never)).toThrow(
    /webhooks: must have an EventStore, because forwardTo/,
  );
});

test.each([
  ["90s", 90_000],
  ["30m", 1_800_000],
  ["24h", 86_400_000],
  ["7d", 604_800_000],
  ["1.5h", 5_400_000],
  ["250ms", 250],
  [1000, 1000],
  ["24", undefined],
  ["h", undefined],
  ["0h", undefined],
  ["-1h", undefined],
  ["24 hours", undefined],
  [Number.NaN, undefined],
  [Number.POSITIVE_INFINITY, undefined],
  [-5, undefined],
  [null, undefined],
])("every: %j is %j ms", (given, ms) => {
  expect(parseDuration(given)).toBe(ms);
});

test("an observe function or a logger that throws changes nothing", async () => {
  const lines: string[] = [];
  const offline = new StayhookClient({
    baseUrl: "https://platform.example",
    accessToken: "secret-token",
    fetch: async (url) =>
      Response.json(String(url).endsWith("/listings") ? [{ listingId: 1, status: "Published" }] : {}),
  });
  const handler = createWebhookHandler({ client: offline, store: memoryStore(), on: {} });
  const reconciler = createReconciler(handler, {
    logger: ({ message }) => {
      lines.push(message);
      throw new Error("logger's own");
    },
    observe: async () => {
      throw new Error("observer's own");
    },
  });
  expect(await reconciler.run()).toMatchObject({ checked: 1, failed: 0 });
  expect(lines.join()).toMatch(/observe.*Error: observer's own/);
});

test.each([
  { every: "16d", warnings: 1 },
  { every: "15d", warnings: 0 },
])("a pass every $every warns $warnings times if the store keeps a snapshot for 30 days", (row) => {
  const lines: string[] = [];
  const handler = createWebhookHandler({ client, store, on: {}, verify: false, snapshotRetention: "30d" });
  createReconciler(handler, { every: row.every, logger: ({ message }) => void lines.push(message) });
  expect(lines.filter((line) => line.includes("too soon for a reconciler"))).toHaveLength(row.warnings);
});
