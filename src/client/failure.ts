import { AbortError, ConnectionError, ConnectionTimeoutError, StayhookError } from "./errors.ts";
import type { Redactor } from "./redact.ts";

/** The call that failed, as far as an error tells of it. */
interface Failed {
  readonly method: string;
  readonly path: string;
  readonly signal: AbortSignal | undefined;
  readonly redact: Redactor;
}

/** What went wrong where no whole answer came, in this package's terms. */
export function failureOf(cause: unknown, call: Failed, timedOut: boolean): StayhookError {
  const request = `${call.method} ${call.path}`;
  const { signal } = call;
  // First of all, as the reason may be any error, one of ours too.
  if (signal?.aborted && (cause === signal.reason || !(cause instanceof StayhookError)))
    return new AbortError(`${request} was aborted.`, { cause: signal.reason });
  if (cause instanceof StayhookError) return cause;
  if (timedOut) return new ConnectionTimeoutError(`${request} was not answered in time.`);
  const code = codeOf(cause);
  const why = code === undefined ? "; see cause" : ` (${call.redact.text(code)})`;
  return new ConnectionError(`${request} got no whole answer${why}.`, {
    cause: call.redact.cause(cause),
  });
}

/** `ECONNREFUSED` and the like, from the error or from the one below it. */
function codeOf(error: unknown): string | undefined {
  const { code, cause } = (error ?? {}) as { code?: unknown; cause?: { code?: unknown } | null };
  return [code, cause?.code].find((found) => typeof found === "string") as string | undefined;
}
