import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../src/errors.ts";
import { stay } from "../../src/models/dates.ts";
import { listingIdOf } from "../../src/models/ids.ts";

const day = (text: string): number => Date.parse(text) / 1000;

/** Returns the message of an `InvalidArgumentError` with one issue. Fails on any other error. */
function refusal(call: () => unknown): string | undefined {
  try {
    call();
    return undefined;
  } catch (error) {
    expect(error).toBeInstanceOf(InvalidArgumentError);
    expect((error as InvalidArgumentError).issues).toHaveLength(1);
    return (error as InvalidArgumentError).message;
  }
}

describe("stay", () => {
  it.each([
    ["2026-07-01 15:00", "2026-07-04Z", 3],
    ["20260701", "20260704T110000", 3],
    ["2026/07/01", "2026/07/04 11:00", 3],
    [day("2026-07-01T23:59:59Z"), day("2026-07-04"), 3],
    [20260701, 20260704, 3],
    ["2026-07-01T24:00", "2026-07-04 15:00 CET", 3],
    [String(day("2026-07-01")), String(day("2026-07-04") * 1000), 3],
    ["2026-07-01T15", "2026-07-04T11:00:00[Europe/Lisbon]", 3],
    ["2026-07-01+02:00", "2026-07-04T11", 3],
    ["2026-03-28", "2026-03-30", 2],
    ["2026-07-01T10:00", "2026-07-01T18:00", 0],
    [new Date("2026-07-01T23:59:59Z"), new Date("2026-07-04"), 3],
    ["2025-12-31", "2026-12-31", 365],
  ])("of %j to %j is %j nights", (checkIn, checkOut, nights) => {
    expect(stay({ checkIn, checkOut }).nights).toBe(nights);
  });

  it.each([
    "2026-07-01T23:30:00-11:00",
    "20260701T233000Z",
    "2026-07-01T23Z",
    "2026/07/01 23:30:00 +0100",
    "2026-07-01T11:00:00+01:00[Europe/Lisbon]",
  ])("needs a zone for a time with an offset: %s", (time) => {
    const message = /is a time with an offset.* event\.stay\..* option timeZone/;
    expect(refusal(() => stay({ checkIn: time, checkOut: "2026-07-04" }))).toMatch(message);
    expect(refusal(() => stay({ checkIn: "2026-06-04", checkOut: time }))).toMatch(message);
    expect(stay({ checkIn: time, checkOut: "2026-07-04" }, { timeZone: "UTC" }).nights).toBeLessThan(4);
  });

  it("takes numbers below 1e11 as seconds, others as ms", () => {
    expect(stay({ checkIn: 1e8, checkOut: "1974-01-01" }).checkIn).toBe("1973-03-03");
    const stretched = stay({ checkIn: 1e11, checkOut: 1e11 - 1 });
    expect(stretched).toMatchObject({ checkIn: "1973-03-03", checkOut: "5138-11-16" });
  });

  it("names a date that is absent, wrong or not after the other one", () => {
    const refused = (checkIn: unknown, checkOut: unknown) => refusal(() => stay({ checkIn, checkOut }));
    for (const absent of [undefined, null])
      expect(refused(absent, "2026-07-04")).toBe(
        "checkIn: is absent. Does the platform send checkIn, and does your model of a booking keep it?",
      );
    for (const wrong of [
      ...["", "soon", "2026-02-30", "2026-7-1", "2026/07-01", "01/07/2026", "2026/02/30", "2026-07-011"],
      ...["2026-07-01T25:00", "2026-07-01 24:01", "20260701T1560", { date: "2026-07-01" }, Number.NaN, 1e300],
      ...[
        "2026-07-01T15:00:00+25:99",
        "2026-07-01T15:00:00+01:60",
        "2026-07-01 or later",
        "2026-07-01 - 2026-07-04",
      ],
      ...[
        "2026-07-01T15:00 (tentative)",
        "2026-07-01Tsoon",
        "2026-07-01 soon",
        "2026-07-01T15:00Z?",
        "2026-07-01T25",
      ],
      ...[new Date(Number.NaN), 20_635, 20261301, 20260701.5, 99_999_999, -20260701, 0],
    ])
      expect(refused(wrong, "2026-07-04"), String(wrong)).toMatch(/^checkIn: must be a date/);
    for (const wrong of ["2026-07-04T11:00:75Z", "2026-13-01"])
      expect(refused("2026-07-01", wrong)).toMatch(/^checkOut: must be a date/);
    expect(refused("2026-07-01", "2026-06-30")).toBe("checkOut: must not be before checkIn");
  });

  it("gives any two days and the nights between them, in any notation", () => {
    const notation = fc.constantFrom(
      (iso: string) => iso,
      (iso: string) => `${iso}T23:59:59`,
      (iso: string) => `${iso} 00:00`,
      (iso: string) => iso.replaceAll("-", "/"),
      (iso: string) => Date.parse(iso) / 1000 + 86_399,
      (iso: string) => Math.max(Date.parse(iso), 1e11),
    );
    // Begin after 1973-03-03: `stay` reads smaller numbers as seconds, not ms.
    const days = fc.integer({ min: 1200, max: 40_000 });
    fc.assert(
      fc.property(days, fc.integer({ min: 1, max: 1000 }), notation, notation, (first, nights, a, b) => {
        const iso = (number: number) => new Date(number * 86_400_000).toISOString().slice(0, 10);
        const [checkIn, checkOut] = [iso(first), iso(first + nights)];
        expect(stay({ checkIn: a(checkIn), checkOut: b(checkOut) })).toEqual({ checkIn, checkOut, nights });
      }),
    );
  });

  it("throws no other error, whatever the values and the zone", () => {
    const edges = fc.constantFrom(253402300799000, -62135596800000, -62162208000000);
    const moments = fc.oneof(fc.anything(), fc.double(), fc.maxSafeInteger(), fc.string(), edges);
    const zones = fc.constantFrom(undefined, "Pacific/Kiritimati", "Pacific/Pago_Pago");
    const date = expect.stringMatching(/^\d{4}-\d\d-\d\d$/);
    fc.assert(
      fc.property(moments, moments, zones, (checkIn, checkOut, timeZone) => {
        const message = refusal(() => {
          const read = stay({ checkIn, checkOut }, { timeZone });
          expect(read).toEqual({ checkIn: date, checkOut: date, nights: expect.any(Number) });
          expect(read.nights).toBeGreaterThanOrEqual(0);
        });
        if (message !== undefined) expect(message).toMatch(/^check(In|Out): /);
      }),
    );
    const beyond = { checkIn: "2026-07-01", checkOut: 253402300799000 };
    expect(refusal(() => stay(beyond, { timeZone: "Pacific/Kiritimati" }))).toMatch(
      "checkOut: must be a date",
    );
  });
});

