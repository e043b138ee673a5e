// Reminds of open requests before their deadlines. One timer is set to the next reminder.
import type { DatabaseSync } from "node:sqlite";
import { forget, type OpenRequest, openRequest, openRequests, takeReminder } from "./desk.ts";

export interface RemindersOptions {
  readonly db: DatabaseSync;
  /** How long before the deadline to remind, in ms each. 0 reminds when the deadline has passed. */
  readonly leads: readonly number[];
  /**
   * Tells whether a booking still waits for a decision. Called right before each reminder, so that a decided booking
   * causes no reminder.
   */
  readonly isOpen: (bookingCode: string) => Promise<boolean>;
  /**
   * Sends a reminder. Called at most once for each request and lead. If it throws, the reminder is not repeated,
   * because it may have arrived. The next reminder still comes.
   *
   * @param left - ms until the deadline, negative after it
   */
  readonly remind: (request: OpenRequest, left: number) => void | Promise<void>;
  /** The current time in ms since 1970. Default: the system clock. */
  readonly now?: () => number;
}

/** The longest delay of a timer. With a longer delay it would fire at once. */
const LONGEST = 2 ** 31 - 1;
const MINUTE = 60_000;

export class Reminders {
  readonly #options: RemindersOptions;
  readonly #now: () => number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #running = false;
  #stopped = false;

  constructor(options: RemindersOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  /** Sets the timer. Call it at the start, and whenever the table has changed. */
  schedule(): void {
    clearTimeout(this.#timer);
    if (this.#running || this.#stopped) return;
    const now = this.#now();
    const next = Math.min(...openRequests(this.#options.db, now).map((request) => this.#nextOf(request)));
    if (next === Number.POSITIVE_INFINITY) return;
    this.#timer = setTimeout(() => void this.#run(), Math.min(Math.max(next - now, 0), LONGEST));
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  async #run(): Promise<void> {
    this.#running = true;
    try {
      for (const request of openRequests(this.#options.db, this.#now())) {
        if (this.#dueOf(request) !== undefined) await this.#remindOf(request.bookingCode);
      }
      this.#running = false;
      this.schedule();
    } catch (error) {
      this.#running = false;
      console.error("the reminders failed; again in a minute:", error);
      if (!this.#stopped) this.#timer = setTimeout(() => void this.#run(), MINUTE);
    }
  }

  async #remindOf(bookingCode: string): Promise<void> {
    const { db, isOpen, remind } = this.#options;
    if (this.#stopped) return;
    // If the platform does not answer, remind anyway: a needless reminder is better than a missing one.
    const isStillOpen = await isOpen(bookingCode).catch(() => true);
    if (this.#stopped) return;
    // Read the request again, because an event may have decided it meanwhile.
    const request = openRequest(db, bookingCode);
    const lead = request && this.#dueOf(request);
    if (!request || lead === undefined) return;
    if (!isStillOpen) {
      forget(db, bookingCode);
      return;
    }
    if (!takeReminder(db, bookingCode, lead)) return;
    try {
      await remind(request, request.decideBy - this.#now());
    } catch (error) {
      console.error(`the reminder of ${bookingCode} failed:`, error);
    }
  }

  /** Returns the reminders that the request has not had. */
  #leadsOf({ reminded }: OpenRequest): number[] {
    return this.#options.leads.filter((lead) => reminded === null || lead < reminded);
  }

  /** Returns the reminder that is due. If several are due, the most urgent one is enough. */
  #dueOf(request: OpenRequest): number | undefined {
    const due = this.#leadsOf(request).filter((lead) => request.decideBy - lead <= this.#now());
    return due.length > 0 ? Math.min(...due) : undefined;
  }

  #nextOf(request: OpenRequest): number {
    return request.decideBy - Math.max(...this.#leadsOf(request));
  }
}
