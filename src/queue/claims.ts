// Finds out how many attempts may begin, claims events for them, and gives back claims that get no attempt.

import { detached } from "../async-context.ts";
import type { ClaimOptions } from "../stores/event-store.ts";
import type { ClaimedEvent } from "../stores/stored-event.ts";
import type { Attempt } from "./attempt.ts";
import type { CircuitBreaker } from "./circuit-breaker.ts";
import { ClaimedAhead } from "./claimed-ahead.ts";
import { EventPicker } from "./event-picker.ts";
import { Lease, type Leases } from "./leases.ts";
import type { PutBacks } from "./put-backs.ts";
import type { ReadLimits } from "./refused-reads.ts";
import type { RunningAttempts } from "./running-attempts.ts";
import type { Shares } from "./shares.ts";
import { answerOf } from "./store-call.ts";
import type { Unrecorded } from "./unrecorded.ts";
import type { QueueOptions } from "./work.ts";

/** How many renewals a claim waits for: the one in flight, which may be too old, and two new ones. */
const RENEWALS = 3;

/** When an event that this process must not handle is due again, ms. Others may handle it meanwhile. */
const STRAY_AGAIN = 60_000;

/** How many attempts may begin. */
interface Room {
  readonly limit: number;
  /** How many events to claim besides, for slots that become free during the claim. Only the loop does. */
  readonly ahead: number;
  /** ms until there is room. It is `undefined` if only the end of an attempt or a claim makes room. */
  readonly wait: number | undefined;
}

/** A caller of `fill` that does not want an attempt at every claim: a drain. */
interface Claimant {
  /** Whether no attempt may begin any more. */
  readonly isOver: boolean;
  /** Whether the claim gets no attempt, because the claimant has seen its event. */
  knows(eventId: string): boolean;
  /** Gets the leases of events that the claimant knows, and gives them back at its end. */
  readonly held: Lease[];
}

interface FillOptions {
  readonly limit: number;
  /** How many events to claim besides, which then wait for slots. Only the loop passes it. */
  readonly ahead?: number;
  /** Claims only this event. */
  readonly eventId?: string | undefined;
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

interface Choice {
  /** The events to claim. If `undefined`, the store chooses those that have been due for longest. */
  readonly ids: readonly string[] | undefined;
  /** Whether the store chooses if none of `ids` can be claimed. */
  readonly orOthers?: boolean;
}

interface ClaimsOptions<Tx> {
  readonly breaker: CircuitBreaker;
  readonly unrecorded: Unrecorded;
  readonly readLimits: ReadLimits;
  readonly leases: Leases<Tx>;
  readonly running: RunningAttempts<Tx>;
  readonly putBacks: PutBacks<Tx>;
  readonly shares: Shares;
  /** Called when a claim has ended, because others may wait for the slots that it had reserved. */
  readonly onFilled: () => void;
}

/** Makes all claims of the queue: those of the loop, of drains, and of inline requests. */
export class Claims<Tx> {
  readonly #queue: QueueOptions<Tx>;
  readonly #options: ClaimsOptions<Tx>;
  readonly #picker: EventPicker<Tx>;
  readonly #ahead: ClaimedAhead<Tx>;
  readonly #putBacks: PutBacks<Tx>;
  /** How many slots claims in flight have reserved. */
  #reserved = 0;
  /** The claims in flight. These promises never reject. */
  readonly #inFlight = new Set<Promise<void>>();
  #closed = false;

  constructor(queue: QueueOptions<Tx>, options: ClaimsOptions<Tx>) {
    this.#queue = queue;
    this.#options = options;
    this.#picker = new EventPicker(queue.store);
    this.#putBacks = options.putBacks;
    this.#ahead = new ClaimedAhead(
      options.leases,
      queue.policy.concurrency,
      (claim) => void this.giveBack(claim),
    );
  }

