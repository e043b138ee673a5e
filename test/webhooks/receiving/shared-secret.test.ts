import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.ts";
import { type SharedSecretOptions, sharedSecret } from "../../../src/webhooks/receiving/verify.ts";

const secret = "s3cret-Ä+/=";
const encoded = encodeURIComponent(secret);

function ask(
  options: SharedSecretOptions,
  url: string,
  headers: HeadersInit = {},
): boolean | Promise<boolean> {
  const rawBody = (): never => {
    throw new Error("not needed");
  };
  return sharedSecret(options)({
    method: "POST",
    url,
    headers: new Headers(headers),
    topic: undefined,
    rawBody,
  });
}

describe("in the query", () => {
  const options = { query: "key", secret } as const;
  it.each([
    [true, `/hooks?key=${encoded}`],
    [true, `https://me.example/hooks?a=1&key=${encoded}&b=2#key=x`],
    [true, `https://me.example?key=${encoded}`],
    [true, `?key=${encoded}`],
    [true, `/hooks?key=${encoded}&other=key&Key=x`],
    [false, "/hooks"],
    [false, "/hooks?key="],
    [false, "/hooks?key"],
    [false, `/hooks?Key=${encoded}`],
    [false, `/hooks?other=${encoded}`],
    [false, `/hooks?key=${encoded}x`],
    [false, `/hooks?key=${encoded.slice(0, -1)}`],
    [false, `/hooks#?key=${encoded}`],
    [false, `/key=${encoded}`],
    [false, `/${encoded}`],
    [true, `/hooks?key=${encoded}&key=${encoded}`],
    [true, `/hooks?key=${encoded}&a=1&key=${encodeURIComponent(secret)}&key=${encoded}`],
    [false, "/hooks?key=wrong&key=wrong"],
    [false, `/hooks?key=${encoded}&key=`],
    [false, `/hooks?key=${encoded}&key=wrong`],
    [false, `/hooks?key=wrong&key=${encoded}`],
    [false, `/hooks?key[]=${encoded}`],
    [false, `/hooks??key=${encoded}`],
    [false, "/hooks?key=%zz"],
    [false, ""],
  ])("%s: %s", async (expected, url) => {
    expect(await ask(options, url)).toBe(expected);
  });

  it("is found where a secret with plus signs was pasted as it is, and where it was encoded", async () => {
    const pasted = { query: "key", secret: "a+b/c==" } as const;
    expect(await ask(pasted, "/hooks?key=a+b/c==")).toBe(true);
    expect(await ask(pasted, "/hooks?key=a%2Bb%2Fc%3D%3D")).toBe(true);
    expect(await ask(pasted, "/hooks?key=a%20b/c==")).toBe(false);
    expect(await ask({ query: "key", secret: "a b" }, "/hooks?key=a+b")).toBe(true);
  });
});

describe("in a header", () => {
  const options = { header: "X-Hook-Key", secret: "s3cret" } as const;
  it.each<[boolean, HeadersInit]>([
    [true, { "x-hook-key": "s3cret" }],
    [true, [["X-HOOK-KEY", " s3cret "]]],
    [false, {}],
    [false, { "x-hook-key": "" }],
    [false, { "x-hook-key": "S3cret" }],
    [false, { "x-hook": "s3cret" }],
    [
      false,
      [
        ["x-hook-key", "s3cret"],
        ["x-hook-key", "s3cret"],
      ],
    ],
  ])("%s: %j", async (expected, headers) => {
    expect(await ask(options, "/hooks?X-Hook-Key=s3cret", headers)).toBe(expected);
  });
});

describe("in the path", () => {
  const options = { pathSegment: "last", secret } as const;
  it.each([
    [true, `/hooks/${encoded}`],
    [true, `/hooks/${encoded}/`],
    [true, `/${encoded}?a=/b#/c`],
    [true, `https://me.example/hooks/${encoded}?a=b`],
    [true, "/hooks/s3cret-Ä+%2f="],
    [false, `/${encoded}/hooks`],
    [false, `/hooks/x${encoded}`],
    [false, `/hooks?/${encoded}`],
    [false, `/hooks#/${encoded}`],
    [false, "/"],
    [false, ""],
    [false, "/hooks/%zz"],
  ])("%s: %s", async (expected, url) => {
    expect(await ask(options, url)).toBe(expected);
  });

  it("is never the host", async () => {
    const named = { pathSegment: "last", secret: "me.example" } as const;
    for (const url of [
      "https://me.example",
      "https://me.example/",
      "https://me.example?a=1",
      "HTTPS://me.example#x",
    ]) {
      expect(await ask(named, url)).toBe(false);
    }
    expect(await ask(named, "https://me.example/me.example")).toBe(true);
  });
});

