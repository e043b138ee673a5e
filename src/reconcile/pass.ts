import { Checkpoint, checkBookings } from "./bookings.ts";
import { handleEvents } from "./handle-events.ts";
import { checkListings, type ReadList, readList } from "./listings.ts";
import { checkMissing } from "./missing.ts";
import type { PassContext } from "./records.ts";
import type { PassState, Progress } from "./state.ts";
import { checkWebhookConfig } from "./webhook-config-check.ts";

/** How many events whose record was not found a pass replays, the newest ones. */
const NOT_FOUND_REPLAYED = 100;
/** Why the read of a parked event failed, apart from records that were not found. */
const READ_FAILED = ["denied", "invalid-record", "unavailable"] as const;

/** One pass through all listings and all bookings that can still change. */
export class Pass {
  readonly #context: PassContext;
  readonly #checkpoint: Checkpoint;
  #replayed: boolean;
  #learned: boolean;
  #complete = false;
  partial = false;

  /** @param state - where the pass goes on */
  constructor(context: PassContext, state: PassState) {
    this.#context = context;
    this.#checkpoint = new Checkpoint(state.after);
    this.#replayed = state.replayed;
    this.#learned = state.learned;
  }

  get progress(): Progress {
    const complete = this.#complete;
    const after = complete ? null : this.#checkpoint.after;
    return { complete, after, learned: this.#learned, replayed: this.#replayed };
  }

  /** @throws errors of the store */
  async run(): Promise<void> {
    const { stop, reader } = this.#context;
    await checkWebhookConfig(this.#context);
    const list = stop.reason === undefined ? await readList(this.#context) : undefined;
    if (list) await this.#checkListings(list);
    const listed = list?.isRead && !list.partial ? list.rows : undefined;
    if (stop.reason === undefined) await checkBookings(this.#context, this.#checkpoint, listed);
    const isInDoubt = stop.reason === undefined && (await checkMissing(this.#context));
    // A pass with few reads may end before the reader detects the outage.
    if (!reader.answered || isInDoubt) stop.stop("unreachable");
    this.#complete = stop.reason === undefined;
  }

  async #checkListings(list: ReadList): Promise<void> {
    const { stop, reader } = this.#context;
    // The platform answers. The replayed events come before the reads, so that these find no change that waits.
    if (reader.answered) await this.#replayParked();
    this.partial = list.partial;
    await checkListings(this.#context, list, this.#learned);
    // Invalid rows do not matter. If one of them kept `#learned` false, no later pass would find a new listing.
    if (stop.reason === undefined && list.isRead) this.#learned = true;
  }

  /**
   * Replays the events that were parked because their record could not be read. An event of a new booking is the only
   * trace of that booking, and strangers can cause any number of not-found ones.
   */
  async #replayParked(): Promise<void> {
    if (this.#replayed) return;
    this.#replayed = true;
    const { account, store } = this.#context;
    const parked = { state: "parked", ...(account !== undefined && { account }) } as const;
    const notFound = await store.list({ ...parked, reason: "not-found", limit: NOT_FOUND_REPLAYED });
    let replayed = 0;
    for (const { eventId } of notFound)
      replayed += await store.replay({ eventId, state: "parked", reason: "not-found" });
    for (const reason of READ_FAILED) replayed += await store.replay({ ...parked, reason });
    if (replayed > 0) handleEvents(this.#context);
  }
}
