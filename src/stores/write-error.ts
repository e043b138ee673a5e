import { StayhookError } from "../errors.ts";

/**
 * A write that was given to `event.atomically` broke the rules of its store: it returned a promise where writes
 * are synchronous, ended the store's transaction or left it unusable, or took too long. A store's `settle` rejects
 * with it when the write, and not the store, is to blame: the attempt has failed then.
 */
export class InvalidWriteError extends StayhookError {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "InvalidWriteError";
  }
}
