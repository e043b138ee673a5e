import { type ApiRequest, type ApiResponse, maxBodyBytes } from "./api.ts";

/**
 * Answers a web request as fetch would: rejects where the connection breaks before there is an answer, or the
 * request's signal aborts.
 */
export async function answerFetch(
  answer: (request: ApiRequest) => Promise<ApiResponse>,
  request: Request,
): Promise<Response> {
  const { signal } = request;
  signal.throwIfAborted();
  const { pathname, search } = new URL(request.url);
  const body = await request.text();
  const answered = answer({
    method: request.method,
    target: pathname + search,
    authorization: request.headers.get("authorization") ?? undefined,
    body: new Blob([body]).size > maxBodyBytes ? undefined : body,
  });
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason);
  signal.addEventListener("abort", abort);
  try {
    return toResponse(await Promise.race([answered, aborted.promise]));
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

const cut = (): Error =>
  new TypeError("fetch failed", { cause: new Error("the sandbox cut the connection off") });

// A Response refuses a body with these, an empty one too.
const withoutBody = new Set([204, 205, 304]);

function toResponse({ status, headers, text, cutOff }: ApiResponse): Response {
  if (!cutOff) return new Response(withoutBody.has(status) ? null : (text ?? null), { status, headers });
  if (text === undefined || text === "") throw cut();
  const bytes = new TextEncoder().encode(text);
  const half = bytes.subarray(0, Math.ceil(bytes.byteLength / 2));
  // Not all at once: what is queued in a stream is lost when it fails.
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(half),
    pull: (controller) => controller.error(cut()),
  });
  return new Response(body, { status, headers });
}
