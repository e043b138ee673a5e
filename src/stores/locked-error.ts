import { StayhookError } from "../errors.ts";
import { brand } from "../shared.ts";

/** A session of somebody else has locked a row that the call needs. The store itself works. */
export class LockedError extends StayhookError {
  static {
    brand(this, "LockedError");
  }
}
