import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { StayhookClient } from "../src/client/client.ts";
import { stay } from "../src/models/dates.ts";
import { eventTypes } from "../src/models/event-types.ts";
import { memoryStore } from "../src/stores/memory/index.ts";
import { postgresStore } from "../src/stores/postgres/index.ts";
import { createTestEvent } from "../src/testing/test-event.ts";
import { createWebhookHandler } from "../src/webhooks/handler.ts";
import { sharedSecret } from "../src/webhooks/receiving/verify.ts";
import { cli } from "./cli/support.ts";

// Mistakes of a first evening, and the message of each: what is wrong, of which kind it is, and the nearest right way.

const options = { baseUrl: "https://h.example", accessToken: "tok_9f8e7d6c5b4a" };
const made = (more: object) => () => new StayhookClient({ ...options, ...more });
const client = new StayhookClient(options);
const timers = () => createTestEvent("booking.Confirmed").timers;

beforeEach(() => {
  vi.stubEnv("STAYHOOK_BASE_URL", "https://env.example");
  vi.stubEnv("STAYHOOK_ACCESS_TOKEN", "token-of-the-environment");
});
afterEach(() => void vi.unstubAllEnvs());

/** What a handler writes to its log when it is made and started. */
function logOf(given: object): string {
  const lines: string[] = [];
  const logger = ({ message }: { message: string }) => void lines.push(message);
  createWebhookHandler({ client, store: memoryStore(), on: {}, verify: false, ...given, logger });
  return lines.join("\n");
}

test.each<[mistake: string, make: () => unknown, message: string]>([
  [
    "a base URL with the version",
    made({ baseUrl: "https://h.example/api/v2/" }),
    "baseUrl: must not end in /v2, because the client adds /v2 to each path. Leave out /v2",
  ],
  [
    "an option of another library",
    made({ retries: 3 }),
    "unknown option `retries`; did you mean `maxRetries`?",
  ],
  [
    "a misspelt environment variable for the token",
    made({ accessToken: undefined }),
    "accessToken: must be a string or a function, not undefined. Is the name of your environment variable right? To use STAYHOOK_ACCESS_TOKEN, leave the option out",
  ],
  [
    "a misspelt environment variable for the URL",
    made({ baseUrl: undefined }),
    "baseUrl: must be an absolute URL, such as https://api.example.com, not undefined. Is the name of your environment variable right? To use STAYHOOK_BASE_URL, leave the option out",
  ],
  [
    "a token of nothing",
    made({ accessToken: "" }),
    "accessToken: must not be empty (is an environment variable unset?)",
  ],
  [
    "a URL of nothing",
    made({ baseUrl: "" }),
    "baseUrl: must be an absolute URL, such as https://api.example.com (is an environment variable unset?)",
  ],
  [
    "undefined in withOptions",
    () => client.withOptions({ accessToken: undefined as never }),
    "accessToken: must be a string or a function, not undefined. Is the name of your environment variable right? To use STAYHOOK_ACCESS_TOKEN, leave the option out",
  ],
  [
    "no booking code",
    () => client.bookings.get(undefined as never),
    'bookingCode: must be a string, such as "HX3K9", not undefined',
  ],
  [
    "a booking in place of its code",
    () => client.bookings.get({} as never),
    'bookingCode: must be a string, such as "HX3K9", not an object',
  ],
  [
    "no listing id",
    () => client.listings.get(undefined as never),
    "listingId: must be an integer, such as 5717008, not undefined",
  ],
  [
    "a listing's name",
    () => client.listings.get("mill"),
    "listingId: must be an integer, such as 5717008, not a string",
  ],
  [
    "a misspelt event",
    () => createTestEvent("booking.Confirmd" as "booking.Confirmed"),
    `type: must be one of ${eventTypes.join(", ")}, or booking.timer.<name> or listing.timer.<name>. Did you mean booking.Confirmed?`,
  ],
  [
    "a timer without a name",
    () => createTestEvent("booking.timer" as "booking.Confirmed"),
    `type: must be one of ${eventTypes.join(", ")}, or booking.timer.<name> or listing.timer.<name>`,
  ],
  [
    "a text for a time",
    () => timers().set("door-code", "2027-07-01T15:00" as never),
    "at: the time of the timer door-code must be a valid Date, not a string. Make one with localTime(date, time, timeZone) or new Date(…)",
  ],
  [
    "a date that does not exist",
    () => timers().set("door-code", new Date("soon")),
    "at: the time of the timer door-code must be a valid Date, not an invalid Date. Make one with localTime(date, time, timeZone) or new Date(…)",
  ],
  [
    "a stay without dates",
    () => stay({ bookingCode: "HX3K9" } as object),
    "checkIn: is absent. Does the platform send checkIn, and does your model of a booking keep it?",
  ],
  [
    "the stay of nothing",
    () => stay(undefined as never),
    "booking: must be a booking with checkIn and checkOut, not undefined",
  ],
  [
    "the stay of a text",
    () => stay({ checkIn: "soon", checkOut: "2027-07-04" }),
    "checkIn: must be a date (YYYY-MM-DD or YYYYMMDD), or a number of seconds or ms since 1970, not another text",
  ],
])("%s", async (_, make, message) => {
  // A call of the client rejects; everything else throws.
  const error = await Promise.resolve()
    .then(make)
    .catch((thrown) => thrown);
  expect(error).toMatchObject({ name: "InvalidArgumentError", message });
});

test("a short secret: the warning names its place, and shows no secret", () => {
  expect(logOf({ verify: sharedSecret({ query: "key", secret: "abc" }) })).toBe(
    "stayhook: a secret passed to sharedSecret in the query parameter key has fewer than 16 characters, so strangers may guess it. Make a secret with `openssl rand -hex 32`",
  );
  expect(logOf({ verify: sharedSecret({ header: "x-key", secret: "abc" }) })).toContain(
    "in the header x-key",
  );
});

test.each([
  ["booking.confirmed", '"booking.confirmed". Did you mean booking.Confirmed?'],
  ["listing.published", '"listing.published". Did you mean listing.Published?'],
  ["bokking", '"bokking". Did you mean booking?'],
  ["booking.Nonsense", '"booking.Nonsense".'],
])("stayhook trigger %s", async (what, told) => {
  const { code, stderr } = await cli(`trigger ${what} --to http://127.0.0.1:1`);
  expect(code).toBe(2);
  expect(stderr).toBe(
    `stayhook: The first argument must be booking, listing, message, or an event such as booking.Confirmed, not ${told}\n`,
  );
});

test.each([
  [
    "postgresql://me:s3cr3t@no-such-host.invalid/db",
    /no-such-host\.invalid\. (The name of the host is unknown\. Is|DNS is not ready yet)/,
  ],
  ["postgresql://me:s3cr3t@127.0.0.1:1/db", /127\.0\.0\.1:1\. Nothing listens there\. Are the host and port/],
])("a wrong PostgreSQL host, in the log of the start: %s", async (connectionString, told) => {
  const lines: string[] = [];
  const store = postgresStore({ connectionString });
  let webhooks: ReturnType<typeof createWebhookHandler> | undefined;
  await new Promise<void>((resolve) => {
    const logger = ({ level, message }: { level: string; message: string }) => {
      lines.push(message);
      if (level === "error") resolve();
    };
    webhooks = createWebhookHandler({ client, store, on: {}, verify: false, logger });
    webhooks.start();
  });
  await webhooks?.close();
  await store.close();
  for (const line of lines) expect(line).toMatch(told);
  expect(lines.join()).not.toContain("s3cr3t");
});
