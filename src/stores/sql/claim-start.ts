// Where claims begin to look, so that they do not pass by the same records again and again.

import type { ClaimCall } from "../store-steps.ts";

/** The time between two claims that search all due records, ms. */
const THOROUGH = 2000;
/** How far below the last due time a claim begins, ms. An `add` may commit later than another one. */
const MARGIN = 1000;
/** The same with `except`, whose claims also tell when to look again. An `add` may have waited 5 s for a lock. */
const LONG_MARGIN = 6000;

/** Remembers the due time below which claims with the same `except` found no record to take. */
export class ClaimStart {
  #last = { dueAt: 0, except: "" };
  #thoroughAt = Number.NEGATIVE_INFINITY;

  /** Returns the due time at which a claim begins. */
  of(call: ClaimCall): number {
    if (call.only !== undefined || call.eventId !== undefined) return 0;
    const now = performance.now();
    if (now - this.#thoroughAt < THOROUGH) return this.#last.except === nameOf(call) ? this.#last.dueAt : 0;
    this.#thoroughAt = now;
    return 0;
  }

  /** Notes that no record can be taken that is due before `dueAt`, epoch ms. */
  note(call: ClaimCall, dueAt: number): void {
    if (call.only !== undefined || call.eventId !== undefined) return;
    const margin = call.except === undefined ? MARGIN : LONG_MARGIN;
    this.#last = { dueAt: dueAt - margin, except: nameOf(call) };
  }

  /** Lets the next claim search all due records. */
  forget(): void {
    this.#last = { dueAt: 0, except: "" };
  }
}

/** Returns a text that tells one list of excluded beginnings from another one. */
function nameOf({ except }: ClaimCall): string {
  return except === undefined ? "" : JSON.stringify(except);
}
