// Reminds of open requests before their deadlines, by one timer, set to the next reminder that is due.
import type { DatabaseSync } from "node:sqlite";
import { forget, type OpenRequest, openRequest, openRequests, takeReminder } from "./desk.ts";

export interface RemindersOptions {
  readonly db: DatabaseSync;
  /** How long before the deadline to remind, ms each; 0: when it has passed. */
  readonly leads: readonly number[];
  /** Whether a booking still is a request, asked right before a reminder: nobody is to be reminded of what is decided. */
  readonly isOpen: (bookingCode: string) => Promise<boolean>;
  /**
   * Tells whoever decides. Called at most once for each request and lead, also if it throws: whether it has got
   * through nobody knows then, and the next one comes.
   *
   * @param left - ms until the deadline, negative when it has passed
   */
  readonly remind: (request: OpenRequest, left: number) => void | Promise<void>;
  /** Default: the time of day, ms since 1970. */
  readonly now?: () => number;
}

/** The longest wait that a timer takes; beyond it, it fires at once. */
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

  /** Sets the timer. To be called at the start, and when what is on the desk has changed. */
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
    // Where the platform cannot be asked, rather one reminder too many.
    const isStillOpen = await isOpen(bookingCode).catch(() => true);
    if (this.#stopped) return;
    // Read again: time has passed, and an event may have decided it.
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

  /** The reminders that it has not had. */
  #leadsOf({ reminded }: OpenRequest): number[] {
    return this.#options.leads.filter((lead) => reminded === null || lead < reminded);
  }

  /** The one of them that is due; of several, the most urgent one is enough. */
  #dueOf(request: OpenRequest): number | undefined {
    const due = this.#leadsOf(request).filter((lead) => request.decideBy - lead <= this.#now());
    return due.length > 0 ? Math.min(...due) : undefined;
  }

  #nextOf(request: OpenRequest): number {
    return request.decideBy - Math.max(...this.#leadsOf(request));
  }
}
