import type { Contents } from "./contents.ts";
import type { Told } from "./messages.ts";

/** Counts the messages of both subscriber processes: the one before the kill and the one after it. */
export class Tally {
  received = 0;
  duplicates = 0;
  begun = 0;
  failed = 0;
  /** Failed deliveries. The platform reports them, not the subscriber. */
  undelivered = 0;
  readonly done = new Set<string>();
  /** Events whose callback has begun and has not ended. */
  readonly running = new Set<string>();
  /** The contents of the file at each start, and at the end. */
  readonly opened: Contents[] = [];
  closed: Contents | undefined;
  readonly #waiting = new Set<() => void>();

  readonly count = (told: Told): void => {
    if (told.kind === "received") this.received++;
    else if (told.kind === "duplicate") this.duplicates++;
    else if (told.kind === "begun") {
      this.begun++;
      this.running.add(told.eventId);
    } else if (told.kind === "failed") {
      this.failed++;
      this.running.delete(told.eventId);
    } else if (told.kind === "done") {
      this.done.add(told.eventId);
      this.running.delete(told.eventId);
    } else if (told.kind === "opened") this.opened.push(told.file);
    else if (told.kind === "closed") this.closed = told.file;
    this.#look();
  };

  countUndelivered(): void {
    this.undelivered++;
    this.#look();
  }

  /** Handles a kill of the process. @returns the number of interrupted callbacks */
  endRunning(): number {
    const cut = this.running.size;
    this.running.clear();
    return cut;
  }

  /** Resolves when the condition holds. */
  until(isSo: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const look = () => {
        if (!isSo()) return;
        this.#waiting.delete(look);
        resolve();
      };
      this.#waiting.add(look);
      look();
    });
  }

  #look(): void {
    for (const look of this.#waiting) look();
  }
}
