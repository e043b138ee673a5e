import { InvalidArgumentError } from "../errors.ts";
import { checkNoUnknown } from "../option-names.ts";
import { refuseField } from "./ids.ts";

/** The days of a booking, and the number of its nights: from `checkIn` up to, not including, `checkOut`. */
export interface Stay {
  /** The day of arrival, `YYYY-MM-DD`. */
  readonly checkIn: string;
  /** The day of departure, `YYYY-MM-DD`. */
  readonly checkOut: string;
  /** The number of nights, 1 or more. */
  readonly nights: number;
}

/** The options of {@link stay}. */
export interface StayOptions {
  /**
   * The IANA time zone of the listing, such as `Europe/Lisbon`. A date that names an instant (a number, or a time with
   * an offset) then gives the day in that zone. Default: the day as it is written, and for a number the day in UTC.
   */
  readonly timeZone?: string | undefined;
}

/**
 * Reads the dates of a booking, whatever their format: `2026-07-01`, `2026/07/01`, `20260701`, each with or without a
 * time, or the seconds or ms since 1970 (seconds below 1e11).
 *
 * @throws InvalidArgumentError naming the field: it is absent or no date, or check-out is not after check-in
 * @example
 * ```ts
 * const { checkIn, checkOut, nights } = stay(booking); // "2026-07-01", "2026-07-04", 3
 * ```
 */
export function stay(
  booking: {
    /** The day of arrival. */
    readonly checkIn?: unknown;
    /** The day of departure. */
    readonly checkOut?: unknown;
  },
  options?: StayOptions,
): Stay {
  checkNoUnknown(options, ["timeZone"]);
  const dayIn = daysIn(options?.timeZone);
  const read = (field: "checkIn" | "checkOut"): string => {
    const value: unknown = booking?.[field];
    return (
      dayOf(value, dayIn) ?? refuseField(field, value, "must be a date: YYYY-MM-DD, or a time since 1970")
    );
  };
  const checkIn = read("checkIn");
  const checkOut = read("checkOut");
  const nights = (Date.parse(checkOut) - Date.parse(checkIn)) / 86_400_000;
  if (nights < 1) throw new InvalidArgumentError({ path: ["checkOut"], message: "must be after checkIn" });
  return { checkIn, checkOut, nights };
}

/** Gives the day of an instant; `undefined` where ISO dates cannot write it. */
type DayIn = (instant: Date) => string | undefined;

// Year, separator, month, day; then hour, minute, second; then the offset.
const written =
  /^(\d{4})([-/]?)(\d\d)\2(\d\d)(?:$|[T\s](\d\d):?(\d\d)(?::?(\d\d)(?:[.,]\d+)?)?\s*(Z|[+-]\d\d(?::?\d\d)?)?$|[T\sZ+-])/i;

export function dayOf(value: unknown, dayIn?: DayIn): string | undefined {
  if (typeof value === "number") return counted(value, dayIn);
  if (typeof value !== "string") return undefined;
  // Digits alone are a number that came as text. Eight of them are a day without separators.
  if (/^\d{9,}$/.test(value)) return counted(Number(value), dayIn);
  const [match, year, , month, day, hour, minute, second = "00", offset] = written.exec(value) ?? [];
  if (match === undefined || !isDay(Number(year), Number(month), Number(day))) return undefined;
  const date = `${year}-${month}-${day}`;
  const instant = offset && parseTimestamp(`${date}T${hour}:${minute}:${second}${offset}`);
  return dayIn && instant ? dayIn(instant) : date;
}

function counted(number: number, dayIn: DayIn = utcDay): string | undefined {
  return dayIn(new Date(number < 1e11 ? number * 1000 : number));
}

const utcDay: DayIn = (instant) => {
  const year = instant.getUTCFullYear();
  // ISO dates write other years with a sign.
  return year >= 0 && year <= 9999 ? instant.toISOString().slice(0, 10) : undefined;
};