describe("the secret", () => {
  it("may be several, any of which will do", async () => {
    const options = { query: "key", secret: ["old", "new"] } as const;
    expect(await ask(options, "/?key=old")).toBe(true);
    expect(await ask(options, "/?key=new")).toBe(true);
    expect(await ask(options, "/?key=old,new")).toBe(false);
  });

  it.each([undefined, "", "  ", null, 12, [], ["a", ""], ["a", undefined], [undefined]])(
    "must not be %j",
    (unusable) => {
      const make = (): unknown => sharedSecret({ query: "key", secret: unusable as string });
      expect(make).toThrow(InvalidArgumentError);
      expect(make).toThrow(/secret/);
    },
  );

  it("is in exactly one place", () => {
    expect(() => sharedSecret(undefined as never)).toThrow(InvalidArgumentError);
    for (const places of [
      {},
      { query: "key", header: "x" },
      { query: "key", pathSegment: "last" },
      { header: "x", pathSegment: "last" },
      { query: "" },
      { query: 1 },
      { header: "" },
      { header: "no such name" },
      { pathSegment: "first" },
    ]) {
      const make = (): unknown => sharedSecret({ ...places, secret: "hunter2" } as SharedSecretOptions);
      expect(make, JSON.stringify(places)).toThrow(InvalidArgumentError);
      expect(make).not.toThrow(/hunter2/);
    }
  });

  it.each(["hunter2\n", " hunter2", "\thunter2", ["fine", "hunter2\r\n"], "hunter2\u00a0"])(
    "may not have white space around it: %j",
    (padded) => {
      const make = () => sharedSecret({ query: "key", secret: padded });
      expect(make).toThrow(InvalidArgumentError);
      expect(make).toThrow(/white space/);
      expect(make).not.toThrow(/hunter2/);
    },
  );

  it("is compared to its end and with each other secret, wherever a guess differs and however long it is", () => {
    const verify = sharedSecret({ query: "key", secret: ["0123456789abcdef", "fedcba9876543210"] });
    const request = { method: "POST", headers: new Headers(), topic: undefined, rawBody: () => never };
    const never = new Promise<never>(() => {});
    const reads = (key: string): number => {
      const url = `/?key=${key}`;
      const charCodeAt = vi.spyOn(String.prototype, "charCodeAt");
      try {
        verify({ ...request, url });
        return charCodeAt.mock.calls.length;
      } finally {
        charCodeAt.mockRestore();
      }
    };
    const guesses = ["0123456789abcdef", "x123456789abcdef", "0123456789abcdex", "x", "x".repeat(100), ""];
    expect(guesses.map(reads)).toEqual(guesses.map(() => 4 * 16));
  });

  it("fits itself and nothing else, in each place", async () => {
    const wellFormed = fc
      .string({ unit: "grapheme", minLength: 1 })
      .filter((text) => text !== "" && text.trim() === text);
    await fc.assert(
      fc.asyncProperty(wellFormed, wellFormed, async (right, given) => {
        const value = encodeURIComponent(given);
        expect(await ask({ query: "k", secret: right }, `/?k=${value}`)).toBe(given === right);
        if (/^\.\.?$/.test(given)) return;
        expect(await ask({ pathSegment: "last", secret: right }, `/x/${value}`)).toBe(given === right);
        expect(await ask({ pathSegment: "last", secret: right }, `/x/${encodeURIComponent(right)}`)).toBe(
          true,
        );
      }),
    );
  });
});

it("refuses a misspelled option, and says which was meant", () => {
  const options = { qeury: "key", secret: "hunter2" } as unknown as SharedSecretOptions;
  expect(() => sharedSecret(options)).toThrow(/`qeury`.*`query`/);
});
