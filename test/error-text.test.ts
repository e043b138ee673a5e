import { describe, expect, it } from "vitest";
import { cutToBytes, errorText, errorTextWithFrames, splitFrames } from "../src/error-text.ts";

describe("errorText", () => {
  it.each([
    ["an error", new TypeError("no"), "TypeError: no"],
    ["causes", new Error("a", { cause: new Error("b", { cause: "c" }) }), "Error: a <- Error: b <- c"],
    ["a cause once", new Error("not read: gone", { cause: new Error("gone") }), "Error: not read: gone"],
    [
      "an AggregateError",
      new AggregateError([new Error("a"), "b"], "all", { cause: new Error("c") }),
      "AggregateError: all [Error: a; b] <- Error: c",
    ],
    [
      "an error with a code alone",
      Object.assign(new AggregateError([]), { code: "ECONNREFUSED" }),
      "AggregateError: ECONNREFUSED",
    ],
    ["an error without a message", new Error(), "Error"],
    ["undefined", undefined, "undefined"],
    ["a plain object", { code: 7 }, '{"code":7}'],
    ["a symbol", Symbol("s"), "Symbol(s)"],
    ["text that databases refuse", new Error("a\ud800\0b"), "Error: a\uFFFD\uFFFDb"],
  ])("shows %s", (_, thrown, text) => expect(errorText(thrown)).toBe(text));

  it("ends where errors name each other, or never end", () => {
    const error: Error & { cause?: unknown } = new Error("a");
    error.cause = new AggregateError([error, new Error("b", { cause: error })], "list");
    expect(errorText(error)).toBe("Error: a <- AggregateError: list [Error: b]");
    const endless = () =>
      new AggregateError(
        Array.from({ length: 1000 }, () => new Error("x")),
        "y",
      );
    expect(errorText(endless()).split("x")).toHaveLength(10);
    const deep = Array.from({ length: 1000 }).reduce<Error>(
      (cause) => new Error("z", { cause }),
      new Error("z"),
    );
    expect(errorText(deep).split("z")).toHaveLength(11);
  });

  it.each([
    ["getters that throw", Object.defineProperty(new Error("x"), "message", { get: () => JSON.parse("") })],
    ["a revoked proxy", revoked()],
    ["no prototype", Object.create(null)],
    ["a circular object", circular()],
  ])("never throws: %s", (_, thrown) => expect(errorText(thrown)).toBe("a value that cannot be shown"));

  it("has 2 KiB of UTF-8 at most, and cuts no character in two", () => {
    for (const character of ["x", "é", "東", "🏠"])
      for (let shift = 0; shift < 4; shift += 1) {
        const text = errorText("a".repeat(shift) + character.repeat(3000));
        const bytes = Buffer.byteLength(text);
        expect(bytes).toBeLessThanOrEqual(2048);
        expect(bytes).toBeGreaterThan(2044);
        expect(text).toMatch(new RegExp(`^a*${character}+…$`, "u"));
      }
    expect(cutToBytes("é".repeat(5), 10)).toBe("é".repeat(5));
  });
});

describe("a long message and its causes", () => {
  const refused = () =>
    Object.assign(new Error("connect ECONNREFUSED 10.0.0.7:5432"), { code: "ECONNREFUSED" });
  const long = "Invalid `prisma.stay.create()` invocation: ".repeat(100);
  const bytes = (text: string) => Buffer.byteLength(text);

  it("has the whole limit where there is no more to tell", () => {
    expect(bytes(errorText(new Error(long)))).toBe(2048);
  });

  it("takes half at most, and each cause and member shows its head", () => {
    const text = errorText(new Error(long, { cause: new TypeError("fetch failed", { cause: refused() }) }));
    expect(text).toMatch(/… <- TypeError: fetch failed <- Error: connect ECONNREFUSED 10\.0\.0\.7:5432$/);
    expect(bytes(text.split("…")[0]!)).toBeLessThanOrEqual(1024);
    expect(bytes(text.split("…")[0]!)).toBeGreaterThan(1000);
    const members = errorText(new AggregateError([refused(), new Error(`second ${long}`)], long));
    expect(members).toMatch(/… \[Error: connect ECONNREFUSED 10\.0\.0\.7:5432; Error: second Invalid .*…\]$/);
    expect(bytes(members)).toBeLessThanOrEqual(2048);
  });

  it("with nine long causes of wide characters, all begin, and 2 KiB hold them", () => {
    const deep = Array.from({ length: 9 }).reduce<Error>(
      (cause, _, index) => new Error(`${index} ${"東".repeat(2000)}`, { cause }),
      refused(),
    );
    for (const text of [errorText(deep), errorTextWithFrames(deep)]) {
      for (let index = 0; index < 9; index += 1) expect(text).toContain(`Error: ${index} 東`);
      expect(text).toContain("Error: connect ECONNREFUSED");
      expect(bytes(text)).toBeLessThanOrEqual(2048);
    }
  });
});

