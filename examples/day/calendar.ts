import type { DatabaseSync } from "node:sqlite";
import { type Booking, type Stay, stay } from "stayhook";

/** The change of the calendar by one event. */
export interface Change extends Stay {
  readonly verb: "blocked" | "released";
}

/**
 * Creates a table of booked nights, and a journal of handled events with the nights that each blocked or freed.
 * The tables do not reject duplicate events, because `atomically` prevents them.
 */
export function createTables(db: DatabaseSync): void {
  db.exec(`
    CREATE TABLE IF NOT EXISTS calendar (
      bookingCode TEXT PRIMARY KEY, checkIn TEXT NOT NULL, checkOut TEXT NOT NULL, nights INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE IF NOT EXISTS journal (eventId TEXT NOT NULL, nights INTEGER NOT NULL) STRICT;
  `);
}

/** @returns `undefined` if these nights were blocked before: two events of one booking may both see it Confirmed */
export function block(db: DatabaseSync, booking: Booking): Change | undefined {
  const { checkIn, checkOut, nights } = stay(booking);
  const { changes } = db
    .prepare(`
      INSERT INTO calendar VALUES (?, ?, ?, ?)
      ON CONFLICT DO UPDATE SET checkIn = excluded.checkIn, checkOut = excluded.checkOut, nights = excluded.nights
      WHERE (calendar.checkIn, calendar.checkOut) IS NOT (excluded.checkIn, excluded.checkOut)`)
    .run(booking.bookingCode, checkIn, checkOut, nights);
  return changes === 0 ? undefined : { verb: "blocked", checkIn, checkOut, nights };
}

/** @returns `undefined` if no nights were blocked */
export function release(db: DatabaseSync, { bookingCode }: Pick<Booking, "bookingCode">): Change | undefined {
  const row = db
    .prepare("DELETE FROM calendar WHERE bookingCode = ? RETURNING checkIn, checkOut, nights")
    .get(bookingCode);
  return row && { verb: "released", ...(row as unknown as Stay) };
}

export function enter(db: DatabaseSync, eventId: string, change: Change | undefined): void {
  const nights = change === undefined ? 0 : change.verb === "blocked" ? change.nights : -change.nights;
  db.prepare("INSERT INTO journal VALUES (?, ?)").run(eventId, nights);
}
