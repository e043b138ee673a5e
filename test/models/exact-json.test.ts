import fc from "fast-check";
import { expect, test } from "vitest";
import { parseExactly, withoutRounded } from "../../src/models/exact-json.ts";
import { sized } from "../support/soak.ts";

const large = "1552696793824068710";

test.each([
  ['{"listingId":1552696793824068710}', { listingId: large }],
  ['{\n\t"bookingCode" :  1552696793824068710 , "x": 1}', { bookingCode: large, x: 1 }],
  [
    '{"threadId":1552696793824068710,"guest":{"id":-1552696793824068710}}',
    { threadId: large, guest: { id: `-${large}` } },
  ],
  ["[1552696793824068710,[ 1552696793824068710]]", [large, [large]]],
  ["1552696793824068710", large],
  ["9007199254740991", 9007199254740991],
  ["9007199254740992", "9007199254740992"],
  ["-9007199254740991", -9007199254740991],
  ["-9007199254740993", "-9007199254740993"],
  [`[${"9".repeat(400)}]`, ["9".repeat(400)]],
  ['{"listingId":"1552696793824068710"}', { listingId: large }],
  // A number with a point or an exponent may be an amount.
  ['{"amount":1552696793824068710.0}', { amount: Number(large) }],
  ["[12345678901234567.5, 0.1234567890123456]", [Number("12345678901234567.5"), 0.1234567890123456]],
  ["15526967938240687e2", Number("15526967938240687e2")],
  ["[1e1234567890123456, 1e-1234567890123456, 1E+1234567890123456]", [Infinity, 0, Infinity]],
  ["[-0,1e3]", [-0, 1000]],
  [String.raw`{"a":"\"listingId\":1552696793824068710"}`, { a: '"listingId":1552696793824068710' }],
  [String.raw`{"\"a\\":1552696793824068710}`, { '"a\\': large }],
  ['{"1552696793824068710":"1552696793824068710 , 1"}', { [large]: `${large} , 1` }],
])("%s", (text, value) => {
  expect(parseExactly(text)).toEqual(value);
});

test.each([
  "",
  "{",
  '{"listingId":01552696793824068710}',
  '{"listingId":1552696793824068710x}',
  "{1552696793824068710:1}",
  "+1552696793824068710",
])("%j is no JSON", (text) => {
  expect(() => parseExactly(text)).toThrow(SyntaxError);
});

test("any other JSON is parsed as by JSON.parse", () => {
  const isLarge = (value: unknown) =>
    Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value as number) < 1e21;
  const expected = (json: string): unknown =>
    JSON.parse(json, (_, value: unknown) => (isLarge(value) ? String(value) : value));
  const text = fc.oneof(fc.json(), fc.json({ noUnicodeString: false }), fc.string());
  const key = fc.constantFrom("listingId", '"listingId', "listingId\\", "a", "x:1552696793824068710");
  const value = fc.oneof(fc.jsonValue(), key, fc.maxSafeInteger());
  const odd = fc.dictionary(key, value).map((object) => JSON.stringify(object));
  fc.assert(
    fc.property(fc.oneof(text, odd), (json) => {
      const parse = (parser: (text: string) => unknown) => {
        try {
          return parser(json);
        } catch {
          return "no JSON";
        }
      };
      expect(parse(parseExactly)).toEqual(parse(expected));
    }),
    { numRuns: sized(400, 2000) },
  );
});

test("a text of many escapes is no problem", () => {
  const text = '"\\'.repeat(1_000_000);
  expect(parseExactly(JSON.stringify({ text, id: "#" }).replace('"#"', large))).toEqual({ text, id: large });
});

test("an id that another parser has rounded is not taken for digits", () => {
  const rounded = JSON.parse(`{"listingId":${large},"bookingCode":7,"x":{"id":${large}},"amount":12.5}`);
  const json = withoutRounded(JSON.stringify(rounded));
  expect(parseExactly(json)).toEqual(rounded);
  expect(withoutRounded('{"listingId":7}')).toBe('{"listingId":7}');
});
