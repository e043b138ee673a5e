import { inAccount, splitKey } from "../account.ts";
import { forEach } from "../async.ts";
import { ownId } from "../webhooks/own-ids.ts";
import { isGone } from "../webhooks/processing/gone.ts";
import { parseRef } from "../webhooks/refs.ts";
import { Checkpoint, forEachKnown } from "./bookings.ts";
import { handleEvents } from "./handle-events.ts";
import { readList } from "./listings.ts";
import type { PassContext } from "./records.ts";
import type { AgainPlace, Progress } from "./state.ts";

/**
 * A run that adds an event for each known record, changed or not. The work of the event reads the record, so that each
 * costs one read, and an outage or a record that is gone is met as with any other event.
 */
export class AgainPass {
  readonly #context: PassContext;
  readonly #place: AgainPlace;
  readonly #checkpoint: Checkpoint;
  readonly #runId: string | undefined;
  #done = false;
  partial = false;

  /**
   * @param place - where the run goes on
   * @param runId - the id of the run over all accounts to which this one belongs
   */
  constructor(context: PassContext, place: AgainPlace, runId: string | undefined) {
    this.#context = context;
    this.#place = place;
    this.#checkpoint = new Checkpoint(place.after);
    this.#runId = runId;
  }

  get progress(): Progress {
    const [{ id }, done] = [this.#place, this.#done];
    return { again: { id: done && this.#runId ? this.#runId : id, after: this.#checkpoint.after, done } };
  }

  /** @throws errors of the store */
  async run(): Promise<void> {
    const { stop, reader, store, concurrency, holdsLock } = this.#context;
    const list = await readList(this.#context);
    this.partial = list?.partial ?? false;
    if (!reader.answered) stop.stop("unreachable");
    await forEach(list?.rows ?? [], concurrency, async ([ref, { record }]) => {
      if (stop.reason !== undefined || list!.known.has(ref) || (await store.snapshotOf(ref))) return;
      if ((await reader.turn(ref)) && (await holdsLock())) await this.#add("again", ref, record.status);
    });
    await forEachKnown(this.#context, this.#checkpoint, async ({ ref, snapshot }, done) => {
      if (isGone(snapshot) || !parseRef(ref) || (await this.#isListed(ref))) return done();
      if (!(await reader.turn(ref))) return;
      // The user may have erased the record since its page was read.
      if (await store.snapshotOf(ref)) await this.#add("again-known", ref, snapshot.status);
      done();
    });
    this.#done = stop.reason === undefined;
  }

  /** Whether the run has added an event for a listing of the list, which had no snapshot before. */
  async #isListed(ref: string): Promise<boolean> {
    if (parseRef(ref)?.kind !== "listing") return false;
    return (await this.#context.store.get(this.#eventId("again", ref))) !== undefined;
  }

  #eventId(kind: "again" | "again-known", ref: string): string {
    const { account, rest } = splitKey(ref);
    return ownId(kind, inAccount(account, `${this.#place.id}:${rest}`));
  }

  async #add(kind: "again" | "again-known", ref: string, status: string): Promise<void> {
    const { internals, findings } = this.#context;
    const eventId = this.#eventId(kind, ref);
    const timestamp = new Date().toISOString();
    const event = { eventId, ref, source: "reconcile", topic: null, timestamp, notification: null } as const;
    // A process that was killed may have added the event before it wrote its checkpoint.
    if ((await internals.add(event)) === "added") findings.check(ref, status);
    // Without a loop, all events would otherwise be read at once at the end.
    if (!internals.handlesEvents()) handleEvents(this.#context);
  }
}
