import { describe, expect, it } from "vitest";
import type { Verify, VerifyRequest } from "../../../src/webhooks/receiving/verify.ts";
import {
  bookingNotification,
  bytesOf,
  countingStream,
  harness,
  resultAfter,
  statusOf,
  useFakeTime,
} from "./receiver.ts";

const text = JSON.stringify(bookingNotification);

describe("verify", () => {
  it("gets the request with standard headers, and can copy it", async () => {
    let given: VerifyRequest | undefined;
    const verify: Verify = (request) => {
      given = { ...request };
      return request.headers === given.headers;
    };
    const headers = { "X-One": "1", many: ["a", "b"], none: undefined, ":path": "/", "bad name": "x" };
    expect(await statusOf({ url: "/hooks?key=1", headers, topic: "bookings" }, { verify })).toBe(200);
    expect(given).toMatchObject({ method: "POST", url: "/hooks?key=1", topic: "bookings" });
    expect(given?.headers).toBeInstanceOf(Headers);
    expect(Object.fromEntries(given?.headers ?? [])).toEqual({ "x-one": "1", many: "a, b" });
  });

  it.each([
    ["Headers", new Headers({ "X-One": "1" })],
    ["pairs", [["X-One", "1"]] as [string, string][]],
    ["a Map", new Map([["X-One", "1"]])],
  ])("has them from %s too", async (_, headers) => {
    const verify: Verify = (request) => request.headers.get("x-one") === "1";
    expect(await statusOf({ headers }, { verify })).toBe(200);
    expect(await statusOf({}, { verify })).toBe(401);
  });

  it.each<[string, unknown]>([
    ["false", false],
    ["false, later", Promise.resolve(false)],
    ["nothing", undefined],
    ["something that is not true", "yes"],
    ["something that is not true, later", Promise.resolve(1)],
  ])("refuses with 401 by %s", async (_, verdict) => {
    const { post, added, seen } = harness({ verify: () => verdict as boolean });
    expect((await post()).result.status).toBe(401);
    expect(added).toEqual([]);
    expect(seen).toEqual([{ kind: "refused", status: 401, reason: "verify", topic: null }]);
  });

  it.each<[string, Verify]>([
    [
      "throwing",
      ({ url }) => {
        throw new TypeError(`no good: ${url}`);
      },
    ],
    ["rejecting", ({ url }) => Promise.reject(new TypeError(`no good: ${url}`))],
  ])("refuses with 401 by %s, and keeps what it threw out of answer and log", async (_, verify) => {
    const { post, added, seen, log } = harness({ verify });
    const { result } = await post({ url: "/hooks?key=geheim" });
    expect(result.status).toBe(401);
    expect(added).toEqual([]);
    expect(seen).toMatchObject([
      { kind: "refused", status: 401, reason: "verify", error: expect.any(TypeError) },
    ]);
    expect(log).toEqual([{ level: "warn", message: expect.stringContaining("TypeError") }]);
    for (const said of [JSON.stringify(result), JSON.stringify(log)]) expect(said).not.toContain("geheim");
  });

  it("logs and observes no URL", async () => {
    const outcomes = [
      harness({ verify: () => false }),
      harness({ add: () => Promise.reject(new Error("down")) }),
      harness({ add: async () => "conflict" }),
    ];
    for (const { post, seen, log } of outcomes) {
      for (const body of [text, "{", "x".repeat(2_000)]) {
        const { result } = await post({ url: "/hooks?key=geheim&topic=bookings", body });
        expect(JSON.stringify([result, seen, log])).not.toContain("geheim");
      }
    }
  });

  it("that refuses prevents the body from being read", async () => {
    const { stream, state } = countingStream([bytesOf(text)]);
    expect(await statusOf({ body: stream }, { verify: () => false })).toBe(401);
    expect(state).toEqual({ pulled: 0, cancelled: false });
    expect(stream.locked).toBe(false);
  });
});

