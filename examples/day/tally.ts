import type { Contents } from "./contents.ts";
import type { Told } from "./messages.ts";

/** Counts what the subscriber tells of, over both of its lives. */
export class Tally {
  received = 0;
  duplicates = 0;
  begun = 0;
  failed = 0;
  /** By the platform's account. */
  undelivered = 0;
  readonly done = new Set<string>();
  /** Events whose callback has begun, and neither failed nor come to its end. */
  readonly running = new Set<string>();
  /** What was in the file each time that it was opened; and in the end. */
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

  /** The process was killed. @returns how many callbacks that cut off */
  endRunning(): number {
    const cut = this.running.size;
    this.running.clear();
    return cut;
  }

  /** Resolves when it is so. */
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
