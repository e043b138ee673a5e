import { isLoopback, parseUrl } from "../../client/urls.ts";
import { originOf, type Posted, post, REPLY_TIME } from "../post.ts";
import { type Check, failed, passed, skipped, warned } from "./check.ts";

/** A slower answer is a warning, because a busy machine would exceed the platform's limit. */
const SLOW = REPLY_TIME / 3;

/** The notification of `--deliver`. It refers to no record, so that only a `fallback` callback gets it. */
export interface Delivery {
  readonly eventId: string;
  readonly timestamp: string;
  readonly bookingCode: null;
  readonly listingId: null;
}

/** Checks an endpoint. Apart from `delivery`, it sends only requests that no subscriber records. */
export async function* checkEndpoint(
  topic: string,
  endpoint: string,
  { delivery, signal }: { readonly delivery: Delivery | undefined; readonly signal: AbortSignal },
): AsyncGenerator<Check> {
  const about = (what: string) => `${topic}: ${what}`;
  const url = parseUrl(endpoint);
  if (!url) return yield failed(about("url"), "it is no http or https URL");
  yield checkScheme(about("https"), url);

  const first = await post(endpoint, undefined, signal, "GET");
  yield checkAnswer(about("answers"), endpoint, first);
  if (first.status === undefined) return;

  const guessed = withWrongSecret(url);
  yield checkSecret(about("refuses a wrong secret"), await post(guessed, "{}", signal), url);
  yield checkMalformed(about("refuses a malformed body"), await post(endpoint, '{"eventId":', signal));
  yield* checkDelivery(about("delivery"), endpoint, delivery, signal);
}

function checkScheme(check: string, url: URL): Check {
  if (url.protocol === "https:") return passed(check, url.origin);
  return isLoopback(url)
    ? warned(check, `${url.origin} is on this machine: only the sandbox reaches it`)
    : failed(check, `${url.origin} is not https, and the platform delivers to nothing else`);
}

function checkAnswer(check: string, endpoint: string, { status, error, duration }: Posted): Check {
  if (status === undefined) return failed(check, `${originOf(endpoint)}: ${error}`);
  if (status >= 500) return failed(check, `it answers ${status}: look at its log`);
  if (duration > SLOW)
    return warned(check, `after ${duration} ms, and the platform waits for ${REPLY_TIME} ms`);
  return passed(check, `within ${duration} ms`);
}

/** The URL with a wrong secret, as a stranger might try it. */
function withWrongSecret(url: URL): string {
  const wrong = new URL(url);
  const guess = crypto.randomUUID();
  if (wrong.search === "") wrong.pathname = wrong.pathname.replace(/[^/]*\/?$/, guess);
  else for (const name of new Set(wrong.searchParams.keys())) wrong.searchParams.set(name, guess);
  return wrong.href;
}

function checkSecret(check: string, { status, error }: Posted, url: URL): Check {
  if (status === undefined) return failed(check, `${error}`);
  if (status === 401 || status === 403 || status === 404) return passed(check, `answered ${status}`);
  if (status === 400)
    return failed(
      check,
      url.search === ""
        ? "anyone who knows the URL can send notifications: set verify on the handler, and put a secret in the URL"
        : "the endpoint accepts any value in the URL's query: set verify on the handler",
    );
  return failed(check, `answered ${status}, but 401 was expected`);
}

function checkMalformed(check: string, { status, error }: Posted): Check {
  if (status === 400) return passed(check, "answered 400");
  if (status === 401 || status === 403)
    return failed(check, `answered ${status}: it refuses the secret in the configured URL`);
  if (status === 404) return failed(check, "answered 404: nothing is served at the configured URL");
  return failed(check, status === undefined ? `${error}` : `answered ${status}, but 400 was expected`);
}

async function* checkDelivery(
  check: string,
  endpoint: string,
  delivery: Delivery | undefined,
  signal: AbortSignal,
): AsyncGenerator<Check> {
  if (!delivery) {
    yield skipped(check, "use --deliver to send a notification about no record, twice");
    return;
  }
  for (const which of ["a notification", "the same again"]) {
    const { status, error, duration } = await post(endpoint, JSON.stringify(delivery), signal);
    const answered = status ?? error;
    if (status === 200) {
      const detail = `${which} was answered 200 in ${duration} ms`;
      yield duration > SLOW
        ? warned(check, `${detail}, and the platform waits for ${REPLY_TIME} ms`)
        : passed(check, detail);
    } else yield failed(check, `${which} was answered ${answered}, but 200 was expected`);
  }
}
