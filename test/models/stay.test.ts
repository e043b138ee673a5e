import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../src/errors.ts";
import { stay } from "../../src/models/dates.ts";
import { listingIdOf } from "../../src/models/ids.ts";

const day = (text: string): number => Date.parse(text) / 1000;

describe("stay", () => {
  it.each([
    ["2026-07-01", "2026-07-04", 3],
    ["2026-07-01T23:30:00-11:00", "2026-07-04T00:30:00+14:00", 3],
    ["2026-07-01 15:00", "2026-07-04Z", 3],
    ["20260701", "20260704T110000Z", 3],
    ["2026/07/01", "2026/07/04 11:00", 3],
    [day("2026-07-01T23:59:59Z"), day("2026-07-04"), 3],
    [day("2026-07-01") * 1000, "2026-07-04", 3],
    [20260701, 20260704, 3],
    ["2026-07-01T24:00", "2026-07-04 15:00 CET", 3],
    [String(day("2026-07-01")), String(day("2026-07-04") * 1000), 3],
    ["2026-02-28", "2026-03-01", 1],
    ["2026-03-28", "2026-03-30", 2],
    ["2025-12-31", "2026-12-31", 365],
  ])("of %j to %j is %j nights", (checkIn, checkOut, nights) => {
    expect(stay({ checkIn, checkOut }).nights).toBe(nights);
  });

  it("gives the days as written", () => {
    expect(stay({ checkIn: "2026-07-01T23:30:00-11:00", checkOut: day("2026-07-04T23:00:00Z") })).toEqual({
      checkIn: "2026-07-01",
      checkOut: "2026-07-04",
      nights: 3,
    });
  });

  it("takes numbers below 1e11 as seconds, others as ms", () => {
    expect(stay({ checkIn: 1e8, checkOut: "1974-01-01" }).checkIn).toBe("1973-03-03");
    expect(stay({ checkIn: 1e11, checkOut: 1e11 - 1 })).toMatchObject({
      checkIn: "1973-03-03",
      checkOut: "5138-11-16",
    });
  });

  it.each([
    ["checkIn", undefined, "2026-07-04"],
    ["checkIn", null, "2026-07-04"],
    ["checkIn", "", "2026-07-04"],
    ["checkIn", "soon", "2026-07-04"],
    ["checkIn", "2026-02-30", "2026-07-04"],
    ["checkIn", "2026-7-1", "2026-07-04"],
    ["checkIn", "2026/07-01", "2026-07-04"],
    ["checkIn", "01/07/2026", "2026-07-04"],
    ["checkIn", "2026/02/30", "2026-07-04"],
    ["checkIn", "2026-07-011", "2026-07-04"],
    ["checkIn", { date: "2026-07-01" }, "2026-07-04"],
    ["checkIn", Number.NaN, "2026-07-04"],
    ["checkIn", 1e300, "2026-07-04"],
    ["checkIn", 20_635, "2026-07-04"],
    ["checkIn", 20261301, "2026-07-04"],
    ["checkIn", 20260701.5, "2026-07-04"],
    ["checkIn", 99_999_999, "2026-07-04"],
    ["checkIn", -20260701, "2026-07-04"],
    ["checkIn", 0, "2026-07-04"],
    ["checkIn", "2026-07-01T25:00", "2026-07-04"],
    ["checkIn", "2026-07-01 24:01", "2026-07-04"],
    ["checkIn", "20260701T1560", "2026-07-04"],
    ["checkOut", "2026-07-01", "2026-07-04T11:00:75Z"],
    ["checkOut", "2026-07-01", undefined],
    ["checkOut", "2026-07-01", "2026-13-01"],
    ["checkOut", "2026-07-01", "2026-07-01"],
    ["checkOut", "2026-07-01", "2026-06-30"],
  ])("refuses, naming %s: %j to %j", (field, checkIn, checkOut) => {
    expect(() => stay({ checkIn, checkOut })).toThrow(
      expect.objectContaining({
        name: "InvalidArgumentError",
        issues: [expect.objectContaining({ path: [field] })],
      }),
    );
  });

  it("says whether a date is absent or wrong", () => {
    expect(() => stay({})).toThrow(/checkIn: is absent/);
    expect(() => stay({ checkIn: "x" })).toThrow(/checkIn: must be a date/);
  });

  it("gives back any two days and the nights between them, in any notation", () => {
    const days = fc.integer({ min: 0, max: 40_000 });
    const notations = [
      (iso: string) => iso,
      (iso: string) => `${iso}T23:59:59-12:00`,
      (iso: string) => `${iso} 00:00`,
      (iso: string) => iso.replaceAll("-", "/"),
      (iso: string) => Date.parse(iso) / 1000 + 86_399,
      (iso: string) => Math.max(Date.parse(iso), 1e11),
    ];
    const notation = fc.constantFrom(...notations);
    fc.assert(
      fc.property(days, fc.integer({ min: 1, max: 1000 }), notation, notation, (first, nights, a, b) => {
        const iso = (number: number) => new Date(number * 86_400_000).toISOString().slice(0, 10);
        // Begin after 1973-03-03: `stay` reads smaller numbers as seconds, not ms.
        const [checkIn, checkOut] = [iso(first + 1200), iso(first + 1200 + nights)];
        expect(stay({ checkIn: a(checkIn), checkOut: b(checkOut) })).toEqual({ checkIn, checkOut, nights });
      }),
    );
  });

  it("throws nothing but InvalidArgumentError", () => {
    fc.assert(
      fc.property(fc.anything(), fc.anything(), (checkIn, checkOut) => {
        try {
          expect(stay({ checkIn, checkOut }).nights).toBeGreaterThan(0);
        } catch (error) {
          expect(error).toBeInstanceOf(InvalidArgumentError);
        }
      }),
    );
  });
});

