import fc from "fast-check";
import { InvalidArgumentError, localTime, stay } from "stayhook";
import { Temporal } from "temporal-polyfill";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { LocalTimeOptions } from "../src/local-time.ts";

describe("localTime", () => {
  it.each([
    ["summer", "2026-07-01", "15:00", "Europe/Lisbon", "2026-07-01T14:00:00Z"],
    ["winter", "2026-01-01", "15:00", "Europe/Lisbon", "2026-01-01T15:00:00Z"],
    ["a time with seconds", "2026-07-01", "23:59:59", "Asia/Kathmandu", "2026-07-01T18:14:59Z"],
    ["midnight", "2026-07-01", "00:00", "Pacific/Kiritimati", "2026-06-30T10:00:00Z"],
    ["a leap day", "2028-02-29", "15:00", "UTC", "2028-02-29T15:00:00Z"],
    ["a year below 100", "0042-07-01", "15:00", "UTC", "0042-07-01T15:00:00Z"],
    ["a zone that is an offset", "2026-07-01", "15:00", "+05:30", "2026-07-01T09:30:00Z"],
    ["a zone in other letters", "2026-07-01", "15:00", "europe/lisbon", "2026-07-01T14:00:00Z"],
    ["an offset with seconds", "1971-12-31", "15:00", "Africa/Monrovia", "1971-12-31T15:44:30Z"],
    ["the change to whole minutes", "1972-01-07", "00:44:29", "Africa/Monrovia", "1972-01-07T01:28:59Z"],
  ])("%s: %s %s in %s", (_, date, time, timeZone, expected) => {
    expect(localTime(date, time, timeZone)).toEqual(new Date(expected));
  });

  describe("when the clocks skip a time, uses the offset before the change", () => {
    it.each([
      ["2026-03-29", "00:59:59", "Europe/Lisbon", "2026-03-29T00:59:59Z"],
      ["2026-03-29", "01:00", "Europe/Lisbon", "2026-03-29T01:00:00Z"],
      ["2026-03-29", "01:30", "Europe/Lisbon", "2026-03-29T01:30:00Z"],
      ["2026-03-29", "02:00", "Europe/Lisbon", "2026-03-29T01:00:00Z"],
      // Lord Howe changes its clocks by 30 minutes.
      ["2026-10-04", "01:59", "Australia/Lord_Howe", "2026-10-03T15:29:00Z"],
      ["2026-10-04", "02:15", "Australia/Lord_Howe", "2026-10-03T15:45:00Z"],
      ["2026-10-04", "02:30", "Australia/Lord_Howe", "2026-10-03T15:30:00Z"],
      // Santiago skips midnight.
      ["2026-09-05", "23:59:59", "America/Santiago", "2026-09-06T03:59:59Z"],
      ["2026-09-06", "00:00", "America/Santiago", "2026-09-06T04:00:00Z"],
      ["2026-09-06", "00:30", "America/Santiago", "2026-09-06T04:30:00Z"],
      ["2026-09-06", "01:00", "America/Santiago", "2026-09-06T04:00:00Z"],
      // Apia skipped a whole day.
      ["2011-12-29", "23:59:59", "Pacific/Apia", "2011-12-30T09:59:59Z"],
      ["2011-12-30", "00:00", "Pacific/Apia", "2011-12-30T10:00:00Z"],
      ["2011-12-30", "15:00", "Pacific/Apia", "2011-12-31T01:00:00Z"],
      ["2011-12-31", "00:00", "Pacific/Apia", "2011-12-30T10:00:00Z"],
    ])("%s %s in %s", (date, time, timeZone, expected) => {
      expect(localTime(date, time, timeZone)).toEqual(new Date(expected));
    });
  });

  describe("when the clocks show a time twice, returns the first instant", () => {
    it.each([
      ["2026-10-25", "00:59:59", "Europe/Lisbon", "2026-10-24T23:59:59Z"],
      ["2026-10-25", "01:00", "Europe/Lisbon", "2026-10-25T00:00:00Z"],
      ["2026-10-25", "01:59:59", "Europe/Lisbon", "2026-10-25T00:59:59Z"],
      ["2026-10-25", "02:00", "Europe/Lisbon", "2026-10-25T02:00:00Z"],
      ["2026-04-05", "01:29", "Australia/Lord_Howe", "2026-04-04T14:29:00Z"],
      ["2026-04-05", "01:45", "Australia/Lord_Howe", "2026-04-04T14:45:00Z"],
      ["2026-04-05", "02:00", "Australia/Lord_Howe", "2026-04-04T15:30:00Z"],
      ["2026-04-04", "23:30", "America/Santiago", "2026-04-05T02:30:00Z"],
      ["2026-04-05", "00:00", "America/Santiago", "2026-04-05T04:00:00Z"],
    ])("%s %s in %s", (date, time, timeZone, expected) => {
      expect(localTime(date, time, timeZone)).toEqual(new Date(expected));
    });
  });

  it("keeps the time on the clock when it adds days, and adds hours and minutes as exact time", () => {
    // In Lisbon, 2026-03-29 has 23 hours.
    const around = (options: object) => localTime("2026-03-28", "15:00", "Europe/Lisbon", options).toJSON();
    expect(around({ days: 1 })).toBe("2026-03-29T14:00:00.000Z");
    expect(around({ hours: 24 })).toBe("2026-03-29T15:00:00.000Z");
    expect(around({ minutes: 24 * 60 })).toBe("2026-03-29T15:00:00.000Z");
    expect(around({ days: 1, hours: -24, minutes: -30 })).toBe("2026-03-28T13:30:00.000Z");
    expect(around({ days: undefined, hours: undefined, minutes: undefined })).toBe(
      "2026-03-28T15:00:00.000Z",
    );
  });

  it("adds the days before it looks at a gap", () => {
    const added = localTime("2026-03-29", "01:30", "Europe/Lisbon", { days: 1 });
    expect(added.toJSON()).toBe("2026-03-30T00:30:00.000Z");
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
  const zones = Intl.supportedValuesOf("timeZone");
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
    expect(actual.toJSON(), `${date} ${time} in ${timeZone}`).toBe(
      new Date(expected.epochMilliseconds).toJSON(),
    );
  }

  it(`agree on any time from 1970 to 2100 in any zone (SEED=${seed} repeats the run)`, () => {
    const amount = fc.integer({ min: -4000, max: 4000 });
    fc.assert(
      fc.property(
        fc.constantFrom(...zones),
        fc.integer({ min: firstDay / 1000, max: lastDay / 1000 + 86_399 }),
        fc.record({ days: amount, hours: amount, minutes: amount }, { requiredKeys: [] }),
        (timeZone, seconds, options) => compare(timeZone, seconds * 1000, options),
      ),
      { seed, numRuns: 3000 },
    );
  });

  it(`agree close to each change of a zone's clocks (SEED=${seed} repeats the run)`, () => {
    const seconds = fc.oneof(
      fc.integer({ min: -90_000, max: 90_000 }),
      fc.integer({ min: -3700, max: 3700 }),
    );
    let compared = 0;
    fc.assert(
      fc.property(
        fc.constantFrom(...zones),
        fc.integer({ min: firstDay, max: lastDay }),
        seconds,
        (timeZone, from, distance) => {
          const at = Temporal.Instant.fromEpochMilliseconds(from).toZonedDateTimeISO(timeZone);
          const change = at.getTimeZoneTransition("previous");
          // A change before 1970 is outside of the range.
          if (change === null || change.epochMilliseconds < firstDay + 2 * 86_400_000) return;
          compared += 1;
          compare(timeZone, change.epochMilliseconds + change.offsetNanoseconds / 1e6 + distance * 1000);
        },
      ),
      { seed, numRuns: 3000 },
    );
    expect(compared).toBeGreaterThan(1000);
  });
});

describe("localTime refuses", () => {
  const valid = ["2026-07-01", "15:00", "Europe/Lisbon"] as const;
  const refusal = (...args: unknown[]): InvalidArgumentError => {
    try {
      localTime(...(args as Parameters<typeof localTime>));
    } catch (error) {
      if (error instanceof InvalidArgumentError) return error;
      throw error;
    }
    throw new Error("localTime accepted the arguments");
  };

  it.each([
    "2026-02-29",
    "2026-13-01",
    "2026-00-10",
    "2026-07-00",
    "2026-7-1",
    "20260701",
    "2026/07/01",
    "2026-07-01T15:00",
    " 2026-07-01",
    "2026-07-01\n",
    "+002026-07-01",
    "soon",
  ])("a date that is not YYYY-MM-DD: %j", (date) => {
    const { issues, message } = refusal(date, valid[1], valid[2]);
    expect(issues).toEqual([expect.objectContaining({ path: ["date"] })]);
    expect(message).toBe(`date: ${date} is not a date. Use YYYY-MM-DD, such as 2026-07-01`);
  });

  it.each([
    "25:00",
    "24:00",
    "15:60",
    "15:00:60",
    "15:00:00.5",
    "9:00",
    "15",
    "1500",
    "3 pm",
    "15:00Z",
    "15:00\n",
    "-1:00",
  ])("a time that no clock shows: %j", (time) => {
    const { issues, message } = refusal(valid[0], time, valid[2]);
    expect(issues).toEqual([expect.objectContaining({ path: ["time"] })]);
    expect(message).toBe(`time: ${time} is not a time. Use HH:mm or HH:mm:ss, such as 15:00`);
  });

  it.each(["Europe/Lisabon", "Lisbon", "Europe/Lisbon ", "+25:00", "UTC+1"])("a zone: %j", (timeZone) => {
    for (let run = 0; run < 2; run += 1) {
      const { issues, message } = refusal(valid[0], valid[1], timeZone);
      expect(issues).toEqual([expect.objectContaining({ path: ["timeZone"] })]);
      expect(message).toBe(
        `timeZone: ${timeZone} is not a time zone of this runtime. Use an IANA name, such as Europe/Lisbon`,
      );
    }
  });

  it.each(["date", "time", "timeZone"])("a %s that is no text, and shows little of it", (argument) => {
    const index = ["date", "time", "timeZone"].indexOf(argument);
    const given = (value: unknown) => refusal(...valid.with(index, value as never)).message;
    expect(given(undefined)).toMatch(`${argument}: undefined is not a `);
    expect(given(null)).toMatch(`${argument}: null is not a `);
    expect(given("")).toMatch(`${argument}: an empty text is not a `);
    expect(given(20260701)).toMatch(`${argument}: 20260701 is not a `);
    expect(given(new Date())).toMatch(`${argument}: an object is not a `);
    expect(given({ toString: () => valid[index] })).toMatch(`${argument}: an object is not a `);
    expect(given("9".repeat(10_000)).length).toBeLessThan(250);
  });

  it.each([1.5, Number.NaN, Infinity, 10_000_001, -10_000_001, "2", null, 2n])("an amount: %s", (value) => {
    for (const name of ["days", "hours", "minutes"]) {
      const { issues, message } = refusal(...valid, { [name]: value });
      expect(issues).toEqual([expect.objectContaining({ path: [name] })]);
      expect(message).toBe(`${name}: ${value} is not an integer from -10000000 to 10000000`);
    }
  });

  it("an option that it does not have, and options that are no object", () => {
    expect(refusal(...valid, { day: 2 }).message).toBe("unknown option `day`; did you mean `days`?");
    expect(refusal(...valid, { seconds: 2 }).issues).toEqual([
      expect.objectContaining({ path: ["seconds"] }),
    ]);
    for (const options of [null, -2, "P2D", []])
      expect(refusal(...valid, options).message).toBe("the options must be an object");
  });

  it("anything else that is wrong, and never returns an invalid Date", () => {
    const amount = fc.constantFrom(10_000_000, -10_000_000);
    fc.assert(
      fc.property(
        fc.constantFrom("0000-01-01", "9999-12-31"),
        fc.constantFrom("Europe/Lisbon", "Asia/Manila", "Pacific/Kiritimati"),
        fc.record({ days: amount, hours: amount, minutes: amount }),
        (date, timeZone, options) => {
          expect(localTime(date, "23:59:59", timeZone, options).getTime()).not.toBeNaN();
        },
      ),
    );
  });
});
