// A table of the requests that wait for a decision, with the last reminder of each.
import type { DatabaseSync } from "node:sqlite";
import { type Booking, stay } from "stayhook";

/** A request without a decision. */
export interface OpenRequest {
  readonly bookingCode: string;
  readonly listingId: string | null;
  /** `YYYY-MM-DD`, or `null` if the date cannot be read. */
  readonly checkIn: string | null;
  readonly checkOut: string | null;
  /** In ms since 1970. */
  readonly decideBy: number;
  /** How long before `decideBy` the last reminder was due, in ms. `null` if there was none. */
  readonly reminded: number | null;
}

const DAY = 24 * 60 * 60_000;
/** How long to remember a decision, and how long to list an overdue request, in ms. */
const REMEMBERED = 30 * DAY;

export function createTables(db: DatabaseSync): void {
  db.exec(`
    CREATE TABLE IF NOT EXISTS requests (
      bookingCode TEXT PRIMARY KEY, listingId TEXT, checkIn TEXT, checkOut TEXT,
      decideBy INTEGER NOT NULL, reminded INTEGER
    ) STRICT;
    CREATE INDEX IF NOT EXISTS requests_by_deadline ON requests (decideBy);
    CREATE TABLE IF NOT EXISTS decided (bookingCode TEXT PRIMARY KEY, happenedAt INTEGER NOT NULL) STRICT;
  `);
}

/** The data of a request's event. */
export interface Asked {
  readonly booking: Booking;
  /** When the event happened at the platform. */
  readonly timestamp: Date;
  readonly decideBy: Date;
}

/**
 * Adds a request to the table, or updates it. If several events report the same request, the earliest deadline counts.
 * An event that is no newer than a known decision is outdated and is ignored.
 *
 * @returns whether the request is new in the table
 */
export function open(tx: DatabaseSync, { booking, timestamp, decideBy }: Asked): boolean {
  const { bookingCode, listingId = null } = booking;
  const decided = tx.prepare("SELECT happenedAt FROM decided WHERE bookingCode = ?").get(bookingCode);
  if (decided && timestamp.getTime() <= Number(decided.happenedAt)) return false;
  const isNew = openRequest(tx, bookingCode) === undefined;
  tx.prepare(`
    INSERT INTO requests VALUES (:bookingCode, :listingId, :checkIn, :checkOut, :decideBy, NULL)
    ON CONFLICT DO UPDATE SET listingId = excluded.listingId, checkIn = excluded.checkIn,
      checkOut = excluded.checkOut, decideBy = min(decideBy, excluded.decideBy)`).run({
    bookingCode,
    listingId: listingId === null ? null : String(listingId),
    ...daysOf(booking),
    decideBy: decideBy.getTime(),
  });
  return isNew;
}

/**
 * Removes a decided booking from the table. Remembers the decision, so that no older event adds the booking again.
 *
 * @returns whether the booking was in the table
 */
export function decide(tx: DatabaseSync, bookingCode: string, timestamp: Date): boolean {
  const happenedAt = timestamp.getTime();
  tx.prepare(`
    INSERT INTO decided VALUES (?, ?)
    ON CONFLICT DO UPDATE SET happenedAt = max(happenedAt, excluded.happenedAt)`).run(
    bookingCode,
    happenedAt,
  );
  tx.prepare("DELETE FROM decided WHERE happenedAt < ?").run(happenedAt - REMEMBERED);
  return forget(tx, bookingCode);
}

/** Removes a booking from the table. @returns whether it was in the table */
export function forget(db: DatabaseSync, bookingCode: string): boolean {
  return db.prepare("DELETE FROM requests WHERE bookingCode = ?").run(bookingCode).changes > 0;
}

/** Returns the requests in the table, the most urgent first. */
export function openRequests(db: DatabaseSync, now: number): OpenRequest[] {
  return db
    .prepare("SELECT * FROM requests WHERE decideBy > ? ORDER BY decideBy, bookingCode")
    .all(now - REMEMBERED) as unknown as OpenRequest[];
}

export function openRequest(db: DatabaseSync, bookingCode: string): OpenRequest | undefined {
  return db.prepare("SELECT * FROM requests WHERE bookingCode = ?").get(bookingCode) as
    | OpenRequest
    | undefined;
}

/**
 * Claims a reminder before it is sent. No other process can claim it again, not even after a crash.
 *
 * @param lead - how long before the deadline the reminder is due, in ms
 * @returns whether this call claimed the reminder
 */
export function takeReminder(db: DatabaseSync, bookingCode: string, lead: number): boolean {
  const { changes } = db
    .prepare(
      "UPDATE requests SET reminded = :lead WHERE bookingCode = :bookingCode AND (reminded IS NULL OR reminded > :lead)",
    )
    .run({ bookingCode, lead });
  return changes > 0;
}

/** Returns `null` for unreadable dates: the request still waits for a decision. */
function daysOf(booking: Booking): { checkIn: string | null; checkOut: string | null } {
  try {
    const { checkIn, checkOut } = stay(booking);
    return { checkIn, checkOut };
  } catch {
    return { checkIn: null, checkOut: null };
  }
}
