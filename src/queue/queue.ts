import { idleTimer, inNextTurn, withTimeout } from "../async.ts";
import { onClockMoved } from "../clock.ts";
import { StayhookError } from "../errors.ts";
import type { ClaimOptions } from "../stores/event-store.ts";
import type { ClaimedEvent } from "../stores/stored-event.ts";
import { Attempt, type AttemptEnd, recordOf } from "./attempt.ts";
import { CircuitBreaker } from "./circuit-breaker.ts";
import { Drain, type DrainOptions, type DrainResult, Stop } from "./drain.ts";
import { EventPicker } from "./event-picker.ts";
import { GRACE, Lease, Leases } from "./leases.ts";
import { Pruner } from "./pruner.ts";
import { RefusedReads } from "./refused-reads.ts";
import { Witnesses } from "./witnesses.ts";
import { kindOf, type Pause, type QueueOptions } from "./work.ts";

/** How often the loop polls a store that cannot notify, ms. */
const POLL = 1000;
/** How long to wait if the store reports a due event but the claim gets no event, ms. */
const NOTHING_AFTER_ALL = 25;
/** The waits after the first, the second and each later failure of the store in a row, ms. */
const STORE_FAILED = [200, 1000, 5000] as const;
/** How long the store may take to answer a claim, ms. Then the loop asks again, and gives a late claim back. */
const ANSWER = 30_000;
/** How often an inline request tries to claim its event, ms. */
const LOOK_AGAIN = 250;
/** The time between two looks for the events that go on while bookings or listings pause, ms. */
const PICK_AGAIN = 100;
/** How long to wait for the store to release leases, ms. */
const GIVE_BACK = 5000;
/** How many renewals a claim waits for: the one in flight, which may be too old, and two new ones. */
const RENEWALS = 3;
/** A drain without a timeout ends when the platform has refused every record for this long, ms. */
const ONLY_REFUSED = 60_000;

/** From this many running attempts on, several usually end in one turn of the event loop. */
const MANY = 8;

const NOW = Number.NEGATIVE_INFINITY;
const NEVER = Number.POSITIVE_INFINITY;

/** How many attempts may begin. */
interface Room {
  readonly limit: number;
  /** ms until there is room. It is `undefined` if only the end of an attempt or a claim makes room. */
  readonly wait: number | undefined;
  /** Whether only events may begin whose kind does not pause. `wait` is then the wait for the others. */
  readonly partly?: boolean;
}

interface FillOptions<Tx> {
  readonly limit: number;
  /** Claims only this event. */
  readonly eventId?: string | undefined;
  /** The drain that claims. */
  readonly drain?: Drain<Tx> | undefined;
}

interface Filled<Tx> {
  readonly claimed: number;
  readonly started: readonly Attempt<Tx>[];
}

/** Handles the events of a store: in the loop, in drains, and inline. All of them claim by `#fill`. */
export class Queue<Tx> {
  readonly breaker: CircuitBreaker;
  readonly #options: QueueOptions<Tx>;
  readonly #refusedReads: RefusedReads;
  readonly #picker: EventPicker<Tx>;
  readonly #leases: Leases<Tx>;
  readonly #pruner: Pruner<Tx>;
  readonly #running = new Set<Attempt<Tx>>();
  /** The running attempts that only wait for the store to record their end. */
  readonly #settling = new Set<Attempt<Tx>>();
  /** The latest running attempt of each record. */
  readonly #byRecord = new Map<string, Attempt<Tx>>();
  readonly #drains = new Set<Drain<Tx>>();
  /** How many slots claims in flight have reserved. */
  #reserved = 0;
  /** Claims in flight, and claims that the queue gives back. These promises never reject. */
  readonly #claiming = new Set<Promise<void>>();
  /** Resolves at the next change of the fields above, and when an event may be due. */
  #changed = Promise.withResolvers<void>();
  /** Whether `#changed` resolves in the next turn. */
  #isChanging = false;
  /** Counts the ends of attempts. The next event of a record may be due after an end. */
  #endings = 0;
  #started = false;
  readonly #stopped = Promise.withResolvers<void>();
  #unsubscribe: (() => void) | undefined;
  #unwatchClock: (() => void) | undefined;
  /** When the loop last looked for events that go on in a pause of bookings or listings, on the monotonic clock. */
  #pickedAt = NOW;
  /** When the loop looks for such events again. */
  #pickAt = NOW;
  /** When the loop claims next, on the monotonic clock. */
  #dueAt = NOW;
  /** Why the loop's latest claim failed. */
  #failure: unknown;
  #closing: Promise<void> | undefined;

