// Not the globals: with a user's fake timers nothing would be recorded.
import { clearTimeout, setImmediate, setTimeout } from "node:timers";
import type { NewEvent } from "../event-store.ts";
import { isLocked, lostConnection } from "./errors.ts";
import { toRecord } from "./rows.ts";

/** The most that one statement takes. */
const MOST_EVENTS = 256;
const MOST_TEXT = 1_000_000;
/** Statements under way at once. One that takes longer than SLOW, as it waits for a lock, does not count. */
const AT_ONCE = 2;
/** ms */
const SLOW = 50;

/** How long a statement waits for a record that another transaction holds: a moment with events of several records, longer with events of that record alone. */
export const PATIENCE = { together: "250ms", alone: "5s" } as const;

export type Answer = "added" | "duplicate" | "conflict";
type Send = (jobs: readonly Addition[], patience: string) => Promise<Answer[]>;

/** An event to add. */
export interface Addition {
  readonly event: NewEvent;
  /** ms */
  readonly dueIn: number | undefined;
}

interface Job extends Addition {
  readonly record: string;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Groups adds: one statement, and one wait for the disk, for all events that came in while the last one was under
 * way. If it fails, the events of each record are sent again by themselves. A record is in one statement at a time, so
 * that a record that somebody holds does not keep all connections waiting.
 */
export class Adds {
  readonly #send: Send;
  readonly #running = new Set<Promise<void>>();
  readonly #underWay = new Set<string>();
  #queue: Job[] = [];
  #counted = 0;
  #scheduled = false;

  constructor(send: Send) {
    this.#send = send;
  }

  add(event: NewEvent, dueIn: number | undefined): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ event, dueIn, record: toRecord(event), resolve, reject });
      this.#schedule();
    });
  }

  /** Resolves when no add is under way. */
  async idle(): Promise<void> {
    while (this.#queue.length > 0 || this.#running.size > 0) {
      await Promise.all(this.#running);
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }

  #schedule(): void {
    if (this.#scheduled || this.#counted >= AT_ONCE || this.#queue.length === 0) return;
    this.#scheduled = true;
    // After the input that has arrived on sockets by now, so that it goes into the same statement.
    setImmediate(() => {
      this.#scheduled = false;
      const jobs = this.#take();
      // All records are in statements under way. The end of one schedules again.
      if (jobs.length === 0) return;
      const running = this.#run(jobs).finally(() => this.#running.delete(running));
      this.#running.add(running);
      this.#schedule();
    });
  }

  #take(): Job[] {
    const taken: Job[] = [];
    const left: Job[] = [];
    let text = 0;
    for (const job of this.#queue) {
      text += this.#underWay.has(job.record) ? 0 : (job.event.notification?.length ?? 0);
      const full = taken.length >= MOST_EVENTS || (text > MOST_TEXT && taken.length > 0);
      (full || this.#underWay.has(job.record) ? left : taken).push(job);
    }
    this.#queue = left;
    for (const { record } of taken) this.#underWay.add(record);
    return taken;
  }

  async #run(jobs: readonly Job[]): Promise<void> {
    this.#counted += 1;
    let counts = true;
    const uncount = (): void => {
      if (!counts) return;
      counts = false;
      this.#counted -= 1;
      this.#schedule();
    };
    const slow = setTimeout(uncount, SLOW);
    try {
      await this.#together(jobs);
    } finally {
      clearTimeout(slow);
      uncount();
    }
  }

  async #together(jobs: readonly Job[]): Promise<void> {
    const records = Map.groupBy(jobs, ({ record }) => record);
    if (records.size === 1) return this.#ofOne(jobs);
    const error = await this.#try(jobs, PATIENCE.together);
    if (error === undefined) this.#ended(jobs);
    else if (lostConnection(error)) this.#reject(jobs, error);
    else await Promise.all([...records.values()].map((some) => this.#ofOne(some)));
  }

  /** Events of one record. */
  async #ofOne(jobs: readonly Job[]): Promise<void> {
    const error = await this.#try(jobs, PATIENCE.alone);
    if (error === undefined) this.#ended(jobs);
    else if (jobs.length === 1 || isLocked(error) || lostConnection(error)) this.#reject(jobs, error);
    else for (const job of jobs) await this.#ofOne([job]);
  }

  /** @returns the error, if it failed */
  async #try(jobs: readonly Job[], patience: string): Promise<unknown> {
    try {
      const answers = await this.#send(jobs, patience);
      for (const [index, { resolve }] of jobs.entries()) resolve(answers[index] as Answer);
      return undefined;
    } catch (error) {
      return error ?? new Error("nothing was said");
    }
  }

  #reject(jobs: readonly Job[], error: unknown): void {
    for (const { reject } of jobs) reject(error);
    this.#ended(jobs);
  }

  #ended(jobs: readonly Job[]): void {
    for (const { record } of jobs) this.#underWay.delete(record);
    this.#schedule();
  }
}
