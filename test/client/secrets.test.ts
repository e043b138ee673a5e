import { inspect } from "node:util";
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import * as z from "zod";
import { StayhookClient } from "../../src/client/client.ts";
import { APIError } from "../../src/client/client-errors.ts";
import { redactor } from "../../src/client/redact.ts";
import { accessToken, clientOf, platform, type Reply, rejection } from "./support.ts";

/** Everything that a user may print of a value. */
function shown(value: unknown): string {
  const { message = "", stack = "", cause } = (value ?? {}) as Error;
  const headers = value instanceof APIError ? [...value.headers].join() : "";
  const inspected = inspect(value, { depth: 20, showHidden: true });
  const below = cause ? shown(cause) : "";
  return [message, stack, headers, String(value), JSON.stringify(value), inspected, below].join("\n");
}

describe("the access token is not shown", () => {
  const secret = "s3cr3t+/token==";
  const inUnicode = [...secret].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");

  it.each<[string, Reply]>([
    ["in a message", { json: { message: `bad ${secret}` } }],
    ["in a field's name", { json: { [secret]: { [`x ${secret}`]: [`Bearer ${secret}`] } } }],
    ["escaped", { text: `{"message":"${inUnicode}"}` }],
    ["in text", { text: `<b>${secret}</b>` }],
    ["in text as JSON writes it", { text: `could not parse {"token":${JSON.stringify(secret)},` }],
    ["for a URL", { text: `/login?token=${encodeURIComponent(secret)}` }],
    [
      "in headers",
      { headers: { "x-request-id": secret, "www-authenticate": `Bearer ${secret}` }, text: "no" },
    ],
  ])("if the platform repeats it %s", async (_, reply) => {
    for (const status of [200, 400, 500]) {
      const seen: unknown[] = [];
      const see = (info: unknown) => seen.push(info);
      const server = await platform([{ status, ...reply }]);
      const options = { accessToken: secret, maxRetries: 0, onRequest: see, onResponse: see };
      const client = clientOf(server, options);
      for (const call of [
        () => client.bookings.get("A"),
        () => client.listings.list(),
        () => client.webhookConfig.get(),
      ]) {
        const text = shown(await rejection(call()));
        expect(text).not.toContain(secret);
        expect(text).not.toContain(encodeURIComponent(secret));
      }
      expect(shown(seen)).not.toContain(secret);
    }
  });

  it("in JSON of any depth", async () => {
    const server = await platform([{ text: `${"[".repeat(30_000)}"${secret}"${"]".repeat(30_000)}` }]);
    const error = await rejection(clientOf(server, { accessToken: secret }).bookings.get("A"));
    let value = error.body;
    while (Array.isArray(value)) value = value[0];
    expect(value).toBe("[redacted]");
  });

  it("if a schema repeats it", async () => {
    const server = await platform([{ json: { [secret]: secret } }]);
    const refuse = z.string().refine(() => false, { error: (issue) => `not ${issue.input}` });
    const client = clientOf(server, { accessToken: secret });
    const error = await rejection(client.request("GET", "/x", { schema: z.record(z.string(), refuse) }));
    expect(error.issues).toEqual([{ path: ["[redacted]"], message: "not [redacted]" }]);
    expect(shown(error)).not.toContain(secret);
  });

  it("if the platform repeats it in a redirect, which is followed or not", async () => {
    const encoded = encodeURIComponent(secret);
    for (const location of [`https://login.example/?t=${encoded}`, `/${encoded}`]) {
      const seen: unknown[] = [];
      const server = await platform(({ url }) =>
        url.startsWith("/s3") ? { status: 400 } : { status: 302, headers: { location } },
      );
      const options = { accessToken: secret, onRequest: (info: unknown) => seen.push(info) };
      const error = await rejection(clientOf(server, options).bookings.get("A"));
      expect(shown([error, error.message, ...seen])).not.toContain(encoded);
      expect(seen).toHaveLength(location.startsWith("/") ? 2 : 1);
    }
  });

  it("if it was refreshed, and neither is its predecessor", async () => {
    const server = await platform(({ headers }) => ({
      status: headers.authorization?.endsWith("old-token") ? 401 : 403,
      text: "old-token new-token",
    }));
    const accessToken = ({ reason }: { reason: string }) =>
      reason === "initial" ? "old-token" : "new-token";
    const error = await rejection(clientOf(server, { accessToken }).bookings.get("A"));
    expect(shown(error)).not.toMatch(/(old|new)-token/);
  });

  it("by the client itself", () => {
    const headers = { "x-key": accessToken };
    const client = new StayhookClient({ baseUrl: "https://h.example", accessToken, headers });
    for (const part of [client, client.bookings, client.webhookConfig])
      expect(shown(part)).not.toContain(accessToken);
  });
});

