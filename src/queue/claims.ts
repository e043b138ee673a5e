// Claims the events that may begin, starts their attempts, and gives back claims that get no attempt.

import { withTimeout } from "../async.ts";
import { detached } from "../async-context.ts";
import type { ClaimOptions } from "../stores/store-options.ts";
import type { ClaimedEvent } from "../stores/stored-event.ts";
import type { Attempt } from "./attempt.ts";
import { ClaimedAhead } from "./claimed-ahead.ts";
import { Lease } from "./leases.ts";
import type { Parts } from "./parts.ts";
import { GIVE_BACK } from "./running-attempts.ts";
import { answerOf } from "./store-call.ts";
import { Strays } from "./strays.ts";
import { lanesOf } from "./work.ts";

/** How many renewals a claim waits for: the one in flight, which may be too old, and two new ones. */
const RENEWALS = 3;

/** How many events a claim may take. */
interface Room {
  readonly limit: number;
  /** How many events to claim besides, for slots that become free during the claim. Only the loop does. */
  readonly ahead: number;
  /** ms until there is room. It is `undefined` if only the end of an attempt or a claim makes room. */
  readonly wait: number | undefined;
  /** Differs from an earlier one if other events may be claimed than then. */
  readonly version: number;
}

interface Slots {
  readonly slots: number;
  readonly wait: number | undefined;
  /** Whether an event may be claimed only to find out whether the store records results again. */
  readonly isTrial: boolean;
}

/** A caller of `fill` that does not want an attempt at every claim: a drain. */
export interface Claimant {
  /** Whether no attempt may begin any more. */
  readonly isOver: boolean;
  /** Whether the claim gets no attempt, because the claimant has seen its event. */
  knows(eventId: string): boolean;
  /** Gets the leases of events that the claimant knows, and gives them back at its end. */
  readonly held: Lease[];
}

export interface FillOptions extends Pick<ClaimOptions, "limit" | "eventId" | "only" | "except"> {
  /** How many events to claim besides, which then wait for slots. Only the loop passes it. */
  readonly ahead?: number;
  readonly claimant?: Claimant | undefined;
  /** Whether the event has just arrived, so that it may be the try of a shut gate before its time. */
  readonly isFresh?: boolean;
  /** Whether the event was chosen for its lane, so that the limit of reads does not hold it up. */
  readonly isChosen?: boolean;
  /** Whether the attempts park their events without a read. */
  readonly givesUp?: boolean;
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

/** Makes all claims of the queue: those of the loop, of drains, of inline requests, and of tries. */
export class Claims<Tx> {
  readonly #queue: Parts<Tx>;
  readonly #ahead: ClaimedAhead<Tx>;
  readonly #strays: Strays;
  /** How many slots claims in flight have reserved. */
  #reserved = 0;
  /** The claims in flight, and the claims that are being given back. These promises never reject. */
  readonly #inFlight = new Set<Promise<void>>();
  #closed = false;

  constructor(queue: Parts<Tx>) {
    const { leases, policy } = queue;
    this.#queue = queue;
    this.#strays = new Strays(queue);
    this.#ahead = new ClaimedAhead(leases, policy.concurrency, (claim) => void this.giveBack(claim));
  }

