import type { Closing } from "./closing.ts";

/** What takes a delivery in place of the network, such as a handler's `fetch`. */
export type SandboxReceiver = (request: Request) => Response | Promise<Response>;

/** How one delivery was answered: `error` is set where no answer came. */
export interface AttemptResult {
  readonly status: number | undefined;
  readonly error: string | undefined;
  /** ms */
  readonly duration: number;
}

export interface AttemptOptions {
  readonly closing: Closing;
  /** ms, for which the endpoint may take to answer */
  readonly timeout: number;
  /** Default: the network. */
  readonly receiver: SandboxReceiver | undefined;
}

/** Posts a body to an endpoint, once. Never rejects, and follows no redirect. */
export async function attempt(
  url: string,
  body: string,
  { closing, timeout, receiver }: AttemptOptions,
): Promise<AttemptResult> {
  const started = performance.now();
  const controller = new AbortController();
  const { signal } = controller;
  const timer = setTimeout(
    () => controller.abort(new Error(`no answer within ${timeout / 1000} s`)),
    timeout,
  );
  const forget = closing.onClose(() => controller.abort(new Error("the sandbox was closed")));
  const headers = { "content-type": "application/json", "user-agent": "stayhook-sandbox" };
  const init = { method: "POST", headers, body, redirect: "manual", signal } as const;
  try {
    // Looked up at each delivery: what a test puts in fetch's place has to be seen.
    const answer = receiver ? receiver(new Request(url, init)) : fetch(url, init);
    const response = await Promise.race([answer, aborted(signal)]);
    // The answer is its status; what follows it need not be waited for.
    void response.body?.cancel().catch(() => {});
    return { status: response.status, error: undefined, duration: performance.now() - started };
  } catch (error) {
    return { status: undefined, error: describe(error), duration: performance.now() - started };
  } finally {
    clearTimeout(timer);
    forget();
  }
}

/** A receiver need not heed the signal. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

/** fetch says "fetch failed"; why it did is in the cause, whose message may be empty for a host with several addresses. */
function describe(error: unknown): string {
  const { cause = error } = Object(error) as { cause?: unknown };
  const { message, code } = Object(cause) as { message?: string; code?: string };
  return message || code || String(cause);
}
