// Adds the events for the changes that the reconciler finds.

import { v5 } from "uuid";
import { inAccount, splitKey } from "../account.ts";
import { pause } from "../async.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { RecordSnapshot, Snapshot } from "../stores/snapshot.ts";
import type { Internals } from "../webhooks/internals.ts";
import { ownId } from "../webhooks/own-ids.ts";
import { canonicalJson } from "../webhooks/processing/record.ts";

/** The UUID namespace of the ids of the reconciler's events. */
const NAMESPACE = "5b0f6a6e-3c0d-4b7e-9d43-1f5a2c8e7b91";

/** The wait before another look at a store that has an id and not its event, ms. */
const LOOK_AGAIN = 100;

/**
 * Adds one event for a change. All machines compute the same id for a change, so the store ignores duplicates.
 *
 * @param known - the record's snapshot in the store when the reconciler compared the record
 * @param to - the record as it is now; `undefined` if it could not be read
 * @param signal - ends the search for a free id
 * @returns the id of the added event; `undefined` if an earlier event of the change waits, was handled, was
 * discarded, or is parked after its callback failed, and if the signal aborts
 */
export async function addChange(
  { store, internals }: { readonly store: EventStore<unknown>; readonly internals: Pick<Internals, "add"> },
  ref: string,
  known: RecordSnapshot | undefined,
  to: Snapshot | undefined,
  signal: AbortSignal,
): Promise<string | undefined> {
  const sequence = known?.sequence ?? 0;
  // Another event was handled since, or the user has erased the record.
  const isOver = async () => ((await store.snapshotOf(ref))?.sequence ?? 0) !== sequence;
  for (let again = 0; !signal.aborted; ) {
    const eventId = changeId(ref, sequence, known?.snapshot, to, again);
    const timestamp = new Date().toISOString();
    const event = { eventId, ref, source: "reconcile", topic: null, timestamp, notification: null } as const;
    if ((await internals.add(event)) === "added") return eventId;
    const earlier = await store.get(eventId);
    // The store has just pruned or erased the event, so its id is free.
    if (earlier === undefined) {
      await pause(LOOK_AGAIN, signal);
      if (await isOver()) return undefined;
      continue;
    }
    const { state, reason } = earlier;
    const endedInVain =
      (state === "done" && reason !== "discarded") || (state === "parked" && reason !== "callback");
    if (!endedInVain) return undefined;
    // Read the snapshot after the event: the store saves the snapshot when it records that the event is done.
    if (await isOver()) return undefined;
    // The earlier event of this change found nothing new, or failed. The change needs an event with another id.
    again += 1;
  }
  return undefined;
}

function changeId(
  ref: string,
  sequence: number,
  from: Snapshot | undefined,
  to: Snapshot | undefined,
  again: number,
): string {
  const parts = [ref, sequence, from && canonicalJson(from), to && canonicalJson(to)];
  const hash = v5(JSON.stringify(again === 0 ? parts : [...parts, again]), NAMESPACE);
  return ownId(from ? "reconcile-known" : "reconcile", inAccount(splitKey(ref).account, hash));
}
