import { APIError, ResponseValidationError } from "../../client/errors.ts";
import { isLoopback, parseUrl } from "../../client/urls.ts";
import type { WebhookConfig } from "../../models/records.ts";
import type { Command, Invocation } from "../command.ts";
import { originOf, type Posted, post, REPLY_TIME, toOf, toOption } from "../endpoints.ts";
import { exitCodeOf, exitCodes } from "../exit-code.ts";
import { printable } from "../output.ts";

/** The largest accepted difference of the clocks, ms. A slow answer causes a smaller one. */
const CLOCK_TOLERANCE = 60_000;
/** An answer that takes longer causes a warning, ms. On a busy machine it would exceed the platform's limit. */
const SLOW = REPLY_TIME / 3;

/** The result of one check. It is printed on one line. */
interface Check {
  readonly check: string;
  /** `skipped`: the check was not possible, or needs `--deliver`. */
  readonly state: "passed" | "warned" | "failed" | "skipped";
  /** The finding, and what to do about it. */
  readonly detail: string;
  /** The exit code of a failed check. A failed request has the code that it has in other commands. */
  readonly code?: number;
}

const passed = (check: string, detail: string): Check => ({ check, state: "passed", detail });
const warned = (check: string, detail: string): Check => ({ check, state: "warned", detail });
const skipped = (check: string, detail: string): Check => ({ check, state: "skipped", detail });
const failed = (check: string, detail: string, code: number = exitCodes.failed): Check => ({
  check,
  state: "failed",
  detail,
  code,
});

interface PlatformChecks {
  readonly checks: readonly Check[];
  readonly config?: WebhookConfig | undefined;
}

/** Checks the base URL, the token, the clocks and the configuration with requests that change nothing. */
async function checkPlatform({ client, describe, io: { signal } }: Invocation): Promise<PlatformChecks> {
  const { webhookConfig, listings } = client();
  const [first, headers] = await listings
    .list({ signal })
    .withResponse()
    .then(
      ({ data, response }): [Check, Headers | undefined] => [
        passed("access token", `The platform accepts it and lists ${data.length} listings.`),
        response.headers,
      ],
      (error): [Check, Headers | undefined] => {
        signal.throwIfAborted();
        return [checkOfError(error, describe(error)), error instanceof APIError ? error.headers : undefined];
      },
    );
  const checks = [first, ...(headers ? [checkClock(headers)] : [])];
  if (first.state === "failed") return { checks };
  try {
    const config = await webhookConfig.get({ signal });
    return { checks: [...checks, ...checkConfig(config)], config };
  } catch (error) {
    signal.throwIfAborted();
    const unread = failed("configuration", `It could not be read: ${describe(error)}`, exitCodeOf(error));
    return { checks: [...checks, unread] };
  }
}

/** The check for an error of the listings. The configuration cannot tell a valid token: a wrong base URL answers 404, too. */
function checkOfError(error: unknown, text: string): Check {
  const code = exitCodeOf(error);
  if (error instanceof ResponseValidationError)
    return error.issues.some(({ path }) => path.length > 0)
      ? warned("access token", `The platform accepts it, but lists invalid listings: ${text}`)
      : failed("base URL", `${text}: is the base URL right? Set STAYHOOK_BASE_URL, or --base-url.`, code);
  if (code === exitCodes.refused) return failed("access token", text, code);
  return failed(code === exitCodes.notFound ? "base URL" : "platform", text, code);
}

function checkConfig(config: WebhookConfig | undefined): Check[] {
  if (!config) return [failed("configuration", "There is none. Make one with stayhook config ensure.")];
  const topics = Object.keys(config.endpoints);
  const missing = ["bookings", "listings"].filter((topic) => !topics.includes(topic));
  return [
    config.isActive
      ? passed("configuration", "Delivery is on.")
      : failed(
          "configuration",
          "Delivery is off, so the platform sends nothing. Switch it on with stayhook config on.",
        ),
    ...(topics.length === 0
      ? [failed("endpoints", "None is configured. Set one with stayhook config ensure.")]
      : []),
    ...(topics.length > 0 && missing.length > 0
      ? [
          warned(
            "endpoints",
            `The platform sends nothing for ${missing.join(" and ")}: no URL is configured.`,
          ),
        ]
      : []),
  ];
}

function checkClock(headers: Headers): Check {
  const date = Date.parse(headers.get("date") ?? "");
  if (Number.isNaN(date))
    return skipped("clock", "The platform's answer has no Date header to compare with.");
  const apart = Math.round((Date.now() - date) / 1000);
  if (Math.abs(apart) * 1000 <= CLOCK_TOLERANCE) return passed("clock", "It agrees with the platform's.");
  const direction = apart > 0 ? "ahead of" : "behind";
  return failed(
    "clock",
    `This machine is ${Math.abs(apart)} s ${direction} the platform, which makes deadlines wrong.`,
  );
}

/** The notification of `--deliver`. It refers to no record, so that only a `fallback` callback gets it. */
interface Delivery {
  readonly eventId: string;
  readonly timestamp: string;
  readonly bookingCode: null;
  readonly listingId: null;
}

/** Checks an endpoint. Apart from `delivery`, it sends only requests that no subscriber records. */
async function* checkEndpoint(
  topic: string,
  endpoint: string,
  { delivery, signal }: { readonly delivery: Delivery | undefined; readonly signal: AbortSignal },
): AsyncGenerator<Check> {
  const named = (check: string) => `${topic}: ${check}`;
  const url = parseUrl(endpoint);
  if (!url) return yield failed(named("url"), "It must be an http or https URL.");
  yield checkScheme(named("https"), url);

  const first = await post(endpoint, undefined, signal, "GET");
  yield checkAnswer(named("answers"), endpoint, first);
  if (first.status === undefined) return;

  const guessed = withWrongSecret(url);
  yield checkSecret(named("refuses a wrong secret"), await post(guessed, "{}", signal), url);
  yield checkMalformed(named("refuses a malformed body"), await post(endpoint, '{"eventId":', signal));
  yield* checkDelivery(named("delivery"), endpoint, delivery, signal);
}

