import type { EventStore, RecordStatus } from "../stores/event-store.ts";
import type { Inside } from "../webhooks/inside.ts";
import { type Change, changeId } from "./ids.ts";

/** Puts differences through the handler: each as an event that all machines give the same id. */
export class Changes {
  readonly #store: EventStore<unknown>;
  readonly #inside: Inside;

  constructor(store: EventStore<unknown>, inside: Inside) {
    this.#store = store;
    this.#inside = inside;
  }

  /**
   * @param known - as the store had it when the difference was seen
   * @returns the id of the event that was added; `undefined` where the change is on its way already, was handled
   * meanwhile, or is parked because its callback failed
   */
  async add(ref: string, known: RecordStatus | undefined, to: string): Promise<string | undefined> {
    const change: Change = { ref, sequence: known?.sequence ?? 0, from: known?.status, to };
    for (let again = 0; ; ) {
      const eventId = changeId(change, again);
      const timestamp = new Date().toISOString();
      const added = await this.#store.add({
        eventId,
        ref,
        source: "reconcile",
        topic: null,
        timestamp,
        notification: null,
      });
      if (added === "added") {
        this.#inside.added(eventId);
        return eventId;
      }
      const event = await this.#store.get(eventId);
      // It was pruned at this very moment: its id is free again.
      if (event === undefined) continue;
      const inVain = event.state === "done" || (event.state === "parked" && event.reason !== "callback");
      if (!inVain) return undefined;
      // Asked after the event's end, which writes both in one step.
      const now = await this.#store.statusOf(ref);
      if ((now?.sequence ?? 0) !== change.sequence) return undefined;
      // When its event had its turn the change had been taken back, or the record could not be read; and here it is again.
      again += 1;
    }
  }
}
