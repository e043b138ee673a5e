import { inAccount, splitKey } from "../account.ts";
import { forEach } from "../async.ts";
import { stay } from "../models/dates.ts";
import { bookingTable, type Status } from "../models/statuses.ts";
import type { RecordSnapshot, Snapshot } from "../stores/snapshot.ts";
import { isGone } from "../webhooks/processing/gone.ts";
import { checkRecord, type PassContext } from "./records.ts";

const DAY = 24 * 60 * 60_000;

/**
 * Checks the known bookings that can still change, and the known listings that the list lacks.
 *
 * @param watched - bookings that the user passed to `watch`. Drops those that have a snapshot
 * @param listed - the listings of the list. `undefined` if the list may lack some
 */
export async function checkBookings(
  pass: PassContext,
  checkpoint: Checkpoint,
  watched: Set<string>,
  listed: { has(ref: string): boolean } | undefined,
): Promise<void> {
  const { store, stop, concurrency } = pass;
  for (const ref of watched) if (await store.snapshotOf(ref)) watched.delete(ref);
  const unseen = new Set(watched);
  const isToRead = ({ ref, snapshot }: RecordSnapshot): boolean => {
    const { rest } = splitKey(ref);
    if (rest.startsWith("booking:")) return canChange(snapshot, pass.lookBack);
    // The list is only a hint: its pages may have moved while they were read.
    const isMissing = rest.startsWith("listing:") && listed !== undefined && !listed.has(ref);
    return isMissing && !isGone(snapshot);
  };
  await forEachKnown(pass, checkpoint, async (known, done) => {
    unseen.delete(known.ref);
    if (isToRead(known)) await checkRecord(pass, known.ref, done);
    else done();
  });
  await forEach(unseen, concurrency, async (ref) => {
    if (stop.reason === undefined) await checkRecord(pass, ref, () => {});
  });
}

/** Runs `task` for each known record of the account after the checkpoint, until the pass stops. */
export async function forEachKnown(
  { account, store, stop, concurrency }: PassContext,
  checkpoint: Checkpoint,
  task: (known: RecordSnapshot, done: () => void) => Promise<void>,
): Promise<void> {
  // The records of an account are one range of the store.
  const range = account === undefined ? undefined : inAccount(account, "");
  async function* steps(): AsyncGenerator<[RecordSnapshot, () => void]> {
    for await (const known of store.snapshots({ after: checkpoint.after ?? range })) {
      if (stop.reason !== undefined || (range && !known.ref.startsWith(range))) return;
      yield [known, checkpoint.begin(known.ref)];
    }
  }
  await forEach(steps(), concurrency, async ([known, done]) => {
    if (stop.reason === undefined) await task(known, done);
  });
}

const finalStatuses = new Set<string>(
  bookingTable.filter((status: Status) => status.final).map(({ name }) => name),
);

/**
 * Returns `false` if the status is final, or if the stay ended longer ago than `lookBack` ms. An unreadable check-out gives
 * `true`.
 */
export function canChange({ status, fields }: Snapshot, lookBack: number): boolean {
  if (finalStatuses.has(status)) return false;
  try {
    // `stay` needs a check-in. Any day before the check-out works.
    const { checkOut } = stay({ checkIn: "0001-01-01", checkOut: fields.checkOut });
    // The day of departure ends at a different time in each zone.
    return Date.parse(checkOut) + DAY + lookBack > Date.now();
  } catch {
    return true;
  }
}

/** The position up to which a pass has checked all records. Checks run concurrently and end in any order. */
export class Checkpoint {
  readonly #begun: { readonly ref: string; done: boolean }[] = [];
  /** All records up to this `ref` are done. It is `null` before the first record. */
  after: string | null;

  constructor(after: string | null) {
    this.after = after;
  }

  /** @returns a function to call when the record is done. Until then, the checkpoint stays before the record */
  begin(ref: string): () => void {
    const step = { ref, done: false };
    this.#begun.push(step);
    return () => {
      step.done = true;
      while (this.#begun[0]?.done) this.after = this.#begun.shift()!.ref;
    };
  }
}
