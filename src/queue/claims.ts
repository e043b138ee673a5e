// Claims the events that may begin, starts their attempts, and gives back claims that get no attempt.

import { withTimeout } from "../async.ts";
import { detached } from "../async-context.ts";
import type { ClaimOptions } from "../stores/store-options.ts";
import type { ClaimedEvent } from "../stores/stored-event.ts";
import type { Attempt } from "./attempt.ts";
import { ClaimedAhead } from "./claimed-ahead.ts";
import { afterNoOther, afterSeen } from "./fairness.ts";
import { Lease, type Leases } from "./leases.ts";
import { type Choice, exceptOf, type How, type Step, stepOf } from "./plan.ts";
import { GIVE_BACK, type RunningAttempts } from "./running-attempts.ts";
import { freeSlots, type QueueState } from "./state.ts";
import { answerOf } from "./store-call.ts";
import type { Strays } from "./strays.ts";
import type { QueueOptions } from "./work.ts";

/** How many renewals a claim waits for: the one in flight, which may be too old, and two new ones. */
const RENEWALS = 3;

/** A caller of `fill` that does not want an attempt at every claim: a drain. */
export interface Claimant {
  /** Whether no attempt may begin any more. */
  readonly isOver: boolean;
  /** Whether the claim gets no attempt, because the claimant has seen its event. */
  knows(eventId: string): boolean;
  /** Gets the leases of events that the claimant knows, and gives them back at its end. */
  readonly held: Lease[];
}

export interface FillOptions extends How, Choice {
  /** How many events to claim for free slots. Default: 1. */
  readonly limit?: number;
  /** How many events to claim besides, which then wait for slots. */
  readonly ahead?: number;
  readonly claimant?: Claimant | undefined;
}

interface NextDue {
  /** ms; `undefined` if no event waits. */
  readonly in: number | undefined;
}

interface Filled<Tx> {
  readonly claimed: number;
  /** When the next event is due, if the store has told it with the claims. */
  readonly next: NextDue | undefined;
  readonly started: readonly Attempt<Tx>[];
}

/** What the claims need of a queue. */
interface ClaimingQueue<Tx> extends Pick<QueueOptions<Tx>, "store" | "worker" | "logger"> {
  readonly state: QueueState;
  readonly leases: Leases<Tx>;
  readonly running: RunningAttempts<Tx>;
  /** Called when a claim has ended that had reserved slots. */
  readonly changed: () => void;
}

/** Makes all claims of the queue, as plan.ts says. */
export class Claims<Tx> {
  readonly #queue: ClaimingQueue<Tx>;
  readonly #ahead: ClaimedAhead<Tx>;
  readonly #strays: Strays;
  /** The claims in flight, and the claims that are being given back. These promises never reject. */
  readonly #inFlight = new Set<Promise<void>>();

  constructor(queue: ClaimingQueue<Tx>, strays: Strays) {
    const { state, leases } = queue;
    this.#queue = queue;
    this.#strays = strays;
    this.#ahead = new ClaimedAhead(leases, state.policy.concurrency, (claim) => void this.giveBack(claim));
  }

  /** How many events may be claimed ahead of their slots. */
  get roomAhead(): number {
    return this.#ahead.room;
  }

