import { ConflictError, NotFoundError } from "../../client/client-errors.ts";
import { maskedUrl } from "../../client/urls.ts";
import { StayhookError } from "../../errors.ts";
import type { WebhookConfig } from "../../models/records.ts";
import { topics } from "../../models/topics.ts";
import { accountOption, clientOfAccount } from "../account-tokens.ts";
import { confirm, yesOption } from "../arguments.ts";
import {
  type Command,
  type Invocation,
  MissingError,
  type Options,
  type Subcommand,
  UsageError,
} from "../command.ts";
import { firstLinesOf, howToMakeConfig, toOf, toOption, urlOption, warnOfQuery } from "../url-options.ts";

const variableOf = (topic: string): string => `STAYHOOK_ENDPOINT_${topic.toUpperCase()}`;

const setOptions: Options = {
  ...accountOption,
  ...Object.fromEntries(
    topics.map((topic) => [
      topic,
      urlOption(`the endpoint for notifications of ${topic}`, variableOf(topic)),
    ]),
  ),
  inactive: { help: "switch delivery off" },
};

/**
 * Reads the URLs of the topics from the command line. If no option is given, reads the URLs from the environment.
 *
 * @returns the URLs by topic. An option with an empty value gives an empty URL
 * @throws UsageError if stdin has too few lines
 */
async function endpointsOf(invocation: Invocation): Promise<Record<string, string>> {
  const { io, text } = invocation;
  const urls = (read: (topic: string) => string | undefined) => {
    const all = topics.map((topic) => [topic, read(topic)] as const);
    return Object.fromEntries(all.filter(([, url]) => url !== undefined)) as Record<string, string>;
  };
  const given = urls(text);
  if (Object.keys(given).length === 0) return urls((topic) => io.env[variableOf(topic)] || undefined);
  for (const [topic, url] of Object.entries(given)) warnOfQuery(invocation, topic, url, variableOf(topic));
  const fromStdin = Object.keys(given).filter((topic) => given[topic] === "-");
  if (fromStdin.length === 0) return given;
  const lines = await firstLinesOf(io, fromStdin.length);
  // If stdin has a single line, use the line for every `-` option, because one handler usually serves all topics.
  for (const [index, topic] of fromStdin.entries()) {
    const line = lines.length === 1 ? lines[0] : lines[index];
    if (line === undefined)
      throw new UsageError(
        'Stdin has too few lines. For each option with the value "-", write one line with the URL of the option. Or write a single line, if all these options have the same URL.',
      );
    given[topic] = line;
  }
  return given;
}

const maskedUrls = <Urls extends object>(urls: Urls) =>
  Object.fromEntries(
    Object.entries(urls).map(([topic, url]) => [topic, typeof url === "string" ? maskedUrl(url) : url]),
  ) as Urls;

function maskedConfig(config: WebhookConfig): WebhookConfig {
  const { endpoints, otherEndpoints } = config;
  const others = otherEndpoints && { otherEndpoints: maskedUrls(otherEndpoints) };
  return { ...config, endpoints: maskedUrls(endpoints), ...others };
}

const fieldsOf = ({ isActive, endpoints, otherEndpoints }: WebhookConfig) =>
  Object.entries({ isActive, ...endpoints, ...otherEndpoints });

function show({ out }: Invocation, config: WebhookConfig | undefined): void {
  const shown = config && maskedConfig(config);
  out.result(shown ?? null, () => (shown ? out.fields(fieldsOf(shown)) : out.style("dim", "none")));
}

const missingConfig = () => new MissingError(`The account has no webhook configuration. ${howToMakeConfig}`);

async function set(invocation: Invocation): Promise<undefined> {
  const endpoints = Object.fromEntries(
    Object.entries(await endpointsOf(invocation)).filter(([, url]) => url !== ""),
  );
  if (Object.keys(endpoints).length === 0)
    throw new UsageError("Give at least one of --bookings, --listings and --messages.");
  const { webhookConfig } = await clientOfAccount(invocation);
  const config = { isActive: !invocation.flag("inactive"), endpoints };
  const { signal } = invocation.io;
  const exists = (await webhookConfig.get({ signal })) !== undefined;
  const written = exists
    ? await webhookConfig.update(config, { signal })
    : await webhookConfig.create(config, { signal }).catch((error: unknown) => {
        // Another process has created a configuration in the meantime.
        if (error instanceof ConflictError) return webhookConfig.update(config, { signal });
        throw error;
      });
  // The platform's answer may lack the configuration.
  const kept = written ?? (await webhookConfig.get({ signal }));
  if (!kept)
    throw new StayhookError(
      "The platform accepted the webhook configuration, but does not have it. Ask the platform's support.",
    );
  show(invocation, kept);
}