  constructor(options: QueueOptions<Tx>) {
    const { concurrency, backoff, leaseDuration } = options.policy;
    this.#options = options;
    this.#picker = new EventPicker(options.store);
    this.breaker = new CircuitBreaker({
      concurrency,
      backoff,
      witnesses: options.readWitness && new Witnesses(options.store, options.readWitness),
      onPause: (pause) => {
        options.observe({ kind: "paused", ...pause });
        this.#change();
      },
      onResume: (scope) => {
        options.observe({ kind: "resumed", scope });
        // A drain that has found nothing must look again.
        this.#endings += 1;
        this.#wake();
      },
      onChange: () => this.#wake(),
    });
    this.#refusedReads = new RefusedReads(options.logger, () => this.#wake());
    this.#leases = new Leases(options.store, leaseDuration, options.logger);
    this.#pruner = new Pruner(options);
  }

  get state(): "idle" | "running" | "paused" | "stopped" {
    if (this.#closing) return "stopped";
    if (this.breaker.pause) return "paused";
    return this.#started ? "running" : "idle";
  }

  /** The error of the store that keeps the loop from claiming. It is `undefined` if the latest claim was answered. */
  get failure(): unknown {
    return this.#started ? this.#failure : undefined;
  }

  get pause(): Pause | undefined {
    return this.breaker.pause;
  }

  /** Starts the loop, which handles events as they become due. Does not keep the process alive. */
  start(): void {
    if (this.#closing || this.#started) return;
    this.#unsubscribe = this.#options.store.subscribe?.(() => this.#wake());
    this.#unwatchClock = onClockMoved(() => this.#wake());
    this.#started = true;
    this.#pruner.start();
    void this.#loop();
  }

  /** Makes the loop look for due events, after this process has added one. */
  wake(): void {
    // A store with `subscribe` has already woken the loop.
    if (!this.#unsubscribe) this.#wake();
  }

  /** Handles the due events at the user's request. During a pause without `Retry-After`, tries the platform at once. */
  drain(options: DrainOptions): Promise<DrainResult> {
    this.breaker.tryNow();
    return this.push(options);
  }

  /** Handles the due events. Does not shorten a pause. */
  async push(options: DrainOptions = {}): Promise<DrainResult> {
    if (this.#closing) return { done: 0, failed: 0 };
    const stop = new Stop(options);
    try {
      const result = await this.#drain(stop);
      await Promise.race([this.#pruner.runIfDue(stop), stop.requested]);
      return result;
    } finally {
      stop.clear();
    }
  }

  /**
   * Claims one event and handles it. Then handles the events that the attempt has added. Resolves when the attempts
   * end, or at `deadline` on the monotonic clock.
   */
  async runNow(eventId: string, deadline: number): Promise<void> {
    await withTimeout(deadline - performance.now(), this.#runNow(eventId, deadline));
  }

  async #runNow(eventId: string, deadline: number): Promise<void> {
    for (;;) {
      const now = performance.now();
      if (this.#closing || now >= deadline) return;
      const running = [...this.#running].find(({ claim }) => claim.eventId === eventId);
      const { limit, wait = LOOK_AGAIN } = this.#roomAt(now);
      const attempt =
        running ?? (limit > 0 ? (await this.#fill({ limit: 1, eventId })).started[0] : undefined);
      if (attempt) {
        await attempt.ended;
        for (const added of attempt.added) await this.#runNow(added, deadline);
        return;
      }
      if (this.breaker.pause) return;
      if (limit === 0) {
        await withTimeout(Math.min(wait, LOOK_AGAIN), this.#changed.promise);
        continue;
      }
      const event = await this.#options.store.get(eventId);
      if (event?.state !== "pending" && event?.state !== "processing") return;
      const before = this.#byRecord.get(recordOf(event));
      await (before
        ? withTimeout(LOOK_AGAIN, before.ended)
        : new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN)));
    }
  }

  /** Starts no new attempt. Waits up to `timeout` ms for running attempts. Then aborts and releases them. */
  close(timeout: number): Promise<void> {
    this.#closing ??= this.#close(timeout);
    return this.#closing;
  }

  async #close(timeout: number): Promise<void> {
    this.#started = false;
    this.#unwatchClock?.();
    this.breaker.close();
    this.#stopped.resolve();
    this.#change();
    const ends = [...this.#running].map(({ ended }) => ended);
    await Promise.all([
      withTimeout(timeout, Promise.all([...ends, ...this.#claiming])),
      withTimeout(timeout, this.#pruner.close()),
    ]);
    await this.#release([...this.#running]);
    await withTimeout(GRACE, this.#claimed());
    this.#unsubscribe?.();
  }

  /** Claims due events while there is room, and sleeps until the next event is due. */
  async #loop(): Promise<void> {
    let failures = 0;
    while (this.#started) {
      const changed = this.#changed.promise;
      try {
        await this.#sleep(await this.#claimDue(), changed);
        failures = 0;
      } catch (error) {
        if (!this.#started) return;
        this.#failure = error;
        const wait = STORE_FAILED[failures] ?? STORE_FAILED[2];
        failures += 1;
        this.#options.logger.error(`the store failed. Trying again in ${wait} ms`, { error });
        // New events do not shorten this wait, because the store may be overloaded.
        await this.#sleep(wait, this.#stopped.promise);
        this.#dueAt = NOW;
      }
    }
  }

  /**
   * Claims due events once. Reads the clock only once before it decides: with two readings that contradict each other,
   * the loop could sleep forever.
   *
   * @returns ms until the loop must look again. It is `undefined` if only a change needs another look
   */
  async #claimDue(): Promise<number | undefined> {
    const now = performance.now();
    const { limit, wait, partly } = this.#roomAt(now);
    const next = partly ? this.#pickAt : this.#dueAt;
    // The end of the wait in a pause is the time to ask the witnesses again.
    if (next > now) return earlier(next - now, (this.breaker.pause && wait) || undefined);
    if (limit === 0) return wait;
    if (partly) {
      this.#pickedAt = now;
      this.#pickAt = now + POLL;
      // The store does not know which kinds pause, so the loop looks for the other events itself.
      if ((await this.#fill({ limit })).claimed > 0) this.#pickAt = now + PICK_AGAIN;
      this.#failure = undefined;
      return 0;
    }
    // An event that becomes due during the calls sets `#dueAt` to `NOW` again.
    this.#dueAt = NEVER;
    await this.#ask(limit);
    this.#failure = undefined;
    return 0;
  }

  /** Claims due events, and sets when the loop must claim next. */
  async #ask(limit: number): Promise<void> {
    const { store } = this.#options;
    const { claimed } = await this.#fill({ limit });
    if (claimed >= limit) this.#dueAt = NOW;
    if (this.#dueAt === NOW) return;
    const next = (await answered("nextDue", async () => store.nextDue())) ?? NEVER;
    if (this.#dueAt === NOW) return;
    const sleep = Math.max(next, claimed === 0 ? NOTHING_AFTER_ALL : 0);
    this.#dueAt = performance.now() + (store.subscribe ? sleep : Math.min(sleep, POLL));
  }

  /** Resolves after `ms`, or earlier when `changed` resolves. Does not keep the process alive. */
  async #sleep(ms: number | undefined, changed: Promise<void>): Promise<void> {
    if (ms === 0) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const over = new Promise<void>((resolve) => {
      if (ms !== undefined) timer = idleTimer(resolve, ms);
    });
    await Promise.race([over, changed]);
    clearTimeout(timer);
  }

  /** Makes one attempt at each event that is due, and waits for the attempts that already run. */
  async #drain(stop: Stop): Promise<DrainResult> {
    const drain = new Drain<Tx>(stop);
    for (const attempt of this.#running) drain.add(attempt);
    this.#drains.add(drain);
    /** The endings that the last empty claim has seen. */
    let looked = -1;
    try {
      while (!stop.asked) {
        const changed = this.#changed.promise;
        const now = performance.now();
        const { limit, wait } = this.#roomAt(now);
        const isPaused = this.breaker.pause !== undefined && this.breaker.shutKinds.length === 0;
        const isOver = isPaused || this.#isHopeless(drain, now);
        const endings = this.#endings;
        if (limit > 0 && !this.#isHopeless(drain, now) && looked !== endings) {
          const filled = await Promise.race([this.#fill({ limit, drain }), stop.requested]);
          if (filled?.claimed === 0) looked = endings;
        } else if (drain.open.length > 0 || this.breaker.asking || !(limit > 0 || isOver || this.#closing)) {
          const within = limit > 0 || isOver ? undefined : wait;
          const either = [changed, stop.requested];
          await (within === undefined ? Promise.race(either) : withTimeout(within, Promise.race(either)));
        } else {
          // The loop may be claiming the last due events at this moment.
          await Promise.race([Promise.all(this.#claiming), stop.requested]);
          if (drain.open.length === 0 && this.#endings === endings) break;
        }
      }
      if (stop.asked) await this.#release(drain.open);
      return drain.result;
    } finally {
      this.#drains.delete(drain);
      await Promise.all(drain.held.map((lease) => this.#giveBack(lease.claim, lease)));
    }
  }

  /** Whether the platform has refused all records for so long that a drain without a timeout ends. */
  #isHopeless({ stop, startedAt }: Drain<Tx>, now: number): boolean {
    const { limiting, since } = this.#refusedReads;
    return !stop.timed && limiting && now - Math.max(startedAt, since) >= ONLY_REFUSED;
  }

  /** Returns how many attempts may begin at `now`, a time on the monotonic clock. */
  #roomAt(now: number): Room {
    if (this.#closing) return { limit: 0, wait: undefined };
    const { concurrency } = this.#options.policy;
    // Up to `concurrency` attempts that only record their end take no slot. Without this limit, such attempts would
    // pile up if the store is slow.
    const recording = Math.min(this.#settling.size, concurrency);
    const slots = concurrency + recording - this.#running.size - this.#reserved;
    const gate = this.breaker.gateAt(now);
    const partly = gate.room === 0 && this.breaker.shutKinds.length > 0;
    const room = partly ? slots : Math.min(slots, gate.room - (this.breaker.pause ? this.#reserved : 0));
    if (room <= 0) return { limit: 0, wait: slots > 0 ? gate.wait || undefined : undefined, partly };
    const { reads, nextRead } = this.#refusedReads.roomAt(now);
    return reads > 0
      ? { limit: Math.min(room, reads), wait: partly ? gate.wait : 0, partly }
      : { limit: 0, wait: nextRead, partly };
  }

  /** Claims due events, and starts their attempts. `limit` must not exceed {@link #roomAt}. */
  async #fill({ limit, eventId, drain }: FillOptions<Tx>): Promise<Filled<Tx>> {
    const { limiting } = this.#refusedReads;
    this.#reserved += limit;
    if (limiting) this.#refusedReads.take(limit);
    const started: Attempt<Tx>[] = [];
    try {
      const claims = await this.#track(this.#claim(limit, eventId));
      for (const { event, leaseEndsAt } of claims) {
        const isLate = this.#closing || this.#isPaused(event);
        if (isLate || drain?.stop.asked) void this.#giveBack(event);
        // An event that failed in this drain may be due again. Hold its claim, so that the next claim gets others.
        else if (drain?.knows(event.eventId)) drain.held.push(this.#hold(event, leaseEndsAt));
        else started.push(this.#start(event, leaseEndsAt));
      }
      return { claimed: claims.length, started };
    } finally {
      this.#reserved -= limit;
      // A claim without an attempt reads no record, so it must not use up the limit of reads.
      if (limiting) this.#refusedReads.take(started.length - limit);
      // Other drains and inline requests may wait for the slots.
      this.#change();
    }
  }

  async #claim(limit: number, eventId: string | undefined) {
    const { store, worker, policy } = this.#options;
    const { leaseDuration } = policy;
    // Check the leases again after each wait: the event loop may have been blocked meanwhile.
    for (let n = 0; n < RENEWALS && this.#leases.anyEnded; n += 1) if (!(await this.#leases.renew())) break;
    // A half-open breaker without witnesses lets one event of any kind through.
    const isTry = this.breaker.gateAt(performance.now()).room > 0;
    const shutKinds = eventId === undefined && !isTry ? this.breaker.shutKinds : [];
    const ids =
      shutKinds.length > 0
        ? await this.#picker.except(shutKinds, limit)
        : eventId === undefined && this.#refusedReads.prefersGenuine()
          ? await this.#picker.genuine(limit)
          : [];
    const sentAt = performance.now();
    const options = { limit, leaseDuration, worker, ...(eventId && { eventId }) };
    // After the time limit, no attempt follows. Release what the late answer has leased.
    const late = (claims: readonly ClaimedEvent[]) => claims.forEach((claim) => void this.#giveBack(claim));
    const claim = (more: Partial<ClaimOptions>) =>
      answered("claim", async () => store.claim({ ...options, ...more }), late);
    const events =
      ids.length > 0
        ? (await Promise.all(ids.map((eventId) => claim({ limit: 1, eventId })))).flat()
        : shutKinds.length > 0
          ? []
          : await claim({});
    return events.map((event) => ({ event, leaseEndsAt: sentAt + leaseDuration }));
  }

  /** Whether the event must wait for the end of a pause. */
  #isPaused({ ref }: ClaimedEvent): boolean {
    return this.breaker.gateAt(performance.now(), ref === null ? null : kindOf(ref)).room === 0;
  }

  #start(event: ClaimedEvent, leaseEndsAt: number): Attempt<Tx> {
    const record = recordOf(event);
    const earlier = this.#byRecord.get(record);
    // The store has leased the record anew, so the lease of an attempt that still runs here is lost.
    earlier?.lease.lose();
    const attempt: Attempt<Tx> = new Attempt(event, this.#options, {
      breaker: this.breaker,
      refusedReads: this.#refusedReads,
      leaseEndsAt,
      after: earlier?.ended,
      onSettling: () => {
        this.#settling.add(attempt);
        this.#change();
      },
    });
    this.#running.add(attempt);
    this.#byRecord.set(record, attempt);
    this.#leases.add(attempt.lease);
    for (const drain of this.#drains) drain.add(attempt);
    void attempt.ended.then((end) => this.#ended(attempt, end));
    return attempt;
  }

  #ended(attempt: Attempt<Tx>, end: AttemptEnd): void {
    const record = recordOf(attempt.claim);
    this.#running.delete(attempt);
    this.#settling.delete(attempt);
    if (this.#byRecord.get(record) === attempt) this.#byRecord.delete(record);
    this.#leases.delete(attempt.lease);
    for (const drain of this.#drains) drain.ended(attempt, end);
    this.#endings += 1;
    this.#wake();
  }

  /** Keeps the lease of a claim without an attempt. */
  #hold(event: ClaimedEvent, leaseEndsAt: number): Lease {
    const lease = new Lease(event, leaseEndsAt);
    this.#leases.add(lease);
    return lease;
  }

  /** Aborts attempts, and releases their leases. */
  async #release(attempts: readonly Attempt<Tx>[]): Promise<void> {
    for (const attempt of attempts) attempt.release();
    // Do not wait longer: a store that hangs must not delay the end of the process. Unreleased leases expire.
    await withTimeout(GRACE + GIVE_BACK, Promise.all(attempts.map(({ ended }) => ended)));
    for (const attempt of attempts) attempt.giveUp();
  }

  /** Releases a claim that gets no attempt. Never rejects. */
  async #giveBack(claim: ClaimedEvent, lease?: Lease): Promise<void> {
    if (lease) this.#leases.delete(lease);
    try {
      const settling = (async () => this.#options.store.settle(claim, { state: "released" }))();
      await this.#track(withTimeout(GIVE_BACK, settling));
    } catch (error) {
      const { eventId } = claim;
      this.#options.logger.warn(
        `the store did not release event ${eventId}. Another process can handle the event when its lease ends`,
        { eventId, error },
      );
    }
  }

  #track<T>(call: Promise<T>): Promise<T> {
    const settled: Promise<void> = call.then(
      () => void this.#claiming.delete(settled),
      () => void this.#claiming.delete(settled),
    );
    this.#claiming.add(settled);
    return call;
  }

  /** Resolves when no claim is in flight, and none is being given back. */
  async #claimed(): Promise<void> {
    while (this.#claiming.size > 0) await Promise.all(this.#claiming);
  }

  #wake(): void {
    this.#dueAt = NOW;
    this.#pickAt = Math.min(this.#pickAt, this.#pickedAt + PICK_AGAIN);
    this.#change();
  }

  /**
   * Resolves `#changed`. While many attempts run, waits for the next turn of the event loop, so that the attempts that
   * end in this turn share one claim.
   */
  #change(): void {
    if (this.#isChanging) return;
    if (this.#running.size < MANY) this.#resolveChanged();
    else {
      this.#isChanging = true;
      inNextTurn(() => {
        this.#isChanging = false;
        this.#resolveChanged();
      });
    }
  }

  #resolveChanged(): void {
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers();
    resolve();
  }
}

/** Returns the shorter wait. `NEVER` and `undefined` stand for none. */
function earlier(one: number, other: number | undefined): number | undefined {
  const wait = Math.min(one, other ?? NEVER);
  return wait === NEVER ? undefined : wait;
}

/**
 * Calls a store, and settles like its answer.
 *
 * @param late - gets an answer that comes after the time limit
 * @throws StayhookError if no answer comes within {@link ANSWER} ms
 */
async function answered<T>(method: string, call: () => Promise<T>, late?: (answer: T) => void): Promise<T> {
  const answer = call();
  const inTime = await withTimeout(
    ANSWER,
    answer.then((value) => ({ value })),
  );
  if (inTime !== undefined) return inTime.value;
  if (late) void answer.then(late, () => {});
  throw new StayhookError(`The store did not answer ${method}() within ${ANSWER} ms.`);
}