  /** Lets no attempt begin any more. Gives back the claims that wait for slots, and those in flight when they arrive. */
  close(): void {
    this.#closed = true;
    this.startWaiting();
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Returns how many events the common claim may take at `now`, a time on the monotonic clock. */
  roomAt(now: number): Room {
    const { gates, floods, fairness } = this.#queue;
    const version = gates.version + floods.version + fairness.version;
    const { slots, wait, isTrial } = this.slotsAt(now);
    // While everything is shut, nothing is claimed but the try.
    if (this.#closed || (gates.isAllShut && this.#queue.hasAccounts))
      return { limit: 0, ahead: 0, wait, version };
    const most = fairness.roomAt(now);
    const limit = Math.max(0, Math.min(slots, most));
    return { limit, ahead: isTrial ? 0 : Math.min(this.#ahead.room, most - limit), wait, version };
  }

  /** Returns how many attempts may begin, and ms until that may change if only time changes it. */
  slotsAt(now: number): Slots {
    if (this.#closed) return { slots: 0, wait: undefined, isTrial: false };
    const { unrecorded, running } = this.#queue;
    const slots = running.freeSlots - this.#reserved;
    const trialIn = unrecorded.trialAt(now);
    if (trialIn === undefined) return { slots, wait: undefined, isTrial: false };
    // Once the trial is due, only a free slot is missing. A wait of 0 ms would keep the loop busy until there is one.
    return trialIn > 0
      ? { slots: 0, wait: trialIn, isTrial: true }
      : { slots: Math.min(slots, 1), wait: undefined, isTrial: true };
  }

  /** Claims due events, and starts their attempts. `limit` must not exceed {@link slotsAt}. */
  async fill(options: FillOptions): Promise<Filled<Tx>> {
    const { running, fairness } = this.#queue;
    const { limit, ahead = 0, eventId, only, except } = options;
    const isCommon = eventId === undefined && only === undefined && except === undefined;
    this.#reserved += limit;
    const { freed } = running;
    try {
      const ask = () =>
        this.#track(
          this.#claim(
            {
              limit: limit + ahead,
              eventId,
              only,
              except: isCommon ? this.#except() : this.#withStrays(except),
            },
            isCommon,
          ),
        );
      let got = await ask();
      // With one slot, the account that had it last comes again if no other one is due.
      if (isCommon && got.claims.length === 0 && fairness.foundNoOther()) got = await ask();
      if (options.ahead !== undefined) this.#ahead.noteFreed(running.freed - freed);
      const { claims, next, leaseEndsAt } = got;
      const started: Attempt<Tx>[] = [];
      for (const claim of claims) {
        if (running.takeOver(claim, leaseEndsAt)) continue;
        const step = this.#stepFor(claim, options, isCommon);
        if (step === "give back") void this.giveBack(claim);
        // An event that failed in this drain may be due again. Hold its claim, so that the next claim gets others.
        else if (step === "hold") options.claimant?.held.push(this.#hold(claim, leaseEndsAt));
        else if (started.length < limit) started.push(running.start(claim, leaseEndsAt, options.givesUp));
        else this.#ahead.add(claim, leaseEndsAt);
      }
      return { claimed: claims.length, next, started };
    } finally {
      this.#reserved -= limit;
      this.#queue.slotFreed();
    }
  }

  /** Says what follows a claim. The world may have changed since the claim was sent. */
  #stepFor(claim: ClaimedEvent, options: FillOptions, isCommon: boolean): "start" | "hold" | "give back" {
    const { claimant, isFresh, isChosen = false, givesUp = false } = options;
    const { gates, floods, fairness } = this.#queue;
    const now = performance.now();
    const lane = this.#queue.laneOf(claim);
    fairness.see(lane.account, now);
    if (this.#closed || this.#isBlocked || claimant?.isOver || this.#strays.note(claim)) return "give back";
    if (claimant?.knows(claim.eventId)) return "hold";
    const isSpent = claim.outageFor >= this.#queue.policy.giveUpAfter && gates.isShut(lane);
    if (givesUp || isSpent) return "start";
    if (!gates.lets(lane, now, isFresh) || (!isChosen && floods.isLimited(lane))) return "give back";
    return isCommon && fairness.isFull(lane.account, now) ? "give back" : "start";
  }

  /** Starts attempts at the claims that wait for slots. Gives the claims back if no more attempts should begin now. */
  startWaiting(): void {
    // The loop made these claims, and any attempt whose end frees a slot comes here.
    if (this.#ahead.size > 0) detached(() => this.#startWaiting());
  }

  #startWaiting(): void {
    const { running } = this.#queue;
    if (this.#closed || this.#isBlocked) this.#ahead.giveBackAll();
    while (this.#ahead.size > 0 && running.freeSlots > this.#reserved) {
      const { claim, held, endsAt } = this.#ahead.take()!;
      if (held && this.#stepFor(claim, { limit: 1 }, true) === "start") running.start(claim, endsAt);
      else void this.giveBack(claim);
    }
  }

  #withStrays(except: readonly string[] | undefined): readonly string[] | undefined {
    return except && [...this.#strays.beginnings, ...except];
  }

  /** The beginnings of the records that the common claim leaves out. */
  #except(): string[] {
    const { gates, floods, fairness } = this.#queue;
    const { beginningOf } = this.#queue;
    const full = fairness.fullAt(performance.now());
    return [
      ...this.#strays.beginnings,
      ...gates.shut.flatMap(({ lane }) => lanesOf(lane).map(beginningOf)),
      ...floods.limited.map(beginningOf),
      ...full.map((account) => beginningOf({ account, kind: undefined })),
    ];
  }

  /** Renews the leases that have ended, and then asks the store for due events. */
  async #claim(which: Omit<ClaimOptions, "leaseDuration">, isCommon: boolean) {
    const leaseEndsAt = await this.#nextLeaseEnd();
    let next: NextDue | undefined;
    const onNextDue = (ms: number | undefined): void => {
      next = { in: ms };
    };
    const claims = await this.#askStore({ ...which, ...(isCommon && { onNextDue }) });
    return { claims, next, leaseEndsAt };
  }

  /**
   * Renews the leases that have ended, and returns when a lease that is claimed now ends. Runs again after each wait: the
   * event loop may have been blocked meanwhile.
   */
  async #nextLeaseEnd(): Promise<number> {
    const { leases } = this.#queue;
    for (let n = 0; n < RENEWALS && leases.anyEnded; n += 1) if (!(await leases.renew())) break;
    return performance.now() + this.#queue.policy.leaseDuration;
  }

  /** @throws StayhookError if the store does not answer in time */
  #askStore(which: Omit<ClaimOptions, "leaseDuration" | "worker">): Promise<ClaimedEvent[]> {
    const { store, worker, policy } = this.#queue;
    const { leaseDuration } = policy;
    return answerOf(
      "claim",
      async () => store.claim({ ...which, leaseDuration, worker }),
      // After the time limit, no attempt follows. Release what the late answer has leased.
      (claims) => claims.forEach((claim) => void this.giveBack(claim)),
    );
  }

  /** Returns ms until the next event of the common claim is due; `undefined` if no event waits. */
  nextDue(): Promise<number | undefined> {
    return answerOf("nextDue", async () => this.#queue.store.nextDue({ except: this.#except() }));
  }

  /** Whether no attempt may begin, because the store does not record the results of attempts. */
  get #isBlocked(): boolean {
    return this.#queue.unrecorded.isBlockedAt(performance.now());
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
