import { APIError, ResponseValidationError } from "../../client/client-errors.ts";
import { isLoopback, parseUrl } from "../../client/urls.ts";
import type { WebhookConfig } from "../../models/records.ts";
import { type Command, exitCodeOf, exitCodes, type Invocation, toOf, toOption } from "../command.ts";
import { printable } from "../output.ts";
import { type Posted, post, REPLY_TIME } from "./trigger.ts";

/** The largest accepted difference of the clocks, ms. A slow answer causes a smaller one. */
const CLOCK_TOLERANCE = 60_000;
/** An answer that takes longer causes a warning, ms. On a busy machine it would exceed the platform's limit. */
const SLOW = REPLY_TIME / 3;

/** `skipped`: the check was not possible, or needs `--deliver`. */
type State = "passed" | "warned" | "failed" | "skipped";

/** The finding of a check, and what to do about it. A failed request has the exit code that it has in other commands. */
type Finding = readonly [state: State, detail: string, exitCode?: number];

/** The result of one check. It is printed on one line. */
interface Check {
  readonly check: string;
  readonly state: State;
  readonly detail: string;
  readonly code: number;
}

const checkOf = (check: string, [state, detail, code = exitCodes.failed]: Finding): Check => ({
  check,
  state,
  detail,
  code,
});

/** Checks the base URL, the token, the clocks and the configuration with requests that change nothing. */
async function* checkPlatform(invocation: Invocation): AsyncGenerator<Check, WebhookConfig | undefined> {
  const { client, describe, io } = invocation;
  const { webhookConfig, listings } = client();
  const { signal } = io;
  try {
    const { data, response } = await listings.list({ signal }).withResponse();
    yield checkOf("access token", ["passed", `The platform accepts it and lists ${data.length} listings.`]);
    yield checkClock(response.headers);
  } catch (error) {
    signal.throwIfAborted();
    const check = checkOfError(error, describe(error));
    yield check;
    if (error instanceof APIError && error.headers) yield checkClock(error.headers);
    if (check.state === "failed") return undefined;
  }
  try {
    const config = await webhookConfig.get({ signal });
    yield* checkConfig(config);
    return config;
  } catch (error) {
    signal.throwIfAborted();
    const detail = `It could not be read: ${describe(error)}`;
    yield checkOf("configuration", ["failed", detail, exitCodeOf(error)]);
    return undefined;
  }
}

/** The check for an error of the listings. The configuration cannot tell a valid token: a wrong base URL answers 404, too. */
function checkOfError(error: unknown, text: string): Check {
  const code = exitCodeOf(error);
  if (error instanceof ResponseValidationError && error.issues.some(({ path }) => path.length > 0))
    return checkOf("access token", [
      "warned",
      `The platform accepts it, but lists invalid listings: ${text}`,
    ]);
  if (error instanceof ResponseValidationError) {
    const detail = `${text}: is the base URL right? Set STAYHOOK_BASE_URL, or --base-url.`;
    return checkOf("base URL", ["failed", detail, code]);
  }
  const names: Readonly<Record<number, string>> = {
    [exitCodes.refused]: "access token",
    [exitCodes.notFound]: "base URL",
  };
  return checkOf(names[code] ?? "platform", ["failed", text, code]);
}

function* checkConfig(config: WebhookConfig | undefined): Generator<Check> {
  const delivery = (...finding: Finding) => checkOf("configuration", finding);
  const endpoints = (...finding: Finding) => checkOf("endpoints", finding);
  if (!config) return yield delivery("failed", "There is none. Make one with stayhook config ensure.");
  yield config.isActive
    ? delivery("passed", "Delivery is on.")
    : delivery(
        "failed",
        "Delivery is off, so the platform sends nothing. Switch it on with stayhook config on.",
      );
  const topics = Object.keys(config.endpoints);
  if (topics.length === 0)
    return yield endpoints("failed", "None is configured. Set one with stayhook config ensure.");
  const missing = ["bookings", "listings"].filter((topic) => !topics.includes(topic)).join(" and ");
  if (missing !== "")
    yield endpoints("warned", `The platform sends nothing for ${missing}: no URL is configured.`);
}

function checkClock(headers: Headers): Check {
  const clock = (...finding: Finding) => checkOf("clock", finding);
  const date = Date.parse(headers.get("date") ?? "");
  if (Number.isNaN(date))
    return clock("skipped", "The platform's answer has no Date header to compare with.");
  const apart = Math.round((Date.now() - date) / 1000);
  if (Math.abs(apart) * 1000 <= CLOCK_TOLERANCE) return clock("passed", "It agrees with the platform's.");
  const difference = `${Math.abs(apart)} s ${apart > 0 ? "ahead of" : "behind"} the platform`;
  return clock("failed", `This machine is ${difference}, which makes deadlines wrong.`);
}

/**
 * Checks an endpoint. Apart from `delivery`, it sends only requests that no subscriber records.
 *
 * @param delivery - the notification of `--deliver`
 */