async function toggle(invocation: Invocation, isActive: boolean): Promise<undefined> {
  const { webhookConfig } = await clientOfAccount(invocation);
  const { signal } = invocation.io;
  try {
    const shown = await webhookConfig.toggle(isActive, { signal });
    // The platform's answer may lack the configuration.
    show(invocation, shown ?? (await webhookConfig.get({ signal })));
  } catch (error) {
    if (error instanceof NotFoundError) throw missingConfig();
    throw error;
  }
}

const get: Subcommand = {
  name: "get",
  summary: "show the webhook configuration, with *** in place of secrets in its URLs",
  examples: ["stayhook config get --json"],
  asksPlatform: true,
  options: { ...accountOption, "show-secrets": { help: "show the secrets in the URLs" } },
  run: async (invocation) => {
    const config = await (await clientOfAccount(invocation)).webhookConfig.get({
      signal: invocation.io.signal,
    });
    if (!config) throw missingConfig();
    const { out, flag } = invocation;
    if (flag("show-secrets")) out.result(config, () => out.fields(fieldsOf(config)));
    else show(invocation, config);
  },
};

const setCommand: Subcommand = {
  name: "set",
  summary: "replace the webhook configuration: set the given topics, and remove all other topics",
  examples: ["stayhook config set --bookings - < url.txt"],
  asksPlatform: true,
  options: setOptions,
  run: set,
};

const ensure: Subcommand = {
  name: "ensure",
  summary: "set the endpoints of the given topics, and keep all other topics",
  description:
    "Writes the webhook configuration only if the given endpoints differ from it. An empty URL removes its topic.",
  examples: [
    "stayhook config ensure --to - < url.txt",
    'STAYHOOK_ENDPOINT_BOOKINGS="$URL" stayhook config ensure',
  ],
  asksPlatform: true,
  options: {
    ...setOptions,
    ...toOption(
      "use this endpoint for all topics; adds topic=<topic> to the URL of each topic",
      "STAYHOOK_ENDPOINT",
    ),
  },
  run: async (invocation) => {
    const { flag, io, out, text } = invocation;
    const given = Object.entries(await endpointsOf(invocation));
    const to =
      given.length > 0 && text("to") === undefined ? undefined : await toOf(invocation, "STAYHOOK_ENDPOINT");
    if (given.length > 0 && to !== undefined)
      throw new UsageError(
        "Give --to, or endpoints for single topics (such as --bookings or STAYHOOK_ENDPOINT_BOOKINGS), but not both.",
      );
    if (given.length === 0 && to === undefined)
      throw new UsageError(
        "No URL is given. Set STAYHOOK_ENDPOINT to the public URL of your app, or give --to, or at least one of --bookings, --listings and --messages.",
      );
    const endpoints = to ?? Object.fromEntries(given.map(([topic, url]) => [topic, url || null]));
    const wanted = { isActive: !flag("inactive"), endpoints };
    const ensured = await (await clientOfAccount(invocation)).webhookConfig.ensure(wanted, {
      signal: io.signal,
    });
    const { previous } = ensured;
    const shown = {
      ...ensured,
      config: maskedConfig(ensured.config),
      ...(previous && { previous: maskedConfig(previous) }),
    };
    out.result(shown, () => out.fields([["action", shown.action], ...fieldsOf(shown.config)]));
  },
};

const on: Subcommand = {
  name: "on",
  summary: "switch delivery on",
  examples: ["stayhook config on"],
  asksPlatform: true,
  options: accountOption,
  run: (invocation) => toggle(invocation, true),
};

const off: Subcommand = {
  name: "off",
  summary: "switch delivery off; while delivery is off, notifications are lost",
  examples: ["stayhook config off"],
  asksPlatform: true,
  options: { ...accountOption, ...yesOption },
  run: async (invocation) => {
    await confirm(invocation, "Switch the delivery of notifications off");
    return toggle(invocation, false);
  },
};

const remove: Subcommand = {
  name: "delete",
  summary: "delete the webhook configuration, so that the platform sends no notifications",
  examples: ["stayhook config delete"],
  asksPlatform: true,
  options: { ...accountOption, ...yesOption },
  run: async (invocation) => {
    const { io, out } = invocation;
    await confirm(invocation, "Delete the webhook configuration");
    const { response } = await (await clientOfAccount(invocation)).webhookConfig
      .delete({ signal: io.signal })
      .withResponse();
    if (response.status === 404 || response.status === 410) throw missingConfig();
    out.result({ deleted: true }, () => "webhook configuration deleted");
  },
};

export const config: Command = {
  examples: ["stayhook config get", "stayhook config off"],
  commands: [get, setCommand, ensure, on, off, remove],
};
