// Not the globals: a user's fake timers would stop the recording.
import { clearTimeout, setImmediate, setTimeout } from "node:timers";
import { isLocked, lostConnection } from "./postgres-errors.ts";

/** The limits of one statement. */
const MOST_EVENTS = 256;
const MOST_TEXT = 1_000_000;
/** After this time, the next statement does not wait for the end of this one, which waits for a lock or a slow disk, ms. */
const SLOW = 50;

/** How long a statement waits for a locked record. The wait is short if the statement also has other records. */
export const PATIENCE = { together: "250ms", alone: "5s" } as const;

/** A part of a statement: an event to add, or the end of one. */
export interface Part {
  /** The record whose row it locks. */
  readonly record: string;
  /** How long its texts are. */
  readonly length: number;
}

type Send<P, A> = (parts: readonly P[], patience: string) => Promise<readonly A[]>;

interface Job<P, A> {
  readonly part: P;
  readonly resolve: (answer: A) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Groups the parts of statements of one kind. All parts that come in while a statement runs share the next statement, and
 * its wait for the disk. If the statement fails, each record's parts are sent again alone. A record is in one statement
 * at a time, so that a locked record does not keep all connections waiting.
 */
export class Groups<P extends Part, A> {
  readonly #send: Send<P, A>;
  readonly #oncePerRecord: boolean;
  readonly #running = new Set<Promise<void>>();
  readonly #underWay = new Set<string>();
  #queue: Job<P, A>[] = [];
  #counted = 0;
  #scheduled = false;

  /**
   * @param send - runs the statement of some parts. Its transaction does all of them, or nothing.
   * @param oncePerRecord - a statement has one part of a record at most
   */
  constructor(send: Send<P, A>, oncePerRecord: boolean) {
    this.#send = send;
    this.#oncePerRecord = oncePerRecord;
  }

  /** Resolves or rejects with the statement that the part is sent in. */
  add(part: P): Promise<A> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ part, resolve, reject });
      this.#schedule();
    });
  }

  /** Resolves when nothing is under way. */
  async idle(): Promise<void> {
    while (this.#queue.length > 0 || this.#running.size > 0) {
      await Promise.all(this.#running);
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }

  #schedule(): void {
    if (this.#scheduled || this.#counted > 0 || this.#queue.length === 0) return;
    this.#scheduled = true;
    // Wait for the sockets to be read, so that requests that have arrived share the statement.
    setImmediate(() => {
      this.#scheduled = false;
      const jobs = this.#take();
      // Every record is in a running statement. The end of a statement schedules again.
      if (jobs.length === 0) return;
      const running = this.#run(jobs).finally(() => this.#running.delete(running));
      this.#running.add(running);
      this.#schedule();
    });
  }

  #take(): Job<P, A>[] {
    const taken: Job<P, A>[] = [];
    const left: Job<P, A>[] = [];
    let text = 0;
    for (const job of this.#queue) {
      const { record, length } = job.part;
      text += this.#underWay.has(record) ? 0 : length;
      const full = taken.length >= MOST_EVENTS || (text > MOST_TEXT && taken.length > 0);
      const kept = full || this.#underWay.has(record);
      (kept ? left : taken).push(job);
      if (!kept && this.#oncePerRecord) this.#underWay.add(record);
    }
    this.#queue = left;
    for (const { part } of taken) this.#underWay.add(part.record);
    return taken;
  }

  async #run(jobs: readonly Job<P, A>[]): Promise<void> {
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

  async #together(jobs: readonly Job<P, A>[]): Promise<void> {
    const records = Map.groupBy(jobs, ({ part }) => part.record);
    if (records.size === 1) return this.#ofOne(jobs);
    const error = await this.#try(jobs, PATIENCE.together);
    if (error === undefined) this.#ended(jobs);
    else if (lostConnection(error)) this.#reject(jobs, error);
    else await Promise.all([...records.values()].map((some) => this.#ofOne(some)));
  }

  /** Parts of one record. */
  async #ofOne(jobs: readonly Job<P, A>[]): Promise<void> {
    const error = await this.#try(jobs, PATIENCE.alone);
    if (error === undefined) this.#ended(jobs);
    else if (jobs.length === 1 || isLocked(error) || lostConnection(error)) this.#reject(jobs, error);
    else for (const job of jobs) await this.#ofOne([job]);
  }

  /** @returns the error, if it failed */
  async #try(jobs: readonly Job<P, A>[], patience: string): Promise<unknown> {
    try {
      const parts = jobs.map(({ part }) => part);
      const answers = await this.#send(parts, patience);
      for (const [index, { resolve }] of jobs.entries()) resolve(answers[index] as A);
      return undefined;
    } catch (error) {
      return error ?? new Error("the statement failed without an error");
    }
  }

  #reject(jobs: readonly Job<P, A>[], error: unknown): void {
    for (const { reject } of jobs) reject(error);
    this.#ended(jobs);
  }

  #ended(jobs: readonly Job<P, A>[]): void {
    for (const { part } of jobs) this.#underWay.delete(part.record);
    this.#schedule();
  }
}
