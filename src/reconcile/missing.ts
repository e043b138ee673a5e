import { goneRecordOf, isGone } from "../webhooks/processing/gone.ts";
import { parseRef } from "../webhooks/refs.ts";
import { addChange } from "./missed-changes.ts";
import type { PassContext } from "./records.ts";

/**
 * Adds events for the known records that were not found, if the platform returns others.
 *
 * @returns whether it is not clear if records are gone, or if the platform hides them all
 */
export async function checkMissing(pass: PassContext): Promise<boolean> {
  const { internals, stop, reader, findings, store } = pass;
  const doubted = new Set<string>();
  for (const { ref, done } of pass.missing) {
    const subject = parseRef(ref)!;
    if (doubted.has(subject.kind)) continue;
    const known = await store.snapshotOf(ref);
    if (!known || isGone(known.snapshot)) {
      done();
      continue;
    }
    const suspect = { ref, previous: known.snapshot, isGivenUp: false };
    const doubt = await internals.goneWitness!.ask(suspect, stop.signal).catch((error) => {
      if (!stop.signal.aborted) throw error;
    });
    if (stop.reason !== undefined) return doubted.size > 0;
    const gone = goneRecordOf(subject, known.snapshot);
    const eventId = await addChange(pass, ref, known, gone.snapshot, stop.signal);
    if (doubt) {
      // The event waits until the platform returns something, or until it gives up.
      doubted.add(subject.kind);
      await reader.doubt(ref, doubt);
      continue;
    }
    if (eventId !== undefined) findings.change({ kind: "gone", ref, previousStatus: known.snapshot.status });
    done();
  }
  return doubted.size > 0;
}