  /** Lets no attempt begin any more. Gives back the claims that wait for slots, and those in flight when they arrive. */
  close(): void {
    this.#closed = true;
    this.#putBacks.close();
    this.startWaiting();
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Returns how many attempts may begin at `now`, a time on the monotonic clock. */
  roomAt(now: number): Room {
    if (this.#closed) return { limit: 0, ahead: 0, wait: undefined };
    const { unrecorded } = this.#options;
    const trialIn = unrecorded.trialAt(now);
    if (trialIn === undefined) return this.#roomAt(now);
    if (trialIn > 0) return { limit: 0, ahead: 0, wait: trialIn };
    const room = this.#roomAt(now);
    return { ...room, limit: Math.min(room.limit, 1), ahead: 0 };
  }

  #roomAt(now: number): Room {
    const { breaker, readLimits, running } = this.#options;
    const slots = running.freeSlots - this.#reserved;
    const gate = breaker.gateAt(now);
    const limit = readLimits.of(undefined);
    const ahead = Number.isFinite(gate.room) || limit.limiting ? 0 : this.#ahead.room + this.#putBacks.room;
    const room = Math.min(slots, gate.room - (breaker.isAllShut ? this.#reserved : 0));
    if (room <= 0) return { limit: 0, ahead, wait: slots > 0 ? gate.wait || undefined : undefined };
    const { reads, nextRead } = limit.roomAt(now);
    return reads > 0 ? { limit: Math.min(room, reads), ahead, wait: 0 } : { limit: 0, ahead, wait: nextRead };
  }

  /** Claims due events, and starts their attempts. `limit` must not exceed {@link roomAt}. */
  async fill({ limit, ahead, eventId, claimant }: FillOptions): Promise<Filled<Tx>> {
    const { readLimits, running, shares, onFilled } = this.#options;
    const reads = readLimits.of(undefined);
    const { limiting } = reads;
    this.#reserved += limit;
    if (limiting) reads.take(limit);
    const started: Attempt<Tx>[] = [];
    const { freed } = running;
    const askedAt = performance.now();
    try {
      const { claims, next, leaseEndsAt } = await this.#track(
        this.#claimsFor(limit + (ahead ?? 0), eventId, ahead !== undefined),
      );
      if (ahead !== undefined) this.#ahead.noteFreed(running.freed - freed);
      this.#putBacks.begin();
      const isLoop = ahead !== undefined;
      const now = performance.now();
      for (const claim of claims) shares.see(this.#accountOf(claim), now);
      // Others may be due behind a full claim.
      const isAll = claims.length < limit + (ahead ?? 0);
      if (isLoop && isAll) shares.foundAll(askedAt);
      const over: ClaimedEvent[] = [];
      for (const claim of claims) {
        if (running.takeOver(claim, leaseEndsAt)) continue;
        if (this.#closed || this.#isBlocked || claimant?.isOver) void this.giveBack(claim);
        else if (this.#queue.isStray?.(claim)) this.#putBacks.add(claim, STRAY_AGAIN);
        else if (this.#isShut(claim)) this.#putBack(claim);
        // An event that failed in this drain may be due again. Hold its claim, so that the next claim gets others.
        else if (claimant?.knows(claim.eventId)) claimant.held.push(this.#hold(claim, leaseEndsAt));
        else if (isLoop && shares.isOver(this.#accountOf(claim), now)) over.push(claim);
        else if (started.length >= limit) this.#ahead.add(claim, leaseEndsAt);
        else if (this.#hasTurn(claim)) started.push(running.start(claim, leaseEndsAt));
      }
      for (const claim of over) {
        const isFree = isAll && started.length < limit && shares.borrow(this.#accountOf(claim)!, now);
        if (!isFree) this.#giveWay(claim, now);
        else if (this.#hasTurn(claim)) started.push(running.start(claim, leaseEndsAt));
      }
      return { claimed: claims.length, next, started };
    } finally {
      this.#reserved -= limit;
      // A claim without an attempt reads no record, so it must not use up the limit of reads.
      if (limiting) reads.take(started.length - limit);
      this.startWaiting();
      onFilled();
    }
  }

  /** Starts attempts at the claims that wait for slots. Gives the claims back if no more attempts should begin now. */
  startWaiting(): void {
    // The loop made these claims, and any attempt whose end frees a slot comes here.
    detached(() => this.#startWaiting());
  }

  #startWaiting(): void {
    const { readLimits, running, shares } = this.#options;
    // No token was taken for the reads of these claims.
    if (this.#closed || this.#isBlocked || readLimits.of(undefined).limiting) this.#ahead.giveBackAll();
    while (this.#ahead.size > 0 && running.freeSlots > this.#reserved) {
      const { claim, held, endsAt } = this.#ahead.take()!;
      if (!held) void this.giveBack(claim);
      else if (this.#isShut(claim)) this.#putBack(claim);
      else if (shares.isOver(this.#accountOf(claim), performance.now()))
        this.#giveWay(claim, performance.now());
      else if (this.#hasTurn(claim)) running.start(claim, endsAt);
    }
  }

  #accountOf(claim: ClaimedEvent): string | undefined {
    return this.#queue.laneOf(claim).account;
  }

  /** Puts an event back to its place in the line of its account, because the account has its share of the slots. */
  #giveWay(claim: ClaimedEvent, now: number): void {
    this.#putBacks.add(claim, this.#options.shares.placeOf(this.#accountOf(claim)!, now));
  }

  /** Whether the event must wait for the end of a pause. */
  #isShut(claim: ClaimedEvent): boolean {
    return this.#options.breaker.mustWait(claim, this.#queue.laneOf(claim), performance.now());
  }

  /** Lets the event of a shut lane be due again when the lane is tried, so that the events behind it are claimed. */
  #putBack(claim: ClaimedEvent): void {
    const lane = this.#queue.laneOf(claim);
    const wait = this.#options.breaker.putBack(claim, lane, performance.now());
    this.#options.shares.leave(lane.account);
    // While everything is shut, nothing is claimed.
    if (wait === undefined) void this.giveBack(claim);
    else this.#putBacks.add(claim, wait);
  }

  /** Whether an attempt may begin. If the reads of the event's account are limited, the event gets a place in their line. */
  #hasTurn(claim: ClaimedEvent): boolean {
    const { account, kind } = this.#queue.laneOf(claim);
    // The reads of an app that has one account are limited before the claim.
    if (account === undefined || kind === undefined) return true;
    const wait = this.#options.readLimits.of(account).turnOf(claim, performance.now());
    if (wait === 0) return true;
    this.#options.shares.leave(account);
    this.#putBacks.add(claim, wait);
    return false;
  }

  /** Renews the leases that have ended, and then asks the store for due events. */
  async #claimsFor(limit: number, eventId: string | undefined, isLoop: boolean) {
    const { ids, orOthers = false } = eventId === undefined ? await this.#chosen(limit) : { ids: [eventId] };
    if (ids !== undefined) {
      const leaseEndsAt = await this.#nextLeaseEnd();
      const claims = await this.#claimEach(ids);
      // Another process may have leased the chosen events. An empty claim would end a drain while other events are due.
      if (claims.length > 0 || !orOthers) return { claims, next: undefined, leaseEndsAt };
    }
    const leaseEndsAt = await this.#nextLeaseEnd();
    let next: NextDue | undefined;
    const onNextDue = (ms: number | undefined): void => {
      next = { in: ms };
    };
    const claims = await this.#askStore({ limit, ...(isLoop && { onNextDue }) });
    return { claims, next, leaseEndsAt };
  }

  /**
   * Renews the leases that have ended, and returns when a lease that is claimed now ends. Runs again after each wait: the
   * event loop may have been blocked meanwhile.
   */
  async #nextLeaseEnd(): Promise<number> {
    const { leases } = this.#options;
    for (let n = 0; n < RENEWALS && leases.anyEnded; n += 1) if (!(await leases.renew())) break;
    return performance.now() + this.#queue.policy.leaseDuration;
  }

  /** @throws the store's error if it answered none of the claims */
  async #claimEach(ids: readonly string[]): Promise<ClaimedEvent[]> {
    const answers = await Promise.allSettled(ids.map((eventId) => this.#askStore({ limit: 1, eventId })));
    const given = answers.filter((answer) => answer.status === "fulfilled");
    const [failed] = answers.filter((answer) => answer.status === "rejected");
    if (given.length === 0 && failed !== undefined) throw failed.reason;
    return given.flatMap(({ value }) => value);
  }

  /** Chooses the events to claim. */
  async #chosen(limit: number): Promise<Choice> {
    if (!this.#options.readLimits.of(undefined).prefersGenuine()) return { ids: undefined };
    const ids = await answerOf("list() or snapshotOf", () => this.#picker.genuine(limit));
    return { ids: ids.length > 0 ? ids : undefined, orOthers: true };
  }

  /** @throws StayhookError if the store does not answer in time */
  #askStore(which: Pick<ClaimOptions, "limit" | "eventId" | "onNextDue">): Promise<ClaimedEvent[]> {
    const { store, worker, policy } = this.#queue;
    const { leaseDuration } = policy;
    return answerOf(
      "claim",
      async () => store.claim({ ...which, leaseDuration, worker }),
      // After the time limit, no attempt follows. Release what the late answer has leased.
      (claims) => claims.forEach((claim) => void this.giveBack(claim)),
    );
  }

  /** Returns ms until the next event is due; `undefined` if no event waits. */
  nextDue(): Promise<number | undefined> {
    return answerOf("nextDue", async () => this.#queue.store.nextDue());
  }

  /** Whether no attempt may begin, because the store does not record the results of attempts. */
  get #isBlocked(): boolean {
    return this.#options.unrecorded.isBlockedAt(performance.now());
  }

  /** Keeps the lease of a claim without an attempt. */
  #hold(claim: ClaimedEvent, leaseEndsAt: number): Lease {
    const lease = new Lease(claim, leaseEndsAt);
    this.#options.leases.add(lease);
    return lease;
  }

  /** Releases claims that were held. Never rejects. */
  async giveBackAll(held: readonly Lease[]): Promise<void> {
    for (const lease of held) this.#options.leases.delete(lease);
    await Promise.all(held.map(({ claim }) => this.giveBack(claim)));
  }

  /** Releases a claim that gets no attempt. Never rejects. */
  giveBack(claim: ClaimedEvent): Promise<void> {
    return this.#putBacks.giveBack(claim);
  }

  #track<T>(call: Promise<T>): Promise<T> {
    const settled: Promise<void> = call.then(
      () => void this.#inFlight.delete(settled),
      () => void this.#inFlight.delete(settled),
    );
    this.#inFlight.add(settled);
    return call;
  }

  /** Resolves when the claims that are in flight now have ended, and events that wait for a lane are due. */
  async inFlight(): Promise<void> {
    await Promise.all([...this.#inFlight, this.#putBacks.inFlight()]);
  }

  /** Resolves when no claim is in flight, and none is being given back. */
  async settled(): Promise<void> {
    while (this.#inFlight.size > 0 || this.#putBacks.busy) await this.inFlight();
  }
}
