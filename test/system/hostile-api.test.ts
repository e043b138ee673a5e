import { gzipSync } from "node:zlib";
import {
  APIError,
  createWebhookHandler,
  memoryStore,
  ResponseValidationError,
  StayhookClient,
  type StayhookError,
} from "stayhook";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { rejection } from "../client/support.ts";
import { notificationOf, recordingLogger } from "../webhooks/support.ts";
import { answerOf, bomb, booking, hostileAnswers, httpPlatform, rawPlatform } from "./hostile-platform.ts";
import { type Random, randomOf, seedOf } from "./random.ts";

const seed = seedOf("API");
const thrown: unknown[] = [];
const caught = (error: unknown): void => void thrown.push(error);
process.on("uncaughtException", caught).on("unhandledRejection", caught);
afterAll(() => {
  process.off("uncaughtException", caught).off("unhandledRejection", caught);
});
afterEach(() => expect(thrown.splice(0)).toEqual([]));

const MiB = 1024 * 1024;
const clientOf = (url: string, timeout = 10_000): StayhookClient =>
  new StayhookClient({ baseUrl: url, accessToken: "tok_9f8e7d6c5b4a", maxRetries: 0, timeout });

/** Returns a short timeout for cases that must reach it. Other cases wait longer, because the machine may be busy. */
const patience = (error: string, ms: number): number => (error === "ConnectionTimeoutError" ? ms : 10_000);

/** Returns the largest growth of this process's memory while a promise is pending, in bytes. */
async function growth(work: Promise<unknown>): Promise<number> {
  const before = process.memoryUsage.rss();
  let most = 0;
  const sampling = setInterval(() => {
    most = Math.max(most, process.memoryUsage.rss() - before);
  }, 2);
  await work.finally(() => clearInterval(sampling));
  return most;
}

describe("the client, answered", () => {
  it.each(hostileAnswers)("%s: has an error of its own for it", async (_, answer, name) => {
    const { url } = await rawPlatform(answer);
    const error = await rejection<StayhookError>(clientOf(url, patience(name, 400)).bookings.get("HX-1"));
    expect(error.name).toBe(name);
    expect(error.message.length).toBeLessThan(700);
  });

  it("after interim answers takes the final one", async () => {
    const { url } = await rawPlatform(
      Buffer.concat([Buffer.from("HTTP/1.1 103 X\r\nlink: y\r\n\r\n"), answerOf(200, booking)]),
    );
    expect(await clientOf(url).bookings.get("HX-1")).toEqual(JSON.parse(booking));
  });

  it("does not follow a circle of redirects further than three times", async () => {
    const platform = await rawPlatform(answerOf(302, "", ["location: /v2/bookings/HX-1"]));
    const error = await rejection<APIError>(clientOf(platform.url).bookings.get("HX-1"));
    expect([error.status, platform.requests]).toEqual([302, 4]);
  });

  it.each([
    ["200", 200, ResponseValidationError],
    ["500", 500, APIError],
  ])("without end, by %s: takes in 10 MiB, and hangs up", async (_, status, type) => {
    let sent = 0;
    let hungUp = (): void => {};
    const gone = new Promise<void>((resolve) => {
      hungUp = resolve;
    });
    const { url } = await httpPlatform((_request, response) => {
      response.writeHead(status);
      const more = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536, 32))) sent += 65_536;
        sent += 65_536;
      };
      response.on("drain", more).on("close", hungUp);
      more();
    });
    const call = rejection(clientOf(url).bookings.get("HX-1"));
    expect(await growth(call)).toBeLessThan(150 * MiB);
    expect(await call).toBeInstanceOf(type);
    await gone;
    // Buffers of the sockets and the stream also count as sent.
    expect(sent).toBeGreaterThan(10 * MiB);
    expect(sent).toBeLessThan(40 * MiB);
  });

  it.each([
    ["once", "gzip", bomb(400 * MiB)],
    ["twice", "gzip, gzip", gzipSync(bomb(400 * MiB))],
  ])("with a bomb, packed %s: takes 10 MiB of what is in it", async (_, encoding, packed) => {
    const { url } = await httpPlatform((_request, response) => {
      response.writeHead(200, { "content-encoding": encoding }).end(packed);
    });
    const call = rejection<ResponseValidationError>(clientOf(url).bookings.get("HX-1"));
    expect(await growth(call)).toBeLessThan(150 * MiB);
    const error = await call;
    expect(error.message).toMatch(/longer than 10485760 bytes/);
    expect((error.body as string).length).toBeLessThan(11 * MiB);
  });

  it.each(["0", "{}", "[]", '"x"'])(
    "with millions of rows that are none, %s: neither takes gigabytes nor the time of everybody else",
    async (row) => {
      const body = `[${Array(2_000_000).fill(row).join()}]`;
      const { url } = await httpPlatform((_request, response) => void response.end(body));
      const start = performance.now();
      const error = await rejection<ResponseValidationError>(clientOf(url).listings.list());
      // This takes a second or two. With an issue for each row, it would take minutes.
      expect(performance.now() - start).toBeLessThan(20_000);
      expect(error.name).toBe("ResponseValidationError");
      expect(error.issues[0]?.path[0]).toBe(0);
      expect(error.issues.length).toBeLessThan(2_000);
    },
  );

  it("with an error of millions of parts: blots out the token in it, wherever it is", async () => {
    const body = `{"tok_9f8e7d6c5b4a":[${Array(1_000_000).fill(0)},["tok_9f8e7d6c5b4a"],{"a":"x tok_9f8e7d6c5b4a"}]}`;
    const { url } = await httpPlatform((_request, response) => void response.writeHead(500).end(body));
    const error = await rejection<APIError>(clientOf(url).bookings.get("HX-1"));
    expect(JSON.stringify(error.body).replaceAll("0,", "")).toBe(
      '{"[redacted]":[["[redacted]"],{"a":"x [redacted]"}]}',
    );
  });

  it("with __proto__ and the like: gives a record with nothing inherited from it", async () => {
    const { url } = await rawPlatform(
      answerOf(
        200,
        `{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},${booking.slice(1)}`,
      ),
    );
    const record = await clientOf(url).bookings.get("HX-1");
    expect(record).toMatchObject({ bookingCode: "HX-1", status: "Confirmed" });
    expect("polluted" in record).toBe(false);
    expect(Object.getPrototypeOf(record)).toBe(Object.prototype);
    expect({}).not.toHaveProperty("polluted");
  });
});

