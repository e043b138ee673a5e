import { forwardTo, InvalidArgumentError, sharedSecret } from "stayhook";
import { toLambdaHandler, toSqsHandler } from "stayhook/lambda";
import type { NewEvent } from "stayhook/store";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { handlerOf, notificationOf } from "../webhooks/support.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const advance = (ms = 0) => vi.advanceTimersByTimeAsync(ms);

const json = { "content-type": "application/json" };
const ofBalancer = {
  httpMethod: "POST",
  path: "/hooks",
  isBase64Encoded: false,
  requestContext: { elb: { targetGroupArn: "arn:aws:elasticloadbalancing:…" } },
};

/** One request in the format of each service that can call a Lambda function. */
const shapes: Record<string, (body: string | null, key?: string) => object> = {
  "API Gateway REST": (body, key = "s3cret") => ({
    httpMethod: "POST",
    path: "/hooks",
    headers: json,
    multiValueHeaders: { "content-type": ["application/json"] },
    queryStringParameters: { key },
    multiValueQueryStringParameters: { key: [key] },
    body,
    isBase64Encoded: false,
    requestContext: { httpMethod: "POST" },
  }),
  "API Gateway HTTP": (body, key = "s3cret") => ({
    version: "2.0",
    rawPath: "/hooks",
    rawQueryString: `key=${key}`,
    headers: json,
    queryStringParameters: { key },
    requestContext: { http: { method: "POST", path: "/hooks" } },
    ...(body !== null && { body }),
    isBase64Encoded: false,
  }),
  "a function URL, base64": (body, key = "s3cret") => ({
    version: "2.0",
    rawPath: "/",
    rawQueryString: `key=${key}`,
    headers: {},
    requestContext: { http: { method: "POST" } },
    body: body === null ? undefined : Buffer.from(body).toString("base64"),
    isBase64Encoded: true,
  }),
  "a load balancer": (body, key = "s3cret") => ({
    ...ofBalancer,
    multiValueHeaders: null,
    headers: { host: "lambda" },
    queryStringParameters: { key },
    body,
  }),
  // With multi-value headers on, the event has only the multi-value fields.
  "a load balancer, with several values": (body, key = "s3cret") => ({
    ...ofBalancer,
    multiValueHeaders: { host: ["lambda"], "x-key": [key] },
    multiValueQueryStringParameters: { key: [key] },
    body,
  }),
};

/** The headers of an answer in the field that each service reads. */
const answerOf = (name: string, headers: Readonly<Record<string, string>>) =>
  name === "a load balancer, with several values"
    ? { multiValueHeaders: Object.fromEntries(Object.entries(headers).map(([key, value]) => [key, [value]])) }
    : { headers };

describe.each(Object.entries(shapes))("behind %s", (name, shape) => {
  const verify = sharedSecret({ query: "key", secret: "s3cret" });

  test("a notification is recorded, whatever letters it has, and answered", async () => {
    const notified: unknown[] = [];
    const on = { message: (event: { notification: unknown }) => void notified.push(event.notification) };
    const { webhooks, store } = handlerOf({ verify, processing: "inline", on });
    const notification = notificationOf({ further: "Zürich ⛱" });
    const handle = toLambdaHandler(webhooks, { topic: "messages" });
    const result = await handle(shape(JSON.stringify(notification)));
    expect(result).toEqual({ statusCode: 200, ...answerOf(name, json), body: '{"received":true}' });
    const stored = await store.get(notification.eventId);
    expect(stored?.topic).toBe("messages");
    expect(notified).toEqual([notification]);
  });

  test("a wrong secret, another method, no body and a large one are refused as anywhere", async () => {
    const { webhooks } = handlerOf({ verify, processing: "inline" });
    const handle = toLambdaHandler(webhooks);
    const text = JSON.stringify(notificationOf());
    expect((await handle(shape(text, "wrong"))).statusCode).toBe(401);
    expect((await handle(shape(null))).statusCode).toBe(400);
    expect((await handle(shape("x".repeat(70_000)))).statusCode).toBe(413);
    const got = JSON.parse(JSON.stringify(shape(text)).replaceAll('"POST"', '"GET"'));
    expect(await handle(got)).toMatchObject({ statusCode: 405, ...answerOf(name, { allow: "POST" }) });
  });
});

