/**
 * The instant of a time of day at a place.
 *
 * @param day - `YYYY-MM-DD`
 * @param time - `HH:MM`; a time that a change of the clocks skips is taken an hour later
 * @param timeZone - an IANA zone, such as `Europe/Lisbon`
 */
export function instantAt(day: string, time: string, timeZone: string): Date {
  const asIfUtc = Date.parse(`${day}T${time}:00Z`);
  // The offset at the first guess may be the one of the other side of a change of the clocks.
  const guess = asIfUtc - offsetAt(asIfUtc, timeZone);
  return new Date(asIfUtc - offsetAt(guess, timeZone));
}

/** How far the clocks of a zone are ahead of UTC at an instant, in ms. */
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
