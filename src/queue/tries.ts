// Claims the events that the common claim leaves out: the try of each shut gate, the reads of limited lanes, and the events
// that have waited behind a shut gate for `giveUpAfter`.

import { ResettableTimer } from "../async.ts";
import { detached } from "../async-context.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import type { Claimant, FillOptions } from "./claims.ts";
import type { Gate } from "./gate.ts";
import type { Gates } from "./gates.ts";
import { LimitedReads } from "./limited-reads.ts";
import type { Parts } from "./parts.ts";
import { Waiting } from "./waiting.ts";
import { type Lane, laneKey, lanesOf } from "./work.ts";

/** How often the queue looks at most for events that other processes have recorded, ms. One call serves all gates. */
const POLL = 1000;
/** How often a gate whose try must wait looks whether anything waits behind it, ms. */
const CHECK = 30_000;
/** How often events are parked that have waited for too long, ms. */
const GIVE_UP = 2 * 60_000;
/** How many of the newest events are claimed for a try, one after the other, until one can be claimed. */
const CHOSEN = 3;
/** The shortest wait after a look that found nothing, ms. */
const AGAIN = 1000;

/** Looks after the shut gates and the limited lanes. Does nothing while all is well. */
export class Tries<Tx> {
  readonly #queue: Parts<Tx>;
  readonly #waiting: Waiting<Tx>;
  readonly #limited: LimitedReads<Tx>;
  readonly #timer = new ResettableTimer(() => this.look());
  /** The tasks that run, by the name of their gate or lane. These promises never reject. */
  readonly #running = new Map<string, Promise<void>>();
  /** When a limited lane looks again, on the monotonic clock, because it found nothing. */
  readonly #quietUntil = new Map<string, number>();
  /** Until when nothing begins, on the monotonic clock, because the store failed. */
  #failedUntil = 0;
  #isStarted = false;
  #pollAt = 0;
  #giveUpAt = 0;
  #passAt = 0;
  /** When the newest event was recorded that the last poll has seen. */
  #polledTo: Date | undefined;
  /** Whether another process may have recorded an event since the last poll. */
  #mayHaveArrived = true;

  constructor(queue: Parts<Tx>) {
    this.#queue = queue;
    this.#waiting = new Waiting(queue);
    this.#limited = new LimitedReads(queue);
  }

  start(): void {
    this.#isStarted = true;
    this.look();
  }

  stop(): void {
    this.#isStarted = false;
    this.#timer.clear();
  }

