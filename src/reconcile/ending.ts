import type { Incomplete } from "./report.ts";

/** That a pass is to end before its time, and why: the first word counts. */
export class Ending {
  readonly #abort = new AbortController();
  #why: Incomplete | undefined;
  #retryAfter: number | undefined;

  get why(): Incomplete | undefined {
    return this.#why;
  }

  /** ms for which the platform wants to be left alone, where it has said so. */
  get retryAfter(): number | undefined {
    return this.#retryAfter;
  }

  /** Aborts what is under way. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  ask(why: Incomplete, retryAfter?: number): void {
    if (this.#why !== undefined) return;
    this.#why = why;
    this.#retryAfter = retryAfter;
    this.#abort.abort(new DOMException(`the pass ends (${why})`, "AbortError"));
  }
}
