/**
 * Returns the instant of a local time.
 *
 * @param day - `YYYY-MM-DD`
 * @param time - `HH:MM`. If a clock change skips this time, the result is an hour later
 * @param timeZone - an IANA zone, such as `Europe/Lisbon`
 */
export function instantAt(day: string, time: string, timeZone: string): Date {
  const asIfUtc = Date.parse(`${day}T${time}:00Z`);
  // The first guess may be on the other side of a clock change, with another offset.
  const guess = asIfUtc - offsetAt(asIfUtc, timeZone);
  return new Date(asIfUtc - offsetAt(guess, timeZone));
}

/** Returns how far a zone is ahead of UTC at an instant, in ms. */
function offsetAt(instant: number, timeZone: string): number {
  const format = new Intl.DateTimeFormat("en-CA", {
    timeZone,
    hourCycle: "h23",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });
  const part = Object.fromEntries(format.formatToParts(instant).map(({ type, value }) => [type, value]));
  const local = `${part.year}-${part.month}-${part.day}T${part.hour}:${part.minute}:${part.second}Z`;
  return Date.parse(local) - Math.floor(instant / 1000) * 1000;
}