describe("the frames of the user's own code", () => {
  function withStack(error: Error, ...frames: string[]): Error {
    error.stack = [`${error.name}: ${error.message}`, ...frames.map((frame) => `    at ${frame}`)].join("\n");
    return error;
  }
  const own = [
    "saveStay (/srv/app/src/stays.ts:12:9)",
    "async on.booking (file:///srv/app/src/hooks.ts:40:5)",
  ];
  const others = [
    "Client.query (/srv/app/node_modules/pg/lib/client.js:1:1)",
    "run (/srv/app/node_modules/.pnpm/stayhook@1.1.0/node_modules/stayhook/dist/chunk-A.js:1:1)",
    "node:internal/process/task_queues:95:5",
    "process.processTicksAndRejections (node:internal/process/task_queues:95:5)",
    "async Promise.all (index 0)",
    "new Promise (<anonymous>)",
  ];

  it("are three at most, without packages, the runtime, and this package", () => {
    const error = withStack(new Error("no"), ...others.slice(0, 2), ...own, ...others.slice(2));
    const text = errorTextWithFrames(error);
    expect(text).toBe(`Error: no
    at saveStay (/srv/app/src/stays.ts:12:9)
    at async on.booking (/srv/app/src/hooks.ts:40:5)`);
    expect(splitFrames(text)).toEqual({
      text: "Error: no",
      frames: [
        "at saveStay (/srv/app/src/stays.ts:12:9)",
        "at async on.booking (/srv/app/src/hooks.ts:40:5)",
      ],
    });
    const many = Array.from({ length: 9 }, (_, index) => `f${index} (C:\\app\\x.js:1:${index})`);
    expect(splitFrames(errorTextWithFrames(withStack(new Error("no"), ...many))).frames).toEqual(
      many.slice(0, 3).map((frame) => `at ${frame}`),
    );
  });

  it("come from a cause where the error itself has none", () => {
    const cause = withStack(new Error("inner"), ...own);
    const outer = withStack(new Error("outer", { cause }), others[0]!);
    expect(errorTextWithFrames(outer)).toMatch(/^Error: outer <- Error: inner\n {4}at saveStay/);
  });

  it("stay whole at their end, without a query, and leave room for the message and its cause", () => {
    const folder = `/srv/${"deep/".repeat(200)}`;
    const frames = [1, 2, 3, 4].map((line) => `on.booking (file://${folder}hooks.mjs?t=s3cret:${line}:5)`);
    const error = withStack(new Error("x".repeat(5000), { cause: new Error("the cause") }), ...frames);
    const text = errorTextWithFrames(error);
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(2048);
    expect(text).toMatch(/^Error: x{600,}… <- Error: the cause\n/);
    expect(splitFrames(text).frames.map((frame) => frame.slice(-15))).toEqual([
      "/hooks.mjs:1:5)",
      "/hooks.mjs:2:5)",
      "/hooks.mjs:3:5)",
    ]);
  });

  it("are not read out of the message, and a stack that is no text, or throws, has none", () => {
    const forged = new Error("no\n    at forged (/srv/app/x.ts:1:1)");
    withStack(forged, own[0]!);
    expect(splitFrames(errorTextWithFrames(forged)).frames.at(-1)).toBe(`at ${own[0]}`);
    expect(errorTextWithFrames(forged).match(/forged/g)).toHaveLength(1);
    for (const stack of [undefined, 7, [{}]])
      expect(errorTextWithFrames(Object.assign(new Error("no"), { stack }))).toBe("Error: no");
    const throwing = Object.defineProperty(new Error("no"), "stack", { get: () => JSON.parse("") });
    expect(errorTextWithFrames(throwing)).toBe("Error: no");
    for (const value of ["text", undefined, { code: 7 }])
      expect(errorTextWithFrames(value)).toBe(errorText(value));
  });
});

function revoked(): unknown {
  const { proxy, revoke } = Proxy.revocable(new Error("x"), {});
  revoke();
  return proxy;
}

function circular(): unknown {
  const object: Record<string, unknown> = {};
  object.self = object;
  return object;
}
