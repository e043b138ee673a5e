// Carries out the plans: the loop of this process, and the tasks for what the common claim leaves out.

import { idleTimer } from "../async.ts";
import { detached } from "../async-context.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import type { ChangeSignal } from "./change-signal.ts";
import type { Claimant, Claims } from "./claims.ts";
import { arrived, looksBehind, looksForTry, waitsBehind } from "./facts.ts";
import { AGAIN, type Gate } from "./gate.ts";
import { LimitedReads } from "./limited-reads.ts";
import {
  type CommonClaim,
  choicesOf,
  FRESH,
  type Looks,
  limitedAt,
  lookAt,
  needsPass,
  needsTasks,
  nextClaimAt,
  POLL,
  plan,
  type Task,
  tasksAt,
  type View,
  versionOf,
} from "./plan.ts";
import { freeSlots, type QueueState } from "./state.ts";
import { Waiting } from "./waiting.ts";
import { type Lane, laneKey, type QueueOptions, recordOf } from "./work.ts";

/** The waits after the first, the second and each later failure of the store in a row, ms. */
const STORE_FAILED = [200, 1000, 5000] as const;
/** How early a timer of the runtime may ring, ms. */
const EARLY = 5;
/** How often events are parked that have waited for too long, ms. */
const GIVE_UP = 2 * 60_000;
/** How often the events that read no record are looked for while everything is shut, ms. */
const PASS = 30_000;

const NOW = Number.NEGATIVE_INFINITY;
const NEVER = Number.POSITIVE_INFINITY;

interface DrivenQueue<Tx> extends Pick<QueueOptions<Tx>, "store" | "logger"> {
  readonly state: QueueState;
  readonly claims: Claims<Tx>;
  readonly changes: ChangeSignal;
}

/** The loop of a process. Drains and requests use its tasks, too. */
export class Driver<Tx> {
  readonly #queue: DrivenQueue<Tx>;
  readonly #waiting: Waiting<Tx>;
  readonly #limited: LimitedReads<Tx>;
  readonly #view: View;
  /** The tasks that run, by name. These promises never reject. */
  readonly #running = new Map<string, Promise<void>>();
  readonly #looks: Looks;
  /** When the newest event was recorded that the last poll has seen. */
  #polledTo: Date | undefined;
  #isStarted = false;
  readonly #stopped = Promise.withResolvers<void>();
  #failure: unknown;

