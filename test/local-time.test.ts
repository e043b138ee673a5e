import fc from "fast-check";
import { InvalidArgumentError, localTime, stay } from "stayhook";
import { Temporal } from "temporal-polyfill";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { LocalTimeOptions } from "../src/local-time.ts";
import { sized } from "./support/soak.ts";

describe("localTime", () => {
  it.each([
    ["in summer", "2026-07-01", "15:00", "Europe/Lisbon", "2026-07-01T14:00:00Z"],
    ["in winter", "2026-01-01", "15:00", "europe/lisbon", "2026-01-01T15:00:00Z"],
    ["with seconds", "2026-07-01", "23:59:59", "Asia/Kathmandu", "2026-07-01T18:14:59Z"],
    ["in a year below 100", "0042-07-01", "15:00", "UTC", "0042-07-01T15:00:00Z"],
    ["in a zone that is an offset", "2026-07-01", "15:00", "+05:30", "2026-07-01T09:30:00Z"],
    ["with an offset with seconds", "1972-01-07", "00:44:29", "Africa/Monrovia", "1972-01-07T01:28:59Z"],
    // When the clocks skip a time, the offset before the change counts.
    ["skipped", "2026-03-29", "01:30", "Europe/Lisbon", "2026-03-29T01:30:00Z"],
    ["skipped by half an hour", "2026-10-04", "02:15", "Australia/Lord_Howe", "2026-10-03T15:45:00Z"],
    ["skipped at midnight", "2026-09-06", "00:30", "America/Santiago", "2026-09-06T04:30:00Z"],
    ["skipped for a whole day", "2011-12-30", "15:00", "Pacific/Apia", "2011-12-31T01:00:00Z"],
    // When the clocks show a time twice, the first instant counts.
    ["shown twice", "2026-10-25", "01:59:59", "Europe/Lisbon", "2026-10-25T00:59:59Z"],
    ["shown twice before midnight", "2026-04-04", "23:30", "America/Santiago", "2026-04-05T02:30:00Z"],
  ])("returns the instant of a time %s: %s %s in %s", (_, date, time, timeZone, expected) => {
    expect(localTime(date, time, timeZone)).toEqual(new Date(expected));
  });

  it("keeps the time on the clock when it adds days, and adds hours and minutes as exact time", () => {
    // In Lisbon, 2026-03-29 has 23 hours.
    const around = (options: object) => localTime("2026-03-28", "15:00", "Europe/Lisbon", options).toJSON();
    expect(around({ days: 1 })).toBe("2026-03-29T14:00:00.000Z");
    expect(around({ hours: 24 })).toBe("2026-03-29T15:00:00.000Z");
    expect(around({ minutes: 24 * 60 })).toBe("2026-03-29T15:00:00.000Z");
    expect(around({ days: 1, hours: -24, minutes: -30 })).toBe("2026-03-28T13:30:00.000Z");
    expect(around({ days: undefined })).toBe("2026-03-28T15:00:00.000Z");
    const beforeGap = localTime("2026-03-29", "01:30", "Europe/Lisbon", { days: 1 });
    expect(beforeGap.toJSON()).toBe("2026-03-30T00:30:00.000Z");
  });

  it("makes one format for each zone, because making one is slow", () => {
    const format = vi.spyOn(Intl, "DateTimeFormat");
    onTestFinished(() => format.mockRestore());
    for (const time of ["15:00", "16:00", "17:00"])
      for (const zone of ["Asia/Tokyo", "Asia/Seoul"]) localTime("2026-07-01", time, zone);
    expect(format).toHaveBeenCalledTimes(2);
  });

  it("takes the days of stay", () => {
    const { checkIn } = stay({ checkIn: "2026/07/01 16:00", checkOut: "20260704" });
    const mail = localTime(checkIn, "15:00", "America/New_York", { days: -2 });
    expect(mail.toJSON()).toBe("2026-06-29T19:00:00.000Z");
  });
});

