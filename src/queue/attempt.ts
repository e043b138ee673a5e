// One attempt: runs the work of a claim, and settles it in the store.

import { withTimeout } from "../async.ts";
import { now } from "../clock.ts";
import type { FurtherChanges, FurtherEvent } from "../stores/event-store.ts";
import { firingId } from "../stores/firing-id.ts";
import type { ClaimedEvent, NewEvent } from "../stores/stored-event.ts";
import { CancellableRun } from "./cancellable-run.ts";
import { answered, began, calls, ended, failed, type Reading } from "./facts.ts";
import { Lease } from "./leases.ts";
import { type AttemptEnd, GuardedWrites, Settling, type SettlingQueue } from "./settling.ts";
import type { QueueState } from "./state.ts";
import { answerOf } from "./store-call.ts";
import { entryOf, type FailedOutcome, outcomeOf } from "./wait-rules.ts";
import type { AttemptResult, QueueOptions, Work, WorkFailure, WorkResult } from "./work.ts";

export type { AttemptEnd } from "./settling.ts";

/** How long an attempt at a timer waits for its time at most, ms. If the clocks differ by more, the store's is right. */
const EARLY = 1000;

/** What an attempt needs of its queue. */
export interface AttemptQueue<Tx>
  extends SettlingQueue<Tx>,
    Pick<QueueOptions<Tx>, "work" | "lastResort" | "observe" | "process"> {
  readonly state: QueueState;
}

export interface AttemptOptions {
  /** Why the platform is out of reach, if the event has waited for too long. It is then parked without a read. */
  readonly givesUpBecause: string | undefined;
  /** When the lease ends, on the monotonic clock. */
  readonly leaseEndsAt: number;
  /** Called when the attempt needs no slot any more: its work is done, and the store only has to record the end. */
  readonly onSettling: () => void;
  /** The end of an earlier attempt at the same record, if one still runs. The new attempt waits for this promise. */
  readonly after: Promise<unknown> | undefined;
}

/** Runs the work for one claim, and records the result in the store. */
export class Attempt<Tx> {
  readonly lease: Lease;
  /** Never rejects. */
  readonly ended: Promise<AttemptEnd>;
  /** The events that the attempt has added, and that are due at once. */
  readonly added: Pick<NewEvent, "eventId" | "ref">[] = [];

  readonly #queue: AttemptQueue<Tx>;
  readonly #options: AttemptOptions;
  readonly #reading: Reading;
  #run: CancellableRun<Tx>;
  readonly #settling: Settling<Tx>;

