// Checks an endpoint from outside, for `doctor`.

import { isLoopback, parseUrl } from "../../client/urls.ts";
import { exitCodes } from "../command.ts";
import { type Posted, post, REPLY_TIME } from "./trigger.ts";

/** The longest answer time without a warning, ms. When busy, a slower endpoint could exceed the platform's limit. */
const SLOW = REPLY_TIME / 3;

/** A check is `skipped` if it is not possible, or if it needs `--deliver` and the option is absent. */
type State = "passed" | "warned" | "failed" | "skipped";

/** The finding of a check. `detail` also says what to do. A failed check may have an `exitCode`, by default 1. */
export type Finding = readonly [state: State, detail: string, exitCode?: number];

/** The result of one check, printed on one line. */
export interface Check {
  /** The account, if accounts are given. */
  readonly account?: string;
  readonly check: string;
  readonly state: State;
  readonly detail: string;
  readonly code: number;
}

export const checkOf = (check: string, [state, detail, code = exitCodes.failed]: Finding): Check => ({
  check,
  state,
  detail,
  code,
});

/**
 * Checks an endpoint with several requests. Only `delivery` is valid, so the endpoint records no other request.
 *
 * @param delivery - the notification to send with `--deliver`
 */
export async function* checkEndpoint(
  topic: string,
  endpoint: string,
  delivery: string | undefined,
  signal: AbortSignal,
): AsyncGenerator<Check> {
  const found = (check: string, finding: Finding) => checkOf(`${topic}: ${check}`, finding);
  const url = parseUrl(endpoint);
  if (!url) return yield found("url", ["failed", "The endpoint must be an http or https URL."]);
  yield found("https", schemeFinding(url));

  const first = await post(endpoint, undefined, signal, "GET");
  yield found("answers", answerFinding(url.origin, first));
  if (first.status === undefined) return;

  const guessed = await post(withWrongSecret(url), "{}", signal);
  yield found(
    "refuses a wrong secret",
    refusalFinding(guessed, (status) => secretFinding(status, url)),
  );
  const malformed = await post(endpoint, '{"eventId":', signal);
  yield found("refuses a malformed body", refusalFinding(malformed, malformedFinding));

  if (!delivery)
    return yield found("delivery", [
      "skipped",
      "Delivery was not checked. To check delivery with a test notification, add --deliver.",
    ]);
  for (const which of ["notification", "duplicate"]) {
    const posted = await post(endpoint, delivery, signal);
    const { status, error, duration } = posted;
    const answered =
      status === undefined
        ? `The endpoint did not answer the ${which} (${error})`
        : `The endpoint answered the ${which} with ${status}`;
    const redirected = redirectFinding(posted);
    if (redirected) yield found("delivery", redirected);
    else if (status === 200) yield found("delivery", timed(`${answered} in ${duration} ms`, duration));
    else
      yield found("delivery", ["failed", `${answered}, but 200 was expected. Look at the log of the app.`]);
  }
}

function schemeFinding(url: URL): Finding {
  if (url.protocol === "https:") return ["passed", url.origin];
  return isLoopback(url)
    ? ["warned", `${url.origin} is on this machine. The sandbox can reach this URL, but the platform cannot.`]
    : ["failed", `${url.origin} is not https. The platform delivers to https only.`];
}

function answerFinding(origin: string, { status, error, duration }: Posted): Finding {
  if (status === undefined) return ["failed", `${origin} did not answer (${error}). Is the app running?`];
  if (status >= 500) return ["failed", `${origin} answered ${status}. Look at the log of the app.`];
  return timed(`The endpoint answered in ${duration} ms`, duration);
}

const timed = (detail: string, duration: number): Finding =>
  duration > SLOW
    ? ["warned", `${detail}. The platform waits at most ${REPLY_TIME} ms.`]
    : ["passed", `${detail}.`];

/**
 * Replaces the secret in the URL's query: `key`, or without one, each parameter that names no topic and no account. Without
 * such a parameter, replaces the path's last segment.
 */
function withWrongSecret(url: URL): string {
  const wrong = new URL(url);
  const guess = crypto.randomUUID();
  const names = new Set(wrong.searchParams.keys());
  const secrets = names.has("key")
    ? ["key"]
    : [...names].filter((name) => !["topic", "account"].includes(name));
  if (secrets.length === 0) wrong.pathname = wrong.pathname.replace(/[^/]*\/?$/, guess);
  else for (const name of secrets) wrong.searchParams.set(name, guess);
  return wrong.href;
}

/** Returns a finding if the endpoint redirects notifications. A redirect of the GET request does no harm. */
function redirectFinding({ status, redirect }: Posted): Finding | undefined {
  if (redirect === undefined) return undefined;
  const advice = "The platform may not follow redirects. Configure the URL to which this one leads.";
  return ["failed", `The endpoint answered ${status}, ${redirect}. ${advice}`];
}

/** Judges the status of an answer to a request that the endpoint must refuse. */
function refusalFinding(posted: Posted, judge: (status: number) => Finding): Finding {
  const { status, error } = posted;
  if (status === undefined) return ["failed", `The endpoint did not answer (${error}).`];
  return redirectFinding(posted) ?? judge(status);
}

function secretFinding(status: number, url: URL): Finding {
  if (status === 401) return ["passed", "The endpoint answered 401."];
  // A route, a proxy or a guard answers so before the handler sees the request.
  if (status === 403 || status === 404)
    return [
      "warned",
      `The endpoint answered ${status}, but the handler answers 401. Something before the handler refused the request, so verify was not checked.`,
    ];
  if (status !== 400) return ["failed", `The endpoint answered ${status}, but 401 was expected.`];
  return [
    "failed",
    url.search === ""
      ? "Anyone who knows the URL can send notifications. Set verify on the handler, and put a secret in the URL."
      : "The endpoint accepts any value in the URL's query. Set verify on the handler.",
  ];
}

function malformedFinding(status: number): Finding {
  if (status === 400) return ["passed", "The endpoint answered 400."];
  if (status === 401 || status === 403)
    return ["failed", `The endpoint answered ${status}. Is the secret in the URL right?`];
  if (status === 404) return ["failed", "The endpoint answered 404. Is the path of its URL right?"];
  return ["failed", `The endpoint answered ${status}, but 400 was expected.`];
}
