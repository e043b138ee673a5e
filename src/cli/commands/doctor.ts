import type { StayhookClient } from "../../client/client.ts";
import { APIError, ResponseValidationError } from "../../client/client-errors.ts";
import { isLoopback, parseUrl, withTopic } from "../../client/urls.ts";
import { type Listing, listingStatuses, type WebhookConfig } from "../../models/records.ts";
import { knownStatus } from "../../models/statuses.ts";
import { isCheckable } from "../../stores/store-problem.ts";
import { accountOptions, tokensGiven } from "../account-tokens.ts";
import { type Command, exitCodeOf, exitCodes, type Invocation } from "../command.ts";
import { schemaOf, storeOptions, withStore } from "../open-store.ts";
import { printable } from "../output.ts";
import { howToMakeConfig, toOf, toOption } from "../url-options.ts";
import { type Posted, post, REPLY_TIME } from "./trigger.ts";

/**
 * The largest accepted difference between the clocks of this machine and the platform, ms. The value allows for a
 * slow answer of the platform.
 */
const CLOCK_TOLERANCE = 60_000;
/** The longest answer time without a warning, ms. When busy, a slower endpoint could exceed the platform's limit. */
const SLOW = REPLY_TIME / 3;

/** A check is `skipped` if it is not possible, or if it needs `--deliver` and the option is absent. */
type State = "passed" | "warned" | "failed" | "skipped";

/** The finding of a check. `detail` also says what to do. A failed check may have an `exitCode`, by default 1. */
type Finding = readonly [state: State, detail: string, exitCode?: number];

