import { v5 } from "uuid";
import type { EventStore, RecordSnapshot, Snapshot } from "../stores/event-store.ts";
import type { Internals } from "../webhooks/internals.ts";
import { canonicalJson } from "../webhooks/processing/snapshot.ts";

/** The reconciler makes no other UUIDs in this namespace. */
const NAMESPACE = "5b0f6a6e-3c0d-4b7e-9d43-1f5a2c8e7b91";

/** Adds an event to the store for each change, under an id that is the same on all machines. */
export class Changes {
  readonly #store: EventStore<unknown>;
  readonly #internals: Pick<Internals, "add">;

  constructor(store: EventStore<unknown>, internals: Pick<Internals, "add">) {
    this.#store = store;
    this.#internals = internals;
  }

  /**
   * @param known - the record's snapshot in the store when the change was seen
   * @param to - `undefined` where the record could not be read
   * @returns the id of the added event; `undefined` where the change has an event already, was handled meanwhile, was
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
      // The store pruned the event at this moment, so its id is free.
      if (event === undefined) continue;
      const { state, reason } = event;
      const endedInVain =
        (state === "done" && reason !== "discarded") || (state === "parked" && reason !== "callback");
      if (!endedInVain) return undefined;
      // Read after the event's end, which writes both in one step.
      const now = await this.#store.recordOf(ref);
      if ((now?.sequence ?? 0) !== sequence) return undefined;
      // The record changed back before its event was handled, or could not be read, and has changed again.
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
