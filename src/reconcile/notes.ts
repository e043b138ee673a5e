import { atMost } from "../queue/timer.ts";
import type { EventStore, NewEvent, RecordStatus } from "../stores/event-store.ts";
import type { Inside } from "../webhooks/inside.ts";
import { endOfNote, noteIn, topicOf } from "../webhooks/processing/note.ts";
import { noteId } from "./ids.ts";

/** How long the claim of a note is kept, should its process end with it, ms. */
const LEASE = 10_000;
/** How long it is waited for another process that has claimed a note, ms. */
const LONGEST_WAIT = 3 * LEASE;
const FIRST_LOOK = 2;
const LAST_LOOK = 250;

/** Writes statuses down without a callback: the learned ones, and what the reconciler has to remember itself. */
export class Notes {
  readonly #store: EventStore<unknown>;
  readonly #inside: Inside;

  constructor(store: EventStore<unknown>, inside: Inside) {
    this.#store = store;
    this.#inside = inside;
  }

  /**
   * Writes `status` for `ref`, unless it has moved on since it was `known`. Where another event of it is under way,
   * the note is left to the handler's loop, whichever comes to it first.
   */
  async write(ref: string, known: RecordStatus | undefined, status: string): Promise<void> {
    const event = await this.#add(ref, known, status, "status");
    if (!(await this.#end(event))) this.#inside.added(event.eventId);
  }

  /** Keeps a status that is still true from being forgotten for its age. */
  async renew(known: RecordStatus): Promise<void> {
    const event = await this.#add(known.ref, known, known.status, known.seenAt.getTime());
    if (!(await this.#end(event))) this.#inside.added(event.eventId);
  }

  /**
   * The same for one of the reconciler's own, and waits until it is decided.
   *
   * @returns whether it was written: `false` where another was faster
   */
  async swap(ref: string, known: RecordStatus | undefined, status: string): Promise<boolean> {
    const event = await this.#add(ref, known, status, "status");
    const deadline = performance.now() + LONGEST_WAIT;
    for (let pause = FIRST_LOOK; !(await this.#end(event)); pause = Math.min(2 * pause, LAST_LOOK)) {
      const state = (await this.#store.get(event.eventId))?.state;
      if (state === undefined || state === "done" || performance.now() > deadline) break;
      await atMost(pause);
    }
    const now = await this.#store.statusOf(ref);
    return now?.status === status;
  }

  async #add(ref: string, known: RecordStatus | undefined, status: string, occasion: string | number) {
    const sequence = known?.sequence ?? 0;
    const event: NewEvent = {
      eventId: noteId({ ref, sequence, from: known?.status, to: status }, occasion),
      ref,
      source: "reconcile",
      topic: topicOf({ sequence, status }),
      timestamp: new Date().toISOString(),
      notification: null,
    };
    await this.#store.add(event);
    return event;
  }

  /** Whether it could be claimed and ended here. */
  async #end(event: NewEvent): Promise<boolean> {
    const { eventId } = event;
    const [claim] = await this.#store.claim({ limit: 1, leaseDuration: LEASE, eventId });
    return claim ? this.#store.settle(claim, endOfNote(claim, noteIn(event)!)) : false;
  }
}
