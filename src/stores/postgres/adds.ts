// Not the globals: with a user's fake timers nothing would ever be recorded.
import { clearTimeout, setImmediate, setTimeout } from "node:timers";
import type { NewEvent } from "../store.ts";
import { lostConnection } from "./errors.ts";

/** What one statement takes at most. */
const MOST_EVENTS = 256;
const MOST_TEXT = 1_000_000;
/** Statements under way at once; one that waits for a lock is soon not counted. */
const AT_ONCE = 2;
/** ms */
const SLOW = 50;

/** How long a record that another transaction holds is waited for: by many a moment, by one for as long as makes sense. */
export const PATIENCE = { together: "250ms", alone: "5s" } as const;

export type Answer = "added" | "duplicate" | "conflict";
type Send = (events: readonly NewEvent[], patience: string) => Promise<Answer[]>;

interface Job {
  readonly event: NewEvent;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Sends events that wait to be recorded together: one statement, and one wait for the disk, for all that came in
 * while the last one was under way. Where one fails, each of its events is sent again alone.
 */
export class Adds {
  readonly #send: Send;
  readonly #queue: Job[] = [];
  readonly #running = new Set<Promise<void>>();
  #counted = 0;
  #scheduled = false;

  constructor(send: Send) {
    this.#send = send;
  }

  add(event: NewEvent): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ event, resolve, reject });
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
      const running = this.#run(this.#take()).finally(() => this.#running.delete(running));
      this.#running.add(running);
      this.#schedule();
    });
  }

  #take(): Job[] {
    let text = 0;
    const over = this.#queue.findIndex(({ event }) => {
      text += event.notification?.length ?? 0;
      return text > MOST_TEXT;
    });
    return this.#queue.splice(0, Math.min(MOST_EVENTS, over < 0 ? MOST_EVENTS : Math.max(1, over)));
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
    if (jobs.length === 1) return this.#alone(jobs[0] as Job);
    try {
      const answers = await this.#send(
        jobs.map(({ event }) => event),
        PATIENCE.together,
      );
      for (const [index, { resolve }] of jobs.entries()) resolve(answers[index] as Answer);
    } catch (error) {
      if (lostConnection(error)) for (const { reject } of jobs) reject(error);
      else await Promise.all(jobs.map((job) => this.#alone(job)));
    }
  }

  async #alone({ event, resolve, reject }: Job): Promise<void> {
    await this.#send([event], PATIENCE.alone).then(([answer]) => resolve(answer as Answer), reject);
  }
}
