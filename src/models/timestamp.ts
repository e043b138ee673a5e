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
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  return date.getUTCFullYear() === year && date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
}
