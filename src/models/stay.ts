import { InvalidArgumentError } from "../errors.ts";
import { isDay } from "./timestamp.ts";

/** The days of a booking, and the nights between them. */
export interface Stay {
  /** Arrival, `YYYY-MM-DD`. */
  readonly checkIn: string;
  /** Departure, `YYYY-MM-DD`. */
  readonly checkOut: string;
  /** At least 1. */
  readonly nights: number;
}

/**
 * Reads a booking's dates, in whatever format they came: the day as it is written, whatever the offset; of a
 * number (seconds below 1e11, else ms) the day in UTC.
 *
 * @throws InvalidArgumentError naming the field: absent, no such day, or check-out not after check-in
 * @example
 * ```ts
 * const { checkIn, checkOut, nights } = stay(booking); // "2026-07-01", "2026-07-04", 3
 * ```
 */
export function stay(booking: { readonly checkIn?: unknown; readonly checkOut?: unknown }): Stay {
  const checkIn = dayOf(booking, "checkIn");
  const checkOut = dayOf(booking, "checkOut");
  const nights = (Date.parse(checkOut) - Date.parse(checkIn)) / 86_400_000;
  if (nights < 1) throw new InvalidArgumentError({ path: ["checkOut"], message: "must be after checkIn" });
  return { checkIn, checkOut, nights };
}

function dayOf(
  booking: { readonly checkIn?: unknown; readonly checkOut?: unknown },
  field: "checkIn" | "checkOut",
): string {
  const value: unknown = booking?.[field];
  const day =
    typeof value === "string" ? written(value) : typeof value === "number" ? counted(value) : undefined;
  if (day !== undefined) return day;
  const message =
    value === undefined || value === null ? "is absent" : "must be a date: YYYY-MM-DD, or a time since 1970";
  throw new InvalidArgumentError({ path: [field], message });
}

function written(text: string): string | undefined {
  // Digits alone are a number that came as text; eight of them are a day without its hyphens.
  if (/^\d{9,}$/.test(text)) return counted(Number(text));
  const match = /^(\d{4})(-?)(\d\d)\2(\d\d)(?=$|[T\sZ+-])/i.exec(text);
  if (!match) return undefined;
  const [, year, , month, day] = match;
  return isDay(Number(year), Number(month), Number(day)) ? `${year}-${month}-${day}` : undefined;
}

function counted(number: number): string | undefined {
  const date = new Date(number < 1e11 ? number * 1000 : number);
  const year = date.getUTCFullYear();
  // Beyond these years ISO dates are written in another way.
  return year >= 0 && year <= 9999 ? date.toISOString().slice(0, 10) : undefined;
}