  constructor(claim: ClaimedEvent, queue: AttemptQueue<Tx>, options: AttemptOptions) {
    const { state } = queue;
    this.#queue = queue;
    this.#options = options;
    this.#reading = began(state, claim);
    this.#run = this.#runOf(queue.work, claim);
    this.lease = new Lease(claim, options.leaseEndsAt, {
      onExpiring: () => this.#run.cut("expiring"),
      onLost: () => {
        this.#run.cut("lost");
        this.#settling.leaseLost();
      },
    });
    this.#settling = new Settling(queue, this.lease, options.onSettling);
    this.ended = this.#attempt().catch((error) => {
      const { eventId } = claim;
      queue.logger.limited(
        "unrecorded",
        "error",
        `the store did not confirm that it recorded the result of event ${eventId}. If it did not, the event is handled again when its lease ends`,
        { eventId, error },
      );
      return "lost" as const;
    });
  }

  #runOf(work: Work<Tx>, claim: ClaimedEvent): CancellableRun<Tx> {
    const { state } = this.#queue;
    return new CancellableRun(work, claim, {
      attemptTimeout: state.policy.attemptTimeout,
      onAnswered: (withWhat) => answered(state, this.#reading, withWhat),
      onCalling: () => calls(state, this.#reading),
    });
  }

  get claim(): ClaimedEvent {
    return this.lease.claim;
  }

  /** Aborts the attempt and releases its lease. The event is due at once, and the attempt does not count. */
  release(): void {
    this.#run.cut("released");
  }

  /** Whether the attempt keeps a result that the store did not record. */
  get kept(): Settling<Tx>["kept"] {
    return this.#settling.kept;
  }

  /**
   * Goes on under a new claim of the same event if the attempt keeps a result, so that no second attempt runs the
   * callback again.
   *
   * @returns whether the attempt takes the claim
   */
  takeOver(claim: ClaimedEvent, leaseEndsAt: number): boolean {
    const { eventId, timestamp, receivedAt, sequence } = this.claim;
    const isSame =
      claim.eventId === eventId &&
      claim.timestamp === timestamp &&
      claim.receivedAt === receivedAt &&
      claim.sequence === sequence;
    if (!this.kept || this.#settling.isOver || !isSame) return false;
    this.lease.replace(claim, leaseEndsAt);
    return true;
  }

  /** Ends the attempt although the store has not recorded its end. */
  giveUp(): void {
    this.#settling.giveUp();
  }

  async #attempt(): Promise<AttemptEnd> {
    try {
      const { after } = this.#options;
      // Await even `undefined`: a callback must not block the event loop before the queue knows all leases of a claim.
      await (after && Promise.race([after, this.#run.wasCut]));
      // The clock of the store may be some ms ahead of the clock that the callback reads.
      for (let ms = earlinessOf(this.claim); ms > 0 && ms <= EARLY; ms = earlinessOf(this.claim))
        if (
          await withTimeout(
            ms,
            this.#run.wasCut.then(() => true),
          )
        )
          break;
      // Skip a claim whose lease has expired: another process may work on the event now.
      if (!this.lease.held) return await this.#release();
      this.#reading.read.beganAt = performance.now();
      const run = (): Promise<AttemptResult> => this.#process();
      const { process } = this.#queue;
      return (await (process ? process(this.claim, run) : run())).outcome;
    } finally {
      ended(this.#queue.state, this.#reading);
    }
  }

  async #release(changes: FurtherChanges = { ledger: this.#run.noted }): Promise<AttemptEnd> {
    const { found } = this.#reading;
    return (await this.#settling.record({ ...changes, state: "released", found })) as AttemptEnd;
  }

  /** Records what must be there before a call. The event and those that are due before it are then claimed at once. */
  async #releaseWith(changes: FurtherChanges): Promise<AttemptResult> {
    const outcome = await this.#release(changes);
    const { eventId, ref } = this.claim;
    if (outcome === "released") {
      this.#addDue(changes.events ?? []);
      this.added.push({ eventId, ref });
    }
    return { outcome };
  }

  #addDue(events: readonly FurtherEvent[]): void {
    for (const { event, dueIn = 0, dueAt } of events)
      if (dueAt === undefined ? dueIn <= 0 : dueAt.getTime() <= now())
        this.added.push({ eventId: firingId(event), ref: event.ref });
  }

  async #process(): Promise<AttemptResult> {
    const { givesUpBecause } = this.#options;
    if (this.claim.attempts > this.#queue.state.policy.maxAttempts) return this.#parkSpent();
    if (givesUpBecause !== undefined) return this.#giveUp(givesUpBecause);
    this.#queue.observe({ kind: "started", ...this.#about, lateness: latenessOf(this.claim) });
    return this.#runAndEnd();
  }

  async #runAndEnd(): Promise<AttemptResult> {
    const result = await this.#run.run();
    if (result.state !== "cut") return this.#end(result);
    return { outcome: result.by === "lost" ? this.#settling.lost() : await this.#release() };
  }

  /** Parks an event that has no attempt left: its last attempt was lost, or `maxAttempts` was lowered meanwhile. */
  async #parkSpent(): Promise<AttemptResult> {
    const { eventId, attempts } = this.claim;
    const get = answerOf("get", async () => this.#queue.store.get(eventId));
    const last = (await get.catch(() => undefined))?.history.at(-1);
    const error = new Error(
      last?.outcome === "lost"
        ? `The process ended during attempt ${attempts - 1}, the last allowed attempt, or the store did not record its result. Does the callback call process.exit() or run out of memory?`
        : `The event has had ${attempts - 1} attempts, and maxAttempts is ${this.#queue.state.policy.maxAttempts} now. Replay the event to try again.`,
    );
    return this.#park({ reason: "callback", error });
  }

  /** Parks an event that has waited for `giveUpAfter`. Does not read its record, because the platform is out of reach. */
  async #giveUp(reason: string): Promise<AttemptResult> {
    const error = new Error(
      `The platform was out of reach for longer than giveUpAfter (${reason}). Replay the event when the platform answers again.`,
    );
    return this.#park({ reason: "unavailable", error });
  }

  async #end(result: WorkResult<Tx>): Promise<AttemptResult> {
    if (result.state === "released") return this.#releaseWith(result);
    if (result.state === "failed") return this.#recordFailure(this.#outcomeOf(result), result);
    const { state, type, snapshot, writes = [], events = [], extra = [], remove, ledger } = result;
    const guarded = writes.length > 0 ? new GuardedWrites(writes) : undefined;
    const entry = entryOf({ duration: this.#duration });
    const end = { state, type, record: snapshot, entry, writes: guarded?.list, remove, ledger } as const;
    const settled = await this.#settling.record({ ...end, events: [...extra, ...events] }, guarded, {
      lean: extra.length > 0 ? { ...end, events } : undefined,
      instead: (error) => ({
        ...this.#outcomeOf({ reason: "callback", error, type }),
        ledger: this.#run.noted,
      }),
    });
    if (typeof settled !== "string") {
      const failure = { reason: "callback", error: settled.error, type } as const;
      return this.#recordFailure(this.#outcomeOf(failure), failure, settled.recordedAs);
    }
    if (settled === "done") {
      this.#addDue([...extra, ...events]);
      const status = snapshot?.snapshot.status;
      this.#queue.observe({ kind: "done", ...this.#aboutEnd(type), status });
    }
    return { outcome: settled, type };
  }

  #outcomeOf(failure: WorkFailure): FailedOutcome {
    const { state } = this.#queue;
    return outcomeOf(failure, this.claim, state.policy, failed(state, this.#reading, failure));
  }

  #park(failure: WorkFailure): Promise<AttemptResult> {
    const { reason } = failure;
    const entry = entryOf({ ...failure, duration: this.#duration });
    const count = reason === "callback" ? "call" : "nothing";
    return this.#recordFailure({ state: "parked", count, reason, entry }, failure);
  }

  /** @param recordedAs - how the attempt ended, if the store has recorded the failure already */
  async #recordFailure(
    outcome: FailedOutcome,
    failure: WorkFailure,
    recordedAs?: AttemptEnd,
  ): Promise<AttemptResult> {
    const { reason, error, type, remove, ledger } = failure;
    const lastResort =
      outcome.state === "parked" && reason !== "callback" && this.#queue.lastResort?.(this.claim);
    if (lastResort) {
      this.#run = this.#runOf(lastResort, this.claim);
      return this.#runAndEnd();
    }
    const changes = { remove, ledger: ledger ?? this.#run.noted, events: failure.events };
    const end = recordedAs ?? ((await this.#settling.record({ ...outcome, ...changes })) as AttemptEnd);
    if (end === outcome.state) {
      const event = { ...this.#aboutEnd(type), reason, error };
      this.#queue.observe(
        outcome.state === "parked"
          ? { kind: "parked", ...event }
          : { kind: "failed", ...event, retryIn: outcome.in },
      );
    }
    return { outcome: end, type, reason, error };
  }

  get #about() {
    const { eventId, ref, attempts, receivedAt, firstDueAt } = this.claim;
    return { eventId, ref, attempt: attempts, receivedAt: new Date(receivedAt), firstDueAt };
  }

  #aboutEnd(type: string | undefined) {
    return { ...this.#about, type, duration: this.#duration };
  }

  get #duration(): number {
    return performance.now() - this.#reading.startedAt;
  }
}

/** How long an attempt at a timer must wait for its time, ms. A replayed timer need not wait. */
function earlinessOf({ source, timestamp, replayed }: ClaimedEvent): number {
  return source === "timer" && !replayed ? Date.parse(timestamp) - now() : 0;
}

/** How late the first attempt at a timer starts, ms. It is `undefined` for other attempts. */
function latenessOf({ source, timestamp, attempts, replayed }: ClaimedEvent): number | undefined {
  return source === "timer" && attempts === 1 && !replayed
    ? Math.max(0, now() - Date.parse(timestamp))
    : undefined;
}
