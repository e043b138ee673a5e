// What a pass does with one record.

import type { Booking, Listing } from "../models/records.ts";
import type { EventState } from "../stores/event-states.ts";
import type { RecordSnapshot } from "../stores/snapshot.ts";
import type { ReconcilerAlarm } from "../webhooks/observability.ts";
import { isGone } from "../webhooks/processing/gone.ts";
import { readRecord } from "../webhooks/processing/read-record.ts";
import { compare, fetchFailure, type TrackedSnapshot } from "../webhooks/processing/record.ts";
import { parseRef } from "../webhooks/refs.ts";
import { addChange } from "./missed-changes.ts";
import type { ChangedObservation, GoneObservation, Settings } from "./options.ts";
import type { Reader, StopReason } from "./reader.ts";

const WAITING: readonly EventState[] = ["pending", "processing", "retrying"];

/** Counts and observes what is found in the records of an account. */
export class Findings {
  readonly #settings: Settings;
  checked = 0;
  changed = 0;
  failed = 0;

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  check(ref: string, status: string): void {
    this.checked += 1;
    this.#settings.observe({ kind: "checked", ref, status });
  }

  fail(ref: string, error: unknown, count = 1): void {
    this.failed += count;
    this.#settings.observe({ kind: "failed", ref, error });
  }

  /** Notes a record that got an event. */
  change(found: ChangedObservation | GoneObservation): void {
    this.changed += 1;
    this.#settings.observe(found);
  }

  alarm(event: ReconcilerAlarm): void {
    const { account, observe, internals } = this.#settings;
    observe(event);
    internals.observe(account === undefined ? event : { ...event, account });
  }

  /**
   * Adds an event if a record differs from its snapshot in the store.
   *
   * @param before - the snapshot before the platform was read
   * @returns `false` if the signal aborted before there was an event for a change
   */
  async compare(
    ref: string,
    before: RecordSnapshot | undefined,
    now: TrackedSnapshot,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { store, log } = this.#settings;
    const known = await store.snapshotOf(ref);
    // If an event of the record was handled during the read, the read may be out of date.
    if (known?.sequence !== before?.sequence) return true;
    const { changed, changes } = compare(known?.snapshot, now);
    if (!changed) {
      if (known) await this.keepFromAge(known);
      return true;
    }
    const isMissed = !(await this.#waits(ref));
    const eventId = await addChange(this.#settings, ref, known, now.snapshot, signal);
    if (eventId === undefined) return !signal.aborted;
    const [previousStatus, { status }] = [known?.snapshot.status, now.snapshot];
    this.change({ kind: "changed", ref, eventId, previousStatus, status, changes });
    if (!isMissed) return true;
    this.alarm({ kind: "missed", ref, changes });
    if (parseRef(ref)?.kind === "booking" && (await store.lastReceivedAt()) === undefined)
      log.limited(
        "nothing-received",
        "warn",
        `${ref} has changed, but no notification has ever arrived. To find out why, run: npx stayhook doctor`,
        { ref },
      );
    return true;
  }

  /** Renews a snapshot before the store deletes it. Without a snapshot, the record would count as new. */
  async keepFromAge({ ref, snapshot, seenAt }: RecordSnapshot): Promise<void> {
    const { store, internals } = this.#settings;
    if (Date.now() - seenAt.getTime() > internals.snapshotRetention / 2) await store.learn(ref, snapshot);
  }

  /** Whether an event of the record waits or is being handled. */
  async #waits(ref: string): Promise<boolean> {
    for (const state of WAITING)
      if ((await this.#settings.store.list({ ref, state, limit: 1 })).length > 0) return true;
    return false;
  }
}

/** A known record that was not found. Call `done` when the pass is done with it. */
interface Missing {
  readonly ref: string;
  /** When the request began, on the monotonic clock. */
  readonly since: number;
  readonly done: () => void;
}

/** What the parts of a pass share. */
export interface PassContext extends Settings {
  readonly stop: StopReason;
  readonly reader: Reader;
  readonly findings: Findings;
  readonly missing: Missing[];
  /** The `done` functions of unreachable records. The pass calls them when the platform answers for another record. */
  readonly unreached: (() => void)[];
}

/**
 * Reads a record, and compares it.
 *
 * @param done - called when the pass is done with the record
 * @param row - the record's row in the list, used if the record itself cannot be read
 */
export async function checkRecord(
  pass: PassContext,
  ref: string,
  done: () => void,
  row?: TrackedSnapshot,
): Promise<void> {
  const { store, reader, internals, findings } = pass;
  const subject = parseRef(ref);
  if (!subject) return done();
  const before = await store.snapshotOf(ref);
  const since = performance.now();
  const read = await reader.read(ref, () => readRecord(internals.client, subject, pass.stop.signal));
  if (read === undefined) return;
  if (!("error" in read)) internals.goneWitness!.found(ref, since);
  if ("error" in read && !row) {
    const { reason, refused } = fetchFailure(read.error);
    if (before && refused && isGone(before.snapshot)) return done();
    if (before && reason === "not-found") {
      internals.goneWitness!.missed(ref);
      return void pass.missing.push({ ref, since, done });
    }
    if (before && refused) await internals.refusals!.note(ref);
    findings.fail(ref, read.error);
    // Do not call `done` yet. If no other record can be read either, the next pass begins with this record.
    if (!read.answered) return void pass.unreached.push(done);
  } else {
    const now = "error" in read ? row : snapshotOf(pass, ref, subject.kind, read.value);
    if (now) {
      findings.check(ref, now.snapshot.status);
      if (!(await findings.compare(ref, before, now, pass.stop.signal))) return;
    }
  }
  done();
  for (const unreached of pass.unreached.splice(0)) unreached();
}

/** @returns `undefined` if the user's `track` threw */
export function snapshotOf(
  { account, internals, findings }: PassContext,
  ref: string,
  kind: "booking" | "listing",
  record: Booking | Listing,
): TrackedSnapshot | undefined {
  try {
    return internals.snapshotOf(kind, record, account);
  } catch (error) {
    findings.fail(ref, error);
    return undefined;
  }
}
