import { describe, expect, it, vi } from "vitest";
import {
  bookingNotification,
  EVENT_ID,
  harness,
  problemOf,
  resultAfter,
  statusOf,
  useFakeTime,
} from "./receiver.ts";

const after = <T>(ms: number, value: T) => new Promise<T>((resolve) => setTimeout(() => resolve(value), ms));

describe("what is recorded", () => {
  it("passes the store a NewEvent, and answers 200", async () => {
    const { post, added, seen } = harness({ replyWithin: 7_000 });
    const body = `{"eventId":"${EVENT_ID.toUpperCase()}", "timestamp":"2026-03-01 12:00:00.5+0200","bookingCode":"HX-1","listingId":null,"x":1.0}`;
    const before = performance.now();
    const { result, recorded, replyBy } = await post({ method: "post", body, topic: "bookings" });
    const event = {
      eventId: EVENT_ID,
      ref: "booking:HX-1",
      source: "webhook",
      topic: "bookings",
      timestamp: "2026-03-01T10:00:00.500Z",
      notification: body,
    };
    expect(result.status).toBe(200);
    expect(added).toEqual([event]);
    expect(recorded).toEqual({ event, added: "added" });
    expect(seen).toEqual([{ kind: "received", eventId: EVENT_ID, ref: "booking:HX-1", topic: "bookings" }]);
    expect(replyBy).toBeGreaterThanOrEqual(before + 7_000);
    expect(replyBy).toBeLessThanOrEqual(performance.now() + 7_000);
  });

  it("answers 200 for a duplicate in any case, and observes it as one", async () => {
    const { post, added, seen, log } = harness();
    await post();
    const { result, recorded } = await post({
      body: JSON.stringify({ ...bookingNotification, eventId: EVENT_ID.toUpperCase() }),
    });
    expect([result.status, recorded?.added]).toEqual([200, "duplicate"]);
    expect(added).toHaveLength(1);
    expect(seen.map(({ kind }) => kind)).toEqual(["received", "duplicate"]);
    expect(log).toEqual([]);
  });

  it("a duplicate with another reference causes one warning", async () => {
    const { post, seen, log } = harness({ add: async () => "conflict" });
    const { result, recorded } = await post();
    expect([result.status, recorded?.added]).toEqual([200, "conflict"]);
    expect(seen.map(({ kind }) => kind)).toEqual(["duplicate"]);
    expect(log).toMatchObject([{ level: "warn", message: expect.stringContaining(EVENT_ID) }]);
  });

  it("takes any content type, and no headers", async () => {
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "application/json; charset=latin1",
      "",
    ])
      expect(await statusOf({ headers: { "content-type": type } })).toBe(200);
    const verify = ({ headers }: { headers: Headers }): boolean => !headers.has("x");
    for (const body of [bookingNotification, JSON.stringify(bookingNotification)])
      expect(await statusOf({ headers: undefined as never, body }, { verify })).toBe(200);
  });
});

