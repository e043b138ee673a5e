import type { Log } from "../logger.ts";
import { WebhookConfig } from "../models/records.ts";
import type { Model, Readers } from "./answer-body.ts";
import { type ApiPromise, callEndpoint, type Reader } from "./api-promise.ts";
import type { RequestOptions } from "./client-options.ts";
import {
  type ConfigInput,
  checkConfig,
  checkEnsureInput,
  checkIsActive,
  type EnsureInput,
  type WireConfig,
} from "./config-input.ts";
import { secretsIn, secretsInText } from "./endpoint-secrets.ts";
import { Ensure, type Ensured } from "./ensure.ts";
import type { Call, Http, HttpMethod } from "./http.ts";
import { type Path, path } from "./urls.ts";

export type { ConfigInput, EnsureInput } from "./config-input.ts";
export type { Ensured } from "./ensure.ts";

type MaybeConfig = WebhookConfig | undefined;

/** The one webhook configuration of the account: `client.webhookConfig`. */
export interface WebhookConfigResource {
  /** Creates the configuration. Resolves to the configuration, or `undefined` if the answer does not show it. */
  create(config: ConfigInput, options?: RequestOptions): ApiPromise<MaybeConfig>;
  /** Replaces the configuration. Resolves to the configuration, or `undefined` if the answer does not show it. */
  update(config: ConfigInput, options?: RequestOptions): ApiPromise<MaybeConfig>;
  /** Reads the configuration. Resolves to `undefined` if there is no configuration. */
  get(options?: RequestOptions): ApiPromise<MaybeConfig>;
  /** Switches notifications on or off. Resolves to the configuration, or `undefined` if the answer shows none. */
  toggle(isActive: boolean, options?: RequestOptions): ApiPromise<MaybeConfig>;
  /** Deletes the configuration, which stops all notifications. Resolves even if there is no configuration. */
  delete(options?: RequestOptions): ApiPromise<MaybeConfig>;
  /**
   * Reads the configuration. If it does not exist, creates it. If it differs from `input`, updates it. After a write,
   * `ensure` reads the configuration back, and compares `isActive` and the URLs with `input`. If they differ, `ensure`
   * reads once more after half a second. Call `ensure` at every start of the app, on all machines. If it replaces a URL
   * of another host, it logs a warning, because another app may need that URL.
   *
   * @throws NotFoundError if the platform accepted the configuration, but does not have it afterwards
   * @throws ResponseValidationError if the platform accepted the configuration, but has another one afterwards. The
   * issues show what `ensure` asked for and what it read, without the secrets in the URLs
   * @throws ResponseValidationError if an answer to a read has no `isActive` and `endpoints`, so that `ensure` cannot tell
   * which configuration the platform has
   * @example
   * ```ts
   * await client.webhookConfig.ensure({ endpoints: "https://example.com/hooks?key=…" });
   * ```
   */
  ensure(input: EnsureInput, options?: RequestOptions): Promise<Ensured>;
}

const configModel: Model<WebhookConfig> = {
  name: "configuration",
  schema: WebhookConfig,
  required: ["isActive", "endpoints"],
  unexpected: ({ endpoints, otherEndpoints }) =>
    Object.entries({ ...endpoints, ...otherEndpoints })
      .filter(([, url]) => typeof url !== "string")
      .map(([topic]) => `endpoints.${topic}`),
};

interface ConfigContext {
  readonly baseUrl: URL;
  readonly log: Log;
  /** The account whose configuration it is. */
  readonly account: string | undefined;
}

export function webhookConfigResource(
  http: Http,
  readers: Readers,
  { baseUrl, log, account }: ConfigContext,
): WebhookConfigResource {
  const current = readers.recordOrNone(configModel);
  const shown = readers.recordIfShown(configModel);
  const configPath = path`/v2/webhooks/config`;
  // All calls go through this function: no error shows a secret of a URL, be it in the request, in `secrets` or in the answer.
  const call = <T>(
    method: HttpMethod,
    reader: Reader<T>,
    options: RequestOptions | undefined,
    { to = configPath, secrets = [], ...extras }: ConfigCall = {},
  ) =>
    callEndpoint(http, method, to, reader, options, {
      ...extras,
      secrets: (body) => [...secrets, ...(body ? secretsIn(body as WireConfig) : [])],
      secretsInAnswer: secretsInText,
    });
  const write = (method: HttpMethod, body: () => WireConfig, options: RequestOptions | undefined) =>
    call(method, shown, options, { body });
  return {
    get: (options) => call("GET", current, options, { mayBeMissing: true }),
    create: (config, options) => write("POST", () => checkConfig(config, baseUrl), options),
    update: (config, options) => write("PUT", () => checkConfig(config, baseUrl), options),
    toggle: (isActive, options) =>
      call("PATCH", shown, options, {
        to: path`/v2/webhooks/config/toggle`,
        query: { isActive },
        repeatable: true,
        body: () => checkIsActive(isActive),
      }),
    delete: (options) => call("DELETE", shown, options, { mayBeMissing: true }),
    ensure: async (input, options) =>
      new Ensure({
        wanted: checkEnsureInput(input, baseUrl),
        read: (reader, secrets) => call("GET", reader, options, { mayBeMissing: true, secrets }),
        write: (method, body, secrets) => call(method, shown, options, { body: () => body, secrets }),
        current,
        warn: (message) => log.warn(message, { account }),
        signal: options?.signal,
      }).run(),
  };
}

interface ConfigCall extends Pick<Call, "query" | "repeatable" | "mayBeMissing"> {
  /** Default: the path of the configuration. */
  readonly to?: Path;
  readonly body?: () => WireConfig | undefined;
  /** Secrets that the request does not have, and the answer may have. */
  readonly secrets?: Iterable<string>;
}
