import { cutToBytes } from "./error-text.ts";
import { InvalidArgumentError } from "./errors.ts";
import { dayOf } from "./models/dates.ts";
import { checkNoUnknown } from "./option-names.ts";

/** The options of {@link localTime}. Each is an integer from -10,000,000 to 10,000,000. The default is 0. */
export type LocalTimeOptions = {
  /** The calendar days to add to the date. The time on the clock stays the same. */
  readonly days?: number | undefined;
  /** The hours to add after that. Each has exactly 60 minutes, even if the clocks change in between. */
  readonly hours?: number | undefined;
  /** The minutes to add, in the same way as the hours. */
  readonly minutes?: number | undefined;
};

const dayInMs = 86_400_000;
const most = 10_000_000;

/**
 * Returns the instant at which the clocks of a time zone show a date and time. Use it with the days of `stay`, for
 * example to set a timer.
 *
 * If the clocks skip the time, `localTime` uses the UTC offset before the change: when clocks go from 02:00 to 03:00,
 * 02:30 becomes 03:30. If the clocks show the time twice, `localTime` returns the first instant. `Temporal` calls
 * these rules `"compatible"`.
 *
 * `days` are calendar days: at 15:00 two days before arrival, the clocks show 15:00, even if they change in between.
 * `hours` and `minutes` are exact: two hours before 15:00 is always 120 minutes before that instant.
 *
 * @param date - the date as `YYYY-MM-DD`, as `stay` returns it
 * @param time - the time on the clock as `HH:mm` or `HH:mm:ss`, from `00:00` to `23:59:59`
 * @param timeZone - the IANA time zone of the listing, such as `Europe/Lisbon`
 * @throws InvalidArgumentError if an argument is not valid. The message names the argument and shows its value
 * @example
 * ```ts
 * const { checkIn, checkOut } = stay(booking);
 * const doorCode = localTime(checkIn, "15:00", "Europe/Lisbon");
 * const arrivalMail = localTime(checkIn, "09:00", "Europe/Lisbon", { days: -2 });
 * const reminder = localTime(checkOut, "11:00", "Europe/Lisbon", { minutes: -90 });
 * ```
 */
export function localTime(date: string, time: string, timeZone: string, options?: LocalTimeOptions): Date {
  // `dayOf` also reads other notations, and returns `YYYY-MM-DD`.
  if (typeof date !== "string" || dayOf(date) !== date)
    throwInvalid("date", date, "is not a date. Use YYYY-MM-DD, such as 2026-07-01");
  if (typeof time !== "string" || !/^([01]\d|2[0-3]):[0-5]\d(:[0-5]\d)?$/.test(time))
    throwInvalid("time", time, "is not a time. Use HH:mm or HH:mm:ss, such as 15:00");
  checkNoUnknown(options, ["days", "hours", "minutes"]);
  const amount = (name: keyof LocalTimeOptions): number => {
    const value = options?.[name];
    if (value === undefined) return 0;
    if (Number.isInteger(value) && Math.abs(value) <= most) return value;
    return throwInvalid(name, value, `is not an integer from -${most} to ${most}`);
  };
  const wallClock = Date.parse(`${date}T${time}Z`) + amount("days") * dayInMs;
  const exact = (amount("hours") * 60 + amount("minutes")) * 60_000;
  return new Date(instantOf(wallClock, formatOf(timeZone)) + exact);
}

/** @param wallClock - the date and time on the clock, in ms since 1970 as if the clock showed UTC */
function instantOf(wallClock: number, format: Intl.DateTimeFormat): number {
  // An offset is less than a day, so a change that matters lies between these two instants.
  const before = offsetAt(wallClock - dayInMs, format);
  const after = offsetAt(wallClock + dayInMs, format);
  const isAt = (offset: number): boolean => offsetAt(wallClock - offset, format) === offset;
  // If the clocks show the time twice, both offsets are right. If they skip the time, neither is.
  return wallClock - (isAt(after) && !isAt(before) ? after : before);
}

/** Returns the UTC offset in ms. Old offsets have seconds: until 1972, the offset of Monrovia was `GMT-00:44:30`. */
function offsetAt(instant: number, format: Intl.DateTimeFormat): number {
  // Runtimes write the offset of UTC as `GMT` or as `GMT+00:00`.
  const match = /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/.exec(format.format(instant));
  const [, sign, hours = 0, minutes = 0, seconds = 0] = match as RegExpExecArray;
  const size = (Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds);
  return (sign === "-" ? -size : size) * 1000;
}

/** Making a format takes 250 times as long as using it. */
const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(timeZone: string): Intl.DateTimeFormat {
  const known = formats.get(timeZone);
  if (known) return known;
  const problem = "is not a time zone of this runtime. Use an IANA name, such as Europe/Lisbon";
  // For `undefined`, Intl would use the zone of the machine.
  if (typeof timeZone !== "string") return throwInvalid("timeZone", timeZone, problem);
  try {
    const format = new Intl.DateTimeFormat("en-US", { timeZone, timeZoneName: "longOffset" });
    formats.set(timeZone, format);
    return format;
  } catch {
    return throwInvalid("timeZone", timeZone, problem);
  }
}

function throwInvalid(argument: string, value: unknown, problem: string): never {
  const shown = Object(value) === value ? "an object" : cutToBytes(String(value) || "an empty text", 100);
  throw new InvalidArgumentError({ path: [argument], message: `${shown} ${problem}` });
}
