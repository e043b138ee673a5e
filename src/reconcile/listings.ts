import { inAccount } from "../account.ts";
import { forEach } from "../async.ts";
import { ResponseValidationError } from "../client/client-errors.ts";
import { listFactsOf } from "../client/paging.ts";
import { StayhookError } from "../errors.ts";
import type { Listing } from "../models/records.ts";
import { withKnown } from "../webhooks/processing/known-stay.ts";
import { type ReadRecord, readFrom } from "../webhooks/processing/read-record.ts";
import { compare, hasNewFields, hiddenIn } from "../webhooks/processing/record.ts";
import type { Look } from "../webhooks/processing/snapshots.ts";
import { listingRef } from "../webhooks/refs.ts";
import { checkRecord, lookAt, type PassContext } from "./records.ts";

/** The list of listings, as far as the client could read it. */
export interface ReadList {
  /** The valid rows by their refs. If listings move while the pages are read, a row may come twice. */
  readonly rows: ReadonlyMap<string, ReadRecord<Listing>>;
  /** The listings that were known before the list was read. One that has no snapshot now has been erased since. */
  readonly known: ReadonlySet<string>;
  /** Whether all rows were read but the invalid ones. */
  readonly isRead: boolean;
  /** Whether the list may have pages that the client did not read. */
  readonly partial: boolean;
}

/** @returns `undefined` if the pass stopped before an answer */
export async function readList(pass: PassContext): Promise<ReadList | undefined> {
  const { account, client, reader, findings } = pass;
  const list = inAccount(account, "listings");
  const known = await knownListings(pass);
  const read = await reader.read(list, (options) => client.listings.list(options));
  if (read === undefined) return undefined;
  const hasFailed = "error" in read;
  const facts = listFactsOf(Object(hasFailed ? read.error : read.value));
  const { invalid = 0, partial = false } = facts ?? {};
  if (hasFailed) findings.fail(list, read.error, Math.max(invalid, 1));
  const rows = hasFailed ? validRows(read.error) : read.value;
  if (!(await isOwn(pass, rows))) {
    findings.fail(list, new StayhookError(FOREIGN));
    return { rows: new Map(), known, isRead: false, partial };
  }
  const byRef = new Map(
    rows.map((row, index) => [
      listingRef(row.listingId, account),
      readFrom("listing", row, facts?.sent[index] as object | undefined),
    ]),
  );
  return { rows: byRef, known, isRead: !hasFailed || invalid > 0, partial };
}

async function knownListings({ account, store }: PassContext): Promise<ReadonlySet<string>> {
  const start = inAccount(account, "listing:");
  const known = new Set<string>();
  for await (const { ref } of store.snapshots({ after: start })) {
    if (!ref.startsWith(start)) break;
    known.add(ref);
  }
  return known;
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
export async function checkListings(pass: PassContext, list: ReadList, learned: boolean): Promise<void> {
  const { store, stop, concurrency, baseline, internals, findings } = pass;
  await forEach(list.rows, concurrency, async ([ref, listing]) => {
    if (stop.reason !== undefined) return;
    const row = await lookAt(pass, ref, "listing", listing);
    if (!row) return;
    internals.statusSeen("listing", row.snapshot.status, ref);
    const known = await store.snapshotOf(ref);
    // The user has erased the listing, or all of its account, since the list was read.
    if (!known && (list.known.has(ref) || !(await pass.holdsLock()))) return;
    if (!known && baseline && !learned) return learn(pass, ref, row);
    const learns = known && hasNewFields(known.snapshot, row);
    if (known && !learns && !compare(known.snapshot, row).changed) {
      findings.check(ref, row.snapshot.status);
      return findings.keep(known, known.snapshot);
    }
    // Read the listing itself. The list may lack fields, and an event may have been handled after the list was read.
    await checkRecord(pass, { ref, isKnown: known !== undefined, row });
  });
}

async function learn({ store, findings, observe }: PassContext, ref: string, look: Look): Promise<void> {
  const { status, fields } = look.snapshot;
  findings.check(ref, status);
  // Leave out fields that the list lacks: a stored `null` would count as a change in the next event.
  const known = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
  // If an event of the listing waits, `learn` records nothing, so that the event's callback sees a change.
  const snapshot = withKnown({ status, fields: known }, { handled: true, read: hiddenIn(look) });
  if (await store.learn(ref, snapshot)) observe({ kind: "learned", ref, status });
}
