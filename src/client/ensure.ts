import { InvalidArgumentError } from "../errors.ts";
import type { Endpoints, WebhookConfig } from "../models/webhook-config.ts";
import { type ConfigInput, problemsWithEndpoints, problemsWithSwitch } from "./config-input.ts";
import { ConflictError } from "./errors.ts";
import { parseUrl } from "./url-rules.ts";

/** What the configuration is to be. */
export interface EnsureInput {
  /** Default `true`. */
  readonly isActive?: boolean | undefined;
  /** Topics that are left out stay as they are; `null` removes one. */
  readonly endpoints: {
    readonly bookings?: string | null | undefined;
    readonly listings?: string | null | undefined;
    readonly messages?: string | null | undefined;
    readonly [topic: string]: string | null | undefined;
  };
}

/** What was done, and the configuration that is there now: as answered, else as it was sent. */
export interface Ensured {
  readonly action: "created" | "updated" | "unchanged";
  readonly config: WebhookConfig;
}

/** How the configuration is reached. */
interface Access {
  get(): Promise<WebhookConfig | undefined>;
  create(config: ConfigInput): Promise<WebhookConfig | undefined>;
  update(config: ConfigInput): Promise<WebhookConfig | undefined>;
}

/** Reads, then creates, updates or leaves alone. A write is its last request. */
export async function ensure(input: EnsureInput, baseUrl: URL, access: Access): Promise<Ensured> {
  const { isActive = true, endpoints } = (input ?? {}) as EnsureInput;
  const issues = [...problemsWithSwitch(isActive), ...problemsWithEndpoints(endpoints, baseUrl, true)];
  if (issues.length > 0) throw new InvalidArgumentError(issues);

  let current = await access.get();
  if (!current) {
    const config = { isActive, endpoints: merged({}, endpoints) };
    try {
      return { action: "created", config: (await access.create(config)) ?? config };
    } catch (error) {
      if (!(error instanceof ConflictError)) throw error;
      // Another machine was first.
      current = await access.get();
      if (!current) throw error;
    }
  }
  const config = { isActive, endpoints: merged(current.endpoints, endpoints) };
  if (isSame(config, current)) return { action: "unchanged", config: current };
  return { action: "updated", config: (await access.update(config)) ?? config };
}

function merged(current: Endpoints, wanted: EnsureInput["endpoints"]): Endpoints {
  const all = {
    ...current,
    ...Object.fromEntries(Object.entries(wanted).filter(([, url]) => url !== undefined)),
  };
  return Object.fromEntries(Object.entries(all).filter(([, url]) => url !== null)) as Endpoints;
}

function isSame(wanted: ConfigInput, current: WebhookConfig): boolean {
  const topics = Object.keys(wanted.endpoints);
  return (
    wanted.isActive === current.isActive &&
    topics.length === Object.keys(current.endpoints).length &&
    topics.every((topic) => normalised(wanted.endpoints[topic]) === normalised(current.endpoints[topic]))
  );
}

function normalised(url: unknown): unknown {
  return parseUrl(url)?.href ?? url;
}
