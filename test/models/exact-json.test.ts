import fc from "fast-check";
import { expect, test } from "vitest";
import { parseExactly, withoutRounded } from "../../src/models/exact-json.ts";

const large = "1552696793824068710";

test.each([
  ['{"listingId":1552696793824068710}', { listingId: large }],
  ['{\n\t"bookingCode" :  1552696793824068710 , "x": 1}', { bookingCode: large, x: 1 }],
  ['[{"a":{"listingId":1552696793824068710}}]', [{ a: { listingId: large } }]],
  ['{"listingId":9007199254740991}', { listingId: 9007199254740991 }],
  ['{"listingId":9007199254740992}', { listingId: "9007199254740992" }],
  ['{"listingId":"1552696793824068710"}', { listingId: large }],
  ['{"listingId":1552696793824068710.0}', { listingId: large }],
  ['{"listingId":15526967938240687e2}', { listingId: Number("15526967938240687e2") }],
  ['{"other":1552696793824068710}', { other: Number(large) }],
  [String.raw`{"a":"\"listingId\":1552696793824068710"}`, { a: '"listingId":1552696793824068710' }],
  [String.raw`{"\"listingId":1552696793824068710}`, { '"listingId': Number(large) }],
  ['{"a":"listingId","b":1552696793824068710}', { a: "listingId", b: Number(large) }],
])("%s", (text, value) => {
  expect(parseExactly(text)).toEqual(value);
});

test.each(["", "{", '{"listingId":01552696793824068710}', '{"listingId":1552696793824068710x}'])(
  "%j is no JSON",
  (text) => {
    expect(() => parseExactly(text)).toThrow(SyntaxError);
  },
);

test("any JSON without a large id is parsed as by JSON.parse", () => {
  const text = fc.oneof(fc.json(), fc.json({ noUnicodeString: false }), fc.string());
  const key = fc.constantFrom("listingId", '"listingId', "listingId\\", "a", "x:1552696793824068710");
  // A number of 2^53 or more would be a large id.
  const small = fc.jsonValue().filter((each) => typeof each !== "number" || Math.abs(each) < 2 ** 53);
  const value = fc.oneof(small, key, fc.maxSafeInteger());
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
      expect(parse(parseExactly)).toEqual(parse(JSON.parse));
    }),
    { numRuns: 2000 },
  );
});

test("an id that another parser has rounded is not taken for digits", () => {
  const rounded = JSON.parse(`{"listingId":${large},"bookingCode":7,"x":${large}}`);
  const json = withoutRounded(JSON.stringify(rounded));
  expect(parseExactly(json)).toEqual(rounded);
  expect(withoutRounded('{"listingId":7}')).toBe('{"listingId":7}');
});
