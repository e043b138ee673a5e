import { v5 } from "uuid";
import type { EventStore, RecordSnapshot, Snapshot } from "../stores/event-store.ts";
import type { Internals } from "../webhooks/internals.ts";
import { canonicalJson } from "../webhooks/processing/snapshot.ts";

/** The reconciler makes no other UUIDs in this namespace. */
const NAMESPACE = "5b0f6a6e-3c0d-4b7e-9d43-1f5a2c8e7b91";

/** Adds an event for each change. Its id is the same on all machines, so that two of them add one event. */
export class Changes {
  readonly #store: EventStore<unknown>;
  readonly #internals: Pick<Internals, "add">;

  constructor(store: EventStore<unknown>, internals: Pick<Internals, "add">) {
    this.#store = store;
    this.#internals = internals;
  }

  /**
   * @param known - the record's snapshot in the store when the reconciler compared the record
   * @param to - the record as it is now; `undefined` if it could not be read
   * @returns the id of the added event; `undefined` if the change needs none: an event for it waits, was handled, was
   * discarded, or is parked because its callback failed
   */
  async add(
    ref: string,
    known: RecordSnapshot | undefined,
    to: Snapshot | undefined,
  ): Promise<string | undefined> {
    const sequence = known?.sequence ?? 0;
    for (let again = 0; ; ) {
      const eventId = changeId(ref, sequence, known?.snapshot, to, again);
      const timestamp = new Date().toISOString();
      const added = await this.#internals.add({
        eventId,
        ref,
        source: "reconcile",
        topic: null,
        timestamp,
        notification: null,
      });
      if (added === "added") return eventId;
      const event = await this.#store.get(eventId);
      // The store has just pruned the event, so its id is free.
      if (event === undefined) continue;
      const { state, reason } = event;
      const endedInVain =
        (state === "done" && reason !== "discarded") || (state === "parked" && reason !== "callback");
      if (!endedInVain) return undefined;
      // Read the snapshot after the event: the store writes both in one step.
      const now = await this.#store.recordOf(ref);
      if ((now?.sequence ?? 0) !== sequence) return undefined;
      // The earlier event of this change found nothing new, or failed. The change needs an event of another id.
      again += 1;
    }
  }
}

function changeId(
  ref: string,
  sequence: number,
  from: Snapshot | undefined,
  to: Snapshot | undefined,
  again: number,
): string {
  const parts = [ref, sequence, from && canonicalJson(from), to && canonicalJson(to)];
  return v5(JSON.stringify(again === 0 ? parts : [...parts, again]), NAMESPACE);
}
