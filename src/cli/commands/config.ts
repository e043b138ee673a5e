import { ConflictError, NotFoundError } from "../../client/errors.ts";
import type { WebhookConfig } from "../../models/records.ts";
import type { Command, Invocation, Options } from "../command.ts";
import { endpointOptions, endpointsOf, masked, toOf, toOption } from "../endpoints.ts";
import { MissingError, UsageError } from "../exit-code.ts";
import { confirm, yesOption } from "../options.ts";

const setOptions: Options = {
  ...endpointOptions,
  inactive: { type: "boolean", help: "switch delivery off" },
};

const missingConfig = () =>
  new MissingError("The account has no webhook configuration. Make one with stayhook config ensure.");

const shownConfig = (config: WebhookConfig): WebhookConfig => {
  const { endpoints, otherEndpoints } = config;
  return {
    ...config,
    endpoints: maskedUrls(endpoints),
    ...(otherEndpoints && { otherEndpoints: maskedUrls(otherEndpoints) }),
  };
};

function maskedUrls<T extends object>(urls: T): T {
  const entries = Object.entries(urls);
  return Object.fromEntries(
    entries.map(([topic, url]) => [topic, typeof url === "string" ? masked(url) : url]),
  ) as T;
}

const fieldsOf = ({ isActive, endpoints, otherEndpoints }: WebhookConfig) =>
  Object.entries({ isActive, ...endpoints, ...otherEndpoints });

function show({ out }: Invocation, config: WebhookConfig | undefined): void {
  const shown = config && shownConfig(config);
  out.result(shown ?? null, () => (shown ? out.fields(fieldsOf(shown)) : out.style("dim", "none")));
}

async function set(invocation: Invocation): Promise<undefined> {
  const endpoints = Object.fromEntries(
    Object.entries(await endpointsOf(invocation)).filter(([, url]) => url !== ""),
  );
  if (Object.keys(endpoints).length === 0)
    throw new UsageError("Give at least one of --bookings, --listings and --messages.");
  const { webhookConfig } = invocation.client();
  const config = { isActive: !invocation.flag("inactive"), endpoints };
  const { signal } = invocation.io;
  const exists = (await webhookConfig.get({ signal })) !== undefined;
  const written = exists
    ? await webhookConfig.update(config, { signal })
    : await webhookConfig.create(config, { signal }).catch((error: unknown) => {
        // Another machine has created one meanwhile.
        if (error instanceof ConflictError) return webhookConfig.update(config, { signal });
        throw error;
      });
  show(invocation, written ?? config);
}

async function toggle(invocation: Invocation, isActive: boolean): Promise<undefined> {
  const { webhookConfig } = invocation.client();
  const { signal } = invocation.io;
  try {
    const shown = await webhookConfig.toggle(isActive, { signal });
    // The answer may come without the configuration.
    show(invocation, shown ?? (await webhookConfig.get({ signal })));
  } catch (error) {
    if (error instanceof NotFoundError) throw missingConfig();
    throw error;
  }
}

const get: Command = {
  name: "get",
  summary: "show the webhook configuration, with *** in place of secrets in its URLs",
  examples: ["stayhook config get --json"],
  asksPlatform: true,
  options: { "show-secrets": { type: "boolean", help: "show the URLs as they are" } },
  run: async (invocation) => {
    const config = await invocation.client().webhookConfig.get({ signal: invocation.io.signal });
    if (!config) throw missingConfig();
    const { out, flag } = invocation;
    if (flag("show-secrets")) out.result(config, () => out.fields(fieldsOf(config)));
    else show(invocation, config);
  },
};

const setCommand: Command = {
  name: "set",
  summary: "replace the whole configuration; removes topics that are not given",
  examples: ["stayhook config set --bookings - < url.txt"],
  asksPlatform: true,
  options: setOptions,
  run: set,
};

const ensure: Command = {
  name: "ensure",
  summary: "set the given topics; other topics stay as they are",
  description: "Writes only if something differs. An empty URL removes its topic.",
  examples: [
    "stayhook config ensure --to - < url.txt",
    'STAYHOOK_ENDPOINT_BOOKINGS="$URL" stayhook config ensure',
  ],
  asksPlatform: true,
  options: { ...setOptions, ...toOption("one endpoint for all topics, with topic=<topic> added for each") },
  run: async (invocation) => {
    const byTopic = Object.entries(await endpointsOf(invocation)).map(([topic, url]) => [topic, url || null]);
    const to = byTopic.length > 0 && invocation.text("to") === undefined ? undefined : await toOf(invocation);
    if (byTopic.length > 0 && to !== undefined)
      throw new UsageError("Give --to or endpoints of topics, but not both.");
    const endpoints = to ?? Object.fromEntries(byTopic);
    if (byTopic.length === 0 && to === undefined)
      throw new UsageError("Give at least one of --bookings, --listings and --messages, or --to.");
    const ensured = await invocation
      .client()
      .webhookConfig.ensure(
        { isActive: !invocation.flag("inactive"), endpoints },
        { signal: invocation.io.signal },
      );
    const { out } = invocation;
    const shown = { ...ensured, config: shownConfig(ensured.config) };
    out.result(shown, () => out.fields([["action", shown.action], ...fieldsOf(shown.config)]));
  },
};

const on: Command = {
  name: "on",
  summary: "switch delivery on",
  examples: ["stayhook config on"],
  asksPlatform: true,
  run: (invocation) => toggle(invocation, true),
};

const off: Command = {
  name: "off",
  summary: "switch delivery off; the platform does not send missed notifications later",
  examples: ["stayhook config off"],
  asksPlatform: true,
  options: yesOption,
  run: async (invocation) => {
    await confirm(invocation, "Switch the delivery of notifications off");
    return toggle(invocation, false);
  },
};

const remove: Command = {
  name: "delete",
  summary: "delete the configuration; the platform then sends no notifications",
  examples: ["stayhook config delete"],
  asksPlatform: true,
  options: yesOption,
  run: async (invocation) => {
    const { client, io, out } = invocation;
    await confirm(invocation, "Delete the webhook configuration");
    const { response } = await client().webhookConfig.delete({ signal: io.signal }).withResponse();
    if (response.status === 404 || response.status === 410) throw missingConfig();
    out.result({ deleted: true }, () => "deleted");
  },
};

export const config: Command = {
  name: "config",
  summary: "read and change the webhook configuration",
  examples: ["stayhook config get", "stayhook config off"],
  commands: [get, setCommand, ensure, on, off, remove],
};
