import { ConflictError, NotFoundError } from "../../client/errors.ts";
import type { WebhookConfig } from "../../models/webhook-config.ts";
import type { Command, Invocation, Option } from "../command.ts";
import { MissingError, UsageError } from "../exit-code.ts";

const endpointOptions: Readonly<Record<string, Option>> = {
  bookings: { type: "string", value: "<url>", help: "where notifications of bookings go" },
  listings: { type: "string", value: "<url>", help: "where notifications of listings go" },
  messages: { type: "string", value: "<url>", help: "where notifications of messages go" },
  inactive: { type: "boolean", help: "deliver nothing for now" },
};

const noConfig = "the account has no webhook configuration";

/** Topics by their options; `null` where the option is empty. */
function endpointsOf({ text }: Invocation): Record<string, string | null> {
  const given = ["bookings", "listings", "messages"].map((topic) => [topic, text(topic)] as const);
  return Object.fromEntries(
    given.flatMap(([topic, url]) => (url === undefined ? [] : [[topic, url || null]])),
  );
}

const fieldsOf = ({ isActive, endpoints, otherEndpoints }: WebhookConfig) =>
  Object.entries({ isActive, ...endpoints, ...otherEndpoints });

function show({ out }: Invocation, config: WebhookConfig | undefined): void {
  out.result(config ?? null, () => (config ? out.fields(fieldsOf(config)) : out.style("dim", "none")));
}

async function set(invocation: Invocation): Promise<undefined> {
  const endpoints = Object.fromEntries(
    Object.entries(endpointsOf(invocation)).filter(([, url]) => url !== null),
  );
  if (Object.keys(endpoints).length === 0)
    throw new UsageError("give at least one of --bookings, --listings and --messages");
  const { webhookConfig } = invocation.client();
  const config = { isActive: !invocation.flag("inactive"), endpoints: endpoints as Record<string, string> };
  const { signal } = invocation.io;
  const exists = (await webhookConfig.get({ signal })) !== undefined;
  const written = exists
    ? await webhookConfig.update(config, { signal })
    : await webhookConfig.create(config, { signal }).catch((error: unknown) => {
        // Somebody else has made one in between.
        if (error instanceof ConflictError) return webhookConfig.update(config, { signal });
        throw error;
      });
  show(invocation, written ?? config);
  return undefined;
}

async function toggle(invocation: Invocation, isActive: boolean): Promise<undefined> {
  const { webhookConfig } = invocation.client();
  const { signal } = invocation.io;
  try {
    const shown = await webhookConfig.toggle(isActive, { signal });
    // What the platform answers to this is not known: what holds now is asked for.
    show(invocation, shown ?? (await webhookConfig.get({ signal })));
  } catch (error) {
    if (error instanceof NotFoundError)
      throw new MissingError(`${noConfig}; make one by stayhook config set`);
    throw error;
  }
  return undefined;
}

const get: Command = {
  name: "get",
  summary: "show the webhook configuration",
  examples: ["stayhook config get --json"],
  asksPlatform: true,
  run: async (invocation) => {
    const config = await invocation.client().webhookConfig.get({ signal: invocation.io.signal });
    if (!config) throw new MissingError(`${noConfig}; make one by stayhook config set`);
    show(invocation, config);
    return undefined;
  },
};

const setCommand: Command = {
  name: "set",
  summary: "replace the whole configuration: topics that are left out are removed",
  examples: ["stayhook config set --bookings 'https://example.com/hooks?key=s3cret'"],
  asksPlatform: true,
  options: endpointOptions,
  run: set,
};

const ensure: Command = {
  name: "ensure",
  summary: "make the configuration be what is given: topics that are left out stay as they are",
  description: "Writes only where something differs. An empty URL removes its topic.",
  examples: [
    "stayhook config ensure --bookings 'https://example.com/hooks?key=s3cret' --listings 'https://example.com/hooks?key=s3cret'",
  ],
  asksPlatform: true,
  options: endpointOptions,
  run: async (invocation) => {
    const endpoints = endpointsOf(invocation);
    if (Object.keys(endpoints).length === 0)
      throw new UsageError(
        "give at least one of --bookings, --listings and --messages; config on and config off only switch",
      );
    const ensured = await invocation
      .client()
      .webhookConfig.ensure(
        { isActive: !invocation.flag("inactive"), endpoints },
        { signal: invocation.io.signal },
      );
    const { action, config } = ensured;
    const { out } = invocation;
    out.result(ensured, () => out.fields([["action", action], ...fieldsOf(config)]));
    return undefined;
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
  summary:
    "switch delivery off: nothing arrives until it is on again, and what happens meanwhile is not sent later",
  examples: ["stayhook config off"],
  asksPlatform: true,
  run: (invocation) => toggle(invocation, false),
};

const remove: Command = {
  name: "delete",
  summary: "delete the configuration: nothing is delivered any more",
  examples: ["stayhook config delete"],
  asksPlatform: true,
  run: async ({ client, io, out }) => {
    const { response } = await client().webhookConfig.delete({ signal: io.signal }).withResponse();
    if (response.status === 404 || response.status === 410) throw new MissingError(noConfig);
    out.result({ deleted: true }, () => "deleted");
    return undefined;
  },
};

export const config: Command = {
  name: "config",
  summary: "read and change the webhook configuration",
  examples: ["stayhook config get", "stayhook config off"],
  commands: [get, setCommand, ensure, on, off, remove],
};