describe("rawBody()", () => {
  it.each<[string, () => object | string | undefined]>([
    ["a string", () => text],
    ["bytes", () => bytesOf(text)],
    ["a stream", () => new Blob([text]).stream()],
  ])("has the bytes of %s, which are then parsed all the same", async (_, make) => {
    const bodies: string[] = [];
    const verify: Verify = async ({ rawBody }) => {
      for (const bytes of await Promise.all([rawBody(), rawBody()]))
        bodies.push(new TextDecoder().decode(bytes));
      return true;
    };
    const { post, added } = harness({ verify });
    expect((await post({ body: make() })).result.status).toBe(200);
    expect(bodies).toEqual([text, text]);
    expect(added).toHaveLength(1);
  });

  it("is empty if there is no body", async () => {
    const verify: Verify = async ({ rawBody }) => (await rawBody()).length === 0;
    expect(await statusOf({ body: undefined }, { verify })).toBe(400);
  });

  const chunk = new Uint8Array(400);
  it.each<[string, Verify]>([
    ["throws on", async ({ rawBody }) => (await rawBody()).length > 0],
    [
      "swallows it and says yes",
      ({ rawBody }) =>
        rawBody()
          .then(() => true)
          .catch(() => true),
    ],
    [
      "swallows it and says no",
      ({ rawBody }) =>
        rawBody()
          .then(() => true)
          .catch(() => false),
    ],
  ])("of a body that is too large is 413, without reading on, where verify %s", async (_, verify) => {
    const { stream, state } = countingStream([chunk, chunk, chunk, chunk, chunk, chunk]);
    const { post, seen } = harness({ verify });
    expect((await post({ body: stream })).result.status).toBe(413);
    expect(state.pulled).toBe(3);
    expect(seen).toMatchObject([{ reason: "too-large" }]);
    const declared = countingStream([chunk]);
    const headers = { "content-length": "1001" };
    expect(await statusOf({ body: declared.stream, headers }, { verify })).toBe(413);
    expect(declared.state.pulled).toBe(0);
  });

  it("rejects with the reason if the body cannot be read", async () => {
    const reasons: string[] = [];
    const verify: Verify = async ({ rawBody }) => {
      await rawBody().catch((error: Error) => reasons.push(error.message));
      return true;
    };
    const { post } = harness({ verify });
    expect((await post({ body: "x".repeat(1_001) })).result.status).toBe(413);
    const locked = new ReadableStream();
    locked.getReader();
    expect((await post({ body: locked })).result.status).toBe(500);
    // A parser has already read this body. `verify` may accept the request all the same.
    expect((await post({ body: bookingNotification })).result.status).toBe(200);
    expect(reasons).toEqual([
      expect.stringContaining("larger than 1000 bytes"),
      expect.stringContaining("has already read the body"),
      expect.stringContaining("has already read the body"),
    ]);
  });

  it("rejects behind a parser that has read the bytes, and the answer is 401", async () => {
    const verify: Verify = async ({ rawBody }) => (await rawBody()).length > 0;
    const { post, seen } = harness({ verify });
    expect((await post({ body: bookingNotification })).result.status).toBe(401);
    expect(seen).toMatchObject([
      { error: { message: expect.stringContaining("Mount the webhook handler before") } },
    ]);
  });

  describe("of a body that stalls or breaks", () => {
    useFakeTime();
    const readsBody: Verify = async ({ rawBody }) => (await rawBody()).length > 0;

    it.each<[string, number, Verify, number | undefined, number]>([
      ["leads to 408 at replyWithin", 408, readsBody, 300, 300],
      [
        "leads to 408, too, if it is called late",
        408,
        (request) => new Promise((resolve) => setTimeout(() => resolve(readsBody(request)), 500)),
        1_000,
        1_000,
      ],
      [
        "leads to 408 if it is not awaited",
        408,
        ({ rawBody }) => {
          void rawBody();
          return true;
        },
        undefined,
        10_000,
      ],
    ])("%s", async (_, status, verify, replyWithin, ms) => {
      const { post } = harness({ verify, ...(replyWithin && { replyWithin }) });
      const body = new ReadableStream<Uint8Array>();
      expect((await resultAfter(ms, post({ body }))).status).toBe(status);
      expect(body.locked).toBe(false);
    });

    it("leaves no unhandled rejection and no lock if it is not awaited", async () => {
      for (const verdict of [true, false]) {
        const verify: Verify = ({ rawBody }) => {
          void rawBody();
          return verdict;
        };
        const error = new Error("reset");
        const broken = new ReadableStream({ pull: (controller) => controller.error(error) });
        expect(await statusOf({ body: broken }, { verify })).toBe(400);
      }
      const stalled = new ReadableStream<Uint8Array>();
      const refuses: Verify = ({ rawBody }) => {
        void rawBody();
        return false;
      };
      expect(await statusOf({ body: stalled }, { verify: refuses })).toBe(401);
      expect(stalled.locked).toBe(false);
    });

    it("does not extend the time of a verify that hangs after it", async () => {
      const verify: Verify = async ({ rawBody }) => {
        await rawBody();
        return new Promise<never>(() => {});
      };
      expect((await resultAfter(10_000, harness({ verify }).post())).status).toBe(503);
    });
  });
});
