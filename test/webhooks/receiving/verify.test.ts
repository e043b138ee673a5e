import { describe, expect, it, vi } from "vitest";
import type { Verify, VerifyRequest } from "../../../src/webhooks/receiving/verify.ts";
import { bookingNotification, bytesOf, countingStream, harness } from "./receiver.ts";

const text = JSON.stringify(bookingNotification);
const never = new Promise<never>(() => {});

/** Runs `body` under fake timers. Fails if it leaves an unhandled rejection. */
async function underFakeTimers(body: () => Promise<void>): Promise<void> {
  const unhandled = vi.fn();
  process.on("unhandledRejection", unhandled);
  vi.useFakeTimers();
  try {
    await body();
  } finally {
    vi.useRealTimers();
    await new Promise((resolve) => setTimeout(resolve, 10));
    process.off("unhandledRejection", unhandled);
  }
  expect(unhandled).not.toHaveBeenCalled();
}

describe("verify", () => {
  it("gets a request that it can copy with its headers", async () => {
    const verify = (request: VerifyRequest) => ({ ...request }).headers.get("x-secret") === "s";
    const { post } = harness({ verify });
    expect((await post({ headers: { "x-secret": "s" } })).result.status).toBe(200);
    expect((await post({ headers: { "x-secret": "other" } })).result.status).toBe(401);
  });

  it("gets the request with standard headers", async () => {
    let given: VerifyRequest | undefined;
    const { post } = harness({
      verify: (request) => {
        given = request;
        return true;
      },
    });
    const headers = { "X-One": "1", many: ["a", "b"], none: undefined, ":path": "/", "bad name": "x" };
    await post({ url: "/hooks?key=1", headers, topic: "bookings" });
    expect(given).toMatchObject({ method: "POST", url: "/hooks?key=1", topic: "bookings" });
    expect(given?.headers).toBeInstanceOf(Headers);
    expect(Object.fromEntries(given?.headers ?? [])).toEqual({ "x-one": "1", many: "a, b" });
    expect(given?.headers).toBe(given?.headers);
  });

  it.each([
    ["Headers", new Headers({ "X-One": "1" })],
    ["pairs", [["X-One", "1"]] as [string, string][]],
    ["a Map", new Map([["X-One", "1"]])],
  ])("has them from %s too", async (_, headers) => {
    const { post } = harness({ verify: (request) => request.headers.get("x-one") === "1" });
    expect((await post({ headers })).result.status).toBe(200);
  });

  it.each<[string, Verify]>([
    ["false", () => false],
    ["false, later", async () => false],
    ["nothing", (() => undefined) as unknown as Verify],
    ["something that is not true", (() => "yes") as unknown as Verify],
    ["something that is not true, later", (async () => 1) as unknown as Verify],
  ])("refuses with 401 by %s", async (_, verify) => {
    const { post, added, seen } = harness({ verify });
    const { result } = await post({ url: "/hooks?key=geheim" });
    expect(result.status).toBe(401);
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

  it("a refusal prevents the body from being read", async () => {
    const { stream, state } = countingStream([bytesOf(text)]);
    const { post } = harness({ verify: () => false });
    expect((await post({ body: stream })).result.status).toBe(401);
    expect(state).toEqual({ pulled: 0, cancelled: false });
    expect(stream.locked).toBe(false);
  });

  it("has replyWithin to decide, and a late end is ignored", () =>
    underFakeTimers(async () => {
      let fail: (error: Error) => void = () => {};
      const verify: Verify = () => new Promise((_, reject) => (fail = reject));
      const { post, seen } = harness({ verify, replyWithin: 2_000 });
      let answered = false;
      const answer = post().finally(() => (answered = true));
      await vi.advanceTimersByTimeAsync(1_990);
      expect(answered).toBe(false);
      await vi.advanceTimersByTimeAsync(15);
      expect(answered).toBe(true);
      const { result } = await answer;
      expect(result.status).toBe(503);
      expect(Number(result.headers["retry-after"])).toBeGreaterThan(0);
      expect(seen).toEqual([{ kind: "refused", status: 503, reason: "verify-timeout", topic: null }]);
      fail(new Error("too late"));
    }));
});

describe("rawBody()", () => {
  it.each<[string, () => object | string | undefined]>([
    ["a string", () => text],
    ["bytes", () => bytesOf(text)],
    ["a stream", () => new Blob([text]).stream()],
  ])("has the bytes of %s, which are then parsed all the same", async (_, make) => {
    const bodies: string[] = [];
    const verify: Verify = async ({ rawBody }) => {
      const [first, second] = await Promise.all([rawBody(), rawBody()]);
      expect(first).toBeInstanceOf(Uint8Array);
      bodies.push(new TextDecoder().decode(first), new TextDecoder().decode(second));
      return true;
    };
    const { post, added } = harness({ verify });
    expect((await post({ body: make() })).result.status).toBe(200);
    expect(bodies).toEqual([text, text]);
    expect(added).toHaveLength(1);
  });

  it("is empty if there is no body", async () => {
    const verify: Verify = async ({ rawBody }) => (await rawBody()).length === 0;
    expect((await harness({ verify }).post({ body: undefined })).result.status).toBe(400);
  });

  const chunk = new Uint8Array(400);
  it.each<[string, Verify]>([
    ["throws on", async ({ rawBody }) => (await rawBody()).length > 0],
    [
      "swallows it and says yes",
      ({ rawBody }) =>
        rawBody().then(
          () => true,
          () => true,
        ),
    ],
    [
      "swallows it and says no",
      ({ rawBody }) =>
        rawBody().then(
          () => true,
          () => false,
        ),
    ],
  ])("of a body that is too large is 413, without reading on, where verify %s", async (_, verify) => {
    const { stream, state } = countingStream([chunk, chunk, chunk, chunk, chunk, chunk]);
    const { post, seen } = harness({ verify });
    expect((await post({ body: stream })).result.status).toBe(413);
    expect(state.pulled).toBe(3);
    expect(seen).toMatchObject([{ reason: "too-large" }]);
    const declared = countingStream([chunk]);
    const headers = { "content-length": "1001" };
    expect((await post({ body: declared.stream, headers })).result.status).toBe(413);
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

  it("of a stalling body leads to 408 at once", () =>
    underFakeTimers(async () => {
      const verify: Verify = async ({ rawBody }) => (await rawBody()).length > 0;
      for (const [options, after] of [
        [{ replyWithin: 300 }, 300],
        [{}, 10_000],
      ] as const) {
        const { post } = harness({ verify, ...options });
        let answered = false;
        const answer = post({ body: new ReadableStream() }).finally(() => (answered = true));
        await vi.advanceTimersByTimeAsync(after - 5);
        expect(answered).toBe(false);
        await vi.advanceTimersByTimeAsync(10);
        expect(answered).toBe(true);
        expect((await answer).result.status).toBe(408);
      }
    }));

  it("that is called late leads to 408, too, if the body stalls", () =>
    underFakeTimers(async () => {
      const verify: Verify = async ({ rawBody }) => {
        await new Promise((resolve) => setTimeout(resolve, 500));
        return (await rawBody()).length > 0;
      };
      const { post } = harness({ verify, replyWithin: 1_000 });
      const answer = post({ body: new ReadableStream() });
      await vi.advanceTimersByTimeAsync(1_005);
      expect((await answer).result.status).toBe(408);
    }));

  it("that is not awaited leaves no unhandled rejection", () =>
    underFakeTimers(async () => {
      const error = new Error("reset");
      const broken = (): ReadableStream =>
        new ReadableStream({ pull: (controller) => controller.error(error) });
      for (const verdict of [true, false]) {
        const verify: Verify = ({ rawBody }) => {
          void rawBody();
          return verdict;
        };
        const { post } = harness({ verify });
        expect((await post({ body: broken() })).result.status).toBe(400);
        const stalled = new ReadableStream<Uint8Array>();
        const answer = post({ body: stalled });
        if (verdict) await vi.advanceTimersByTimeAsync(10_001);
        expect((await answer).result.status).toBe(verdict ? 408 : 401);
        expect(stalled.locked).toBe(false);
      }
    }));

  it("does not extend the time of a verify that hangs after it", () =>
    underFakeTimers(async () => {
      const verify: Verify = async ({ rawBody }) => {
        await rawBody();
        return never;
      };
      const { post } = harness({ verify });
      const answer = post();
      await vi.advanceTimersByTimeAsync(10_001);
      expect((await answer).result.status).toBe(503);
    }));
});
