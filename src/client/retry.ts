import { APIError, ConnectionError, retryAfterMs } from "./errors.ts";

/** The client does not sleep longer than this, ms. It throws the error, which has the wait that was asked for. */
const maxWait = 60_000;

/**
 * The wait before a call is tried again, ms; `undefined` where it must not be tried again.
 *
 * @param repeatable - whether doing it twice has the same effect as doing it once
 * @param retry - 1 for the first retry
 */
export function retryDelay(error: unknown, repeatable: boolean, retry: number): number | undefined {
  const asked = error instanceof APIError ? retryAfterMs(error.headers) : undefined;
  if (!(repeatable ? isTransient(error) : hadNoEffect(error, asked))) return undefined;
  const wait = asked ?? backoff(retry);
  return wait > maxWait ? undefined : wait;
}

function isTransient(error: unknown): boolean {
  if (!(error instanceof APIError)) return error instanceof ConnectionError;
  return error.status === 408 || error.status === 429 || error.status >= 500;
}

function hadNoEffect(error: unknown, asked: number | undefined): boolean {
  if (!(error instanceof APIError)) return false;
  return error.status === 429 || (error.status === 503 && asked !== undefined);
}

/** 0.5 s, doubled each time up to 8 s. Jitter takes off up to a half, so that clients do not retry in step. */
function backoff(retry: number): number {
  return Math.min(500 * 2 ** (retry - 1), 8000) * (1 - Math.random() / 2);
}
