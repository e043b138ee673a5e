import { createWebhookHandler, forwardTo, InvalidArgumentError, memoryStore, StayhookClient } from "stayhook";
import { createReconciler } from "stayhook/reconcile";
import { expect, test } from "vitest";
import { parseDuration } from "../../src/reconcile/duration.ts";

const client = new StayhookClient({ baseUrl: "https://platform.example", accessToken: "secret-token" });
const store = memoryStore();
const webhooks = createWebhookHandler({ client, store, on: {} });

const refused = (options: object): string[] => {
  try {
    createReconciler({ client, webhooks, store, ...options } as never);
  } catch (error) {
    expect(error).toBeInstanceOf(InvalidArgumentError);
    return (error as InvalidArgumentError).issues.map(({ path }) => path.join("."));
  }
  return [];
};

test.each([
  [{ client: undefined }, ["client"]],
  [{ webhooks: undefined }, ["webhooks"]],
  [{ webhooks: { ...webhooks } }, ["webhooks"]],
  [{ store: undefined }, ["store"]],
  [{ store: {} }, ["store"]],
  [{ every: 0 }, ["every"]],
  [{ every: "daily" }, ["every"]],
  [{ concurrency: 0 }, ["concurrency"]],
  [{ concurrency: 1.5 }, ["concurrency"]],
  [{ baseline: "yes" }, ["baseline"]],
  [{ backoff: 100 }, ["backoff"]],
  [{ leaseDuration: 1 }, ["leaseDuration"]],
  [{ observe: {} }, ["observe"]],
  [{ logger: {} }, ["logger"]],
  [{ client: 1, every: -1, concurrency: "4" }, ["client", "every", "concurrency"]],
  [{ every: "7d", concurrency: 1, baseline: false, leaseDuration: 10 }, []],
])("%j: %j is refused", (options, names) => {
  expect(refused(options)).toEqual(names);
});

test("no options at all are refused too", () => {
  for (const options of [undefined, null, 7])
    expect(() => createReconciler(options as never)).toThrow(InvalidArgumentError);
});

test("forwardTo has no statuses to compare with: it is refused, as the store and in the handler", () => {
  const forwarding = forwardTo(() => {});
  const forwards = createWebhookHandler({ client, store: forwarding, on: {} });
  expect(refused({ webhooks: forwards })).toEqual(["webhooks"]);
  expect(refused({ store: forwarding })).toEqual(["store"]);
  expect(() => createReconciler({ client, webhooks: forwards, store })).toThrow(/forwardTo.*EventStore/);
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

test("an option that there is none of is warned of; observe and a logger that throw change nothing", async () => {
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  const logger = { debug: log, info: log, warn: log, error: log };
  createReconciler({ client, webhooks, store, logger, evry: "1h" } as never);
  expect(lines.join()).toMatch(/no option evry/);
  const offline = new StayhookClient({
    baseUrl: "https://platform.example",
    accessToken: "secret-token",
    fetch: async (url) =>
      Response.json(String(url).endsWith("/listings") ? [{ listingId: 1, status: "Published" }] : {}),
  });
  const reconciler = createReconciler({
    client: offline,
    webhooks,
    store: memoryStore(),
    logger,
    observe: async () => {
      throw new Error("observer's own");
    },
  });
  expect(await reconciler.run()).toMatchObject({ checked: 1, failed: 0 });
  expect(lines.join()).toMatch(/observe failed \(Error: observer's own\)/);
});
