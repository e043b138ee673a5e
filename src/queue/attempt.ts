// One attempt: runs the work of a claim, and settles it in the store.

import { withTimeout } from "../async.ts";
import { now } from "../clock.ts";
import { firingId } from "../stores/firing-id.ts";
import type { ClaimedEvent, NewEvent } from "../stores/stored-event.ts";
import { CancellableRun } from "./cancellable-run.ts";
import type { Read } from "./gate.ts";
import { Lease } from "./leases.ts";
import type { Parts } from "./parts.ts";
import { entryOf, type FailedOutcome, outcomeOf } from "./retries.ts";
import { type AttemptEnd, GuardedWrites, Settling } from "./settling.ts";
import { answerOf } from "./store-call.ts";
import { type AttemptResult, type Lane, recordOf, type WorkFailure, type WorkResult } from "./work.ts";

export type { AttemptEnd } from "./settling.ts";

/** How long an attempt at a timer waits for its time at most, ms. If the clocks differ by more, the store's is right. */
const EARLY = 1000;

export interface AttemptOptions {
  readonly lane: Lane;
  /** Whether `giveUpAfter` has passed since the event was due. If its lane is still out of reach, it is parked without a read. */
  readonly givesUp?: boolean | undefined;
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

  readonly #queue: Parts<Tx>;
  readonly #options: AttemptOptions;
  readonly #read: Read;
  /** Whether the attempt has used up one of the limited reads. */
  #hasRead = false;
  readonly #startedAt = performance.now();
  readonly #run: CancellableRun<Tx>;
  readonly #settling: Settling<Tx>;

  constructor(claim: ClaimedEvent, queue: Parts<Tx>, options: AttemptOptions) {
    this.#queue = queue;
    this.#options = options;
    this.#read = queue.gates.begin(recordOf(claim), options.lane, { key: claim.eventId });
    this.#run = new CancellableRun(queue.work, claim, {
      attemptTimeout: queue.policy.attemptTimeout,
      onAnswered: () => this.#answered(),
    });
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

  get claim(): ClaimedEvent {
    return this.lease.claim;
  }

  /** Aborts the attempt and releases its lease. The event is due at once, and the attempt does not count. */
  release(): void {
    this.#run.cut("released");
  }

  /** Whether the attempt keeps a result that the store did not record. */
  get keepsResult(): boolean {
    return this.#settling.keepsResult;
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
    if (!this.keepsResult || this.#settling.isOver || !isSame) return false;
    this.lease.replace(claim, leaseEndsAt);
    return true;
  }

  /** Ends the attempt although the store has not recorded its end. */
  giveUp(): void {
    this.#settling.giveUp();
  }

  #answered(): void {
    // An event without a record needs no read, so its success does not show that reads succeed.
    if (this.claim.ref === null) return;
    const { gates, floods } = this.#queue;
    this.#hasRead = true;
    gates.answered(this.#read);
    floods.answered(this.#options.lane);
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
      this.#read.beganAt = performance.now();
      const run = (): Promise<AttemptResult> => this.#process();
      const { process } = this.#queue;
      return (await (process ? process(this.claim, run) : run())).outcome;
    } finally {
      const { gates, floods } = this.#queue;
      gates.end(this.#read);
      if (!this.#hasRead) floods.giveBack(this.#options.lane);
    }
  }

  async #release(): Promise<AttemptEnd> {
    return (await this.#settling.record({ state: "released" })) as AttemptEnd;
  }

  async #process(): Promise<AttemptResult> {
    const { policy, gates } = this.#queue;
    if (this.claim.attempts > policy.maxAttempts) return this.#parkSpent();
    const { lane, givesUp } = this.#options;
    const outage = gates.outageOf(lane);
    if (outage !== undefined && (givesUp || this.claim.outageFor >= policy.giveUpAfter))
      return this.#giveUp(outage);
    this.#queue.observe({ kind: "started", ...this.#about, lateness: latenessOf(this.claim) });
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
        : `The event has had ${attempts - 1} attempts, and maxAttempts is ${this.#queue.policy.maxAttempts} now. Replay the event to try again.`,
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
    if (result.state === "failed") return this.#recordFailure(this.#outcomeOf(result), result);
    const { state, type, snapshot, writes = [], events = [], extra = [], remove } = result;
    const guarded = writes.length > 0 ? new GuardedWrites(writes) : undefined;
    const entry = entryOf({ duration: this.#duration });
    const end = { state, type, record: snapshot, entry, writes: guarded?.list, remove } as const;
    const settled = await this.#settling.record({ ...end, events: [...extra, ...events] }, guarded, {
      lean: extra.length > 0 ? { ...end, events } : undefined,
    });
    if (typeof settled !== "string") {
      const failure = { reason: "callback", error: settled.error, type } as const;
      return this.#recordFailure(this.#outcomeOf(failure), failure);
    }
    if (settled === "done") {
      for (const { event, dueIn = 0, dueAt } of [...extra, ...events])
        if (dueAt === undefined ? dueIn === 0 : dueAt.getTime() <= now())
          this.added.push({ eventId: firingId(event), ref: event.ref });
      const status = snapshot?.snapshot.status;
      this.#queue.observe({ kind: "done", ...this.#aboutEnd(type), status });
    }
    return { outcome: settled, type };
  }

  #outcomeOf(failure: WorkFailure): FailedOutcome {
    const { claim } = this;
    const { gates, floods, policy } = this.#queue;
    const { lane } = this.#options;
    const { outage, error, refused } = failure;
    this.#hasRead ||= refused === true || outage !== undefined;
    let counts = true;
    if (outage) {
      const { attempts, outages, outageFor } = claim;
      const since = outages > 0 ? this.#startedAt - outageFor : undefined;
      // Earlier attempts that counted may have failed in the callback.
      const isFirst = outages === 0 && (attempts === 1 || !gates.hasFailed(claim.eventId));
      counts = gates.failed(this.#read, { outage, error, isFirst, since });
      if (outage.limited) floods.slowDown(lane.account);
    }
    // A refusal shows that the platform is up.
    if (refused) gates.answered(this.#read);
    if (refused && claim.previous === undefined) floods.refused(lane, recordOf(claim), error);
    if (refused && floods.isLimited(lane)) counts = false;
    return outcomeOf(failure, claim, policy, {
      duration: this.#duration,
      counts,
      nextTryIn: gates.isShut(lane) ? gates.waitAt(performance.now(), lane) : undefined,
    });
  }

  #park(failure: WorkFailure): Promise<AttemptResult> {
    const entry = entryOf({ ...failure, duration: this.#duration });
    return this.#recordFailure({ state: "parked", reason: failure.reason, entry }, failure);
  }

  async #recordFailure(outcome: FailedOutcome, failure: WorkFailure): Promise<AttemptResult> {
    const { reason, error, type, events } = failure;
    const end = (await this.#settling.record({ ...outcome, events })) as AttemptEnd;
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
    const { eventId, ref, attempts, receivedAt } = this.claim;
    return { eventId, ref, attempt: attempts, receivedAt: new Date(receivedAt) };
  }

  #aboutEnd(type: string | undefined) {
    return { ...this.#about, type, duration: this.#duration };
  }

  get #duration(): number {
    return performance.now() - this.#startedAt;
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
