// What a pass does with one record.

import { untilAborted } from "../async.ts";
import type { EventState } from "../stores/event-states.ts";
import type { RecordSnapshot, Snapshot } from "../stores/snapshot.ts";
import type { ReconcilerAlarm } from "../webhooks/observability.ts";
import { isGone } from "../webhooks/processing/gone.ts";
import { type ReadRecord, readRecord } from "../webhooks/processing/read-record.ts";
import { compare, fetchFailure, keeping } from "../webhooks/processing/record.ts";
import type { Look } from "../webhooks/processing/snapshots.ts";
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
    now: Look,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { store, log } = this.#settings;
    const known = await store.snapshotOf(ref);
    // If an event of the record was handled during the read, the read may be out of date.
    if (known?.sequence !== before?.sequence) return true;
    const { changed, changes } = compare(known?.snapshot, now);
    if (!changed) {
      if (known) await this.keep(known, keeping(known.snapshot, now));
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

  /**
   * Renews an unchanged snapshot before the store deletes it, because without one, the record would count as new. Adds the
   * fields that a deployment has added to `track`. If the record has changed or was erased meanwhile, writes nothing.
   *
   * @param now - the snapshot with the added fields
   */
  async keep({ ref, snapshot, seenAt }: RecordSnapshot, { fields }: Snapshot): Promise<void> {
    const { store, internals } = this.#settings;
    const isOld = Date.now() - seenAt.getTime() > internals.snapshotRetention / 2;
    if (isOld || Object.keys(fields).length > Object.keys(snapshot.fields).length)
      await store.learn(ref, { ...snapshot, fields }, { known: true });
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
  readonly done: () => void;
}

/** What the parts of a pass share. */
export interface PassContext extends Settings {
  readonly stop: StopReason;
  readonly reader: Reader;
  readonly findings: Findings;
  /** Stops the pass and returns `false` if its lock is lost, or was deleted with all else of an erased account. */
  readonly holdsLock: () => Promise<boolean>;
  readonly missing: Missing[];
  /** The `done` functions of unreachable records. The pass calls them when the platform answers for another record. */
  readonly unreached: (() => void)[];
}

/** A record that a pass has met in the store or in the list. */
interface Met {
  readonly ref: string;
  /** Whether it had a snapshot then. If it has none any more, the user has erased it, and the pass leaves it out. */
  readonly isKnown: boolean;
  /** Its row in the list, used if the record itself cannot be read. */
  readonly row?: Look;
}

/**
 * Reads a record, and compares it.
 *
 * @param done - called when the pass is done with the record
 */
export async function checkRecord(
  pass: PassContext,
  { ref, isKnown, row }: Met,
  done: () => void = () => {},
): Promise<void> {
  const { store, reader, internals, findings } = pass;
  const subject = parseRef(ref);
  if (!subject) return done();
  const before = await store.snapshotOf(ref);
  if (isKnown && !before) return done();
  const read = await reader.read(ref, () => readRecord(internals.client, subject, pass.stop.signal));
  if (read === undefined) return;
  if ("error" in read && !row) {
    const { reason, refused } = fetchFailure(read.error);
    if (before && refused && isGone(before.snapshot)) return done();
    if (before && reason === "not-found") return void pass.missing.push({ ref, done });
    if (before && refused) await internals.refusals!.note(ref);
    findings.fail(ref, read.error);
    // Do not call `done` yet. If no other record can be read either, the next pass begins with this record.
    if (!read.answered) return void pass.unreached.push(done);
  } else {
    const now = "error" in read ? row : await lookAt(pass, ref, subject.kind, read.value);
    if (pass.stop.reason !== undefined) return;
    if (now) {
      findings.check(ref, now.snapshot.status);
      if (!(await findings.compare(ref, before, now, pass.stop.signal))) return;
    }
  }
  done();
  for (const unreached of pass.unreached.splice(0)) unreached();
}

/** @returns `undefined` if the user's `track` or `timeZone` threw, or if the pass stopped */
export async function lookAt(
  { account, internals, findings, stop }: PassContext,
  ref: string,
  kind: "booking" | "listing",
  read: ReadRecord,
): Promise<Look | undefined> {
  try {
    return await untilAborted(internals.lookAt(kind, read, account), stop.signal);
  } catch (error) {
    if (!stop.signal.aborted) findings.fail(ref, error);
    return undefined;
  }
}
