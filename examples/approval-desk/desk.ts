// A table of the requests that wait for a decision, for the page.
import type { DatabaseSync } from "node:sqlite";
import type { BookingEvent } from "stayhook";

/** A request without a decision. */
export interface OpenRequest {
  readonly bookingCode: string;
  readonly listingId: string | null;
  /** `YYYY-MM-DD`, or `null` if the date cannot be read. */
  readonly checkIn: string | null;
  readonly checkOut: string | null;
  /** In ms since 1970. */
  readonly decideBy: number;
}

/** How long to list an overdue request, in ms. */
const LISTED = 30 * 24 * 60 * 60_000;

export function createTables(db: DatabaseSync): void {
  db.exec(`
    CREATE TABLE IF NOT EXISTS requests (
      bookingCode TEXT PRIMARY KEY, listingId TEXT, checkIn TEXT, checkOut TEXT, decideBy INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS requests_by_deadline ON requests (decideBy);
  `);
}

/** Returns the deadline of a request. An earlier one that the table knows counts, such as one that 1.1 has told. */
export function deadlineOf(db: DatabaseSync, bookingCode: string, decideBy: Date): Date {
  const known = db.prepare("SELECT decideBy FROM requests WHERE bookingCode = ?").get(bookingCode);
  return new Date(Math.min(decideBy.getTime(), Number(known?.decideBy ?? Number.POSITIVE_INFINITY)));
}

/** Adds a request to the table, or updates it. @returns whether the request is new in the table */
export function open(
  tx: DatabaseSync,
  { booking, stay }: Pick<BookingEvent<"Request">, "booking" | "stay">,
  decideBy: Date,
): boolean {
  const { bookingCode, listingId = null } = booking;
  const isNew = !tx.prepare("SELECT 1 FROM requests WHERE bookingCode = ?").get(bookingCode);
  tx.prepare(
    "INSERT OR REPLACE INTO requests VALUES (:bookingCode, :listingId, :checkIn, :checkOut, :decideBy)",
  ).run({
    bookingCode,
    listingId: listingId === null ? null : String(listingId),
    checkIn: stay?.checkIn ?? null,
    checkOut: stay?.checkOut ?? null,
    decideBy: decideBy.getTime(),
  });
  return isNew;
}

/** Removes a decided booking from the table. @returns whether the booking was in the table */
export function decide(tx: DatabaseSync, bookingCode: string): boolean {
  return tx.prepare("DELETE FROM requests WHERE bookingCode = ?").run(bookingCode).changes > 0;
}

/** Returns the requests in the table, the most urgent first. */
export function openRequests(db: DatabaseSync, now: number): OpenRequest[] {
  return db
    .prepare("SELECT * FROM requests WHERE decideBy > ? ORDER BY decideBy, bookingCode")
    .all(now - LISTED) as unknown as OpenRequest[];
}
