import { APIError, ConnectionError } from "./errors.ts";
import { retryAfterMs } from "./retry-after.ts";

/** Longer waits than this, in ms, are not slept: the error is thrown, with what the platform asked for in it. */
const maxWait = 60_000;

/**
 * How long to wait before a call is tried again, in ms; `undefined` where it must not be.
 *
 * @param repeatable - whether doing it twice is the same as doing it once
 * @param retry - 1 for the first
 */
export function retryDelay(error: unknown, repeatable: boolean, retry: number): number | undefined {
  const asked = error instanceof APIError ? retryAfterMs(error.headers) : undefined;
  if (!(repeatable ? isTransient(error) : wasNotActedOn(error, asked))) return undefined;
  const wait = asked ?? backoff(retry);
  return wait > maxWait ? undefined : wait;
}

function isTransient(error: unknown): boolean {
  if (!(error instanceof APIError)) return error instanceof ConnectionError;
  return error.status === 408 || error.status === 429 || error.status >= 500;
}

function wasNotActedOn(error: unknown, asked: number | undefined): boolean {
  if (!(error instanceof APIError)) return false;
  return error.status === 429 || (error.status === 503 && asked !== undefined);
}

/** 0.5 s, doubled each time up to 8 s, less up to a half, so that many clients do not come back at once. */
function backoff(retry: number): number {
  return Math.min(500 * 2 ** (retry - 1), 8000) * (1 - Math.random() / 2);
}
