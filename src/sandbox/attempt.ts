import type { Closing } from "./closing.ts";

/** How long an endpoint has to answer, in ms. */
const answerTimeout = 30_000;

/** How one delivery was answered: `error` is set where no answer came. */
export interface AttemptResult {
  readonly status: number | undefined;
  readonly error: string | undefined;
  /** ms */
  readonly duration: number;
}

/** Posts a body to an endpoint, once. Never rejects, and follows no redirect. */
export async function attempt(url: string, body: string, closing: Closing): Promise<AttemptResult> {
  const started = performance.now();
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(new Error("no answer within 30 s")), answerTimeout);
  const forget = closing.onClose(() => controller.abort(new Error("the sandbox was closed")));
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", "user-agent": "stayhook-sandbox" },
      body,
      redirect: "manual",
      signal: controller.signal,
    });
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

/** fetch says "fetch failed"; why it did is in the cause, whose message may be empty for a host with several addresses. */
function describe(error: unknown): string {
  const { cause = error } = error as { cause?: unknown };
  const { message, code } = cause as { message?: string; code?: string };
  return message || code || String(cause);
}