describe("a base64 body", () => {
  const event = (body: string) => ({ ...(shapes["a function URL, base64"]?.("") as object), body });
  const verify = sharedSecret({ query: "key", secret: "s3cret" });

  test.each([49_149, 49_150, 49_151, 49_152])("of %i bytes is measured exactly", async (maxBodyBytes) => {
    const { webhooks } = handlerOf({ verify, maxBodyBytes });
    const handle = toLambdaHandler(webhooks);
    const ofBytes = (bytes: number) => event(Buffer.from("x".repeat(bytes)).toString("base64"));
    expect((await handle(ofBytes(maxBodyBytes))).statusCode).toBe(400);
    expect((await handle(ofBytes(maxBodyBytes + 1))).statusCode).toBe(413);
  });

  test("a base64 body is not decoded if the body is too large or the secret is wrong", async () => {
    const { webhooks } = handlerOf({ verify });
    const handle = toLambdaHandler(webhooks);
    const decode = vi.spyOn(Buffer, "from");
    const large = event("QUJD".repeat(1_500_000));
    expect((await handle(large)).statusCode).toBe(413);
    const stranger = { ...event("QUJD"), rawQueryString: "key=wrong" };
    expect((await handle(stranger)).statusCode).toBe(401);
    expect((decode.mock.calls as unknown[][]).filter(([, encoding]) => encoding === "base64")).toEqual([]);
    expect((await handle(event("QUJD"))).statusCode).toBe(400);
    expect(decode).toHaveBeenCalledWith("QUJD", "base64");
  });

  test.each(["{}", "QUJ", "QUJD=", "QU JD", "Q=JD", "====", "e30-", "QUJD\n"])(
    "%j is none: 400",
    async (body) => {
      const { webhooks, observed } = handlerOf({ verify: false });
      const { statusCode, body: answer } = await toLambdaHandler(webhooks)(event(body));
      expect(statusCode).toBe(400);
      expect(JSON.parse(answer).errors).toEqual([{ path: [], message: "is not base64" }]);
      expect(observed).toMatchObject([{ kind: "invalid", body }]);
    },
  );

  test("verify says why it cannot read one", async () => {
    let problem: unknown;
    const { webhooks } = handlerOf({
      verify: async ({ rawBody }) => {
        await rawBody().catch((error) => {
          problem = error;
        });
        return true;
      },
    });
    expect((await toLambdaHandler(webhooks)(event("{}"))).statusCode).toBe(400);
    expect(problem).toMatchObject({ message: "rawBody(): the body is not base64" });
  });
});

test("a header that came in a list is one, too", async () => {
  const { webhooks } = handlerOf({ verify: sharedSecret({ header: "x-key", secret: "s3cret" }) });
  const event = shapes["a load balancer, with several values"]?.(JSON.stringify(notificationOf())) as object;
  expect((await toLambdaHandler(webhooks)(event)).statusCode).toBe(200);
});

test("a secret that a URL cannot hold as it is is known however the query is told", async () => {
  const secret = "a/b+c %&=ü";
  const encoded = encodeURIComponent(secret);
  const { webhooks } = handlerOf({
    verify: sharedSecret({ query: "key", secret }),
    processing: "inline",
  });
  // API Gateway REST decodes the query. The others pass it on as it was sent.
  for (const [name, key] of [
    ["API Gateway REST", secret],
    ["API Gateway HTTP", encoded],
    ["a load balancer", encoded],
  ] as const) {
    const event = shapes[name]?.(JSON.stringify(notificationOf()), key) as object;
    expect((await toLambdaHandler(webhooks)(event)).statusCode, name).toBe(200);
  }
});

describe("nothing lives on after the answer", () => {
  const inline = { processing: "inline", replyWithin: 15_000 } as const;
  const event = () => shapes["API Gateway HTTP"]?.(JSON.stringify(notificationOf())) as object;

  const never = () => new Promise<void>(() => {});
  const inThreeSeconds = () => new Promise<void>((resolve) => setTimeout(resolve, 3000));

  test.each<
    [string, () => Promise<void>, object, { getRemainingTimeInMillis(): number } | undefined, number]
  >([
    ["until what is due is processed", inThreeSeconds, {}, undefined, 3000],
    ["for at most 20 s", never, {}, undefined, 20_000],
    ["for at most 20 s, inline processing included", never, inline, undefined, 20_000],
    [
      "for at most Lambda's own time, but a second",
      never,
      {},
      { getRemainingTimeInMillis: () => 6000 },
      5000,
    ],
    ["not where there is no time", never, {}, { getRemainingTimeInMillis: () => 500 }, 0],
  ])("so that it waits %s, and no loop is started", async (_, run, options, context, ms) => {
    const callback = vi.fn(run);
    const { webhooks } = handlerOf({ on: { unknown: callback }, ...options });
    let answered: unknown;
    toLambdaHandler(webhooks)(event(), context).then((result) => {
      answered = result;
    });
    await advance(Math.max(0, ms - 1));
    if (ms > 0) expect(answered).toBeUndefined();
    expect(callback).toHaveBeenCalledTimes(1);
    await advance(1);
    expect(answered).toMatchObject({ statusCode: 200 });
    if (run !== never) expect((await webhooks.health()).state).toBe("idle");
  });
});

