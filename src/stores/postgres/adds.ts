// Not the globals: with a user's fake timers nothing would ever be recorded.
import { clearTimeout, setImmediate, setTimeout } from "node:timers";
import type { NewEvent } from "../event-store.ts";
import { isLocked, lostConnection } from "./errors.ts";
import { toRecord } from "./text.ts";

/** What one statement takes at most. */
const MOST_EVENTS = 256;
const MOST_TEXT = 1_000_000;
/** Statements under way at once; one that waits for a lock is soon not counted. */
const AT_ONCE = 2;
/** ms */
const SLOW = 50;

/** How long a record that another transaction holds is waited for: by many a moment, by its own events for as long as makes sense. */
export const PATIENCE = { together: "250ms", alone: "5s" } as const;

export type Answer = "added" | "duplicate" | "conflict";
type Send = (events: readonly NewEvent[], patience: string) => Promise<Answer[]>;

interface Job {
  readonly event: NewEvent;
  readonly record: string;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Sends events that wait to be recorded together: one statement, and one wait for the disk, for all that came in
 * while the last one was under way. Where one fails, the events of each record are sent again by themselves. A record is
 * in one statement at a time: one that somebody holds must not have all connections wait for it.
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

  add(event: NewEvent): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ event, record: toRecord(event), resolve, reject });
      this.#schedule();
    });
  }

  /** Resolves when all that was asked for has ended. */
  async idle(): Promise<void> {
    while (this.#queue.length > 0 || this.#running.size > 0) {
      await Promise.all(this.#running);
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }

  #schedule(): void {
    if (this.#scheduled || this.#counted >= AT_ONCE || this.#queue.length === 0) return;
    this.#scheduled = true;
    // After all that has arrived on sockets by now, so that it goes into the same statement.
    setImmediate(() => {
      this.#scheduled = false;
      const jobs = this.#take();
      // The others are taken when what their records are in has ended.
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

  /** What it failed with. */
  async #try(jobs: readonly Job[], patience: string): Promise<unknown> {
    try {
      const answers = await this.#send(
        jobs.map(({ event }) => event),
        patience,
      );
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
