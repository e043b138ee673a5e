// A table of the account's listings, written from two sides: by events, each of which has read one listing, and by
// the list of all of them. Whoever has read later is right, and answers overtake each other: so each row knows its
// version, which rises whenever something was read and written, and the list writes only what nobody has written
// since it was asked for, and nobody is about to.
import type { DatabaseSync } from "node:sqlite";
import type { Listing } from "stayhook";

/** A row. More columns can be had of what GET /v2/listings tells; what only a single listing tells, it does not keep true. */
export interface MirroredListing {
  readonly listingId: number;
  readonly listingName: string | null;
  readonly status: string;
  /** Since when the list has it no more, ms since 1970; `null` where it has it. */
  readonly missingSince: number | null;
  /** When anything of this last changed here, ms since 1970. */
  readonly changedAt: number;
}

/** What has changed about a listing. */
export interface ListingChange {
  /** `undefined` where it is new. */
  readonly before: MirroredListing | undefined;
  readonly after: MirroredListing;
}

type Row = MirroredListing & { readonly version: number };

export function createTables(db: DatabaseSync): void {
  db.exec(`
    CREATE TABLE IF NOT EXISTS listings (
      listingId INTEGER PRIMARY KEY, listingName TEXT, status TEXT NOT NULL,
      missingSince INTEGER, changedAt INTEGER NOT NULL, version INTEGER NOT NULL
    ) STRICT;
  `);
}

export function mirroredListings(db: DatabaseSync): MirroredListing[] {
  return db
    .prepare(
      "SELECT listingId, listingName, status, missingSince, changedAt FROM listings ORDER BY listingId",
    )
    .all() as unknown as MirroredListing[];
}

/** How often has been written: what was written before the list is asked for has no higher version than this. */
export function version(db: DatabaseSync): number {
  return Number(db.prepare("SELECT coalesce(max(version), 0) AS version FROM listings").get()?.version);
}

/**
 * Writes what an event has read. Events of one listing never run at once, so that none is overtaken by another.
 *
 * @returns what has changed, `undefined` where nothing has
 */
export function writeListing(
  tx: DatabaseSync,
  listing: Listing,
  now = Date.now(),
): ListingChange | undefined {
  return write(tx, { ...listing, missingSince: null }, version(tx) + 1, now);
}

/** The list, and what has to be known of the time in which it was got. */
export interface Listed {
  readonly listings: readonly Listing[];
  /** {@link version}, before it was asked for. */
  readonly since: number;
  /** The listings whose events were at work when it had come: what they have read may be older than it, or newer. */
  readonly atWork: ReadonlySet<number>;
}

export interface Correction {
  readonly changes: readonly ListingChange[];
  /** The listings of which it is not known whether the list is newer: it has to be asked again. */
  readonly open: readonly number[];
}

/** Corrects the table by the list of all listings. */
export function correct(db: DatabaseSync, { listings, since, atWork }: Listed, now = Date.now()): Correction {
  const changes: ListingChange[] = [];
  const open: number[] = [];
  db.exec("BEGIN IMMEDIATE");
  try {
    const next = version(db) + 1;
    const isOpen = (listingId: number, row: Row | undefined): boolean => {
      if (!atWork.has(listingId) && (row === undefined || row.version <= since)) return false;
      open.push(listingId);
      return true;
    };
    const listed = new Map(listings.map((listing) => [listing.listingId, listing]));
    for (const listing of listed.values()) {
      if (isOpen(listing.listingId, find(db, listing.listingId))) continue;
      const change = write(db, { ...listing, missingSince: null }, next, now);
      if (change) changes.push(change);
    }
    for (const row of db.prepare("SELECT * FROM listings").all() as unknown as Row[]) {
      if (listed.has(row.listingId) || isOpen(row.listingId, row)) continue;
      const change = write(db, { ...row, missingSince: row.missingSince ?? now }, next, now);
      if (change) changes.push(change);
    }
    db.exec("COMMIT");
  } catch (error) {
    db.exec("ROLLBACK");
    throw error;
  }
  return { changes, open };
}

interface Found extends Pick<Listing, "listingId" | "status" | "listingName"> {
  readonly missingSince: number | null;
}

/** Writes a row, also one that says the same: that it was read counts. */
function write(db: DatabaseSync, found: Found, version: number, now: number): ListingChange | undefined {
  const { listingId, status, missingSince } = found;
  const before = find(db, listingId);
  // A name of another kind than text is none that could be shown.
  const listingName = typeof found.listingName === "string" ? found.listingName : null;
  const isSame =
    before !== undefined &&
    before.listingName === listingName &&
    before.status === status &&
    before.missingSince === missingSince;
  const changedAt = isSame ? before.changedAt : now;
  const after = { listingId, listingName, status, missingSince, changedAt };
  db.prepare(`
    INSERT OR REPLACE INTO listings
    VALUES (:listingId, :listingName, :status, :missingSince, :changedAt, :version)`).run({
    ...after,
    version,
  });
  return isSame ? undefined : { before, after };
}

function find(db: DatabaseSync, listingId: number): Row | undefined {
  return db.prepare("SELECT * FROM listings WHERE listingId = ?").get(listingId) as Row | undefined;
}
