import { StayhookError } from "../errors.ts";
import { brand } from "../shared.ts";

/** A session of somebody else has locked a row that the call needs. The store itself works. */
export class LockedError extends StayhookError {
  static {
    brand(this, "LockedError");
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
