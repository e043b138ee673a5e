/** How long the platform waits for an answer, ms. */
export const REPLY_TIME = 30_000;

/** How an endpoint answered. */
export interface Posted {
  /** `undefined` where no answer came. */
  readonly status: number | undefined;
  /** Why there was no answer. */
  readonly error: string | undefined;
  /** ms */
  readonly duration: number;
}

/** Sends a body as the platform does: as JSON, without following redirects, for 30 s at most. Rejects only where `signal` aborts. */
export async function post(
  url: string,
  body: string | undefined,
  signal: AbortSignal,
  method = "POST",
): Promise<Posted> {
  const began = performance.now();
  const since = () => Math.round(performance.now() - began);
  try {
    const response = await fetch(url, {
      method,
      redirect: "manual",
      signal: AbortSignal.any([signal, AbortSignal.timeout(REPLY_TIME)]),
      ...(body === undefined ? {} : { body, headers: { "content-type": "application/json" } }),
    });
    await response.body?.cancel();
    return { status: response.status, error: undefined, duration: since() };
  } catch (error) {
    signal.throwIfAborted();
    return { status: undefined, error: reasonOf(error), duration: since() };
  }
}

/** A short reason without the URL, which may hold a secret. */
export function reasonOf(error: unknown): string {
  if (error instanceof Error && error.name === "TimeoutError")
    return `no answer within ${REPLY_TIME / 1000} s`;
  const { cause } = (error ?? {}) as { readonly cause?: Error & { readonly code?: unknown } };
  if (typeof cause?.code === "string") return cause.code;
  return cause instanceof Error ? cause.message : "no connection";
}

/** The part of a URL that is safe to show. Its path and query may hold a secret. */
export const originOf = (url: string): string => new URL(url).origin;