describe("stay with a time zone", () => {
  const noon = { checkOut: "2026-08-01" };
  const checkIn = (value: unknown, timeZone: string) =>
    stay({ ...noon, checkIn: value }, { timeZone }).checkIn;

  it.each([
    ["2026-07-01T02:00:00Z", "America/New_York", "2026-06-30"],
    ["2026-07-01T02:00:00Z", "Asia/Tokyo", "2026-07-01"],
    ["2026-07-01T22:30:00+00:00", "Asia/Tokyo", "2026-07-02"],
    ["2026-07-01T23:30:00-11:00", "Europe/Lisbon", "2026-07-02"],
    ["2026-07-01T23:30-1100", "Europe/Lisbon", "2026-07-02"],
    ["2026-07-01 23:30:00.250 -11", "Europe/Lisbon", "2026-07-02"],
    ["2026/07/01T23:30:00Z", "Europe/Lisbon", "2026-07-02"],
    ["20260701T233000Z", "Europe/Lisbon", "2026-07-02"],
    [day("2026-07-01T23:30:00Z"), "Europe/Lisbon", "2026-07-02"],
    [day("2026-07-01T23:30:00Z") * 1000, "Europe/Lisbon", "2026-07-02"],
    [String(day("2026-07-01T23:30:00Z")), "Europe/Lisbon", "2026-07-02"],
    ["2026-01-01T00:30:00Z", "Europe/Lisbon", "2026-01-01"],
    ["0099-01-02T00:30:00Z", "UTC", "0099-01-02"],
  ])("gives the day of an instant in that zone: %j in %s", (value, timeZone, expected) => {
    expect(checkIn(value, timeZone)).toBe(expected);
  });

  it.each(["2026-07-01", "2026/07/01", "20260701", "2026-07-01T23:30:00", "2026-07-01 23:30", "2026-07-01Z"])(
    "gives the day as written where the value names no instant: %j",
    (value) => {
      for (const timeZone of ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
        expect(checkIn(value, timeZone)).toBe("2026-07-01");
    },
  );

  it("refuses a zone that does not exist, and names it", () => {
    for (const timeZone of ["Europe/Lisboa", "", 5 as never, null as never])
      expect(() => checkIn("2026-07-01", timeZone)).toThrow(
        expect.objectContaining({
          name: "InvalidArgumentError",
          issues: [expect.objectContaining({ path: ["timeZone"] })],
        }),
      );
  });

  it("gives the same day as toLocaleDateString, for any instant and zone", () => {
    const zones = [
      "America/St_Johns",
      "Asia/Kathmandu",
      "Pacific/Chatham",
      "Africa/Casablanca",
      "Asia/Pyongyang",
    ];
    const instants = fc.date({
      min: new Date("1974-01-01"),
      max: new Date("2100-01-01"),
      noInvalidDate: true,
    });
    fc.assert(
      fc.property(instants, fc.constantFrom(...zones), (instant, timeZone) => {
        const local = instant.toLocaleDateString("sv-SE", { timeZone });
        for (const value of [instant.toISOString(), instant.getTime()])
          expect(stay({ checkIn: value, checkOut: "2101-01-01" }, { timeZone }).checkIn).toBe(local);
      }),
    );
  });

  it("throws nothing but InvalidArgumentError", () => {
    const moments = fc.oneof(
      fc.double(),
      fc.integer(),
      fc.maxSafeInteger(),
      fc.string(),
      fc.constantFrom(253402300799000, -62135596800000, -62162208000000),
    );
    fc.assert(
      fc.property(
        moments,
        moments,
        fc.constantFrom("Pacific/Kiritimati", "Pacific/Pago_Pago"),
        (a, b, timeZone) => {
          try {
            const { checkIn, checkOut } = stay({ checkIn: a, checkOut: b }, { timeZone });
            expect([checkIn, checkOut]).toEqual([
              expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
              expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
            ]);
          } catch (error) {
            expect(error).toBeInstanceOf(InvalidArgumentError);
          }
        },
      ),
    );
    expect(() =>
      stay({ checkIn: "2026-07-01", checkOut: 253402300799000 }, { timeZone: "Pacific/Kiritimati" }),
    ).toThrow("checkOut: must be a date");
  });
});

describe("listingIdOf", () => {
  it.each([
    [7, 7],
    ["7", 7],
    ["0042", 42],
    [0, 0],
  ])("reads %j", (listingId, expected) => {
    expect(listingIdOf({ listingId })).toBe(expected);
  });

  it.each([
    [undefined, "listingId: is absent"],
    [null, "listingId: is absent"],
    ["", "listingId: must be an integer"],
    ["L-7", "listingId: must be an integer"],
    ["7.0", "listingId: must be an integer"],
    [7.5, "listingId: must be an integer"],
    [2 ** 53, "listingId: must be an integer"],
    ["99999999999999999999", "listingId: must be an integer"],
    [{}, "listingId: must be an integer"],
  ])("refuses %j", (listingId, message) => {
    expect(() => listingIdOf({ listingId })).toThrow(
      expect.objectContaining({
        name: "InvalidArgumentError",
        message,
        issues: [{ path: ["listingId"], message: expect.any(String) }],
      }),
    );
    expect(() => listingIdOf(undefined as never)).toThrow(InvalidArgumentError);
  });
});