  constructor(queue: DrivenQueue<Tx>) {
    const { state, store, claims } = queue;
    this.#queue = queue;
    this.#waiting = new Waiting({ ...state, store });
    this.#limited = new LimitedReads({ state, store, claims });
    this.#view = { dueAt: NOW, version: 0, ahead: () => claims.roomAhead };
    this.#looks = {
      running: this.#running,
      quietUntil: new Map(),
      ...{ failedUntil: 0, pollAt: 0, giveUpAt: 0, passAt: 0, mayHaveArrived: true },
    };
  }

  get isStarted(): boolean {
    return this.#isStarted;
  }

  /** The error of the store that keeps the loop from claiming. It is `undefined` if the latest claim was answered. */
  get failure(): unknown {
    return this.#isStarted ? this.#failure : undefined;
  }

  start(): void {
    this.#isStarted = true;
    void this.#run();
  }

  stop(): void {
    this.#isStarted = false;
    this.#stopped.resolve();
    this.#queue.changes.tell();
  }

  /** Makes the loop claim again. */
  wake(): void {
    this.#view.dueAt = NOW;
    this.#queue.changes.tell();
  }

  /** Lets tasks look at the store at once, because another process may have made an event due, or a drain begins. */
  lookAnew(): void {
    this.#looks.mayHaveArrived = true;
    this.#looks.quietUntil.clear();
    const { gates } = this.#queue.state;
    for (const gate of gates.shut) gates.look(gate, { quietUntil: 0 });
    this.#look();
  }

  /** Notes an event that has just arrived. It may be the try of its gates at once. */
  arrived(event: Pick<StoredEvent, "eventId" | "ref">): void {
    const { state } = this.#queue;
    if (!needsTasks(state)) return;
    const lane = state.laneOf(event);
    this.#looks.quietUntil.delete(laneKey(lane));
    this.#limited.arrived(lane, event);
    arrived(state, event, performance.now());
    this.#look();
  }

  /** Begins the tasks that are due, and makes the loop plan anew. */
  #look(): void {
    if (!this.#isStarted || !needsTasks(this.#queue.state)) return;
    this.#begin(tasksAt(this.#queue.state, this.#looks, performance.now()).tasks);
    this.#queue.changes.tell();
  }

  /** Does what is due now for a drain. @returns ms until a limited lane may be read; `undefined` if none has due events */
  async run(claimant: Claimant): Promise<number | undefined> {
    const { state } = this.#queue;
    state.floods.expire();
    if (!needsTasks(state)) return undefined;
    this.#begin(tasksAt(state, this.#looks, performance.now()).tasks, claimant);
    await Promise.all(this.#running.values());
    const now = performance.now();
    const at = limitedAt(state, this.#looks, now);
    return at === undefined ? undefined : at - now;
  }

  /** Opens the shut gates behind which nothing waits. */
  async check(): Promise<void> {
    await Promise.all(this.#queue.state.gates.shut.map((gate) => this.#check(gate)));
  }

  async #run(): Promise<void> {
    let failures = 0;
    while (this.#isStarted) {
      const { next } = this.#queue.changes;
      try {
        const rang = await sleep(await this.#step(), next);
        // The fake timers of node:test move timers and dates, and leave the monotonic clock.
        if (rang && this.#view.dueAt > performance.now() + EARLY) this.#view.dueAt = NOW;
        failures = 0;
      } catch (error) {
        if (!this.#isStarted) return;
        this.#failure = error;
        const wait = STORE_FAILED[failures] ?? STORE_FAILED[2];
        failures += 1;
        this.#queue.logger.error(`the store failed. Trying again in ${wait} ms`, { error });
        // New events do not shorten this wait, because the store may be overloaded.
        await sleep(wait, this.#stopped.promise);
        this.#view.dueAt = NOW;
      }
    }
  }

  /**
   * Plans once, and does what is planned. Reads the clock only once before it decides: with two readings that contradict each
   * other, the loop could sleep forever.
   *
   * @returns ms until the next plan. It is `undefined` if only a change needs another one
   */
  async #step(): Promise<number | undefined> {
    const { state } = this.#queue;
    const now = performance.now();
    state.floods.expire(now);
    if (!needsTasks(state)) this.#forget();
    const { common, tasks, wakeAt } = plan(state, this.#looks, this.#view, now);
    this.#begin(tasks);
    if (common === undefined) return wakeAt === NEVER ? undefined : wakeAt - now;
    await this.#ask(common);
    this.#failure = undefined;
    return 0;
  }

  /** Claims due events, and notes when the next one is due. */
  async #ask({ limit, ahead }: CommonClaim): Promise<void> {
    const { claims, state } = this.#queue;
    const view = this.#view;
    view.version = versionOf(state);
    // An event that becomes due during the calls sets `dueAt` to `NOW` again.
    view.dueAt = NEVER;
    const { claimed, next } = await claims.fill({ limit, ahead, isCommon: true });
    if (claimed >= limit + ahead) view.dueAt = NOW;
    if (view.dueAt === NOW) return;
    const dueIn = (next === undefined ? await claims.nextDue() : next.in) ?? NEVER;
    if ((view.dueAt as number) === NOW) return;
    view.dueAt = nextClaimAt(state, claimed, dueIn, performance.now());
  }

  #forget(): void {
    this.#polledTo = undefined;
    this.#looks.mayHaveArrived = true;
    this.#looks.quietUntil.clear();
  }

  #begin(tasks: readonly Task[], claimant?: Claimant): void {
    for (const task of tasks) this.#do(task, claimant);
  }

  /** Runs a task, unless an earlier one of the same name still runs. */
  #do(task: Task, claimant: Claimant | undefined): void {
    const { name } = task;
    if (this.#running.has(name)) return;
    const running = detached(async () => {
      try {
        await this.#carryOut(task, claimant);
      } catch (error) {
        this.#looks.failedUntil = performance.now() + AGAIN;
        this.#queue.logger.limited("tries", "error", "the store failed. Trying again", { error });
      } finally {
        this.#running.delete(name);
        this.#look();
      }
    });
    this.#running.set(name, running);
  }

  #carryOut(task: Task, claimant: Claimant | undefined): Promise<void> {
    if (task.kind === "fresh") return this.#tryFresh(task.gate, claimant);
    if (task.kind === "try") return this.#try(task.gate, claimant);
    if (task.kind === "check") return this.#check(task.gate);
    if (task.kind === "read") return this.#read(task.lane, claimant);
    if (task.kind === "poll") return this.#poll();
    return task.kind === "pass" ? this.#letPass() : this.#giveUp();
  }

  /** Tries the event that has just arrived behind a gate. */
  async #tryFresh(gate: Gate, claimant: Claimant | undefined): Promise<void> {
    const { fresh } = gate;
    if (fresh === undefined) return;
    const { eventId } = fresh;
    await this.#queue.claims.fill({ ...FRESH, eventId, claimant });
    const { gates } = this.#queue.state;
    if (gates.now(gate).fresh === fresh) gates.look(gate, { fresh: undefined });
  }

  async #try(gate: Gate, claimant: Claimant | undefined): Promise<void> {
    const { claims, state } = this.#queue;
    looksForTry(state, gate, performance.now());
    const newest = await this.#waiting.neverTried(gate);
    for (const choice of choicesOf(state, gate, newest, performance.now())) {
      const { started } = await claims.fill({ ...choice, isChosen: true, claimant });
      if (started.length > 0) return;
    }
    await this.#check(gate);
  }

  /** Opens a gate behind which nothing waits that is due soon. */
  async #check(gate: Gate): Promise<void> {
    const { state } = this.#queue;
    if (!looksBehind(state, gate, performance.now())) return;
    const dueIn = await this.#waiting.dueIn(state.gates.now(gate));
    waitsBehind(state, gate, dueIn, performance.now());
  }

  /** Begins the reads of a limited lane that may begin. */
  async #read(lane: Lane, claimant: Claimant | undefined): Promise<void> {
    const dueIn = await this.#limited.read(lane, claimant);
    if (dueIn === undefined) return;
    const at = lookAt(this.#queue.state, dueIn || AGAIN, performance.now());
    this.#looks.quietUntil.set(laneKey(lane), at);
  }

  /** Looks for events that other processes have recorded, and for those that read no record while everything is shut. */
  async #poll(): Promise<void> {
    const { claims, state } = this.#queue;
    this.#looks.pollAt = performance.now() + POLL;
    this.#looks.mayHaveArrived = false;
    const since = this.#polledTo;
    const events = await this.#waiting.arrivedSince(since);
    this.#polledTo = events[0]?.receivedAt ?? since ?? new Date(0);
    for (const event of events.toReversed()) {
      const isNew = since !== undefined && event.receivedAt > since;
      const { kind } = state.laneOf(event);
      if (kind !== undefined && isNew) this.arrived(event);
      if (kind === undefined && needsPass(state) && freeSlots(state) > 0)
        await claims.fill({ only: [recordOf(event)] });
    }
  }

  /** Handles the events that read no record while everything is shut. The poll sees the newest of them earlier. */
  async #letPass(): Promise<void> {
    const { claims, state } = this.#queue;
    this.#looks.passAt = performance.now() + PASS;
    for await (const event of this.#waiting.withoutRecord()) {
      if (!needsPass(state) || freeSlots(state) <= 0) return;
      // The messages about one booking are handled in their order, so claim the first one.
      await claims.fill({ only: [recordOf(event)] });
    }
  }

  /** Parks the events that have waited for `giveUpAfter`, one after the other. Their claims tell whether they have. */
  async #giveUp(): Promise<void> {
    const { claims, state } = this.#queue;
    const { giveUpAfter } = state.policy;
    this.#looks.giveUpAt = performance.now() + GIVE_UP;
    for (const gate of state.gates.shut) {
      for await (const { eventId } of this.#waiting.since(gate, giveUpAfter)) {
        if (state.isClosed || state.gates.now(gate).shutting === undefined) break;
        const { started } = await claims.fill({ eventId, givesUp: true });
        await started[0]?.ended;
      }
    }
  }
}

/**
 * Resolves after `ms`, or earlier when `changed` resolves. Does not keep the process alive.
 *
 * @returns whether the time is over
 */
async function sleep(ms: number | undefined, changed: Promise<void>): Promise<boolean> {
  if (ms === 0) return false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const over = new Promise<true>((resolve) => {
    if (ms !== undefined) timer = idleTimer(() => resolve(true), ms);
  });
  const rang = await Promise.race([over, changed]);
  clearTimeout(timer);
  return rang === true;
}
