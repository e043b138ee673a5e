import { WebhookConfig } from "../models/webhook-config.ts";
import {
  type ConfigInput,
  checkConfig,
  checkEnsureInput,
  checkSwitch,
  type EnsureInput,
  secretsIn,
  setUrls,
  type WireConfig,
} from "./config-input.ts";
import { APIError, NotFoundError } from "./errors.ts";
import { type ApiPromise, callEndpoint, type Http, type Method } from "./http.ts";
import type { RequestOptions } from "./options.ts";
import type { Model, Readers } from "./readers.ts";
import { parseUrl, path } from "./urls.ts";

type MaybeConfig = WebhookConfig | undefined;

/** The one webhook configuration of the account: `client.webhookConfig`. */
export interface WebhookConfigResource {
  /** Creates the configuration. Resolves to it, or to `undefined` if the answer does not show it. */
  create(config: ConfigInput, options?: RequestOptions): ApiPromise<MaybeConfig>;
  /** Replaces the configuration. Resolves to it, or to `undefined` if the answer does not show it. */
  update(config: ConfigInput, options?: RequestOptions): ApiPromise<MaybeConfig>;
  /** Reads the configuration. Resolves to `undefined` if there is none. */
  get(options?: RequestOptions): ApiPromise<MaybeConfig>;
  /** Switches the notifications on or off. Resolves to the configuration, or to `undefined` as `update` does. */
  toggle(isActive: boolean, options?: RequestOptions): ApiPromise<MaybeConfig>;
  /** Deletes the configuration, so that the platform sends nothing any more. Resolves even if there is none. */
  delete(options?: RequestOptions): ApiPromise<MaybeConfig>;
  /**
   * Makes the configuration what your app needs: reads it, then creates it, updates it, or leaves it as it is. Call
   * it whenever the app starts, on all machines.
   *
   * @example
   * ```ts
   * await client.webhookConfig.ensure({ endpoints: "https://example.com/hooks?key=…" });
   * ```
   */
  ensure(input: EnsureInput, options?: RequestOptions): Promise<Ensured>;
}

/** The result of `ensure`. */
export interface Ensured {
  /** What `ensure` did. */
  readonly action: "created" | "updated" | "unchanged";
  /** The configuration as the platform answered it, else as `ensure` sent it. */
  readonly config: WebhookConfig;
}

export function webhookConfigResource(
  http: Http,
  readers: Readers,
  model: Model<WebhookConfig>,
  baseUrl: URL,
): WebhookConfigResource {
  const current = readers.recordOrNone(model);
  const shown = readers.recordIfShown(model);
  const place = path`/v2/webhooks/config`;
  const get = (options?: RequestOptions) =>
    callEndpoint(http, "GET", place, current, options, { mayBeMissing: true });
  const write = (method: Method, body: () => WireConfig, options: RequestOptions | undefined) =>
    callEndpoint(http, method, place, shown, options, { body, secrets: secretsIn });
  return {
    get,
    create: (config, options) => write("POST", () => checkConfig(config, baseUrl), options),
    update: (config, options) => write("PUT", () => checkConfig(config, baseUrl), options),
    toggle: (isActive, options) =>
      callEndpoint(http, "PATCH", path`/v2/webhooks/config/toggle`, shown, options, {
        query: { isActive },
        repeatable: true,
        body: () => checkSwitch(isActive),
      }),
    delete: (options) => callEndpoint(http, "DELETE", place, shown, options, { mayBeMissing: true }),
    ensure: (input, options) =>
      ensure(input, baseUrl, {
        get: () => get(options),
        create: (config) => write("POST", () => config, options),
        update: (config) => write("PUT", () => config, options),
      }),
  };
}

/** The requests that `ensure` makes. */
interface Access {
  get(): Promise<MaybeConfig>;
  create(config: WireConfig): Promise<MaybeConfig>;
  update(config: WireConfig): Promise<MaybeConfig>;
}

async function ensure(input: EnsureInput, baseUrl: URL, access: Access): Promise<Ensured> {
  const { isActive, urls } = checkEnsureInput(input, baseUrl);

  const create = async (config: WireConfig): Promise<Ensured> => ({
    action: "created",
    config: (await access.create(config)) ?? WebhookConfig.parse(config),
  });
  const update = async (current: WebhookConfig): Promise<Ensured> => {
    const before = setUrls({ ...current.endpoints, ...current.otherEndpoints });
    const config = { isActive, endpoints: setUrls({ ...before, ...urls }) };
    if (isActive === current.isActive && haveSameUrls(config.endpoints, before))
      return { action: "unchanged", config: current };
    try {
      return { action: "updated", config: (await access.update(config)) ?? WebhookConfig.parse(config) };
    } catch (error) {
      // It was deleted after it was read.
      if (error instanceof NotFoundError) return create(config);
      throw error;
    }
  };

  const current = await access.get();
  if (current) return update(current);
  try {
    return await create({ isActive, endpoints: setUrls(urls) });
  } catch (error) {
    // Another machine may have created it first. Platforms differ in the status that says so.
    if (!(error instanceof APIError) || ![400, 409, 422].includes(error.status)) throw error;
    const theirs = await access.get();
    if (!theirs) throw error;
    return update(theirs);
  }
}

type Urls = Readonly<Record<string, string>>;

function haveSameUrls(some: Urls, others: Urls): boolean {
  const topics = Object.keys(some);
  return (
    topics.length === Object.keys(others).length &&
    topics.every((topic) => normalized(some[topic]) === normalized(others[topic]))
  );
}

function normalized(url: unknown): unknown {
  return parseUrl(url)?.href ?? url;
}
