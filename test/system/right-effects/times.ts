const FIRST = Date.parse("2030-01-01");

/** Returns the date of a day, counted from the first day. */
export const dateOf = (day: number) => new Date(FIRST + day * 86_400_000).toISOString().slice(0, 10);

/** Returns when a stay's message is due, and when its door opens and closes. */
export function timesOf(
  { checkIn, checkOut }: { readonly checkIn: string; readonly checkOut: string },
  { epoch, dayMs }: { readonly epoch: number; readonly dayMs: number },
) {
  const at = (date: string, days = 0) =>
    new Date(epoch + ((Date.parse(date) - FIRST) / 86_400_000 + days) * dayMs);
  return { mail: at(checkIn, -2), arrival: at(checkIn), departure: at(checkOut) };
}
