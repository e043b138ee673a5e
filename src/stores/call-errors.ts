import { brand } from "../copies.ts";
import { StayhookError } from "../errors.ts";

/** A session of somebody else has locked a row that the call needs. The store itself works. */
export class LockedError extends StayhookError {
  static {
    brand(this, "LockedError");
  }
}

/** The server's configuration is at fault. The message says what to do, so that no other advice is needed. */
export class AdvisedError extends StayhookError {
  static {
    brand(this, "AdvisedError");
  }
}

/**
 * The connection ended while the functions passed to `event.atomically` had their transaction. Once, that is an outage.
 * Twice in a row, the functions have ended it.
 */
export class InterruptedError extends StayhookError {
  static {
    brand(this, "InterruptedError");
  }
}

/**
 * How long an `add` waits for the answer to a statement before its connection counts as dead, ms. A request has 10 s, which
 * leaves time for a second try, and a statement may wait for a lock for 5 s.
 */
export const ANSWER_WITHIN = 6000;

/** The connection of the call died, so nobody knows what the server has done. A new call gets a fresh connection. */
export class NoAnswerError extends StayhookError {
  static {
    brand(this, "NoAnswerError");
  }
}