describe("stay with a time zone", () => {
  const checkIn = (value: unknown, timeZone: string) =>
    stay({ checkIn: value, checkOut: "2101-01-01" }, { timeZone }).checkIn;

  it.each([
    ["2026-07-01T02:00:00Z", "America/New_York", "2026-06-30"],
    ["2026-07-01T22:30:00+00:00", "Asia/Tokyo", "2026-07-02"],
    ["2026-07-01T23:30-1100", "Europe/Lisbon", "2026-07-02"],
    ["2026-07-01 23:30:00.250 -11", "Europe/Lisbon", "2026-07-02"],
    ["2026/07/01T23:30:00Z", "Europe/Lisbon", "2026-07-02"],
    ["20260701T233000Z", "Europe/Lisbon", "2026-07-02"],
    [String(day("2026-07-01T23:30:00Z")), "Europe/Lisbon", "2026-07-02"],
    ["0099-01-02T00:30:00Z", "UTC", "0099-01-02"],
  ])("gives the day of an instant in that zone: %j in %s", (value, timeZone, expected) => {
    expect(checkIn(value, timeZone)).toBe(expected);
  });

  it.each(["2026-07-01", "20260701", "2026-07-01T23:30:00", "2026-07-01 23:30", "2026-07-01Z"])(
    "gives the day as written if the value names no instant: %j",
    (value) => {
      for (const timeZone of ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
        expect(checkIn(value, timeZone)).toBe("2026-07-01");
    },
  );

  it("refuses a zone that does not exist", () => {
    for (const timeZone of ["Europe/Lisboa", "", 5 as never, null as never])
      expect(refusal(() => checkIn("2026-07-01", timeZone))).toMatch(/^timeZone: /);
  });

  it("gives the same day as toLocaleDateString, for any instant and zone", () => {
    const zones = fc.constantFrom("America/St_Johns", "Asia/Kathmandu", "Pacific/Chatham", "Asia/Pyongyang");
    const instants = fc.date({
      min: new Date("1974-01-01"),
      max: new Date("2100-01-01"),
      noInvalidDate: true,
    });
    fc.assert(
      fc.property(instants, zones, (instant, timeZone) => {
        const local = instant.toLocaleDateString("sv-SE", { timeZone });
        for (const value of [instant.toISOString(), instant.getTime()])
          expect(checkIn(value, timeZone)).toBe(local);
      }),
    );
  });
});

describe("listingIdOf", () => {
  it("reads an integer, or its digits", () => {
    expect([7, "7", "0042", 0].map((listingId) => listingIdOf({ listingId }))).toEqual([7, 7, 42, 0]);
  });

  it.each<[unknown, string]>([
    [undefined, "is absent"],
    [null, "is absent"],
    ["", "must be an integer"],
    ["L-7", "must be an integer"],
    [7.5, "must be an integer"],
    [2 ** 53, "is larger than a number can hold, so a JSON parser has rounded it"],
    ["1552696793824068710", "must be an integer that a number can hold, not 1552696793824068710"],
    [{}, "must be an integer"],
  ])("refuses %j", (listingId, message) => {
    expect(refusal(() => listingIdOf({ listingId }))).toBe(`listingId: ${message}`);
    expect(refusal(() => listingIdOf(undefined as never))).toMatch(/^listingId: /);
  });
});