describe("localTime and Temporal", () => {
  const zones = fc.constantFrom(...Intl.supportedValuesOf("timeZone"));
  const [firstDay, lastDay] = [Date.parse("1970-01-01"), Date.parse("2100-12-31")];
  const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);

  /** Compares a local time, given in ms since 1970 as if it were UTC. */
  function compare(timeZone: string, wallClock: number, options: LocalTimeOptions = {}) {
    const [date = "", time = ""] = new Date(wallClock).toISOString().slice(0, 19).split("T");
    const { days = 0, hours = 0, minutes = 0 } = options;
    const expected = Temporal.PlainDateTime.from(`${date}T${time}`)
      .add({ days })
      .toZonedDateTime(timeZone, { disambiguation: "compatible" })
      .add({ hours })
      .add({ minutes });
    const actual = localTime(date, time, timeZone, options);
    expect(actual.getTime(), `${date} ${time} in ${timeZone}`).toBe(expected.epochMilliseconds);
  }

  it(`agree on any time from 1970 to 2100 in any zone (SEED=${seed} repeats the run)`, () => {
    const amount = fc.integer({ min: -4000, max: 4000 });
    const amounts = fc.record({ days: amount, hours: amount, minutes: amount }, { requiredKeys: [] });
    const seconds = fc.integer({ min: firstDay / 1000, max: lastDay / 1000 + 86_399 });
    fc.assert(
      fc.property(zones, seconds, amounts, (zone, at, options) => compare(zone, at * 1000, options)),
      { seed, numRuns: sized(200, 1000) },
    );
  });

  it(`agree close to each change of a zone's clocks (SEED=${seed} repeats the run)`, () => {
    const far = fc.integer({ min: -90_000, max: 90_000 });
    const seconds = fc.oneof(far, fc.integer({ min: -3700, max: 3700 }));
    let compared = 0;
    fc.assert(
      fc.property(zones, fc.integer({ min: firstDay, max: lastDay }), seconds, (zone, from, distance) => {
        const at = Temporal.Instant.fromEpochMilliseconds(from).toZonedDateTimeISO(zone);
        const change = at.getTimeZoneTransition("previous");
        // A change before 1970 is outside of the range.
        if (change === null || change.epochMilliseconds < firstDay + 2 * 86_400_000) return;
        compared += 1;
        compare(zone, change.epochMilliseconds + change.offsetNanoseconds / 1e6 + distance * 1000);
      }),
      { seed, numRuns: sized(200, 1500) },
    );
    expect(compared).toBeGreaterThan(sized(50, 500));
  });
});

describe("localTime refuses", () => {
  const valid = ["2026-07-01", "15:00", "Europe/Lisbon"] as const;
  const problems = {
    date: "is not a date. Use YYYY-MM-DD, such as 2026-07-01",
    time: "is not a time. Use HH:mm or HH:mm:ss, such as 15:00",
    timeZone: "is not a time zone of this runtime. Use an IANA name, such as Europe/Lisbon",
  };
  /** Returns the message of the error, which must have one issue. */
  const refusal = (...args: unknown[]): string => {
    try {
      localTime(...(args as Parameters<typeof localTime>));
    } catch (error) {
      expect(error).toBeInstanceOf(InvalidArgumentError);
      const [issue] = (error as InvalidArgumentError).issues;
      expect(issue?.path).toHaveLength(1);
      return (error as InvalidArgumentError).message;
    }
    throw new Error("localTime accepted the arguments");
  };

  it.each([
    ["date", ["2026-02-29", "2026-13-01", "2026-07-00", "2026-7-1", "20260701", "2026/07/01", "soon"]],
    ["date", ["2026-07-01T15:00", " 2026-07-01", "2026-07-01\n", "+002026-07-01"]],
    ["time", ["25:00", "24:00", "15:60", "15:00:60", "15:00:00.5", "9:00", "15", "1500", "3 pm", "15:00Z"]],
    ["time", ["15:00\n", "-1:00"]],
    ["timeZone", ["Europe/Lisabon", "Lisbon", "Europe/Lisbon ", "+25:00", "UTC+1", "UTC+1"]],
  ] as const)("a %s that is one of %j", (argument, values) => {
    const index = Object.keys(problems).indexOf(argument);
    const given = (value: unknown) => refusal(...valid.with(index, value as never));
    for (const value of values) expect(given(value)).toBe(`${argument}: ${value} ${problems[argument]}`);
    expect(given(undefined)).toMatch(`${argument}: undefined is not a `);
    expect(given("")).toMatch(`${argument}: an empty text is not a `);
    expect(given(20260701)).toMatch(`${argument}: 20260701 is not a `);
    expect(given({ toString: () => valid[index] })).toMatch(`${argument}: an object is not a `);
    expect(given("9".repeat(10_000)).length).toBeLessThan(250);
  });

  it.each([1.5, Number.NaN, Infinity, 10_000_001, -10_000_001, "2", null, 2n])("an amount: %s", (value) => {
    for (const name of ["days", "hours", "minutes"])
      expect(refusal(...valid, { [name]: value })).toBe(
        `${name}: ${value} is not an integer from -10000000 to 10000000`,
      );
  });

  it("an option that it does not have, and never returns an invalid Date", () => {
    expect(refusal(...valid, { day: 2 })).toBe("unknown option `day`; did you mean `days`?");
    for (const name of ["days", "hours", "minutes"])
      for (const date of ["0000-01-01", "9999-12-31"])
        for (const amount of [10_000_000, -10_000_000]) {
          const instant = localTime(date, "23:59:59", "Asia/Manila", { [name]: amount });
          expect(instant.getTime()).not.toBeNaN();
        }
  });
});
