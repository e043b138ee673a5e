// A table of booked nights, one row per booking. Double bookings are not stored: a query finds them. So no double
// booking can be missed, or outlive its bookings.
import { randomUUID } from "node:crypto";
import type { DatabaseSync } from "node:sqlite";
import type { BookingStay, Listing } from "stayhook";

/** A booking's place in a listing's calendar. */
export interface BlockedStay {
  /** An id for the feed. It hides the booking's code from the readers of the feed. */
  readonly uid: string;
  /** The first night, `YYYY-MM-DD`. */
  readonly checkIn: string;
  /** The day of departure. The night after it is free. */
  readonly checkOut: string;
  /** How often the stay has changed. */
  readonly revision: number;
  /** In ms since 1970. */
  readonly changedAt: number;
}

/** Two confirmed bookings of one listing, and the nights that they share. */
export interface DoubleBooking {
  readonly listingId: string;
  readonly bookings: readonly [string, string];
  readonly firstNight: string;
  /** The day after the last shared night. */
  readonly until: string;
}

export function createTables(db: DatabaseSync): void {
  db.exec(`
    CREATE TABLE IF NOT EXISTS stays (
      bookingCode TEXT PRIMARY KEY, uid TEXT NOT NULL, listingId TEXT NOT NULL,
      checkIn TEXT NOT NULL, checkOut TEXT NOT NULL,
      blocked INTEGER NOT NULL, -- 0: released. The row stays, for its uid, should the booking come back
      revision INTEGER NOT NULL, changedAt INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS stays_blocked ON stays (listingId, checkOut) WHERE blocked;
    CREATE TABLE IF NOT EXISTS listingNames (listingId TEXT PRIMARY KEY, name TEXT NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS toldDoubleBookings (doubleBooking TEXT PRIMARY KEY) STRICT;
  `);
}

/**
 * Blocks a booking's nights. If the booking has new dates, its old nights become free. Nights that another booking also
 * has are blocked by both. A stay whose arrival and departure are on one day has no night to block.
 *
 * @returns whether anything changed
 */
export function block(
  tx: DatabaseSync,
  { bookingCode, listingId, checkIn, checkOut }: BookingStay,
  now = Date.now(),
): boolean {
  const { changes } = tx
    .prepare(`
      INSERT INTO stays VALUES (:bookingCode, :uid, :listingId, :checkIn, :checkOut, :checkIn < :checkOut, 0, :now)
      ON CONFLICT DO UPDATE SET
        listingId = excluded.listingId, checkIn = excluded.checkIn, checkOut = excluded.checkOut,
        blocked = excluded.blocked, revision = revision + 1, changedAt = excluded.changedAt
      WHERE (stays.listingId, stays.checkIn, stays.checkOut, stays.blocked)
        IS NOT (excluded.listingId, excluded.checkIn, excluded.checkOut, excluded.blocked)`)
    .run({ bookingCode, uid: randomUUID(), listingId: String(listingId), checkIn, checkOut, now });
  return changes > 0;
}

/**
 * Frees the nights of this booking in this listing only: the booking may have moved to another one. The row stays, for its
 * uid, should the booking come back.
 *
 * @returns whether anything changed
 */
export function release(
  tx: DatabaseSync,
  { bookingCode, listingId }: BookingStay,
  now = Date.now(),
): boolean {
  const { changes } = tx
    .prepare(`
      UPDATE stays SET blocked = 0, revision = revision + 1, changedAt = ?
      WHERE bookingCode = ? AND listingId = ? AND blocked`)
    .run(now, bookingCode, String(listingId));
  return changes > 0;
}

/** Stores the name of a listing. */
export function nameListing(tx: DatabaseSync, { listingId, listingName }: Listing): void {
  tx.prepare("INSERT INTO listingNames VALUES (?, ?) ON CONFLICT DO UPDATE SET name = excluded.name").run(
    String(listingId),
    typeof listingName === "string" && listingName !== "" ? listingName : `Listing ${listingId}`,
  );
}

/** Returns a listing's blocked stays with a `checkOut` on or after the day `from`, in order of their first nights. */
export function blockedStays(db: DatabaseSync, listingId: string, from: string): BlockedStay[] {
  return db
    .prepare(`
      SELECT uid, checkIn, checkOut, revision, changedAt FROM stays
      WHERE listingId = ? AND blocked AND checkOut >= ? ORDER BY checkIn, uid`)
    .all(listingId, from) as unknown as BlockedStay[];
}

/** Returns the listings that have a calendar, with their names if known. */
export function listings(db: DatabaseSync): { readonly listingId: string; readonly name: string | null }[] {
  return db
    .prepare(`
      SELECT listingId, name FROM (SELECT listingId FROM stays UNION SELECT listingId FROM listingNames)
      LEFT JOIN listingNames USING (listingId) ORDER BY listingId`)
    .all() as unknown as ReturnType<typeof listings>;
}

/** Whether a listing has a calendar. */
export function isListed(db: DatabaseSync, listingId: string): boolean {
  return listings(db).some((listing) => listing.listingId === listingId);
}

export function listingName(db: DatabaseSync, listingId: string): string | undefined {
  const row = db.prepare("SELECT name FROM listingNames WHERE listingId = ?").get(listingId);
  return row?.name as string | undefined;
}

/**
 * Returns each pair of bookings that share a night which is not over.
 *
 * @param until - leaves out a pair of which a booking has changed after this time, in ms since 1970
 */
export function doubleBookings(
  db: DatabaseSync,
  today: string,
  until = Number.MAX_SAFE_INTEGER,
): DoubleBooking[] {
  const rows = db
    .prepare(`
      SELECT one.listingId, one.bookingCode AS one, other.bookingCode AS other,
        max(one.checkIn, other.checkIn) AS firstNight, min(one.checkOut, other.checkOut) AS until
      FROM stays one JOIN stays other ON other.listingId = one.listingId AND other.bookingCode > one.bookingCode
        AND other.blocked AND other.checkIn < one.checkOut AND other.checkOut > one.checkIn
      WHERE one.blocked AND one.checkOut > :today AND other.checkOut > :today
        AND max(one.changedAt, other.changedAt) <= :until
      ORDER BY firstNight, one, other`)
    .all({ today, until }) as unknown as (Omit<DoubleBooking, "bookings"> & { one: string; other: string })[];
  return rows.map(({ one, other, ...rest }) => ({ ...rest, bookings: [one, other] }));
}

/**
 * Reports each double booking once. Reports it again only if its nights have changed, or if it had ended and has come
 * back. If a crash prevented a report, the next call makes it.
 *
 * @param until - lets a double booking wait that is newer than this time, in ms since 1970
 */
export function tellDoubleBookings(
  db: DatabaseSync,
  today: string,
  tell: (doubleBooking: DoubleBooking) => void,
  until?: number,
): void {
  const known = db.prepare("SELECT doubleBooking FROM toldDoubleBookings").all();
  const told = new Set(known.map(({ doubleBooking }) => doubleBooking as string));
  const due = new Set(doubleBookings(db, today, until).map((found) => JSON.stringify(found)));
  for (const found of doubleBookings(db, today)) {
    const text = JSON.stringify(found);
    if (told.delete(text) || !due.has(text)) continue;
    tell(found);
    db.prepare("INSERT OR IGNORE INTO toldDoubleBookings VALUES (?)").run(text);
  }
  for (const gone of told) db.prepare("DELETE FROM toldDoubleBookings WHERE doubleBooking = ?").run(gone);
}
