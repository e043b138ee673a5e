import type { Random } from "./random.ts";

const day = 86_400_000;

/**
 * The dates that were given, in whatever form, and plausible ones for those that were not: one to seven
 * nights, from within the next half year. They count from today, as a booking that has passed is no plausible one.
 */
export function chooseStay(
  random: Random,
  given: Record<string, unknown>,
): { readonly checkIn: unknown; readonly checkOut: unknown } {
  // Drawn in any case, so that giving a date leaves what is drawn later as it was.
  const today = Math.floor(Date.now() / day) * day;
  const arrival = today + random.integer(1, 180) * day;
  const stay = random.integer(1, 7) * day;

  const { checkIn, checkOut } = given;
  const arrives = moment(checkIn) ?? moment(checkOut, -stay) ?? arrival;
  return {
    checkIn: checkIn === undefined ? toDate(arrives) : checkIn,
    checkOut: checkOut === undefined ? toDate(arrives + stay) : checkOut,
  };
}

/** `undefined` for what is no date, or comes out beyond four-digit years. */
function moment(date: unknown, shift = 0): number | undefined {
  if (typeof date !== "string") return undefined;
  const moved = Date.parse(date) + shift;
  return Math.abs(moved) < 2.5e14 ? moved : undefined;
}

const toDate = (moment: number): string => new Date(moment).toISOString().slice(0, 10);
