// The booked nights of each account: a row for each stay. Two accounts may have the same booking codes and listing ids,
// so each statement names the account. A repeated write does no harm.
import type { BookingStay } from "stayhook";
import { db, type Query } from "./database.ts";

/** @param query - for a write in the transaction of `event.atomically` */
export function block(account: string, stay: BookingStay, query: Query = db.query) {
  const { bookingCode, listingId, checkIn, checkOut } = stay;
  return query(
    `INSERT INTO stays VALUES ($1, $2, $3, $4, $5) ON CONFLICT (account, booking) DO UPDATE
     SET listing = excluded.listing, check_in = excluded.check_in, check_out = excluded.check_out`,
    [account, bookingCode, String(listingId), checkIn, checkOut],
  );
}

/**
 * Frees the nights of this booking in this listing only: the booking may have moved to another one.
 *
 * @param query - for a write in the transaction of `event.atomically`
 */
export function release(account: string, { bookingCode, listingId }: BookingStay, query: Query = db.query) {
  return query("DELETE FROM stays WHERE account = $1 AND booking = $2 AND listing = $3", [
    account,
    bookingCode,
    String(listingId),
  ]);
}

/** Returns the stays of one account, by listing and first night. */
export async function calendarOf(account: string) {
  return db.query(
    "SELECT booking, listing, check_in, check_out FROM stays WHERE account = $1 ORDER BY listing, check_in, booking",
    [account],
  );
}

export async function eraseCalendar(account: string): Promise<void> {
  await db.query("DELETE FROM stays WHERE account = $1", [account]);
}
