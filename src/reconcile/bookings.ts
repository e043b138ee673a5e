import { inAccount, splitKey } from "../account.ts";
import { forEach } from "../async.ts";
import { dayOf } from "../models/dates.ts";
import { bookingTable, type Status } from "../models/statuses.ts";
import type { RecordSnapshot, Snapshot } from "../stores/snapshot.ts";
import { isGone } from "../webhooks/processing/gone.ts";
import { baseOf } from "../webhooks/processing/known-stay.ts";
import { checkRecord, type PassContext } from "./records.ts";

const DAY = 24 * 60 * 60_000;

/**
 * Checks the known bookings that can still change, and the known listings that the list lacks.
 *
 * @param listed - the listings of the list. `undefined` if the list may lack some
 */
export async function checkBookings(
  pass: PassContext,
  checkpoint: Checkpoint,
  listed: { has(ref: string): boolean } | undefined,
): Promise<void> {
  const isToRead = ({ ref, snapshot }: RecordSnapshot): boolean => {
    const { rest } = splitKey(ref);
    if (rest.startsWith("booking:")) return canChange(snapshot, pass.lookBack);
    // The list is only a hint: its pages may have moved while they were read.
    const isMissing = rest.startsWith("listing:") && listed !== undefined && !listed.has(ref);
    return isMissing && !isGone(snapshot);
  };
  await forEachKnown(pass, checkpoint, async (known, done) => {
    if (isToRead(known)) await checkRecord(pass, { ref: known.ref, isKnown: true }, done);
    else done();
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
export function canChange(snapshot: Snapshot, lookBack: number): boolean {
  if (finalStatuses.has(snapshot.status)) return false;
  const checkOut = dayOf(baseOf(snapshot).checkOut);
  // The day of departure ends at a different time in each zone.
  return checkOut === undefined || Date.parse(checkOut) + DAY + lookBack > Date.now();
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
