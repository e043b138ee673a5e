// A table of the account's listings. Events write one listing at a time, and the list of all listings corrects the
// table. The later read must win, but answers overtake each other. So each row has a version, which rises with every
// write. The list writes a row only if no event has written it since the list was requested, and no event is about to
// write it.
import type { DatabaseSync } from "node:sqlite";
import type { Listing } from "stayhook";

/**
 * A row. You can add columns for other fields of GET /v2/listings. Do not add fields that only GET
 * /v2/listings/{listingId} returns, because the list cannot correct them.
 */
export interface MirroredListing {
  readonly listingId: number;
  readonly listingName: string | null;
  readonly status: string;
  /** Since when the listing has been missing from the list, in ms since 1970. `null` if it is in the list. */
  readonly missingSince: number | null;
  /** When this row last changed, in ms since 1970. */
  readonly changedAt: number;
}

/** The change of a listing. */
export interface ListingChange {
  /** `undefined` if the listing is new. */
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

/** Returns the highest version so far. Every row that was written before has this version or a lower one. */
export function version(db: DatabaseSync): number {
  return Number(db.prepare("SELECT coalesce(max(version), 0) AS version FROM listings").get()?.version);
}

/**
 * Writes the listing that an event has read. Events of one listing never run at the same time, so they cannot overtake
 * each other.
 *
 * @returns the change, or `undefined` if nothing has changed
 */
export function writeListing(
  tx: DatabaseSync,
  listing: Listing,
  now = Date.now(),
): ListingChange | undefined {
  return write(tx, { ...listing, missingSince: null }, version(tx) + 1, now);
}

/** The list, and the state of the mirror while it was fetched. */
export interface Listed {
  readonly listings: readonly Listing[];
  /** The {@link version} before the request for the list. */
  readonly since: number;
  /** Listings whose events were running when the list arrived. Their reads may be older or newer than the list. */
  readonly atWork: ReadonlySet<number>;
  /** Whether an empty list counts. Default: it changes nothing, because the platform may have lost sight of all listings. */
  readonly mayBeEmpty?: boolean;
}

export interface Correction {
  readonly changes: readonly ListingChange[];
  /** Listings that the next list must check, because an event's read may be newer than this list. */
  readonly open: readonly number[];
}

/** Corrects the table from the list of all listings. */
export function correct(
  db: DatabaseSync,
  { listings, since, atWork, mayBeEmpty = false }: Listed,
  now = Date.now(),
): Correction {
  const changes: ListingChange[] = [];
  const open: number[] = [];
  if (listings.length === 0 && !mayBeEmpty) return { changes, open };
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

/** Writes a row, even if it is unchanged: the version must rise with each read. */
function write(db: DatabaseSync, found: Found, version: number, now: number): ListingChange | undefined {
  const { listingId, status, missingSince } = found;
  const before = find(db, listingId);
  // A name that is not text cannot be shown.
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
