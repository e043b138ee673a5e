import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isoTimestamp, parseTimestamp } from "../../src/models/dates.ts";
import { parseNotification, WebhookNotification } from "../../src/models/notification.ts";
import { sized } from "../support/soak.ts";

const eventId = "0f8fad5b-d9cb-469f-a165-70867728950e";
const timestamp = "2026-05-04T03:02:01Z";
const parse = (fields: object) => parseNotification({ eventId, timestamp, ...fields });
const issuesOf = (value: unknown) => {
  const result = parseNotification(value);
  return result.ok ? [] : result.issues.map((issue) => issue.path.join("."));
};

describe("a notification", () => {
  it("is read with its fields in normalized form", () => {
    const sent = { eventId: eventId.toUpperCase(), bookingCode: "HX3K9", listingId: null, more: [1] };
    expect(parse(sent)).toEqual({
      ok: true,
      eventId,
      timestamp: new Date(timestamp).toISOString(),
      bookingCode: "HX3K9",
      listingId: null,
    });
  });

  it.each<[unknown, unknown, string | null, number | null]>([
    [undefined, undefined, null, null],
    ["A", 7, "A", 7],
    [undefined, "007", null, 7],
    [undefined, 0, null, 0],
    [4711, 0, "4711", null],
    // A blank reference does not count beside a usable one.
    ["A", 0, "A", null],
    ["A", " ", "A", null],
    ["A", "00", "A", null],
    ["", 7, null, 7],
    [" \n", "7", null, 7],
    [0, 7, null, 7],
    [" ", 0, " ", 0],
    [" ", undefined, " ", null],
  ])("with the booking %j and the listing %j refers to %j and %j", (bookingCode, listingId, code, id) => {
    expect(parse({ bookingCode, listingId })).toMatchObject({ ok: true, bookingCode: code, listingId: id });
  });

  it.each<[string, readonly unknown[]]>([
    ["listingId", [1.5, "", "x", "1.0", " 1", "1e3", true, {}, [], 2 ** 53, -7.5, "9".repeat(65)]],
    ["bookingCode", ["", ".", "..", " .. ", "a\u0000b", "a\nb", "\u007f", "\u0085", "\ud800", "x\udc00"]],
    ["bookingCode", ["x".repeat(257), 0, -7, 7.5, 2 ** 53, {}, true]],
    ["eventId", ["", "x", 7, null, undefined, `{${eventId}}`, `${eventId}0`, `${eventId}\n`]],
    ["eventId", [eventId.replaceAll("-", "")]],
  ])("is refused for its %s, which is one of %j", (field, values) => {
    for (const value of values)
      expect(issuesOf({ eventId, timestamp, [field]: value }), String(value)).toEqual([field]);
    expect(issuesOf({ eventId, timestamp, bookingCode: "a\u0000", listingId: 0 })).toEqual(["bookingCode"]);
  });

  it.each(["x", "...", "a/b", "%2e%2e", "é", "😀".repeat(256), "a b"])(
    "may have the booking code %j",
    (code) => {
      expect(parse({ bookingCode: code })).toMatchObject({ ok: true, bookingCode: code });
    },
  );

  it.each([
    "00000000-0000-0000-0000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "ABCDEF01-2345-9789-0bcd-ef0123456789",
  ])("may have the event id %j, whatever its version", (id) => {
    expect(parse({ eventId: id })).toMatchObject({ ok: true, eventId: id.toLowerCase() });
  });

  it("of a message has only a usable code, whatever the values", () => {
    const sent = { eventId, timestamp, listingId: "x" };
    for (const [given, bookingCode] of [
      [{}, null],
      ["", null],
      ["HX3K9", "HX3K9"],
    ])
      expect(parseNotification({ ...sent, bookingCode: given }, { isMessage: true })).toMatchObject({
        ok: true,
        bookingCode,
        listingId: null,
      });
  });

  it("must be an object, and names every wrong field at once", () => {
    for (const value of [null, undefined, 7, "x", [], [{ eventId, timestamp }]])
      expect(issuesOf(value)).toEqual([""]);
    expect(issuesOf({ bookingCode: {}, listingId: "x" })).toEqual(["eventId", "bookingCode", "listingId"]);
  });

  it.each([
    [{ bookingcode: "HX3K9" }, { key: "bookingcode", meant: "bookingCode" }],
    [
      { listing_id: 7, sent: true },
      { key: "listing_id", meant: "listingId" },
    ],
    [{ guest: "A" }, undefined],
    [{ bookingcode: "HX3K9", listingId: 7 }, undefined],
  ])("names a misspelt key if it names no record: %j", (fields, misspelt) => {
    const parsed = parse(fields);
    expect(parsed.ok && parsed.misspelt).toEqual(misspelt);
  });

  it("is not misled by a prototype's fields, or by deep nesting", () => {
    const text = `{"eventId":"${eventId}","__proto__":{"bookingCode":"P"},"x":"\\ud800","constructor":1}`;
    expect(parseNotification(JSON.parse(text))).toMatchObject({ ok: true, bookingCode: null });
    const deep = JSON.parse(`${"[".repeat(100_000)}${"]".repeat(100_000)}`);
    expect(parse({ deep }).ok).toBe(true);
    expect(issuesOf({ eventId: deep, timestamp: deep, bookingCode: deep, listingId: deep })).toHaveLength(3);
  });

  it("never throws, and agrees with its schema, on any JSON", () => {
    const odd = fc.constantFrom<unknown>(
      "",
      "0",
      0,
      -0,
      " ",
      ".",
      "..",
      "a b",
      "\ud800",
      1.5,
      2 ** 60,
      true,
      {},
      [],
    );
    const missing = fc.constantFrom(null, undefined);
    const value = fc.record(
      {
        eventId: fc.oneof(
          fc.uuid().map((id) => id.toUpperCase()),
          fc.string({ unit: fc.constantFrom(..."0123456789abcdef-"), maxLength: 40 }),
          { weight: 4, arbitrary: fc.uuid() },
          odd,
        ),
        timestamp: fc.oneof(
          fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
          fc.string(),
          odd,
        ),
        bookingCode: fc.oneof(fc.string(), fc.stringMatching(/^[\w-]{1,70}$/), missing, odd, fc.jsonValue()),
        listingId: fc.oneof(fc.integer(), fc.double(), fc.nat().map(String), missing, odd, fc.jsonValue()),
        more: fc.jsonValue(),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.oneof({ weight: 20, arbitrary: value }, fc.jsonValue()), (given) => {
        const result = parseNotification(given);
        const schema = WebhookNotification.safeParse(given);
        if (schema.success) expect(result.ok).toBe(true);
        if (!result.ok) expect(result.issues.length).toBeGreaterThan(0);
      }),
      { numRuns: sized(500, 3000) },
    );
  });
});

