import type { WebhookConfig } from "../models/webhook-config.ts";
import type { ApiPromise } from "./api-promise.ts";
import { type ConfigInput, checkConfig, checkSwitch, secretsIn } from "./config-input.ts";
import { callEndpoint } from "./endpoint.ts";
import { type Ensured, type EnsureInput, ensure } from "./ensure.ts";
import type { Http, Method } from "./http.ts";
import type { RequestOptions } from "./options.ts";
import { path } from "./path.ts";
import type { Reader } from "./readers.ts";

type MaybeConfig = WebhookConfig | undefined;

/** The account's one webhook configuration: whether notifications are sent, and where to. */
export class WebhookConfigs {
  readonly #http: Http;
  readonly #baseUrl: URL;
  readonly #shown: Reader<MaybeConfig>;
  readonly #current: Reader<MaybeConfig>;

  constructor(http: Http, baseUrl: URL, shown: Reader<MaybeConfig>, current: Reader<MaybeConfig>) {
    this.#http = http;
    this.#baseUrl = baseUrl;
    this.#shown = shown;
    this.#current = current;
  }

  /** Creates it. Resolves to the configuration where the platform answers with one, else to `undefined`. */
  create(config: ConfigInput, options?: RequestOptions): ApiPromise<MaybeConfig> {
    return this.#write("POST", () => checkConfig(config, this.#baseUrl), options);
  }

  /** Replaces it. Resolves to the configuration where the platform answers with one, else to `undefined`. */
  update(config: ConfigInput, options?: RequestOptions): ApiPromise<MaybeConfig> {
    return this.#write("PUT", () => checkConfig(config, this.#baseUrl), options);
  }

  /** The current one; `undefined` where there is none. */
  get(options?: RequestOptions): ApiPromise<MaybeConfig> {
    return callEndpoint(this.#http, "GET", path`/v2/webhooks/config`, this.#current, options, {
      mayBeMissing: true,
    });
  }

  /** Switches delivery on or off. Resolves to the configuration where the platform answers with one. */
  toggle(isActive: boolean, options?: RequestOptions): ApiPromise<MaybeConfig> {
    const extras = { query: { isActive }, repeatable: true, body: () => checkSwitch(isActive) };
    return callEndpoint(this.#http, "PATCH", path`/v2/webhooks/config/toggle`, this.#shown, options, extras);
  }

  /** Deletes it: nothing is delivered any more. One that is gone when a retry asks for it counts as deleted. */
  delete(options?: RequestOptions): ApiPromise<MaybeConfig> {
    return callEndpoint(this.#http, "DELETE", path`/v2/webhooks/config`, this.#shown, options);
  }

  /**
   * Makes the configuration be what the app needs; to be called whenever it starts, on all machines. Topics
   * that are left out stay as they are, `null` removes one.
   *
   * @example
   * ```ts
   * await client.webhookConfig.ensure({
   *   endpoints: { bookings: "https://example.com/hooks?key=…", listings: "https://example.com/hooks?key=…" },
   * });
   * ```
   */
  ensure(input: EnsureInput, options?: RequestOptions): Promise<Ensured> {
    return ensure(input, this.#baseUrl, {
      get: () => this.get(options),
      // Not through create and update: topics that are left as they are need not pass our rules.
      create: (config) => this.#write("POST", () => config, options),
      update: (config) => this.#write("PUT", () => config, options),
    });
  }

  #write(
    method: Method,
    body: () => ConfigInput,
    options: RequestOptions | undefined,
  ): ApiPromise<MaybeConfig> {
    return callEndpoint(this.#http, method, path`/v2/webhooks/config`, this.#shown, options, {
      body,
      secrets: secretsIn,
    });
  }
}