  /** Claims due events, and starts their attempts. `limit` must not exceed the free slots. */
  async fill(options: FillOptions): Promise<Filled<Tx>> {
    const { state, running, changed } = this.#queue;
    const { slots } = state;
    const { limit = 1, isCommon = false } = options;
    slots.reserved += limit;
    const { freed } = slots;
    try {
      const ask = () => this.#track(this.#claim(options));
      let got = await ask();
      // With one slot, the account that had it last comes again if no other one is due.
      const without = isCommon && got.claims.length === 0 ? afterNoOther(state.fairness) : state.fairness;
      if (without !== state.fairness) {
        state.fairness = without;
        got = await ask();
      }
      if (options.ahead !== undefined) this.#ahead.noteFreed(slots.freed - freed);
      const { claims, next, leaseEndsAt } = got;
      const started: Attempt<Tx>[] = [];
      for (const claim of claims) {
        if (running.takeOver(claim, leaseEndsAt)) continue;
        const step = this.#stepFor(claim, options);
        if (step === "give back") void this.giveBack(claim);
        // An event that failed in this drain may be due again. Hold its claim, so that the next claim gets others.
        else if (step === "hold") options.claimant?.held.push(this.#hold(claim, leaseEndsAt));
        else if (started.length < limit) started.push(running.start(claim, leaseEndsAt, reasonOf(step)));
        else this.#ahead.add(claim, leaseEndsAt);
      }
      return { claimed: claims.length, next, started };
    } finally {
      slots.reserved -= limit;
      changed();
    }
  }

  #stepFor(claim: ClaimedEvent, { claimant, ...how }: FillOptions): Step | "hold" {
    const { state } = this.#queue;
    const now = performance.now();
    state.fairness = afterSeen(state.fairness, state.laneOf(claim).account, now);
    if (claimant?.isOver || this.#strays.note(claim)) return "give back";
    return claimant?.knows(claim.eventId) ? "hold" : stepOf(state, claim, how, now);
  }

  /** Starts attempts at the claims that wait for slots. Gives the claims back if no more attempts should begin now. */
  startWaiting(): void {
    // The loop made these claims, and any attempt whose end frees a slot comes here.
    if (this.#ahead.size > 0) detached(() => this.#startWaiting());
  }

  #startWaiting(): void {
    const { state, running } = this.#queue;
    if (state.isClosed) this.#ahead.giveBackAll();
    while (this.#ahead.size > 0 && freeSlots(state) > 0) {
      const { claim, held, endsAt } = this.#ahead.take()!;
      const step = held ? this.#stepFor(claim, { isCommon: true }) : "give back";
      if (step === "give back" || step === "hold") void this.giveBack(claim);
      else running.start(claim, endsAt, reasonOf(step));
    }
  }

  /** Renews the leases that have ended, and then asks the store for due events. */
  async #claim({ limit = 1, ahead = 0, eventId, only, ...how }: FillOptions) {
    const isOfAll = eventId === undefined && only === undefined;
    const except = isOfAll ? exceptOf(this.#queue.state, how, performance.now()) : undefined;
    const leaseEndsAt = await this.#nextLeaseEnd();
    let next: NextDue | undefined;
    const onNextDue = (ms: number | undefined): void => {
      next = { in: ms };
    };
    const which = { limit: limit + ahead, eventId, only, except };
    const claims = await this.#askStore({ ...which, ...(how.isCommon && { onNextDue }) });
    return { claims, next, leaseEndsAt };
  }

  /**
   * Renews the leases that have ended, and returns when a lease that is claimed now ends. Runs again after each wait: the
   * event loop may have been blocked meanwhile.
   */
  async #nextLeaseEnd(): Promise<number> {
    const { leases, state } = this.#queue;
    for (let n = 0; n < RENEWALS && leases.anyEnded; n += 1) if (!(await leases.renew())) break;
    return performance.now() + state.policy.leaseDuration;
  }

  /** @throws StayhookError if the store does not answer in time */
  #askStore(which: Omit<ClaimOptions, "leaseDuration" | "worker">): Promise<ClaimedEvent[]> {
    const { store, worker, state } = this.#queue;
    const { leaseDuration } = state.policy;
    return answerOf(
      "claim",
      async () => store.claim({ ...which, leaseDuration, worker }),
      // After the time limit, no attempt follows. Release what the late answer has leased.
      (claims) => claims.forEach((claim) => void this.giveBack(claim)),
    );
  }

  /** Returns ms until the next event of the common claim is due; `undefined` if no event waits. */
  nextDue(): Promise<number | undefined> {
    const { store, state } = this.#queue;
    const except = exceptOf(state, { isCommon: true }, performance.now());
    return answerOf("nextDue", async () => store.nextDue({ except }));
  }

  /** Keeps the lease of a claim without an attempt. */
  #hold(claim: ClaimedEvent, leaseEndsAt: number): Lease {
    const lease = new Lease(claim, leaseEndsAt);
    this.#queue.leases.add(lease);
    return lease;
  }

  /** Releases claims that were held. Never rejects. */
  async giveBackAll(held: readonly Lease[]): Promise<void> {
    for (const lease of held) this.#queue.leases.delete(lease);
    await Promise.all(held.map(({ claim }) => this.giveBack(claim)));
  }

  /** Releases a claim that gets no attempt: it is due at once, and the claim does not count. Never rejects. */
  async giveBack(claim: ClaimedEvent): Promise<void> {
    const { store, logger } = this.#queue;
    const { eventId } = claim;
    try {
      const releasing = (async () => store.settle(claim, { state: "released" }))();
      await this.#track(withTimeout(GIVE_BACK, releasing));
    } catch (error) {
      logger.limited(
        "release",
        "warn",
        `the store did not release event ${eventId}. Another process can handle the event when its lease ends`,
        { eventId, error },
      );
    }
  }

  #track<T>(call: Promise<T>): Promise<T> {
    const settled: Promise<void> = call.then(
      () => void this.#inFlight.delete(settled),
      () => void this.#inFlight.delete(settled),
    );
    this.#inFlight.add(settled);
    return call;
  }

  /** Resolves when the claims that are in flight now have ended. */
  async inFlight(): Promise<void> {
    await Promise.all(this.#inFlight);
  }

  /** Resolves when no claim is in flight, and none is being given back. */
  async settled(): Promise<void> {
    while (this.#inFlight.size > 0) await this.inFlight();
  }
}

function reasonOf(step: Exclude<Step, "give back">): string | undefined {
  return step === "start" ? undefined : step.givesUpBecause;
}