describe("a batch of SQS messages", () => {
  const record = (messageId: string, body: string, attributes: Record<string, string> = {}) => ({
    messageId,
    body,
    attributes,
  });

  test("runs the callbacks for what forwardTo has sent, with SQS's own count of attempts", async () => {
    const sent: NewEvent[] = [];
    const { webhooks: front } = handlerOf({ store: forwardTo((event) => void sent.push(event)) as never });
    const seen: unknown[] = [];
    const { webhooks, platform } = handlerOf({
      on: { fallback: ({ type, attempt, topic }) => void seen.push([type, attempt, topic]) },
    });
    platform.booking("A1", "Confirmed");
    const notification = JSON.stringify(notificationOf({ bookingCode: "A1" }));
    const request = new Request("https://example.com", { method: "POST", body: notification });
    await front.fetch(request, { topic: "bookings" });
    const Records = [record("m1", JSON.stringify(sent[0]), { ApproximateReceiveCount: "3" })];
    expect(await toSqsHandler(webhooks)({ Records })).toEqual({ batchItemFailures: [] });
    expect(seen).toEqual([["booking.Confirmed", 3, "bookings"]]);
  });

  test("reports those that failed, and those alone", async () => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => {});
    const { webhooks, platform } = handlerOf({ on: {} });
    platform.booking("GOOD", "Confirmed");
    platform.answer("BAD", { status: 503 });
    const body = (bookingCode: string) => JSON.stringify(notificationOf({ bookingCode }));
    const bodies = [body("GOOD"), body("BAD"), "not json", body("GOOD")];
    const Records = bodies.map((each, index) => record(`${index + 1}`, each));
    expect(await toSqsHandler(webhooks)({ Records })).toEqual({
      batchItemFailures: [{ itemIdentifier: "2" }, { itemIdentifier: "3" }],
    });
    expect(logged).toHaveBeenCalledTimes(2);
    const lines = logged.mock.calls.map(([line]) => line).sort();
    expect(lines[0]).toMatch(
      /^stayhook: SQS message 2 failed, so SQS will deliver it again: ProcessingError: .*503/,
    );
    expect(lines[1]).toMatch(/^stayhook: SQS message 3 .* not a notification/);
  });

  test("of a FIFO queue: a group runs in order, one at a time, and waits behind a failure; others go on", async () => {
    vi.spyOn(console, "error").mockImplementation(() => {});
    const running = new Map<string, number>();
    const ran: string[] = [];
    let most = 0;
    const { webhooks } = handlerOf({
      on: {
        unknown: async ({ notification }) => {
          const { group, name } = notification as unknown as { group: string; name: string };
          running.set(group, (running.get(group) ?? 0) + 1);
          most = Math.max(most, running.get(group) ?? 0);
          await Promise.resolve();
          ran.push(name);
          running.set(group, (running.get(group) ?? 0) - 1);
          if (name === "a2") throw new Error("no");
        },
      },
    });
    const Records = ["a1", "b1", "a2", "b2", "a3", "a4"].map((name) => {
      const group = name[0] as string;
      return record(name, JSON.stringify(notificationOf({ group, name })), { MessageGroupId: group });
    });
    expect(await toSqsHandler(webhooks)({ Records })).toEqual({
      batchItemFailures: ["a2", "a3", "a4"].map((itemIdentifier) => ({ itemIdentifier })),
    });
    expect(most).toBe(1);
    expect([...ran].sort()).toEqual(["a1", "a2", "b1", "b2"]);
    expect(ran.indexOf("a1")).toBeLessThan(ran.indexOf("a2"));
  });
});

test("what is no handler is refused when the SQS function is made, not at its first event", () => {
  for (const given of [undefined, {}, { receive: "no" }])
    expect(() => toSqsHandler(given as never)).toThrow(InvalidArgumentError);
});