it("the secret in an endpoint's URL is not shown, and the topic is no secret", async () => {
  const url = "https://hooks.example/b?key=hunter2-hunter2";
  const message = `bookings: not reachable: ${url}`;
  const server = await platform(({ method, body }) =>
    method === "GET" ? { status: 404 } : { status: 422, json: { message, sent: body } },
  );
  const { webhookConfig } = clientOf(server);
  for (const call of [
    () => webhookConfig.create({ isActive: true, endpoints: { bookings: url } }),
    () => webhookConfig.ensure({ endpoints: url }),
  ]) {
    const error = await rejection(call());
    expect(error.message).toContain("bookings: not reachable: https://hooks.example/b?key=[redacted]");
    expect(shown(error)).not.toContain("hunter2");
  }
});

const secret = "Abc/def+ghi=.jkl_m-n~o";
const redact = redactor(new Set([secret])).text;
const hex = (character: string, digits = 2) => character.charCodeAt(0).toString(16).padStart(digits, "0");
const each = (write: (character: string) => string) => [...secret].map(write).join("");
const base64 = (text: string) => Buffer.from(text).toString("base64");

test.each([
  ["as it is", secret],
  ["percent-encoded in upper case", encodeURIComponent(secret)],
  ["percent-encoded in lower case", encodeURIComponent(secret).replace(/%../g, (code) => code.toLowerCase())],
  ["JSON with \\/", secret.replaceAll("/", "\\/")],
])("a usual encoding is removed from a text, and the rest stays: %s", (_, form) => {
  expect(redact(`before ${form} after ${form}`)).toBe("before [redacted] after [redacted]");
});

test.each([
  ["percent-encoded whole", each((c) => `%${hex(c)}`)],
  ["percent-encoded twice", encodeURIComponent(encodeURIComponent(secret))],
  ["JSON in JSON", secret.replaceAll("/", "\\\\\\/")],
  ["JSON with \\u", each((c) => `\\u${hex(c, 4).toUpperCase()}`)],
  [
    "named HTML entities",
    secret.replaceAll("/", "&sol;").replaceAll("+", "&plus;").replaceAll("=", "&equals;"),
  ],
  ["decimal HTML entities", each((c) => `&#${c.charCodeAt(0)};`)],
  ["hexadecimal HTML entities", each((c) => `&#X00${hex(c)};`)],
  ["HTML entities, escaped once more", each((c) => `&amp;#${c.charCodeAt(0)};`)],
])("a text that holds the secret in another encoding goes: %s", (_, form) => {
  expect(redact(`before ${form} after`)).toBe("[redacted]");
});

test.each([0, 1, 2])("the secret is removed from base64 at byte %i of a group", (before) => {
  const whole = base64(`${"x".repeat(before)}${secret} and more`);
  // Leave out the first and last character of the secret: they also encode bits of the neighboring bytes.
  const core = whole.slice(
    Math.ceil((before * 8) / 6) + 1,
    Math.floor(((before + secret.length) * 8) / 6) - 1,
  );
  for (const form of [whole, whole.replaceAll("+", "-").replaceAll("/", "_"), encodeURIComponent(whole)])
    expect(redact(`Basic ${form} after`)).not.toContain(core);
});

