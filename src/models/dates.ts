import { describeKind, InvalidArgumentError } from "../errors.ts";
import { checkNoUnknown } from "../option-names.ts";
import { refuseField } from "./ids.ts";

/** The days of arrival and departure of a booking, and the number of nights between them. */
export interface Stay {
  /** The day of arrival, `YYYY-MM-DD`. */
  readonly checkIn: string;
  /** The day of departure, `YYYY-MM-DD`. */
  readonly checkOut: string;
  /** The number of nights. It is 0 if arrival and departure are on one day. */
  readonly nights: number;
}

/** The options of {@link stay}. */
export type StayOptions = {
  /**
   * The IANA time zone of the listing, such as `Europe/Lisbon`. `stay` converts a number, or a time with an offset,
   * to the day in this zone. Without a zone, `stay` converts a number to the day in UTC, and throws for a time with an
   * offset.
   */
  readonly timeZone?: string | undefined;
};

/**
 * Reads the check-in and check-out dates of a booking that the client has read. In a callback, read `event.stay`, which
 * has the days in the handler's time zone. A date may be `2026-07-01`, `2026/07/01` or `20260701`, with
 * or without a time, an offset and a time zone. Any other text behind the date throws. A date may also be a number: `20260701`, or seconds or ms since 1970. Numbers below 1e11 are
 * seconds. Numbers below 1e8 that are not `YYYYMMDD`, such as days since 1970, throw. A `Date` that a model made is read,
 * too.
 *
 * @throws InvalidArgumentError if a date is absent or cannot be read, if it is a time with an offset and `timeZone` is
 * absent, or if check-out is before check-in
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
  if (typeof booking !== "object" || booking === null)
    throw new InvalidArgumentError({
      path: ["booking"],
      message: `must be a booking with checkIn and checkOut, not ${describeKind(booking)}`,
    });
  const dayIn = daysIn(options?.timeZone);
  const read = (field: "checkIn" | "checkOut"): string => {
    const value: unknown = booking[field];
    if (!dayIn && hasOffset(value)) refuseField(field, value, OFFSET);
    return (
      dayOf(value, dayIn) ??
      refuseField(
        field,
        value,
        `must be a date (YYYY-MM-DD or YYYYMMDD), or a number of seconds or ms since 1970, not ${
          typeof value === "string"
            ? "another text"
            : typeof value === "number"
              ? "another number"
              : describeKind(value)
        }`,
        `is absent. Does the platform send ${field}, and does your model of a booking keep it?`,
      )
    );
  };
  const checkIn = read("checkIn");
  const checkOut = read("checkOut");
  const nights = (Date.parse(checkOut) - Date.parse(checkIn)) / 86_400_000;
  if (nights < 0)
    throw new InvalidArgumentError({ path: ["checkOut"], message: "must not be before checkIn" });
  return { checkIn, checkOut, nights };
}

const OFFSET =
  "is a time with an offset, so its day depends on the time zone. In a callback, read event.stay. Elsewhere, pass the option timeZone: stay(booking, { timeZone })";

/** Returns the day of an instant as `YYYY-MM-DD`, or `undefined` if the year might not fit into `YYYY`. */
export type DayIn = (instant: Date) => string | undefined;

// The groups are: year, separator, month, day, hour, minute, second, offset. Behind the date, only a time, an offset and
// the name of a time zone may follow, because any other text may change what the date means.
const written =
  /^(\d{4})([-/]?)(\d\d)\2(\d\d)(?:[Tt\s](\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,]\d+)?)?)?(?:\s*([Zz]|[+-]\d\d(?::?\d\d)?)|\s[A-Z]{2,5})?|[Zz]|[+-]\d\d:\d\d)?(?:\[[\w/+-]+\])?$/;

/** Returns the day of a value as `YYYY-MM-DD`. Returns `undefined` for a value that is no day. */
export function dayOf(value: unknown, dayIn?: DayIn): string | undefined {
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? undefined : (dayIn ?? utcDay)(value);
  if (typeof value === "number") return counted(value, dayIn);
  if (typeof value !== "string") return undefined;
  // A text of nine or more digits is a time since 1970. A text of eight digits is a day without separators.
  if (/^\d{9,}$/.test(value)) return counted(Number(value), dayIn);
  const [match, year, , month, day, hour, minute = "00", second = "00", offset] = written.exec(value) ?? [];
  if (match === undefined || !isDay(Number(year), Number(month), Number(day))) return undefined;
  const date = `${year}-${month}-${day}`;
  if (hour === undefined) return date;
  // Check the time without its offset, so that a leap second counts as one in local time.
  if (!parseTimestamp(`2000-01-01T${hour}:${minute}:${second}`)) return undefined;
  if (offset !== undefined && !parseTimestamp(`2000-01-01T00:00${offset}`)) return undefined;
  const instant = offset && parseTimestamp(`${date}T${hour}:${minute}:${second}${offset}`);
  return dayIn && instant ? dayIn(instant) : date;
}

