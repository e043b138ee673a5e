const pattern =
  /^(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?(?:Z|([+-])(\d\d)(?::?(\d\d))?)?$/i;

/**
 * Reads an ISO 8601 date-time, whole to the minute at least, into its moment; without an offset it is in UTC.
 * `undefined` where it is none, or names a day or time that does not exist.
 */
export function parseTimestamp(text: string): Date | undefined {
  const match = pattern.exec(text);
  if (!match) return undefined;
  const part = (index: number): number => Number(match[index] ?? 0);
  const [year, month, day, hour, minute, second] = [part(1), part(2), part(3), part(4), part(5), part(6)];
  const ms = Number((match[7] ?? "").slice(0, 3).padEnd(3, "0"));
  const [offsetHours, offsetMinutes] = [part(9), part(10)];
  if (!isDay(year, month, day) || minute > 59 || second > 60 || offsetHours > 23 || offsetMinutes > 59)
    return undefined;
  // 24:00 is the end of its day.
  if (hour > 24 || (hour === 24 && (minute > 0 || second > 0 || ms > 0))) return undefined;

  const sign = match[8] === "-" ? -1 : 1;
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
