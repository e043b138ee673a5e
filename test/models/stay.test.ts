import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../src/errors.ts";
import { stay } from "../../src/models/stay.ts";

const day = (text: string): number => Date.parse(text) / 1000;

describe("stay", () => {
  it.each([
    ["2026-07-01", "2026-07-04", 3],
    ["2026-07-01T23:30:00-11:00", "2026-07-04T00:30:00+14:00", 3],
    ["2026-07-01 15:00", "2026-07-04Z", 3],
    ["20260701", "20260704T110000Z", 3],
    [day("2026-07-01T23:59:59Z"), day("2026-07-04"), 3],
    [day("2026-07-01") * 1000, "2026-07-04", 3],
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
    ["checkIn", "2026-07-011", "2026-07-04"],
    ["checkIn", { date: "2026-07-01" }, "2026-07-04"],
    ["checkIn", Number.NaN, "2026-07-04"],
    ["checkIn", 1e300, "2026-07-04"],
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
      (iso: string) => Date.parse(iso) / 1000 + 86_399,
      (iso: string) => Math.max(Date.parse(iso), 1e11),
    ];
    const notation = fc.constantFrom(...notations);
    fc.assert(
      fc.property(days, fc.integer({ min: 1, max: 1000 }), notation, notation, (first, nights, a, b) => {
        const iso = (number: number) => new Date(number * 86_400_000).toISOString().slice(0, 10);
        // Days before 1973-03-03 in ms would be taken for seconds.
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
