import {
  AccessTokenError,
  APIError,
  ConnectionError,
  InvalidArgumentError,
  NotFoundError,
  ResponseValidationError,
  retryAfterMs,
} from "../../client/errors.ts";
import type { WorkFailure } from "../../queue/work.ts";

/** The attempts for a record that the platform refuses or does not know. */
const REFUSED_ATTEMPTS = 5;

/** Maps a failed read to the reason and the limits of its event: the table of failures in docs/how-it-works.md. */
export function fetchFailure(error: unknown): WorkFailure {
  if (error instanceof APIError) return answerFailure(error);
  if (error instanceof ResponseValidationError) return { reason: "invalid-record", error };
  if (error instanceof AccessTokenError) return outOfReach(error, { everything: true });
  if (error instanceof ConnectionError) return outOfReach(error, { everything: false });
  if (error instanceof InvalidArgumentError)
    return { reason: "denied", error, maxAttempts: REFUSED_ATTEMPTS };
  // The user's own schema or `fetch` threw.
  return { reason: "callback", error };
}

function answerFailure(error: APIError): WorkFailure {
  const { status } = error;
  if (error instanceof NotFoundError) return refused("not-found", error);
  // A 2xx whose body reports a failure is an answer about this record, not an outage.
  const isSuccess = status >= 200 && status <= 299;
  const temporary =
    !isSuccess && (status < 400 || status >= 500 || status === 408 || status === 429 || status === 401);
  if (!temporary) return refused("denied", error);
  return outOfReach(error, {
    everything: status === 429 || status === 401,
    retryAfter: retryAfterMs(error.headers),
  });
}

function refused(reason: "not-found" | "denied", error: unknown): WorkFailure {
  return { reason, error, refused: true, maxAttempts: REFUSED_ATTEMPTS };
}

function outOfReach(error: unknown, outage: WorkFailure["outage"]): WorkFailure {
  return { reason: "unavailable", error, outage };
}