test("other alphabets, HTML's own characters and short secrets are found, too", () => {
  expect(redactor(["schlüssel-für-öl"]).text(`?t=${encodeURIComponent("schlüssel-für-öl")}&x=1`)).toBe(
    "?t=[redacted]&x=1",
  );
  expect(redactor(["k=1&l=<2>"]).text("<p>k=1&amp;l=&lt;2&gt;</p>")).toBe("<p>[redacted]</p>");
  // A short secret counts only as a whole word: other words may contain it.
  expect(redactor(["a/b"]).text("t=a%2fb a/b xa/b a/bx")).toBe("t=[redacted] [redacted] xa/b a/bx");
});

test("text without the secret stays as it is, whatever escapes it has", () => {
  const pieces = fc.constantFrom("%", "25", "2f", "\\", "u0041", "&", "amp;", "#x", "41;", "é", "x");
  fc.assert(
    fc.property(fc.array(pieces), (parts) => {
      const text = parts.join("");
      expect(redact(text)).toBe(text);
      expect(redact(`${text} ${secret} ${text}`)).toBe(`${text} [redacted] ${text}`);
    }),
    { seed: 7 },
  );
});

test.each(['<a href="/x?id=%2042&amp;n=1">Caf&eacute;&nbsp;&lt;b&gt; and text</a>\n', "\\\\", "%", "&amp;"])(
  "10 MB of %j block nobody",
  (unit) => {
    const long = unit.repeat(Math.ceil((10 * 1024 * 1024) / unit.length));
    const shown = redact(long);
    // A search in the rest would find the secret, and return nothing else.
    const unusual = encodeURIComponent(encodeURIComponent(secret));
    expect([redact(unusual), redact(long + unusual)]).toEqual(["[redacted]", shown]);
    expect(shown.length).toBeLessThanOrEqual(64 * 1024 + 1);
    expect(long.startsWith(shown.slice(0, -1))).toBe(true);
  },
);

test("a secret that the cut of a long text halves is not shown in part", () => {
  for (const form of [secret, encodeURIComponent(secret), JSON.stringify(secret)])
    for (let shown = 1; shown <= form.length; shown += 1) {
      const text = `${"x".repeat(64 * 1024 - shown)}${form}${"y".repeat(100)}`;
      expect(redact(text)).toMatch(/^x+(\[redacted\])?…$/);
    }
});

test.each([
  ["a text of the length that is shown", secret, "x".repeat(64 * 1024), "x".repeat(64 * 1024)],
  // Nine times the secret is longer than the text, so nothing may stay.
  ["the half of a long secret", "s".repeat(7500), `${"x".repeat(58_100)}${"s".repeat(7500)}`, "…"],
])("%s", (_, hidden, text, shown) => {
  expect(redactor([hidden]).text(text)).toBe(shown);
});

test("JSON whose secrets are removed is JSON as any other", () => {
  const sent = JSON.parse(`{"${secret}1":1,"${secret}2":2,"__proto__":{"a":"${secret}"},"b":"${secret}"}`);
  const expected = JSON.parse(
    '{"[redacted]1":1,"[redacted]2":2,"__proto__":{"a":"[redacted]"},"b":"[redacted]"}',
  );
  const properties = (value: object) => Object.getOwnPropertyDescriptors(value);
  expect(properties(redactor([secret]).json(sent) as object)).toEqual(properties(expected));
});

describe("an answer over 64 KiB", () => {
  const deep = `${"[".repeat(2_000_000)}${"]".repeat(2_000_000)}`;
  const dense = JSON.stringify({ message: "no room", text: "\\%2f&amp;".repeat(600_000) });

  test.each([
    ["deep JSON", deep, undefined],
    ["dense escapes", dense, "no room"],
  ])("is the start of its text in an error, and blocks nobody: %s", async (_, text, message) => {
    const server = await platform([{ text: text.replace("[]", `["${secret}"]`), status: 500 }]);
    const client = new StayhookClient({ baseUrl: server.url, accessToken: secret, maxRetries: 0 });
    const error = (await client.bookings.get("A").catch((thrown) => thrown)) as APIError;
    expect(error.body).toMatch(/…$/);
    expect(String(error.body).length).toBeLessThanOrEqual(64 * 1024 + 1);
    expect(text.startsWith(String(error.body).slice(0, -1))).toBe(true);
    if (message !== undefined) expect(error.message).toContain(message);
  });
});