/** Makes random JSON. Some of its names are those that the client reads. */
function anyJson(random: Random, depth = 4): unknown {
  const names =
    "data booking listings items bookingCode listingId status endpoints isActive message total next __proto__ then toJSON length 0";
  const leaves = [
    null,
    true,
    false,
    0,
    -1,
    1e308,
    1.5,
    "",
    "x",
    "Confirmed",
    "5",
    "\ud800",
    "https://x/",
    [],
    {},
  ];
  if (depth === 0 || random.oneIn(3)) return random.pick(leaves);
  const members = Array.from({ length: random.below(5) }, () => anyJson(random, depth - 1));
  return random.oneIn(3)
    ? members
    : Object.fromEntries(members.map((member) => [random.pick(names.split(" ")), member]));
}

it("whatever JSON comes, the client gives what is one, or its error", async () => {
  const random = randomOf(seed);
  let body = "";
  let status = 200;
  const { url } = await httpPlatform((_request, response) => void response.writeHead(status).end(body));
  const client = clientOf(url);
  const calls: [() => Promise<unknown>, (data: unknown) => unknown][] = [
    [
      () => client.bookings.get("HX-1"),
      (data) => expect(data).toMatchObject({ bookingCode: expect.any(String), status: expect.any(String) }),
    ],
    [
      () => client.listings.get(1),
      (data) => expect(data).toMatchObject({ listingId: expect.any(Number), status: expect.any(String) }),
    ],
    [() => client.listings.list(), (data) => expect(data).toBeInstanceOf(Array)],
    [
      () => client.webhookConfig.get(),
      (data) =>
        data === undefined ||
        expect(data).toMatchObject({ isActive: expect.any(Boolean), endpoints: expect.any(Object) }),
    ],
    [
      () => client.webhookConfig.toggle(true),
      (data) => data === undefined || expect(data).toMatchObject({ isActive: expect.any(Boolean) }),
    ],
    [() => client.request("GET", "/x"), (data) => expect(data).toEqual(JSON.parse(body))],
  ];
  let given = 0;
  for (let times = 0; times < 1_500; times++) {
    body = JSON.stringify(anyJson(random)).replaceAll("1e+308", random.pick(["1e999", "1e308"]));
    status = random.oneIn(10) ? random.pick([201, 202, 404, 400, 500]) : 200;
    const [call, check] = random.pick(calls);
    const outcome = await call().then(
      (data) => ({ data }),
      (error: unknown) => ({ error }),
    );
    if ("error" in outcome) {
      const known = outcome.error instanceof APIError || outcome.error instanceof ResponseValidationError;
      expect(known, `${body}: ${outcome.error}`).toBe(true);
    } else {
      check(outcome.data);
      given++;
    }
  }
  expect(given).toBeGreaterThan(50);
  expect({}).not.toHaveProperty("polluted");
}, 60_000);