describe("the time of a notification", () => {
  const timeOf = (value: unknown) => {
    const result = parseNotification({ eventId, timestamp: value });
    return result.ok && result.timestamp;
  };

  it.each([
    ["2026-05-04t03:02:01z", "2026-05-04T03:02:01.000Z"],
    ["2026-05-04T03:02", "2026-05-04T03:02:00.000Z"],
    ["2026-05-04T03:02:01.1Z", "2026-05-04T03:02:01.100Z"],
    ["2026-05-04T03:02:01.123456789Z", "2026-05-04T03:02:01.123Z"],
    ["2026-05-04T03:02:01,5Z", "2026-05-04T03:02:01.500Z"],
    ["2026-05-04T03:02:01+02", "2026-05-04T01:02:01.000Z"],
    ["2028-02-29T00:00:00Z", "2028-02-29T00:00:00.000Z"],
    ["2026-05-04T24:00:00Z", "2026-05-05T00:00:00.000Z"],
    ["2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000Z"],
    ["0050-01-01T00:00:00Z", "0050-01-01T00:00:00.000Z"],
    ["20260504T0302+0200", "2026-05-04T01:02:00.000Z"],
    ["20260504T030201.5-09", "2026-05-04T12:02:01.500Z"],
    [" 2026-05-04T03:02:01Z\n", "2026-05-04T03:02:01.000Z"],
    [1_777_777_777.5, "2026-05-03T03:09:37.500Z"],
    [1_777_777_777_123, "2026-05-03T03:09:37.123Z"],
    ["1777777777", "2026-05-03T03:09:37.000Z"],
  ])("may be written as %s", (text, iso) => {
    expect(timeOf(text)).toBe(iso);
  });

  it.each<[string, readonly unknown[]]>([
    ["no text of a time", ["", "now", "2026-05-04", "03:02:01", "20260504", "12345678", "2026-05-04T03Z"]],
    ["no form of a time", ["2026-05-04T03:02:01.Z", "2026-05-04T03:02:01ZZ", "x2026-05-04T03:02:01Z"]],
    ["mixed separators", ["2026-0504T03:02:01Z"]],
    ["no day", ["2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-02-29T00:00:00Z", "2026-05-00T00:00Z"]],
    [
      "no hour",
      ["2026-05-04T25:00:00Z", "2026-05-04T24:00:01Z", "2026-05-04T24:01Z", "2026-05-04T03:60:00Z"],
    ],
    ["no second", ["2026-05-04T03:02:61Z", "2026-05-04T03:02:60Z", "1969-06-30T12:30:60Z"]],
    ["no offset", ["2026-05-04T03:02:01+24:00", "2026-05-04T03:02:01+02:60"]],
    ["no number of a time", [0, 5, -1_777_777_777, 1e18, Number.NaN]],
    ["another type", [null, undefined, {}, [1_777_777_777]]],
  ])("is absent if it is %s, and the notification is accepted", (_, values) => {
    for (const value of values) expect(timeOf(value), String(value)).toBeUndefined();
  });

  it("in the usual form is read as the pattern for all forms reads it", () => {
    const two = (max: number) => fc.integer({ min: 0, max }).map((part) => String(part).padStart(2, "0"));
    const years = fc.constantFrom("0000", "1900", "2024", "9999");
    const ends = fc.constantFrom("Z", ".000Z", ".123Z", ".1Z", "", "z");
    const parts = fc.tuple(years, two(13), two(32), two(25), two(61), two(61), ends);
    fc.assert(
      fc.property(parts, ([year, month, day, hour, minute, second, rest]) => {
        const text = `${year}-${month}-${day}T${hour}:${minute}:${second}${rest}`;
        expect(isoTimestamp(text)).toBe(parseTimestamp(text)?.toISOString());
      }),
      { numRuns: sized(400, 2000) },
    );
  });

  it("is read as it is written, with any offset", () => {
    const moments = fc.date({
      min: new Date("0001-01-02"),
      max: new Date("9998-12-31"),
      noInvalidDate: true,
    });
    const offsets = fc.integer({ min: -1439, max: 1439 });
    fc.assert(
      fc.property(moments, offsets, fc.constantFrom("T", " ", "t"), (date, offset, separator) => {
        const local = new Date(date.getTime() + offset * 60_000).toISOString().slice(0, -1);
        const minutes = Math.abs(offset);
        const zone = [Math.floor(minutes / 60), minutes % 60].map((part) => String(part).padStart(2, "0"));
        const sign = offset < 0 ? "-" : "+";
        const text = `${local.replace("T", separator)}${sign}${zone.join(minutes % 2 ? ":" : "")}`;
        expect(timeOf(text)).toBe(date.toISOString());
      }),
    );
  });
});
