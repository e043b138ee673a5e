import type { StayhookClient } from "../../client/client.ts";
import { APIError, httpTime, ResponseValidationError } from "../../client/client-errors.ts";
import { parseUrl, withTopic } from "../../client/urls.ts";
import { type Listing, listingStatuses, type WebhookConfig } from "../../models/records.ts";
import { knownStatus } from "../../models/statuses.ts";
import { isCheckable, type StoreProblem } from "../../stores/store-problem.ts";
import { accountOptions, tokensGiven } from "../account-tokens.ts";
import { type Command, exitCodeOf, exitCodes, type Invocation } from "../command.ts";
import { schemaOf, storeOptions, withStore } from "../open-store.ts";
import { plural, printable } from "../output.ts";
import { howToMakeConfig, toOf, toOption } from "../url-options.ts";
import { type Check, checkEndpoint, checkOf, type Finding } from "./doctor-endpoint.ts";

/**
 * The largest accepted difference between the clocks of this machine and the platform, ms. The value allows for a
 * slow answer of the platform.
 */
const CLOCK_TOLERANCE = 60_000;

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
      `The platform accepts the token and lists ${plural(data.length, "listing")}.`,
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
  const date = httpTime(headers.get("date") ?? "");
  if (date === undefined)
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

/** Compares the version of the store's tables with the version that this stayhook makes, if a store is named. */
async function* checkStore(invocation: Invocation): AsyncGenerator<Check> {
  const store = (...finding: Finding) => checkOf("store", finding);
  try {
    const schema = await schemaOf(invocation);
    if (schema === undefined) return;
    const { version, expected } = schema;
    const found = `The store has schema version ${version}`;
    const versions = `${found}, and this version of stayhook makes version ${expected}`;
    if (version < expected)
      return yield store(
        "warned",
        `${versions}. The first start of this version upgrades the store. If your app sets migrate: false, run the SQL of migrationSql({ from: ${version} }) before.`,
      );
    const problems = await problemsOf(invocation);
    if (problems.some(({ fails }) => fails))
      yield store("failed", `${found}, but it cannot do its job. The next lines say why.`);
    else if (version === expected) yield store("passed", `${found}, which this version of stayhook makes.`);
    else
      yield store(
        "warned",
        `${versions}. A newer version has upgraded the store, and this version can go on using it.`,
      );
    for (const { fails, detail } of problems)
      yield checkOf("store's server", [fails ? "failed" : "warned", detail]);
    if (problems.length === 0)
      yield checkOf("store's server", [
        "passed",
        "The store may read and write, and no setting risks events.",
      ]);
  } catch (error) {
    invocation.io.signal.throwIfAborted();
    yield store("failed", (error as Error).message, exitCodeOf(error));
  }
}

/** Lets the store do its job with an event of its own, and checks the settings of its server that can lose events. */
function problemsOf(invocation: Invocation): Promise<readonly StoreProblem[]> {
  return withStore(invocation, async (store) => (isCheckable(store) ? await store.problems() : []), {
    migrate: false,
  });
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
this stayhook makes, and checks the settings of its server. It also adds, claims, settles and removes an event of its own,
which no other process sees and which leaves nothing behind. The exit code is the code of the first failed check.`,
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