function checkScheme(check: string, url: URL): Check {
  if (url.protocol === "https:") return passed(check, url.origin);
  return isLoopback(url)
    ? warned(check, `${url.origin} is on this machine. Only the sandbox reaches it.`)
    : failed(check, `${url.origin} is not https. The platform delivers to https only.`);
}

function checkAnswer(check: string, endpoint: string, { status, error, duration }: Posted): Check {
  if (status === undefined) return failed(check, `${originOf(endpoint)}: ${error}`);
  if (status >= 500) return failed(check, `${originOf(endpoint)} answered ${status}. Look at its log.`);
  return timed(check, `It answered in ${duration} ms`, duration);
}

const timed = (check: string, detail: string, duration: number): Check =>
  duration > SLOW
    ? warned(check, `${detail}. The platform waits for ${REPLY_TIME} ms.`)
    : passed(check, `${detail}.`);

/** The URL with a wrong secret in its query, or else in its path. */
function withWrongSecret(url: URL): string {
  const wrong = new URL(url);
  const guess = crypto.randomUUID();
  if (wrong.search === "") wrong.pathname = wrong.pathname.replace(/[^/]*\/?$/, guess);
  else for (const name of new Set(wrong.searchParams.keys())) wrong.searchParams.set(name, guess);
  return wrong.href;
}

function checkSecret(check: string, { status, error }: Posted, url: URL): Check {
  if (status === undefined) return failed(check, `${error}`);
  if (status === 401 || status === 403 || status === 404) return passed(check, `It answered ${status}.`);
  if (status === 400)
    return failed(
      check,
      url.search === ""
        ? "Anyone who knows the URL can send notifications. Set verify on the handler, and put a secret in the URL."
        : "The endpoint accepts any value in the URL's query. Set verify on the handler.",
    );
  return failed(check, `It answered ${status}, but 401 was expected.`);
}

function checkMalformed(check: string, { status, error }: Posted): Check {
  if (status === 400) return passed(check, "It answered 400.");
  if (status === 401 || status === 403)
    return failed(check, `It answered ${status}, so it refuses the secret in the configured URL.`);
  if (status === 404) return failed(check, "It answered 404. Nothing is served at the configured URL.");
  return failed(check, status === undefined ? `${error}` : `It answered ${status}, but 400 was expected.`);
}

async function* checkDelivery(
  check: string,
  endpoint: string,
  delivery: Delivery | undefined,
  signal: AbortSignal,
): AsyncGenerator<Check> {
  if (!delivery) return yield skipped(check, "Use --deliver to send a notification about no record, twice.");
  for (const which of ["The notification", "The duplicate"]) {
    const { status, error, duration } = await post(endpoint, JSON.stringify(delivery), signal);
    if (status === 200) yield timed(check, `${which} was answered 200 in ${duration} ms`, duration);
    else yield failed(check, `${which} was answered ${status ?? error}, but 200 was expected.`);
  }
}

/** The topics by their URL, so that a URL for several topics is checked once. */
async function endpointsToCheck(
  invocation: Invocation,
  configured: Readonly<Record<string, unknown>>,
): Promise<Map<string, string>> {
  const to = await toOf(invocation);
  if (to !== undefined) return new Map([[to, "endpoint"]]);
  const endpoints = new Map<string, string>();
  for (const [topic, url] of Object.entries(configured)) {
    if (typeof url !== "string") continue;
    const others = endpoints.get(url);
    endpoints.set(url, others === undefined ? topic : `${others}, ${topic}`);
  }
  return endpoints;
}

async function* allChecks(invocation: Invocation, delivery: Delivery): AsyncGenerator<Check> {
  const { signal } = invocation.io;
  const { checks, config } = await checkPlatform(invocation);
  yield* checks;
  const endpoints = await endpointsToCheck(invocation, { ...config?.endpoints, ...config?.otherEndpoints });
  for (const [url, topic] of endpoints)
    yield* checkEndpoint(topic, url, { delivery: invocation.flag("deliver") ? delivery : undefined, signal });
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
    deliver: { type: "boolean", help: "also send a notification, which the endpoint records" },
  },
  run: async (invocation) => {
    const { out, flag } = invocation;
    const delivery: Delivery = {
      eventId: crypto.randomUUID(),
      timestamp: new Date().toISOString(),
      bookingCode: null,
      listingId: null,
    };
    // Throws for a missing setting before anything is printed.
    invocation.client();
    if (flag("deliver") && !out.json)
      out.note(`Each endpoint will record this notification: ${JSON.stringify(delivery)}`);
    const checks: Check[] = [];
    for await (const check of allChecks(invocation, delivery)) {
      checks.push(check);
      const [color, mark] = marks[check.state];
      if (!out.json)
        out.line(`${out.style(color, mark)} ${printable(check.check)}: ${printable(check.detail)}`);
    }
    const failure = checks.find(({ state }) => state === "failed");
    if (out.json) {
      const recorded = flag("deliver") ? { recorded: delivery } : { wouldRecord: delivery };
      out.result(
        { ok: failure === undefined, ...recorded, checks: checks.map(({ code, ...check }) => check) },
        () => "",
      );
    }
    return failure?.code ?? exitCodes.done;
  },
};
