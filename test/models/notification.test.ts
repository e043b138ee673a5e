import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isoTimestamp, parseTimestamp } from "../../src/models/dates.ts";
import { parseNotification, usualFields, WebhookNotification } from "../../src/models/notification.ts";

const eventId = "0f8fad5b-d9cb-469f-a165-70867728950e";
const timestamp = "2026-05-04T03:02:01Z";
const issuesOf = (value: unknown) => {
  const result = parseNotification(value);
  return result.ok ? [] : result.issues.map((issue) => issue.path.join("."));
};

describe("a notification", () => {
  it("is read with its fields' meaning", () => {
    const sent = {
      eventId: eventId.toUpperCase(),
      timestamp,
      bookingCode: "HX3K9",
      listingId: null,
      more: [1],
    };
    expect(parseNotification(sent)).toEqual({
      ok: true,
      eventId,
      timestamp: new Date(timestamp).toISOString(),
      bookingCode: "HX3K9",
      listingId: null,
    });
  });

  it.each([{}, { bookingCode: null, listingId: null }, { bookingCode: "A", listingId: 7 }])(
    "may refer to nothing or to both: %j",
    (references) => {
      expect(parseNotification({ eventId, timestamp, ...references })).toMatchObject({
        ok: true,
        bookingCode: references.bookingCode ?? null,
        listingId: references.listingId ?? null,
      });
    },
  );

  it.each([
    [42, 42],
    ["42", 42],
    ["007", 7],
    [0, 0],
  ])("takes the listing %j as %j", (listingId, expected) => {
    const result = parseNotification({ eventId, timestamp, listingId });
    expect(result).toMatchObject({ ok: true, listingId: expected });
  });

  it.each([
    [
      { bookingCode: "A", listingId: 0 },
      { bookingCode: "A", listingId: null },
    ],
    [
      { bookingCode: "A", listingId: "" },
      { bookingCode: "A", listingId: null },
    ],
    [
      { bookingCode: "A", listingId: " " },
      { bookingCode: "A", listingId: null },
    ],
    [
      { bookingCode: "A", listingId: "00" },
      { bookingCode: "A", listingId: null },
    ],
    [
      { bookingCode: "", listingId: 7 },
      { bookingCode: null, listingId: 7 },
    ],
    [
      { bookingCode: " \n", listingId: "7" },
      { bookingCode: null, listingId: 7 },
    ],
    [
      { bookingCode: 0, listingId: 7 },
      { bookingCode: null, listingId: 7 },
    ],
    [
      { bookingCode: " ", listingId: 0 },
      { bookingCode: " ", listingId: 0 },
    ],
    [{ bookingCode: " " }, { bookingCode: " ", listingId: null }],
    [{ listingId: 0 }, { bookingCode: null, listingId: 0 }],
  ])("takes the references %j as %j", (references, expected) => {
    expect(parseNotification({ eventId, timestamp, ...references })).toMatchObject({ ok: true, ...expected });
  });

  it.each([
    { bookingCode: "", listingId: null },
    { bookingCode: "", listingId: 0 },
    { bookingCode: 0, listingId: null },
    { bookingCode: "a\u0000", listingId: 0 },
    { bookingCode: " .. ", listingId: null },
  ])("refuses the references %j", (references) => {
    expect(issuesOf({ eventId, timestamp, ...references })).toEqual(["bookingCode"]);
  });

  it("has no references where they are not to be read, whatever stands in them", () => {
    const sent = { eventId, timestamp, bookingCode: {}, listingId: "x" };
    expect(parseNotification(sent, { references: false })).toMatchObject({
      ok: true,
      bookingCode: null,
      listingId: null,
    });
  });

  it.each([1.5, "", "x", "1.0", " 1", "1e3", true, {}, [], 2 ** 53, "99999999999999999999"])(
    "refuses the listing %j",
    (listingId) => {
      expect(issuesOf({ eventId, timestamp, listingId })).toEqual(["listingId"]);
    },
  );

  it.each([
    "",
    ".",
    "..",
    "a\u0000b",
    "a\nb",
    "\u007f",
    "\u0085",
    "\ud800",
    "x\udc00",
    "x".repeat(257),
    0,
    -7,
    7.5,
    2 ** 53,
    {},
    true,
  ])("refuses the booking code %j", (bookingCode) => {
    expect(issuesOf({ eventId, timestamp, bookingCode })).toEqual(["bookingCode"]);
  });

  it.each(["x", "...", "a/b", "%2e%2e", "é", "😀".repeat(256), "x".repeat(256), "a b"])(
    "takes the booking code %j",
    (bookingCode) => {
      expect(parseNotification({ eventId, timestamp, bookingCode })).toMatchObject({ ok: true, bookingCode });
    },
  );

  it.each([
    "",
    "x",
    7,
    null,
    undefined,
    `{${eventId}}`,
    `${eventId}0`,
    eventId.replaceAll("-", ""),
    `${eventId}\n`,
  ])("refuses the event id %j", (id) => {
    expect(issuesOf({ eventId: id, timestamp })).toEqual(["eventId"]);
  });

  it.each([
    "00000000-0000-0000-0000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "ABCDEF01-2345-9789-0bcd-ef0123456789",
  ])("takes the event id %j, whatever its version", (id) => {
    expect(parseNotification({ eventId: id, timestamp })).toMatchObject({
      ok: true,
      eventId: id.toLowerCase(),
    });
  });

  it.each([
    ["2026-05-04T03:02:01Z", "2026-05-04T03:02:01.000Z"],
    ["2026-05-04t03:02:01z", "2026-05-04T03:02:01.000Z"],
    ["2026-05-04T03:02:01", "2026-05-04T03:02:01.000Z"],
    ["2026-05-04T03:02", "2026-05-04T03:02:00.000Z"],
    ["2026-05-04 03:02:01", "2026-05-04T03:02:01.000Z"],
    ["2026-05-04T03:02:01.1Z", "2026-05-04T03:02:01.100Z"],
    ["2026-05-04T03:02:01.123456789Z", "2026-05-04T03:02:01.123Z"],
    ["2026-05-04T03:02:01,5Z", "2026-05-04T03:02:01.500Z"],
    ["2026-05-04T03:02:01+02:00", "2026-05-04T01:02:01.000Z"],
    ["2026-05-04T03:02:01+0200", "2026-05-04T01:02:01.000Z"],
    ["2026-05-04T03:02:01+02", "2026-05-04T01:02:01.000Z"],
    ["2026-05-04T03:02:01-09:30", "2026-05-04T12:32:01.000Z"],
    ["2028-02-29T00:00:00Z", "2028-02-29T00:00:00.000Z"],
    ["2026-05-04T24:00:00Z", "2026-05-05T00:00:00.000Z"],
    ["2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000Z"],
    ["0050-01-01T00:00:00Z", "0050-01-01T00:00:00.000Z"],
    ["20260504T030201Z", "2026-05-04T03:02:01.000Z"],
    ["20260504T0302+0200", "2026-05-04T01:02:00.000Z"],
    ["20260504T030201.5-09", "2026-05-04T12:02:01.500Z"],
    [" 2026-05-04T03:02:01Z\n", "2026-05-04T03:02:01.000Z"],
    [1_777_777_777, "2026-05-03T03:09:37.000Z"],
    [1_777_777_777.5, "2026-05-03T03:09:37.500Z"],
    [1_777_777_777_123, "2026-05-03T03:09:37.123Z"],
    ["1777777777", "2026-05-03T03:09:37.000Z"],
    ["1777777777123", "2026-05-03T03:09:37.123Z"],
  ])("reads the timestamp %s", (text, iso) => {
    const result = parseNotification({ eventId, timestamp: text });
    expect(result.ok && result.timestamp).toBe(iso);
  });

  it.each([
    "",
    "now",
    "2026-05-04",
    "03:02:01",
    "2026-13-01T00:00:00Z",
    "2026-00-01T00:00:00Z",
    "2026-02-29T00:00:00Z",
    "2026-04-31T00:00:00Z",
    "2026-05-00T00:00:00Z",
    "2026-05-04T25:00:00Z",
    "2026-05-04T24:00:01Z",
    "2026-05-04T24:01Z",
    "2026-05-04T03:60:00Z",
    "2026-05-04T03:02:61Z",
    "2026-05-04T03:02:60Z",
    "1969-06-30T12:30:60Z",
    "2026-05-04T03:02:01+24:00",
    "2026-05-04T03:02:01+02:60",
    "2026-05-04T03:02:01.Z",
    "2026-05-04T03Z",
    "2026-05-04T03:02:01ZZ",
    "x2026-05-04T03:02:01Z",
    "2026-0504T03:02:01Z",
    "20260504",
    "12345678",
    0,
    5,
    -1_777_777_777,
    1e18,
    Number.NaN,
    null,
    undefined,
    {},
    [1_777_777_777],
  ])("is taken without the timestamp %j", (value) => {
    expect(parseNotification({ eventId, timestamp: value })).toMatchObject({
      ok: true,
      timestamp: undefined,
    });
  });

  it.each([null, undefined, 7, "x", true, [], [{ eventId, timestamp }]])(
    "must be an object, which %j is not",
    (value) => {
      expect(issuesOf(value)).toEqual([""]);
    },
  );

  it("says of every field at once what is wrong with it", () => {
    expect(issuesOf({ bookingCode: {}, listingId: "x" })).toEqual(["eventId", "bookingCode", "listingId"]);
  });

  it.each([
    [{ bookingCode: 4711 }, { bookingCode: "4711", listingId: null }],
    [
      { bookingCode: 4711, listingId: 0 },
      { bookingCode: "4711", listingId: null },
    ],
  ])("takes a booking code that is a number as text: %j", (references, expected) => {
    expect(parseNotification({ eventId, timestamp, ...references })).toMatchObject({ ok: true, ...expected });
    expect(WebhookNotification.parse({ eventId, ...references })).toMatchObject({ bookingCode: "4711" });
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
    const parsed = parseNotification({ eventId, timestamp, ...fields });
    expect(parsed.ok && parsed.misspelt).toEqual(misspelt);
  });

  it("is not misled by fields of a prototype", () => {
    const text = `{"eventId":"${eventId}","timestamp":"${timestamp}","__proto__":{"bookingCode":"P"},"x":"\\ud800\\u0000","constructor":1}`;
    expect(parseNotification(JSON.parse(text))).toMatchObject({ ok: true, bookingCode: null });
  });

  it("is not hurt by deep nesting", () => {
    const depth = 100_000;
    const deep = JSON.parse(`${"[".repeat(depth)}${"]".repeat(depth)}`);
    expect(parseNotification({ eventId, timestamp, deep }).ok).toBe(true);
    expect(issuesOf(deep)).toEqual([""]);
    expect(issuesOf({ eventId: deep, timestamp: deep, bookingCode: deep, listingId: deep })).toHaveLength(3);
  });

  it("never throws, and agrees with its schema, on any JSON", () => {
    const field = fc.oneof(
      fc.jsonValue(),
      fc.uuid(),
      fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
    );
    const any = fc.oneof(
      fc.jsonValue(),
      fc.record(
        { eventId: field, timestamp: field, bookingCode: field, listingId: field, more: field },
        { requiredKeys: [] },
      ),
    );
    fc.assert(
      fc.property(any, (value) => {
        const result = parseNotification(value);
        if (WebhookNotification.safeParse(value).success) expect(result.ok).toBe(true);
        if (!result.ok) expect(result.issues.length).toBeGreaterThan(0);
      }),
    );
  });

  it("reads in the usual form only what its schema accepts, and as the schema does", () => {
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
      "\n",
      1.5,
      2 ** 60,
      true,
      {},
      [],
    );
    const missing = fc.constantFrom(null, undefined);
    const code = fc.oneof(fc.string(), fc.stringMatching(/^[\w-]{1,70}$/), missing, odd, fc.jsonValue());
    const id = fc.oneof(fc.integer(), fc.double(), fc.nat().map(String), missing, odd, fc.jsonValue());
    const value = fc.record(
      {
        eventId: fc.oneof(
          fc.uuid(),
          fc.uuid().map((text) => text.toUpperCase()),
          fc.string({ unit: fc.constantFrom(..."0123456789abcdef-"), maxLength: 40 }),
          odd,
        ),
        timestamp: fc.oneof(
          fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
          fc.string(),
          odd,
        ),
        bookingCode: code,
        listingId: id,
        more: fc.jsonValue(),
      },
      { requiredKeys: [] },
    );
    let usual = 0;
    fc.assert(
      fc.property(fc.oneof({ weight: 20, arbitrary: value }, fc.jsonValue()), (given) => {
        const fields = usualFields(given);
        if (!fields) return;
        usual += 1;
        const { data } = WebhookNotification.safeParse(given);
        const { eventId, timestamp, bookingCode = null, listingId = null } = data!;
        expect(fields).toEqual({ eventId, timestamp, bookingCode, listingId });
      }),
      { numRuns: 5000 },
    );
    expect(usual).toBeGreaterThan(200);
  });

  it("reads a time in the usual form as the pattern for all forms does", () => {
    const two = (max: number) => fc.integer({ min: 0, max }).map((part) => String(part).padStart(2, "0"));
    const end = fc.constantFrom("Z", ".000Z", ".123Z", ".1Z", "", "z");
    const parts = fc.tuple(
      fc.constantFrom("0000", "1900", "2024", "9999"),
      two(13),
      two(32),
      two(25),
      two(61),
      two(61),
      end,
    );
    fc.assert(
      fc.property(parts, ([year, month, day, hour, minute, second, rest]) => {
        const text = `${year}-${month}-${day}T${hour}:${minute}:${second}${rest}`;
        expect(isoTimestamp(text)).toBe(parseTimestamp(text)?.toISOString());
      }),
      { numRuns: 2000 },
    );
  });

  it("reads every moment as it is written, with any offset", () => {
    const moments = fc.date({
      min: new Date("0001-01-02"),
      max: new Date("9998-12-31"),
      noInvalidDate: true,
    });
    fc.assert(
      fc.property(
        moments,
        fc.integer({ min: -1439, max: 1439 }),
        fc.constantFrom("T", " ", "t"),
        (date, offset, separator) => {
          const local = new Date(date.getTime() + offset * 60_000)
            .toISOString()
            .slice(0, -1)
            .replace("T", separator);
          const minutes = Math.abs(offset);
          const zone = [Math.floor(minutes / 60), minutes % 60].map((part) => String(part).padStart(2, "0"));
          const text = `${local}${offset < 0 ? "-" : "+"}${zone.join(minutes % 2 ? ":" : "")}`;
          const result = parseNotification({ eventId, timestamp: text });
          expect(result.ok && result.timestamp).toBe(date.toISOString());
        },
      ),
    );
  });
});