describe("what is refused", () => {
  it("answers 400 naming each field, and records nothing", async () => {
    const { post, added, seen, log } = harness();
    const body = JSON.stringify({ eventId: "<script>", bookingCode: "", listingId: "<script>" });
    const { result, recorded } = await post({ body, topic: "bookings" });
    expect(result.headers["content-type"]).toBe("application/problem+json");
    const { title, status, errors = [] } = problemOf(result.body);
    expect([result.status, title, status]).toEqual([400, "Bad Request", 400]);
    expect(errors.map(({ path }) => path)).toEqual([["eventId"], ["bookingCode"], ["listingId"]]);
    expect(errors.every(({ message }) => message.length > 5)).toBe(true);
    expect([recorded, added]).toEqual([undefined, []]);
    expect(seen).toEqual([{ kind: "invalid", topic: "bookings", issues: errors, body }]);
    expect(log.map(({ level }) => level)).toEqual(["warn"]);
    for (const text of [result.body, JSON.stringify(log)]) expect(text).not.toContain("<script>");
  });

  it.each([
    ["", "is empty"],
    ["  \n", "is empty"],
    [undefined, "is empty"],
    [null, "is empty"],
    ["{", "is not JSON"],
    ["eventId=1", "is not JSON"],
    [new Uint8Array([0x7b, 0xff, 0x7d]), "is not UTF-8"],
    ["[]", "must be a JSON object"],
    ["null", "must be a JSON object"],
    ['"text"', "must be a JSON object"],
    [12, "must be a JSON object"],
  ])("answers 400 for the body %j", async (body, message) => {
    const { post, added } = harness();
    const { result } = await post({ body: body as string });
    expect(result.status).toBe(400);
    expect(problemOf(result.body).errors).toEqual([{ path: [], message }]);
    expect(added).toEqual([]);
  });

  it("keeps the answer and the log line of a hostile body short", async () => {
    const { post, log } = harness({ maxBodyBytes: 100_000 });
    const fields = Array.from({ length: 2_000 }, (_, index) => [`field${index}`, "x".repeat(20)]);
    const { result } = await post({
      body: JSON.stringify({ ...Object.fromEntries(fields), eventId: "y".repeat(9_000) }),
    });
    expect(result.status).toBe(400);
    expect(result.body.length).toBeLessThan(500);
    expect(JSON.stringify(log).length).toBeLessThan(500);
  });

  it.each(["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])(
    "answers %s with 405 and Allow",
    async (method) => {
      const verify = vi.fn(() => true);
      const { post, added, seen } = harness({ verify });
      expect((await post({ method })).result).toMatchObject({ status: 405, headers: { allow: "POST" } });
      expect(verify).not.toHaveBeenCalled();
      expect(added).toEqual([]);
      expect(seen).toEqual([{ kind: "refused", status: 405, reason: "method", topic: null }]);
    },
  );

  it("asks verify before the size, the size before the JSON, and the JSON before the store", async () => {
    const add = vi.fn(async () => "added" as const);
    for (const body of ["not JSON", "x".repeat(2_000)])
      expect(await statusOf({ body }, { add, verify: () => false })).toBe(401);
    expect(await statusOf({ body: "{".repeat(2_000) }, { add })).toBe(413);
    expect(await statusOf({ body: "{" }, { add })).toBe(400);
    expect(add).not.toHaveBeenCalled();
  });

  it("answers 500 without detail if the request object throws", async () => {
    const { receive, log } = harness();
    const { result } = await receive({
      get method(): string {
        throw new Error("private detail");
      },
      url: "/",
      headers: {},
    });
    expect(result.status).toBe(500);
    expect(result.body).not.toContain("private");
    expect(log.map(({ level }) => level)).toEqual(["error"]);
  });

  it.each([
    ["rejects", () => Promise.reject(new Error("db-password"))],
    [
      "throws",
      () => {
        throw new Error("db-password");
      },
    ],
    ["rejects with nothing", () => Promise.reject(undefined)],
  ])("answers 503 with Retry-After when the store %s", async (_, add) => {
    const { post, seen, log } = harness({ add });
    const { result, recorded } = await post();
    expect(result.status).toBe(503);
    expect(Number(result.headers["retry-after"])).toBeGreaterThan(0);
    expect(result.body).not.toContain("db-password");
    expect(recorded).toBeUndefined();
    expect(seen).toMatchObject([{ kind: "refused", status: 503, reason: "store" }]);
    expect(log.map(({ level }) => level)).toEqual(["error"]);
  });
});

describe("the time limit of a request", () => {
  useFakeTime();

  const slowBody = (ms: number) =>
    (async function* () {
      await after(ms, undefined);
      yield JSON.stringify(bookingNotification);
    })();

  it.each([
    ["the store", 503, "store-timeout", [300, 300, 500]],
    ["the body", 408, "body-timeout", [300, 800, 0]],
    ["verify", 503, "verify-timeout", [1_100, 0, 0]],
  ] as const)(
    "covers verify, the body and the store together: %s ends it",
    async (_, status, reason, [verify, body, store]) => {
      const { post, seen } = harness({
        replyWithin: 1_000,
        verify: () => after(verify, true),
        add: () => after(store, "added" as const),
      });
      const result = await resultAfter(1_000, post({ body: slowBody(body) }));
      expect(result.status).toBe(status);
      expect(seen).toEqual([{ kind: "refused", status, reason, topic: null }]);
    },
  );

  it.each(["add", "verify"] as const)("ends a %s that rejects too late, which is ignored", async (step) => {
    let fail: (error: Error) => void = () => {};
    const { post, seen } = harness({
      replyWithin: 500,
      [step]: () => new Promise((_, reject) => (fail = reject)),
    });
    const result = await resultAfter(500, post());
    expect(result.status).toBe(503);
    expect(Number(result.headers["retry-after"])).toBeGreaterThan(0);
    fail(new Error("too late"));
    await vi.advanceTimersByTimeAsync(100);
    expect(seen).toHaveLength(1);
  });

  it("is 10 s, even if replyWithin is more", async () => {
    const { post } = harness({ add: () => new Promise(() => {}) });
    expect((await resultAfter(10_000, post())).status).toBe(503);
  });
});

it("makes no observation if nobody observes", async () => {
  const { post, seen } = harness({ observe: undefined, verify: ({ url }) => url === "/hooks" });
  expect((await post()).result.status).toBe(200);
  expect((await post({ url: "/other" })).result.status).toBe(401);
  expect(seen).toEqual([]);
});