/** The result of one check, printed on one line. */
interface Check {
  /** The account, if accounts are given. */
  readonly account?: string;
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
async function* checkPlatform(
  { describe, io }: Invocation,
  { webhookConfig, listings }: StayhookClient,
): AsyncGenerator<Check, WebhookConfig | undefined> {
  const { signal } = io;
  try {
    const { data, response } = await listings.list({ signal }).withResponse();
    yield checkOf("access token", [
      "passed",
      `The platform accepts the token and lists ${data.length} listings.`,
    ]);
    yield checkClock(response.headers);
    yield* checkStatuses(data);
  } catch (error) {
    signal.throwIfAborted();
    const check = checkOfError(error, describe(error));
    yield check;
    if (error instanceof APIError && error.headers) yield checkClock(error.headers);
    if (check.state === "failed") return undefined;
  }
  try {
    const config = await webhookConfig.get({ signal });
    yield* checkConfig(config, io.env.STAYHOOK_ENDPOINT);
    return config;
  } catch (error) {
    signal.throwIfAborted();
    const detail = `The webhook configuration could not be read. ${describe(error)}`;
    yield checkOf("configuration", ["failed", detail, exitCodeOf(error)]);
    return undefined;
  }
}

/** Warns of statuses for which no callback is named. */
function* checkStatuses(all: readonly Listing[]): Generator<Check> {
  const known: readonly string[] = listingStatuses;
  const unknown = all.filter(({ status }) => !known.includes(knownStatus("listing", status)));
  const [first] = unknown;
  if (!first) return;
  yield checkOf("statuses", [
    "warned",
    `stayhook does not know the status ${JSON.stringify(first.status)} of listing ${first.listingId}. Only the callbacks "listing.unknown", "listing" and "fallback" run for ${unknown.length} of the ${all.length} listings.`,
  ]);
}

/** Turns an error of `listings.list` into a check. The list always exists, so 404 means a wrong base URL. */
function checkOfError(error: unknown, text: string): Check {
  const code = exitCodeOf(error);
  if (error instanceof ResponseValidationError && error.issues.some(({ path }) => path.length > 0))
    return checkOf("access token", [
      "warned",
      `The platform accepts the token, but some listings in its answer are invalid. ${text}`,
    ]);
  if (error instanceof ResponseValidationError) {
    const detail = `${text}. Is the base URL right? Check STAYHOOK_BASE_URL or --base-url.`;
    return checkOf("base URL", ["failed", detail, code]);
  }
  const names: Readonly<Record<number, string>> = {
    [exitCodes.refused]: "access token",
    [exitCodes.notFound]: "base URL",
  };
  return checkOf(names[code] ?? "platform", ["failed", text, code]);
}

/** @param expected - the URL that `config ensure` would set, from STAYHOOK_ENDPOINT */
function* checkConfig(config: WebhookConfig | undefined, expected = ""): Generator<Check> {
  const delivery = (...finding: Finding) => checkOf("configuration", finding);
  const endpoints = (...finding: Finding) => checkOf("endpoints", finding);
  if (!config) return yield delivery("failed", `There is no webhook configuration. ${howToMakeConfig}`);
  yield config.isActive
    ? delivery("passed", "Delivery is on.")
    : delivery(
        "failed",
        "Delivery is off, so the platform sends nothing. To switch delivery on, run: stayhook config on",
      );
  const topics = Object.keys(config.endpoints);
  if (topics.length === 0)
    return yield endpoints("failed", "No endpoint is configured. To set one, run: stayhook config ensure");
  const missing = ["bookings", "listings"].filter((topic) => !topics.includes(topic)).join(" and ");
  if (missing !== "")
    yield endpoints(
      "warned",
      `No URL is configured for ${missing}, so the platform sends no notifications of ${missing}.`,
    );
  const others = expected === "" ? "" : topicsElsewhere(config, expected).join(" and ");
  if (others !== "")
    yield endpoints(
      "warned",
      `The URL configured for ${others} is not the URL in STAYHOOK_ENDPOINT. To set the URL, run: stayhook config ensure`,
    );
}

/** Returns the topics whose URL is neither `expected` nor `expected` with the topic in its query. */
function topicsElsewhere({ endpoints }: WebhookConfig, expected: string): string[] {
  const wanted = parseUrl(expected)?.href;
  const isElsewhere = ([topic, url]: readonly [string, unknown]) =>
    wanted === undefined || ![wanted, withTopic(wanted, topic)].includes(parseUrl(url)?.href ?? "");
  return Object.entries(endpoints)
    .filter(isElsewhere)
    .map(([topic]) => topic);
}

function checkClock(headers: Headers): Check {
  const clock = (...finding: Finding) => checkOf("clock", finding);
  const date = Date.parse(headers.get("date") ?? "");
  if (Number.isNaN(date))
    return clock("skipped", "The clock was not checked, because the platform's answer has no Date header.");
  const apart = Math.round((Date.now() - date) / 1000);
  if (Math.abs(apart) * 1000 <= CLOCK_TOLERANCE)
    return clock("passed", "The clocks of this machine and the platform agree.");
  const difference = `${Math.abs(apart)} s ${apart > 0 ? "ahead of" : "behind"} the platform's clock`;
  return clock(
    "failed",
    `This machine's clock is ${difference}, so deadlines of booking requests are wrong. Set this machine's clock.`,
  );
}

/**
 * Checks an endpoint with several requests. Only `delivery` is valid, so the endpoint records no other request.
 *
 * @param delivery - the notification to send with `--deliver`
 */
async function* checkEndpoint(
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
  yield found("refuses a wrong secret", secretFinding(guessed, url));
  yield found("refuses a malformed body", malformedFinding(await post(endpoint, '{"eventId":', signal)));

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

function secretFinding(posted: Posted, url: URL): Finding {
  const redirected = redirectFinding(posted);
  if (redirected) return redirected;
  const { status, error } = posted;
  if (status === undefined) return ["failed", `The endpoint did not answer (${error}).`];
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

function malformedFinding(posted: Posted): Finding {
  const redirected = redirectFinding(posted);
  if (redirected) return redirected;
  const { status, error } = posted;
  if (status === undefined) return ["failed", `The endpoint did not answer (${error}).`];
  if (status === 400) return ["passed", "The endpoint answered 400."];
  if (status === 401 || status === 403)
    return ["failed", `The endpoint answered ${status}. Is the secret in the URL right?`];
  if (status === 404) return ["failed", "The endpoint answered 404. Is the path of its URL right?"];
  return ["failed", `The endpoint answered ${status}, but 400 was expected.`];
}

/** Compares the version of the store's tables with the version that this stayhook makes, if a store is named. */
async function* checkStore(invocation: Invocation): AsyncGenerator<Check> {
  const store = (...finding: Finding) => checkOf("store", finding);
  try {
    const schema = await schemaOf(invocation);
    if (schema === undefined) return;
    const { version, expected } = schema;
    const found = `The store has schema version ${version}`;
    const versions = `${found}, and this version of stayhook makes version ${expected}`;
    if (version === expected) yield store("passed", `${found}, which this version of stayhook makes.`);
    else if (version > expected)
      yield store(
        "warned",
        `${versions}. A newer version has upgraded the store, and this version can go on using it.`,
      );
    else
      yield store(
        "warned",
        `${versions}. The first start of this version upgrades the store. If your app sets migrate: false, run the SQL of migrationSql({ from: ${version} }) before.`,
      );
    if (version >= expected) yield* checkServer(invocation);
  } catch (error) {
    invocation.io.signal.throwIfAborted();
    yield store("failed", (error as Error).message, exitCodeOf(error));
  }
}

/** Checks the rights of the store's user, and the settings of its server that can lose events. */
async function* checkServer(invocation: Invocation): AsyncGenerator<Check> {
  const problems = await withStore(
    invocation,
    async (store) => (isCheckable(store) ? await store.problems() : []),
    { migrate: false },
  );
  for (const { fails, detail } of problems)
    yield checkOf("store's server", [fails ? "failed" : "warned", detail]);
  if (problems.length === 0)
    yield checkOf("store's server", ["passed", "The store may read and write, and no setting risks events."]);
}

/** @param delivery - the notification for `--deliver`. It refers to no booking or listing. */
async function* allChecks(invocation: Invocation, delivery: string): AsyncGenerator<Check> {
  const tokens = tokensGiven(invocation);
  const client = await invocation.client(tokens);
  const to = await toOf(invocation);
  yield* checkStore(invocation);
  if (tokens === undefined) return yield* checkAccount(invocation, { client, to, delivery });
  for (const account of tokens.keys()) {
    const checks = checkAccount(invocation, { client: client.account(account), to, delivery });
    for await (const found of checks) yield { ...found, account, check: `${account}: ${found.check}` };
  }
}

interface AccountChecks {
  readonly client: StayhookClient;
  /** The endpoint to check in place of the configured ones. */
  readonly to: string | undefined;
  readonly delivery: string;
}

async function* checkAccount(
  invocation: Invocation,
  { client, to, delivery }: AccountChecks,
): AsyncGenerator<Check> {
  const config = yield* checkPlatform(invocation, client);
  // If several topics have the same URL, check the URL once.
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
  description: `Prints one line for each check. An endpoint must answer over https in time. It must refuse two test requests: one
with a wrong secret, and one with a malformed body. It does not record the two test requests. With --deliver, the
command also sends one test notification twice, and the endpoint must answer 200 both times. The test notification
names no booking or listing. If a store is given, the command compares the version of its tables with the version that
this stayhook makes, checks the rights and the settings that it needs, and changes nothing in the store. The exit code is the code of the first failed check.`,
  examples: [
    "stayhook doctor",
    "stayhook doctor --deliver --json",
    "stayhook doctor --account a17",
    "stayhook doctor --accounts tokens.json",
  ],
  asksPlatform: true,
  options: {
    ...toOption("check this endpoint instead of the configured endpoints"),
    deliver: { help: "also send a test notification, which the endpoint records" },
    ...accountOptions,
    ...storeOptions,
  },
  run: async (invocation) => {
    const { out, flag } = invocation;
    const now = new Date().toISOString();
    const delivery = { eventId: crypto.randomUUID(), timestamp: now, bookingCode: null, listingId: null };
    // `client()` throws if a setting is missing. Call it before anything is printed.
    await invocation.client(tokensGiven(invocation));
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