  /** Begins what is due now, and sets the timer for the next time. */
  look(): void {
    if (!this.#isStarted) return;
    this.#timer.clear();
    const now = performance.now();
    if (this.#isNeeded) this.#timer.set(Math.max(1, now < this.#failedUntil ? AGAIN : this.#begin(now)));
    else {
      this.#polledTo = undefined;
      this.#mayHaveArrived = true;
      this.#quietUntil.clear();
    }
  }

  /** Does what is due now for a drain. Resolves to ms until a limited lane may be read; `undefined` if none has due events. */
  async run(claimant: Claimant): Promise<number | undefined> {
    if (!this.#isNeeded) return undefined;
    this.#begin(performance.now(), claimant);
    await Promise.all(this.#running.values());
    const now = performance.now();
    const { gates, floods, claims } = this.#queue;
    const open = floods.limited.filter((lane) => !gates.isShut(lane) && !this.#isQuiet(laneKey(lane), now));
    if (open.length === 0) return undefined;
    // Without a free slot, the drain waits for a change. A wait of 0 ms would keep it busy until there is one.
    if (claims.slotsAt(now).slots <= 0) return Number.POSITIVE_INFINITY;
    return now < this.#failedUntil ? AGAIN : Math.min(...open.map((lane) => floods.waitAt(lane, now)));
  }

  /** Lets limited lanes look at once, because another process may have made an event due, or a drain begins. */
  lookAnew(): void {
    this.#mayHaveArrived = true;
    this.#quietUntil.clear();
    this.look();
  }

  /** Notes an event that has just arrived. It may be the try of its gates at once. */
  arrived(event: Pick<StoredEvent, "eventId" | "ref">): void {
    if (!this.#isNeeded) return;
    const { gates } = this.#queue;
    const lane = this.#queue.laneOf(event);
    this.#quietUntil.delete(laneKey(lane));
    const [widest, ...others] = lane.kind === undefined ? [] : gates.shutOf(lane);
    const now = performance.now();
    if (widest !== undefined && others.every((gate) => gate.lets(now, true)))
      widest.fresh = { eventId: event.eventId, lane };
    this.look();
  }

  /** Opens the shut gates behind which nothing waits. */
  async check(): Promise<void> {
    await Promise.all(this.#queue.gates.shut.map((gate) => this.#check(gate)));
  }

  get #isNeeded(): boolean {
    const { gates, floods } = this.#queue;
    return gates.size > 0 || gates.isAllShut || floods.limited.length > 0;
  }

  /** @returns ms until something else may be due */
  #begin(now: number, claimant?: Claimant): number {
    const { gates, floods } = this.#queue;
    const { shut } = gates;
    const waits = [
      ...shut.map((gate) => this.#beginTry(gate, now, claimant)),
      ...floods.limited.map((lane) => this.#beginReads(lane, now, claimant)),
    ];
    if (shut.length > 0) {
      const polls = this.#mayHaveArrived || !this.#queue.store.subscribe;
      if (polls && now >= this.#pollAt) this.#do("poll", () => this.#poll());
      if (now >= this.#giveUpAt) this.#do("give up", () => this.#giveUp());
      if (gates.isAllShut && this.#queue.hasAccounts && now >= this.#passAt)
        this.#do("pass", () => this.#letPass());
      if (polls) waits.push(this.#pollAt - now);
    }
    return Math.min(CHECK, ...waits.filter((wait) => wait > 0));
  }

  /** Begins the reads of a limited lane that may begin. @returns ms until others may */
  #beginReads(lane: Lane, now: number, claimant: Claimant | undefined): number {
    const { gates, floods, claims } = this.#queue;
    const key = laneKey(lane);
    const wait = Math.max(floods.waitAt(lane, now), (this.#quietUntil.get(key) ?? now) - now);
    if (wait > 0 || gates.isShut(lane) || claims.slotsAt(now).slots <= 0) return wait;
    this.#do(key, async () => {
      const dueIn = await this.#limited.read(lane, claimant);
      const longest = this.#queue.store.subscribe ? CHECK : POLL;
      if (dueIn !== undefined)
        this.#quietUntil.set(key, performance.now() + Math.min(dueIn || AGAIN, longest));
    });
    return 0;
  }

  /** Begins the try of a gate, if it is due. @returns ms until it may be due; 0 if only a change can make it due */
  #beginTry(gate: Gate, now: number, claimant: Claimant | undefined): number {
    const { gates, claims } = this.#queue;
    const key = keyOf(gate);
    const { fresh } = gate;
    if (gate.isTrying || this.#running.has(key) || claims.slotsAt(now).slots <= 0) return 0;
    if (fresh && gates.lets(fresh.lane, now, true)) {
      this.#do(key, async () => {
        await claims.fill({ limit: 1, eventId: fresh.eventId, isFresh: true, isChosen: true, claimant });
        if (gate.fresh === fresh) gate.fresh = undefined;
      });
      return 0;
    }
    const wait = gate.waitAt(now);
    if (wait > 0) {
      gate.checkAt ||= now + CHECK;
      if (now >= gate.checkAt) this.#do(key, () => this.#check(gate));
    } else if (now >= gate.quietUntil && this.#mayTry(gate, now))
      this.#do(key, () => this.#try(gate, claimant));
    const dueIn = Math.max(wait, gate.quietUntil - now);
    return fresh ? Math.min(dueIn, gate.waitAt(now, true) || dueIn) : dueIn;
  }

  /** Whether no other gate is in the way. A wider gate that is shut has a try of its own. */
  #mayTry(gate: Gate, now: number): boolean {
    const { gates } = this.#queue;
    const isFree = (lane: Lane): boolean =>
      gates.lets(lane, now) && !gates.shutOf(lane).some((each) => this.#running.has(keyOf(each)));
    return this.#isOfAll(gate) || lanesOf(gate.lane).some(isFree);
  }

  /** Whether a gate is that of all accounts. */
  #isOfAll({ level }: Gate): boolean {
    return level === "everything" && this.#queue.hasAccounts;
  }

  /** Claims the newest event that was never tried, else the one that is due first. */
  async #try(gate: Gate, claimant: Claimant | undefined): Promise<void> {
    const { gates, claims } = this.#queue;
    const { laneOf, beginningOf } = this.#queue;
    gate.quietUntil = performance.now() + AGAIN;
    const lets = (lane: Parameters<Gates["lets"]>[0]): boolean => gates.lets(lane, performance.now());
    const common = { limit: 1, isChosen: true, claimant } as const;
    const newest = (await this.#waiting.neverTried(gate)).filter((event) => lets(laneOf(event)));
    const shut = gates.shut.filter((each) => each !== gate && !each.lets(performance.now(), false));
    const choices: FillOptions[] = [
      ...newest.slice(0, CHOSEN).map(({ eventId }) => ({ ...common, eventId })),
      this.#isOfAll(gate)
        ? { ...common, except: shut.flatMap((each) => this.#waiting.beginningsOf(each) ?? []) }
        : { ...common, only: lanesOf(gate.lane).filter(lets).map(beginningOf) },
    ];
    for (const choice of choices) if ((await claims.fill(choice)).started.length > 0) return;
    await this.#check(gate);
  }

  async #check(gate: Gate): Promise<void> {
    gate.checkAt = performance.now() + CHECK;
    if (!gate.isShut || gate.isTrying || gate.passes > 0) return;
    const dueIn = await this.#waiting.dueIn(gate);
    if (dueIn !== undefined) gate.quietUntil = performance.now() + Math.min(Math.max(dueIn, AGAIN), CHECK);
    else if (gate.isShut && !gate.isTrying && gate.passes === 0) this.#queue.gates.open(gate);
  }

  /** Looks for events that other processes have recorded, and for those that read no record while everything is shut. */
  async #poll(): Promise<void> {
    const { gates, claims } = this.#queue;
    this.#pollAt = performance.now() + POLL;
    this.#mayHaveArrived = false;
    const since = this.#polledTo;
    const events = await this.#waiting.arrivedSince(since);
    this.#polledTo = events[0]?.receivedAt ?? since ?? new Date(0);
    for (const event of events.toReversed()) {
      const isNew = since !== undefined && event.receivedAt > since;
      const { kind } = this.#queue.laneOf(event);
      if (kind !== undefined && isNew) this.arrived(event);
      if (kind === undefined && gates.isAllShut && claims.slotsAt(performance.now()).slots > 0)
        await claims.fill({ limit: 1, eventId: event.eventId });
    }
  }

  /** Handles the events that read no record while everything is shut. The poll sees the newest of them earlier. */
  async #letPass(): Promise<void> {
    const { gates, claims } = this.#queue;
    this.#passAt = performance.now() + CHECK;
    for await (const { eventId } of this.#waiting.withoutRecord()) {
      if (!gates.isAllShut || claims.slotsAt(performance.now()).slots <= 0) return;
      await claims.fill({ limit: 1, eventId });
    }
  }

  /** Parks the events that have waited for `giveUpAfter`, one after the other. */
  async #giveUp(): Promise<void> {
    const { gates, claims } = this.#queue;
    const { giveUpAfter } = this.#queue.policy;
    this.#giveUpAt = performance.now() + GIVE_UP;
    if (!Number.isFinite(giveUpAfter)) return;
    for (const gate of gates.shut) {
      for await (const { eventId, state } of this.#waiting.since(gate, giveUpAfter)) {
        const shutFor = performance.now() - (gate.shutting?.at ?? Number.POSITIVE_INFINITY);
        // An event that is parked without a read needs no slot, but a store that records the result.
        if (shutFor < 0 || claims.closed || claims.slotsAt(performance.now()).isTrial) break;
        // A claim of a retrying event tells when its reads began to fail.
        const givesUp = state !== "retrying";
        if (givesUp && shutFor < giveUpAfter) continue;
        const { started } = await claims.fill({ limit: 1, eventId, givesUp });
        await started[0]?.ended;
      }
    }
  }

  #isQuiet(key: string, now: number): boolean {
    return now < (this.#quietUntil.get(key) ?? now);
  }

  /** Runs a task, unless an earlier one of the same name still runs. */
  #do(name: string, task: () => Promise<void>): void {
    if (this.#running.has(name) || performance.now() < this.#failedUntil) return;
    const running = detached(async () => {
      try {
        await task();
      } catch (error) {
        this.#failedUntil = performance.now() + AGAIN;
        this.#queue.logger.limited("tries", "error", "the store failed. Trying again", { error });
      } finally {
        this.#running.delete(name);
        this.look();
      }
    });
    this.#running.set(name, running);
  }
}

function keyOf({ level, lane }: Gate): string {
  return `${level} ${laneKey(lane)}`;
}
