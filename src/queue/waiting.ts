// Looks in the store for the events that wait behind a shut gate.

import { now as clockNow } from "../clock.ts";
import { eachEvent } from "../stores/each-event.ts";
import type { EventFilter } from "../stores/event-filter.ts";
import type { ListOptions } from "../stores/store-options.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import { type Gate, horizonOf } from "./gate.ts";
import { answerOf } from "./store-call.ts";
import { type Lane, lanesOf, type QueueOptions, recordOf } from "./work.ts";

/** How many of the newest events are looked at. */
const LOOKED = 50;
/** How many events a page of all waiting events has. */
const PAGE = 200;

type WaitingQueue<Tx> = Pick<QueueOptions<Tx>, "store" | "laneOf" | "beginningOf" | "hasAccounts">;

/**
 * How many records keep a gate shut. A gate that a row of failures has shut protects nothing if one record alone waits: this
 * record may be broken, and is read at its own time.
 */
function enoughFor({ level, shutting }: Gate): number {
  return level === "account" || shutting?.isDoubt || shutting?.askedAt !== undefined ? 1 : 2;
}

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

  /** Returns ms until an event is due that keeps the gate shut. `undefined` if none does. */
  async dueIn(gate: Gate): Promise<number | undefined> {
    const { store, beginningOf } = this.#queue;
    const only = this.beginningsOf(gate);
    const strays = lanesOf({ account: undefined, kind: undefined }).map(beginningOf);
    const dueIn = await answerOf("nextDue", async () => store.nextDue(only ? { only } : { except: strays }));
    // A timer whose time has not come does not wait.
    if (dueIn === undefined || dueIn <= 0) return dueIn;
    const isSoon = dueIn <= horizonOf(gate, performance.now());
    const records = new Set<string>();
    // The try of another process may fail, and then its event waits again.
    for (const state of isSoon ? (["retrying", "pending", "processing"] as const) : (["processing"] as const))
      for await (const event of this.#all(gate.lane, { state })) {
        if (!this.#keeps(gate, event)) continue;
        records.add(recordOf(event));
        if (records.size >= enoughFor(gate)) return dueIn;
      }
    return undefined;
  }

  /**
   * Whether an event keeps a gate shut: it is due soon. A retry after an answer waits for its own time, and not for the
   * platform. In doubt, a record that was not found got no answer.
   */
  #keeps(gate: Gate, event: StoredEvent): boolean {
    if (!this.holds(gate, this.#queue.laneOf(event))) return false;
    // An attempt at a new event may be in its callback, which does not wait for the platform.
    if (event.state === "processing") return event.reason === "unavailable";
    const isAnswered =
      event.state === "retrying" &&
      event.reason !== "unavailable" &&
      !(gate.shutting?.isDoubt && event.reason === "not-found");
    return !isAnswered && Number(event.dueAt) - clockNow() <= horizonOf(gate, performance.now());
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
        if (this.holds(gate, this.#queue.laneOf(event)) && event.firstDueAt <= receivedBefore) yield event;
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

  #list(options?: ListOptions): Promise<StoredEvent[]> {
    return answerOf("list", async () => this.#queue.store.list(options));
  }
}