describe("the handler, whose platform answers", () => {
  const reasons: Record<string, string> = {
    ConnectionError: "unavailable",
    ConnectionTimeoutError: "unavailable",
    APIError: "unavailable",
    InternalServerError: "unavailable",
    ResponseValidationError: "invalid-record",
    NotFoundError: "not-found",
  };

  async function handlerAt(url: string, backoff: (attempt: number) => number, timeout = 10_000) {
    const store = memoryStore();
    const handled: string[] = [];
    const webhooks = createWebhookHandler({
      client: clientOf(url, timeout),
      store,
      on: { fallback: (event) => void handled.push(event.type) },
      autoStart: false,
      backoff,
      logger: recordingLogger(),
    });
    const sent = notificationOf({ bookingCode: "HX-1" });
    const answer = await webhooks.receive({
      method: "POST",
      url: "/",
      headers: {},
      body: JSON.stringify(sent),
    });
    expect(answer.status).toBe(200);
    return { webhooks, handled, event: () => store.get(sent.eventId) };
  }

  it.each(hostileAnswers)(
    "%s: keeps the event, and handles it when the record can be had",
    async (_, answer, name) => {
      const platform = await rawPlatform(answer);
      const { webhooks, handled, event } = await handlerAt(platform.url, () => 1, patience(name, 1_000));
      expect(await webhooks.drain()).toEqual({ done: 0, failed: 1 });
      expect(await event()).toMatchObject({ state: "retrying", reason: reasons[name] });
      expect(handled).toEqual([]);
      platform.answer = answerOf(200, booking, ["connection: close"]);
      await new Promise((resolve) => setTimeout(resolve, 5));
      expect(await webhooks.drain()).toEqual({ done: 1, failed: 0 });
      expect(handled).toEqual(["booking.Confirmed"]);
      expect(await event()).toMatchObject({ state: "done" });
    },
  );

  it.each([
    "-5",
    "1e9",
    "9".repeat(400),
    "soon",
    "",
    "Mon, 01 Jan 0001 00:00:00 GMT",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "0",
    "\xff",
    "5, 10",
  ])("with Retry-After: %s, waits a quarter of an hour at the most", async (value) => {
    const platform = await rawPlatform(answerOf(503, "", [`retry-after: ${value}`]));
    const { webhooks, event } = await handlerAt(platform.url, () => 1_000);
    await webhooks.drain();
    const { state, reason, dueAt } = (await event()) ?? {};
    expect([state, reason]).toEqual(["retrying", "unavailable"]);
    const wait = (dueAt?.getTime() ?? Number.NaN) - Date.now();
    expect(wait).toBeGreaterThan(-1_000);
    expect(wait).toBeLessThanOrEqual(15 * 60_000);
  });

  it("with a bomb: keeps the event", async () => {
    const packed = bomb(100 * MiB);
    const { url } = await httpPlatform((_request, response) => {
      response.writeHead(200, { "content-encoding": "gzip" }).end(packed);
    });
    const { webhooks, event } = await handlerAt(url, () => 1);
    expect(await webhooks.drain()).toEqual({ done: 0, failed: 1 });
    expect(await event()).toMatchObject({ state: "retrying", reason: "invalid-record" });
  });
});