/** Whether a value is a point in time, whose day depends on the time zone. */
export function isInstant(value: unknown): boolean {
  let isAsked = false;
  dayOf(value, (instant) => {
    isAsked = true;
    return utcDay(instant);
  });
  return isAsked;
}

/** Whether a value is a text that names a point in time, other than seconds or ms since 1970. */
function hasOffset(value: unknown): boolean {
  return typeof value === "string" && !/^\d+$/.test(value) && isInstant(value);
}

/** Returns the day of a number: seconds or ms since 1970, or the digits of a date. */
function counted(number: number, dayIn: DayIn = utcDay): string | undefined {
  if (number >= leastTime) return dayIn(new Date(number < 1e11 ? number * 1000 : number));
  return Number.isInteger(number) && number >= 1e7 ? dayOf(String(number)) : undefined;
}

const utcDay: DayIn = (instant) => {
  const year = instant.getUTCFullYear();
  // toISOString() writes a year outside 0 to 9999 with a sign and six digits.
  return year >= 0 && year <= 9999 ? instant.toISOString().slice(0, 10) : undefined;
};

/** The functions of the zones that were used. A new `Intl.DateTimeFormat` takes longer than all else here. */
const usedZones = new Map<string, DayIn>();

/** @throws InvalidArgumentError if the runtime does not know the zone */
export function daysIn(timeZone: string | undefined): DayIn | undefined {
  if (timeZone === undefined) return undefined;
  const dayIn = usedZones.get(timeZone) ?? makeDaysIn(timeZone);
  usedZones.set(timeZone, dayIn);
  return dayIn;
}

function makeDaysIn(timeZone: string): DayIn {
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
    // Near the years 0 and 10000, the year in the zone may differ from the UTC year, and may not fit into `YYYY`.
    if (!(utcYear > 1 && utcYear < 9999)) return undefined;
    const parts = new Map(format.formatToParts(instant).map(({ type, value }) => [type, value]));
    return `${parts.get("year")?.padStart(4, "0")}-${parts.get("month")}-${parts.get("day")}`;
  };
}

const dateParts = { year: "numeric", month: "2-digit", day: "2-digit" } as const;

const pattern =
  /^(\d{4})(-?)(\d\d)\2(\d\d)[T ](\d\d):?(\d\d)(?::?(\d\d)(?:[.,](\d+))?)?(?:Z|([+-])(\d\d)(?::?(\d\d))?)?$/i;

/** Only numbers in this range are times: from 1973, in seconds, to 9999, in ms. Smaller numbers may be counters. */
const [leastTime, mostTime] = [1e8, 253_402_300_799_999];

/** A date as JSON.stringify writes it, with or without ms. The day is 28 or less, so that every month has it. */
const usual = /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3])(?::[0-5]\d){2}(?:\.\d{3})?Z$/;

/** Reads the same times as {@link readTimestamp}. Returns the time as ISO 8601 text in UTC. */
export function isoTimestamp(value: unknown): string | undefined {
  if (typeof value === "string" && usual.test(value))
    return value.length === 24 ? value : `${value.slice(0, 19)}.000Z`;
  return readTimestamp(value)?.toISOString();
}

/**
 * Reads a time in ISO 8601 with {@link parseTimestamp}. Also reads seconds or ms since 1970, as a number or as text.
 * Numbers below 1e11 are seconds.
 */
function readTimestamp(value: unknown): Date | undefined {
  const text = typeof value === "string" ? value.trim() : "";
  const number = /^\d{9,}(\.\d+)?$/.test(text) ? Number(text) : value;
  if (typeof number !== "number") return parseTimestamp(text);
  return number >= leastTime && number <= mostTime
    ? new Date(Math.round(number < 1e11 ? number * 1000 : number))
    : undefined;
}

/**
 * Reads a date and time in ISO 8601, with or without separators. The seconds are optional. A time without an offset
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
  // ISO 8601 allows 24:00 as the end of a day.
  if (hour > 24 || (hour === 24 && (minute > 0 || second > 0 || ms > 0))) return undefined;

  const sign = match[9] === "-" ? -1 : 1;
  const date = new Date(0);
  // Date.UTC() would read the years 0 to 99 as 1900 to 1999.
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute - sign * (offsetHours * 60 + offsetMinutes), second, ms);
  // A leap second (:60) exists only at the end of a day in UTC, so `date` must be 00:00:00 of the next day.
  if (second === 60 && (date.getUTCHours() > 0 || date.getUTCMinutes() > 0)) return undefined;
  return date;
}

/** Whether the calendar has this day. */
function isDay(year: number, month: number, day: number): boolean {
  if (month >= 1 && month <= 12 && day >= 1 && day <= 28) return true;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  return date.getUTCFullYear() === year && date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
}
