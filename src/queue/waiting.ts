// Looks in the store for the events that wait behind a shut gate.

import { now as clockNow } from "../clock.ts";
import { eachEvent } from "../stores/each-event.ts";
import type { EventFilter } from "../stores/event-filter.ts";
import type { EventState } from "../stores/event-states.ts";
import { HISTORY_LENGTH } from "../stores/outcomes.ts";
import type { ListOptions } from "../stores/store-options.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import type { Gate } from "./gate.ts";
import { answerOf } from "./store-call.ts";
import { type Lane, lanesOf, type QueueOptions } from "./work.ts";

/** How many of the newest events are looked at. */
const LOOKED = 50;
/** How many events of a list are looked at to find one that waits, and how many a page of all waiting events has. */
const PAGE = 200;

type WaitingQueue<Tx> = Pick<QueueOptions<Tx>, "store" | "laneOf" | "beginningOf" | "hasAccounts">;

/** What waits behind gates. All methods throw the error of the store. */
export class Waiting<Tx> {
  readonly #queue: WaitingQueue<Tx>;

  constructor(queue: WaitingQueue<Tx>) {
    this.#queue = queue;
  }

  /** Whether a gate holds for a lane. */
  holds({ level, lane }: Gate, { account, kind }: Lane): boolean {
    // An event without a record passes all gates, and one without an account is for other processes.
    if (kind === undefined || (this.#queue.hasAccounts && account === undefined)) return false;
    if (level === "everything") return true;
    return lane.account === account && (lane.kind === undefined || lane.kind === kind);
  }

  /** The beginnings of the refs behind a gate. `undefined` if they are those of all accounts. */
  beginningsOf({ level, lane }: Gate): string[] | undefined {
    if (level === "everything" && this.#queue.hasAccounts) return undefined;
    return lanesOf(lane).map(this.#queue.beginningOf);
  }

  /** Returns ms until an event behind the gate is due. `undefined` if none waits for the gate. */
  async dueIn(gate: Gate): Promise<number | undefined> {
    const { store, beginningOf } = this.#queue;
    const only = this.beginningsOf(gate);
    const strays = lanesOf({ account: undefined, kind: undefined }).map(beginningOf);
    const dueIn = await answerOf("nextDue", async () => store.nextDue(only ? { only } : { except: strays }));
    // A timer whose time has not come does not wait.
    if (dueIn === undefined || dueIn <= 0) return dueIn;
    // The try of another process may fail, and then its event waits again.
    for (const state of ["retrying", "pending", "processing"] as const) {
      const events = await this.#list({ account: gate.lane.account, state, limit: PAGE });
      if (events.length === PAGE || events.some((event) => this.#keeps(gate, event))) return dueIn;
    }
    return undefined;
  }

  /**
   * Whether an event keeps a gate shut. A retry after an answer waits for its own time, and not for the platform, unless
   * the platform asked for a wait, which holds for this event, too.
   */
  #keeps(gate: Gate, event: StoredEvent): boolean {
    const isAnswered = event.state === "retrying" && event.reason !== "unavailable";
    return (
      this.holds(gate, this.#queue.laneOf(event)) && (!isAnswered || gate.holdsAnswered(performance.now()))
    );
  }

  /** Returns the newest events behind the gate that are due and were never tried. */
  async neverTried(gate: Gate): Promise<StoredEvent[]> {
    const time = clockNow();
    const events = await this.#list({ account: gate.lane.account, state: "pending", limit: LOOKED });
    return events.filter(
      (event) => this.holds(gate, this.#queue.laneOf(event)) && Number(event.dueAt) <= time,
    );
  }

  /** Returns the newest pending events, of all gates, that were recorded at this time or later. */
  arrivedSince(receivedAfter: Date | undefined): Promise<StoredEvent[]> {
    return this.#list({ state: "pending", limit: LOOKED, receivedAfter });
  }

  /** Yields the events behind the gate that have waited for `age` ms, or that may have. */
  async *since(gate: Gate, age: number): AsyncGenerator<StoredEvent> {
    const receivedBefore = new Date(clockNow() - age);
    for (const state of ["retrying", "pending", "scheduled"] as const)
      for await (const event of this.#all(gate.lane, { state, receivedBefore }))
        if (
          this.holds(gate, this.#queue.laneOf(event)) &&
          firstDueAt(event, state) <= receivedBefore.getTime()
        )
          yield event;
  }

  /** Yields the due events of accounts that have no record. */
  async *withoutRecord(): AsyncGenerator<StoredEvent> {
    for (const state of ["pending", "retrying"] as const)
      for await (const event of this.#all({}, { state })) {
        const { account, kind } = this.#queue.laneOf(event);
        if (kind === undefined && account !== undefined && Number(event.dueAt) <= clockNow()) yield event;
      }
  }

  #all({ account }: Partial<Lane>, filter: EventFilter): AsyncGenerator<StoredEvent> {
    return eachEvent({ list: (options) => this.#list(options) }, { ...filter, account }, { page: PAGE });
  }

  #list(options: ListOptions): Promise<StoredEvent[]> {
    return answerOf("list", async () => this.#queue.store.list(options));
  }
}

/** When an event was first due, or, if it was read, a time when its first read may have failed. */
function firstDueAt({ receivedAt, dueAt, history, source }: StoredEvent, state: EventState): number {
  const [first] = history;
  // A full history has lost the first failure.
  if (state === "retrying" && first && history.length < HISTORY_LENGTH) return first.at.getTime();
  const isNotification = source === "webhook" || source === "reconcile";
  if (state === "retrying" || (state === "pending" && isNotification && !first)) return receivedAt.getTime();
  return Number(dueAt);
}
