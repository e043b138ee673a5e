import { inAccount } from "../account.ts";
import { forEach } from "../async.ts";
import { ResponseValidationError } from "../client/client-errors.ts";
import { listFactsOf } from "../client/paging.ts";
import { StayhookError } from "../errors.ts";
import type { Listing } from "../models/records.ts";
import { compare, type TrackedSnapshot } from "../webhooks/processing/record.ts";
import { listingRef } from "../webhooks/refs.ts";
import { checkRecord, type PassContext, snapshotOf } from "./records.ts";

/** The list of listings, as far as the client could read it. */
export interface ReadList {
  /** The valid rows by their refs. If listings move while the pages are read, a row may come twice. */
  readonly rows: ReadonlyMap<string, Listing>;
  /** Whether all rows were read but the invalid ones. */
  readonly isRead: boolean;
  /** Whether the list may have pages that the client did not read. */
  readonly partial: boolean;
}

/** @returns `undefined` if the pass stopped before an answer */
export async function readList(pass: PassContext): Promise<ReadList | undefined> {
  const { account, client, reader, findings } = pass;
  const list = inAccount(account, "listings");
  const read = await reader.read(list, (options) => client.listings.list(options));
  if (read === undefined) return undefined;
  const hasFailed = "error" in read;
  const { invalid = 0, partial = false } = listFactsOf(Object(hasFailed ? read.error : read.value)) ?? {};
  if (hasFailed) findings.fail(list, read.error, Math.max(invalid, 1));
  const rows = hasFailed ? validRows(read.error) : read.value;
  if (!(await isOwn(pass, rows))) {
    findings.fail(list, new StayhookError(FOREIGN));
    return { rows: new Map(), isRead: false, partial };
  }
  const byRef = new Map(rows.map((row) => [listingRef(row.listingId, account), row]));
  return { rows: byRef, isRead: !hasFailed || invalid > 0, partial };
}

const FOREIGN =
  "The list of listings has none that is known, and no record that is known was found, so it may be the list of another account. Check the access token. Nothing of the list counts until a notification names one of its listings, or a known record is found";

/** Whether the list is that of the account. If the pass stops meanwhile, the answer does not matter. */
async function isOwn({ account, internals, stop }: PassContext, rows: readonly Listing[]): Promise<boolean> {
  if (rows.length === 0) return true;
  const { signal } = stop;
  return await internals.goneWitness!.isOwnList(account, rows, signal).catch((error) => {
    if (!signal.aborted) throw error;
    return true;
  });
}

/** Returns the valid rows of a list that also has invalid rows. */
function validRows(error: unknown): readonly Listing[] {
  return error instanceof ResponseValidationError ? (error.valid as readonly Listing[]) : [];
}

/** @param learned - whether an earlier pass has seen all listings. If so, an unknown listing is a new listing */
export async function checkListings(pass: PassContext, { rows }: ReadList, learned: boolean): Promise<void> {
  const { store, stop, concurrency, baseline, internals, findings } = pass;
  await forEach(rows, concurrency, async ([ref, listing]) => {
    if (stop.reason !== undefined) return;
    const row = snapshotOf(pass, ref, "listing", listing);
    if (!row) return;
    internals.statusSeen("listing", row.snapshot.status, ref);
    const known = await store.snapshotOf(ref);
    if (!known && baseline && !learned) return learn(pass, ref, row);
    if (known && !compare(known.snapshot, row).changed) {
      findings.check(ref, row.snapshot.status);
      return findings.keepFromAge(known);
    }
    // Read the listing itself. The list may lack fields, and an event may have been handled after the list was read.
    await checkRecord(pass, ref, () => {}, row);
  });
}

async function learn(
  { store, findings, observe }: PassContext,
  ref: string,
  { snapshot: { status, fields } }: TrackedSnapshot,
): Promise<void> {
  findings.check(ref, status);
  // Leave out fields that the list lacks: a stored `null` would count as a change in the next event.
  const known = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
  // If an event of the listing waits, `learn` records nothing, so that the event's callback sees a change.
  if (await store.learn(ref, { status, fields: known })) observe({ kind: "learned", ref, status });
}
