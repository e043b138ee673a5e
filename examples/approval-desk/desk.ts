// The requests that wait for a decision, one row each, and which reminder each has had.
import type { DatabaseSync } from "node:sqlite";
import { type Booking, stay } from "stayhook";

/** A request that nobody has decided on. */
export interface OpenRequest {
  readonly bookingCode: string;
  readonly listingId: string | null;
  /** `YYYY-MM-DD`; `null` where it cannot be read. */
  readonly checkIn: string | null;
  readonly checkOut: string | null;
  /** ms since 1970 */
  readonly decideBy: number;
  /** How long before `decideBy` its last reminder was due, ms; `null` where it has had none. */
  readonly reminded: number | null;
}

const DAY = 24 * 60 * 60_000;
/** How long it is remembered that a request was decided on, and how long one is listed that is overdue, ms. */
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

/** What a request's event says. */
export interface Asked {
  readonly booking: Booking;
  /** When it happened at the platform. */
  readonly timestamp: Date;
  readonly decideBy: Date;
}

/**
 * Puts a request on the desk. It may come more than once, by events with other times: it was made at the first of
 * them. One that happened no later than what has shown the booking decided on is old news, and stays off.
 *
 * @returns whether it is new there
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
 * Takes a booking off the desk that is a request no more, and remembers it, so that no older event puts it back.
 *
 * @returns whether it was there
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

/** Takes a booking off the desk. @returns whether it was there */
export function forget(db: DatabaseSync, bookingCode: string): boolean {
  return db.prepare("DELETE FROM requests WHERE bookingCode = ?").run(bookingCode).changes > 0;
}

/** What is on the desk, the most urgent first. */
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
 * Takes a reminder, before it is given: nobody else can take it again, in whatever process, nor after a crash.
 *
 * @param lead - how long before the deadline it is due, ms
 * @returns whether it was there to be taken
 */
export function takeReminder(db: DatabaseSync, bookingCode: string, lead: number): boolean {
  const { changes } = db
    .prepare(
      "UPDATE requests SET reminded = :lead WHERE bookingCode = :bookingCode AND (reminded IS NULL OR reminded > :lead)",
    )
    .run({ bookingCode, lead });
  return changes > 0;
}

/** A request with dates that cannot be read waits for a decision no less. */
function daysOf(booking: Booking): { checkIn: string | null; checkOut: string | null } {
  try {
    const { checkIn, checkOut } = stay(booking);
    return { checkIn, checkOut };
  } catch {
    return { checkIn: null, checkOut: null };
  }
}
