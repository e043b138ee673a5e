import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { redactor } from "../../src/client/redact.ts";

// The usual encodings are removed exactly. Of any other encoding, only the secret must be gone.

const secret = "Abc/def+ghi=.jkl_m-n~o";
const redact = redactor(new Set([secret])).text;

const hexOf = (character: string, digits: number) =>
  character.charCodeAt(0).toString(16).padStart(digits, "0");
const each = (write: (character: string) => string) => [...secret].map(write).join("");
const base64 = (text: string) => Buffer.from(text).toString("base64");

const usual: Record<string, string> = {
  "as it is": secret,
  "percent-encoded in upper case": encodeURIComponent(secret),
  "percent-encoded in lower case": encodeURIComponent(secret).toLowerCase().replace("abc", "Abc"),
  "JSON with \\/": secret.replaceAll("/", "\\/"),
};

const unusual: Record<string, string> = {
  "percent-encoded whole": each((character) => `%${hexOf(character, 2)}`),
  "percent-encoded twice": encodeURIComponent(encodeURIComponent(secret)),
  "JSON in JSON": secret.replaceAll("/", "\\\\\\/"),
  "JSON with \\u and lower case": each((character) => `\\u${hexOf(character, 4)}`),
  "JSON with \\u and upper case": each((character) => `\\u${hexOf(character, 4).toUpperCase()}`),
  "named HTML entities": secret
    .replaceAll("/", "&sol;")
    .replaceAll("+", "&plus;")
    .replaceAll("=", "&equals;")
    .replaceAll("_", "&lowbar;"),
  "decimal HTML entities": each((character) => `&#${character.charCodeAt(0)};`),
  "hexadecimal HTML entities": each((character) => `&#X00${hexOf(character, 2)};`),
  "HTML entities, escaped once more": each((character) => `&amp;#${character.charCodeAt(0)};`),
};

test.each(Object.entries(usual))("a secret is removed from a text: %s", (_, form) => {
  expect(redact(`before ${form} after`)).toBe("before [redacted] after");
  expect(redact(`${form}${form}`)).toBe("[redacted][redacted]");
});

test.each(Object.entries(unusual))("a text that holds the secret in another encoding goes: %s", (_, form) => {
  expect(redact(`before ${form} after`)).toBe("[redacted]");
});

test("a secret with HTML's own characters is found as HTML writes it", () => {
  expect(redactor(["k=1&l=<2>"]).text("<p>k=1&amp;l=&lt;2&gt;</p>")).toBe("<p>[redacted]</p>");
});

describe("in base64", () => {
  test.each([0, 1, 2])("at alignment %i", (alignment) => {
    const whole = base64(`${"x".repeat(alignment)}${secret} and more`);
    // Leave out the first and last character of the secret: they also encode bits of the neighboring bytes.
    const core = whole.slice(
      Math.ceil((alignment * 8) / 6),
      Math.floor(((alignment + secret.length) * 8) / 6),
    );
    for (const form of [whole, whole.replaceAll("+", "-").replaceAll("/", "_"), encodeURIComponent(whole)]) {
      expect(redact(`Basic ${form} after`)).toContain("[redacted]");
      expect(redact(form)).not.toContain(core.slice(1, -1));
    }
  });
});

test("a secret that is in no ASCII is found percent-encoded", () => {
  const other = redactor(new Set(["schlüssel-für-öl"])).text;
  expect(other(`?t=${encodeURIComponent("schlüssel-für-öl")}&x=1`)).toBe("?t=[redacted]&x=1");
});

test("short secrets match as whole words, escaped or not", () => {
  const short = redactor(new Set(["a/b"])).text;
  expect(short("t=a%2fb a/b xa/b a/bx")).toBe("t=[redacted] [redacted] xa/b a/bx");
});

test("text without the secret stays as it is, whatever escapes it has", () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom("%", "25", "2f", "\\", "u0041", "&", "amp;", "#x", "41;", "é", "x")),
      (parts) => {
        const text = parts.join("");
        expect(redact(text)).toBe(text);
        expect(redact(`${text} ${secret} ${text}`)).toBe(`${text} [redacted] ${text}`);
      },
    ),
    { seed: 7 },
  );
});

test.each([
  ["HTML", '<a href="/x?id=%2042&amp;n=1">Caf&eacute;&nbsp;&lt;b&gt; and some text</a>\n'],
  ["backslashes", "\\\\"],
  ["percent signs", "%"],
  ["ampersands", "&amp;"],
])("10 MB of %s block nobody", (_, unit) => {
  const long = unit.repeat(Math.ceil((10 * 1024 * 1024) / unit.length));
  redact(long.slice(0, 100_000));
  const start = performance.now();
  expect(redact(long)).toBe(long);
  // 30 ms for HTML on an idle machine. The other sessions of a busy one take their time, too.
  expect(performance.now() - start).toBeLessThan(1000);
});

test("a long token is found in a large text", () => {
  const token = base64("{}".repeat(4000));
  const text = `${"%".repeat(300_000)}${token}${"\\\\".repeat(300_000)}&${"amp;".repeat(100_000)}`;
  expect(redactor([token]).text(text)).not.toContain(token);
});