async function* checkEndpoint(
  topic: string,
  endpoint: string,
  delivery: string | undefined,
  signal: AbortSignal,
): AsyncGenerator<Check> {
  const found = (check: string, finding: Finding) => checkOf(`${topic}: ${check}`, finding);
  const url = parseUrl(endpoint);
  if (!url) return yield found("url", ["failed", "It must be an http or https URL."]);
  yield found("https", schemeFinding(url));

  const first = await post(endpoint, undefined, signal, "GET");
  yield found("answers", answerFinding(url.origin, first));
  if (first.status === undefined) return;

  const guessed = await post(withWrongSecret(url), "{}", signal);
  yield found("refuses a wrong secret", secretFinding(guessed, url));
  yield found("refuses a malformed body", malformedFinding(await post(endpoint, '{"eventId":', signal)));

  if (!delivery)
    return yield found("delivery", [
      "skipped",
      "Use --deliver to send a notification twice. It refers to no record.",
    ]);
  for (const which of ["The notification", "The duplicate"]) {
    const { status, error, duration } = await post(endpoint, delivery, signal);
    const answered = `${which} was answered ${status ?? error}`;
    if (status === 200) yield found("delivery", timed(`${answered} in ${duration} ms`, duration));
    else yield found("delivery", ["failed", `${answered}, but 200 was expected.`]);
  }
}

function schemeFinding(url: URL): Finding {
  if (url.protocol === "https:") return ["passed", url.origin];
  return isLoopback(url)
    ? ["warned", `${url.origin} is on this machine. Only the sandbox reaches it.`]
    : ["failed", `${url.origin} is not https. The platform delivers to https only.`];
}

function answerFinding(origin: string, { status, error, duration }: Posted): Finding {
  if (status === undefined) return ["failed", `${origin}: ${error}`];
  if (status >= 500) return ["failed", `${origin} answered ${status}. Look at its log.`];
  return timed(`It answered in ${duration} ms`, duration);
}

const timed = (detail: string, duration: number): Finding =>
  duration > SLOW
    ? ["warned", `${detail}. The platform waits for ${REPLY_TIME} ms.`]
    : ["passed", `${detail}.`];

/** The URL with a wrong secret in its query, or else in its path. */
function withWrongSecret(url: URL): string {
  const wrong = new URL(url);
  const guess = crypto.randomUUID();
  if (wrong.search === "") wrong.pathname = wrong.pathname.replace(/[^/]*\/?$/, guess);
  else for (const name of new Set(wrong.searchParams.keys())) wrong.searchParams.set(name, guess);
  return wrong.href;
}

function secretFinding({ status, error }: Posted, url: URL): Finding {
  if (status === undefined) return ["failed", `${error}`];
  if ([401, 403, 404].includes(status)) return ["passed", `It answered ${status}.`];
  if (status !== 400) return ["failed", `It answered ${status}, but 401 was expected.`];
  return [
    "failed",
    url.search === ""
      ? "Anyone who knows the URL can send notifications. Set verify on the handler, and put a secret in the URL."
      : "The endpoint accepts any value in the URL's query. Set verify on the handler.",
  ];
}

function malformedFinding({ status, error }: Posted): Finding {
  if (status === undefined) return ["failed", `${error}`];
  if (status === 400) return ["passed", "It answered 400."];
  if (status === 401 || status === 403)
    return ["failed", `It answered ${status}, so it refuses the secret in the configured URL.`];
  if (status === 404) return ["failed", "It answered 404. Nothing is served at the configured URL."];
  return ["failed", `It answered ${status}, but 400 was expected.`];
}

/** @param delivery - sent only with `--deliver`. It refers to no record, so that only a `fallback` callback gets it. */
async function* allChecks(invocation: Invocation, delivery: string): AsyncGenerator<Check> {
  const config = yield* checkPlatform(invocation);
  const to = await toOf(invocation);
  // A URL for several topics is checked once.
  const topicsOf = new Map<string, string[]>();
  if (to !== undefined) topicsOf.set(to, ["endpoint"]);
  else
    for (const [topic, url] of Object.entries({ ...config?.endpoints, ...config?.otherEndpoints }))
      if (typeof url === "string") topicsOf.set(url, [...(topicsOf.get(url) ?? []), topic]);
  const sent = invocation.flag("deliver") ? delivery : undefined;
  for (const [url, topics] of topicsOf)
    yield* checkEndpoint(topics.join(", "), url, sent, invocation.io.signal);
}

const marks = {
  passed: ["green", "✓"],
  warned: ["yellow", "!"],
  failed: ["red", "✗"],
  skipped: ["dim", "-"],
} as const;

export const doctor: Command = {
  name: "doctor",
  summary: "check the base URL, the token, the clock, the configuration and the endpoints",
  description: `Prints one line for each check. An endpoint must answer over https in time, and refuse a wrong secret and a
malformed body. It records none of these requests. With --deliver, the command sends a notification about no record
twice, and the endpoint must answer both with 200. Ends with the exit code of the first failed check.`,
  examples: ["stayhook doctor", "stayhook doctor --deliver --json"],
  asksPlatform: true,
  options: {
    ...toOption("check this endpoint, not the configured ones"),
    deliver: { help: "also send a notification, which the endpoint records" },
  },
  run: async (invocation) => {
    const { out, flag } = invocation;
    const now = new Date().toISOString();
    const delivery = { eventId: crypto.randomUUID(), timestamp: now, bookingCode: null, listingId: null };
    // Throws for a missing setting before anything is printed.
    invocation.client();
    if (flag("deliver") && !out.json)
      out.note(`Each endpoint will record this notification: ${JSON.stringify(delivery)}`);
    const checks: Omit<Check, "code">[] = [];
    let failure: number | undefined;
    for await (const { code, ...found } of allChecks(invocation, JSON.stringify(delivery))) {
      checks.push(found);
      if (found.state === "failed") failure ??= code;
      const [color, mark] = marks[found.state];
      if (!out.json)
        out.line(`${out.style(color, mark)} ${printable(found.check)}: ${printable(found.detail)}`);
    }
    const recorded = flag("deliver") ? { recorded: delivery } : { wouldRecord: delivery };
    out.result({ ok: failure === undefined, ...recorded, checks }, () => "");
    return failure;
  },
};