/** @throws InvalidArgumentError where the runtime does not know the zone */
function daysIn(timeZone: string | undefined): DayIn | undefined {
  if (timeZone === undefined) return undefined;
  let format: Intl.DateTimeFormat;
  try {
    format = new Intl.DateTimeFormat("en-u-ca-iso8601-nu-latn", { timeZone, ...dateParts });
  } catch {
    throw new InvalidArgumentError({
      path: ["timeZone"],
      message: "must be an IANA time zone, such as Europe/Lisbon",
    });
  }
  return (instant) => {
    const utcYear = instant.getUTCFullYear();
    // Near the ends, the zone's year may be one that ISO dates write with a sign.
    if (!(utcYear > 1 && utcYear < 9999)) return undefined;
    const parts = new Map(format.formatToParts(instant).map(({ type, value }) => [type, value]));
    return `${parts.get("year")?.padStart(4, "0")}-${parts.get("month")}-${parts.get("day")}`;
  };
}

const dateParts = { year: "numeric", month: "2-digit", day: "2-digit" } as const;

const pattern =
  /^(\d{4})(-?)(\d\d)\2(\d\d)[T ](\d\d):?(\d\d)(?::?(\d\d)(?:[.,](\d+))?)?(?:Z|([+-])(\d\d)(?::?(\d\d))?)?$/i;

/** The numbers that are taken for a time: from 1973, so that a counter is none, to the year 9999 in ms. */
const [leastTime, mostTime] = [1e8, 253_402_300_799_999];

/** The form that JSON has a date in, on a day that every month has. */
const usual = /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3])(?::[0-5]\d){2}(?:\.\d{3})?Z$/;

/** Reads a time as {@link readTimestamp}, and writes it in ISO 8601. */
export function isoTimestamp(value: unknown): string | undefined {
  if (typeof value === "string" && usual.test(value))
    return value.length === 24 ? value : `${value.slice(0, 19)}.000Z`;
  return readTimestamp(value)?.toISOString();
}

/**
 * Reads a time in whatever form a platform may write it: ISO 8601 (see {@link parseTimestamp}), or seconds or ms since
 * 1970, as a number or as text. Numbers below 1e11 are seconds.
 */
export function readTimestamp(value: unknown): Date | undefined {
  const text = typeof value === "string" ? value.trim() : "";
  const number = /^\d{9,}(\.\d+)?$/.test(text) ? Number(text) : value;
  if (typeof number !== "number") return parseTimestamp(text);
  return number >= leastTime && number <= mostTime
    ? new Date(Math.round(number < 1e11 ? number * 1000 : number))
    : undefined;
}

/**
 * Reads an ISO 8601 date-time in the extended or the basic format, whole to the minute at least. Without an offset it
 * is in UTC.
 *
 * @returns `undefined` for any other text, and for a day or time that does not exist
 */
export function parseTimestamp(text: string): Date | undefined {
  const match = pattern.exec(text);
  if (!match) return undefined;
  const part = (index: number): number => Number(match[index] ?? 0);
  const [year, month, day, hour, minute, second] = [part(1), part(3), part(4), part(5), part(6), part(7)];
  const ms = Number((match[8] ?? "").slice(0, 3).padEnd(3, "0"));
  const [offsetHours, offsetMinutes] = [part(10), part(11)];
  if (!isDay(year, month, day) || minute > 59 || second > 60 || offsetHours > 23 || offsetMinutes > 59)
    return undefined;
  // 24:00 is the end of its day.
  if (hour > 24 || (hour === 24 && (minute > 0 || second > 0 || ms > 0))) return undefined;

  const sign = match[9] === "-" ? -1 : 1;
  const date = new Date(0);
  // Not Date.UTC, which takes the years 0 to 99 for 1900 to 1999.
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute - sign * (offsetHours * 60 + offsetMinutes), second, ms);
  // A 60th second is there at the end of a day in UTC only; it becomes the next day's first.
  if (second === 60 && (date.getUTCHours() > 0 || date.getUTCMinutes() > 0)) return undefined;
  return date;
}

/** Whether the calendar has this day. */
export function isDay(year: number, month: number, day: number): boolean {
  if (month >= 1 && month <= 12 && day >= 1 && day <= 28) return true;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  return date.getUTCFullYear() === year && date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
}
