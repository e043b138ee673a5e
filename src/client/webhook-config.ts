import * as z from "zod";
import { pause } from "../async.ts";
import { type Issue, StayhookError } from "../errors.ts";
import type { Log } from "../logger.ts";
import { type Endpoints, WebhookConfig } from "../models/records.ts";
import { isTopic, topics } from "../models/topics.ts";
import { check, option, optionsObject } from "../options.ts";
import type { Model, Readers } from "./answer-body.ts";
import { type ApiPromise, callEndpoint, type Reader } from "./api-promise.ts";
import { APIError, ConnectionError, NotFoundError } from "./client-errors.ts";
import type { RequestOptions } from "./client-options.ts";
import type { Http, HttpMethod } from "./http.ts";
import { isObject } from "./json.ts";
import { maskedUrl, parseUrl, path, problemWithEndpoint, withTopic } from "./urls.ts";

/** A webhook configuration, as `create` and `update` take it. */
export interface ConfigInput {
  /** Whether the platform sends notifications. */
  readonly isActive: boolean;
  /** The URL of each topic: https, or http if both the URL and the client's `baseUrl` have a loopback host. */
  readonly endpoints: Readonly<Endpoints>;
  /** The URLs of topics that are newer than this package. If a topic is `null`, the request does not contain it. */
  readonly otherEndpoints?: Readonly<Record<string, string | null>> | undefined;
}

/** The configuration that `ensure` sets up. */
export interface EnsureInput {
  /** Whether the platform sends notifications. Default `true`. */
  readonly isActive?: boolean | undefined;
  /**
   * The URL of each topic. A topic that you leave out keeps its URL, and `null` removes the topic's URL. A string is
   * one URL for all topics: `ensure` adds `topic=<topic>` to its query.
   */
  readonly endpoints: string | { readonly [T in keyof Endpoints]: Endpoints[T] | null };
  /** The URLs of topics that are newer than this package. `null` removes a topic. */
  readonly otherEndpoints?: Readonly<Record<string, string | null>> | undefined;
}

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

/** The result of `ensure`. */
export interface Ensured {
  /** The action that `ensure` took. */
  readonly action: "created" | "updated" | "unchanged";
  /** The configuration as `ensure` read it last. */
  readonly config: WebhookConfig;
  /** The configuration that `ensure` found and replaced. It is `undefined` unless `action` is `updated`. */
  readonly previous?: WebhookConfig | undefined;
}

const configModel: Model<WebhookConfig> = {
  name: "configuration",
  schema: WebhookConfig,
  isOwn: false,
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
  /** Like `current`, but an empty answer does not mean that there is no configuration. */
  const certain: typeof current = (answer) => {
    if (answer.cutOff) throw answer.cutOff;
    return current(answer);
  };
  const shown = readers.recordIfShown(configModel);
  const configPath = path`/v2/webhooks/config`;
  const read = <T>(reader: Reader<T>, options: RequestOptions | undefined) =>
    callEndpoint(http, "GET", configPath, reader, options, { mayBeMissing: true });
  const write = (method: HttpMethod, body: () => WireConfig, options: RequestOptions | undefined) =>
    callEndpoint(http, method, configPath, shown, options, { body, secrets: secretsIn });
  /** Reads the configuration after a write. Gives the error if the platform does not have what was `asked`. */
  const readBack = (asked: Asked, options: RequestOptions | undefined) =>
    callEndpoint<WebhookConfig | StayhookError>(
      http,
      "GET",
      configPath,
      async (answer) => {
        const config = await certain(answer);
        if (!config)
          return answer.notFound(
            "ensure() wrote the webhook configuration, but the platform does not have it",
          );
        const issues = differences(asked, config);
        return issues.length === 0 ? config : answer.invalid(issues, { secrets: secretsIn(config) });
      },
      options,
      { mayBeMissing: true, secrets: () => secretsIn({ endpoints: asked.urls }) },
    );
  return {
    get: (options) => read(current, options),
    create: (config, options) => write("POST", () => checkConfig(config, baseUrl), options),
    update: (config, options) => write("PUT", () => checkConfig(config, baseUrl), options),
    toggle: (isActive, options) =>
      callEndpoint(http, "PATCH", path`/v2/webhooks/config/toggle`, shown, options, {
        query: { isActive },
        repeatable: true,
        body: () => checkIsActive(isActive),
      }),
    delete: (options) => callEndpoint(http, "DELETE", configPath, shown, options, { mayBeMissing: true }),
    ensure: async (input, options) => {
      const asked = checkEnsureInput(input, baseUrl);
      const { isActive, urls } = asked;
      const send = async (action: "created" | "updated", endpoints: WireConfig["endpoints"]) => {
        const lost = await write(
          action === "created" ? "POST" : "PUT",
          () => ({ isActive, endpoints }),
          options,
        ).then(() => undefined, lostAnswer);
        try {
          // The answer to a write may repeat the request, even if the platform keeps something else.
          let config = await readBack(asked, options);
          if (config instanceof StayhookError) {
            // A platform of several machines may need a moment until all of them have the write.
            await pause(500, options?.signal ?? new AbortController().signal);
            config = await readBack(asked, options);
          }
          if (config instanceof StayhookError) throw config;
          return { action, config };
        } catch (error) {
          throw lost ?? error;
        }
      };
      const update = async (found: WebhookConfig) => {
        const before = setUrls({ ...found.endpoints, ...found.otherEndpoints });
        const endpoints = setUrls({ ...before, ...urls });
        if (isActive === found.isActive && haveSameUrls(endpoints, before))
          return { action: "unchanged" as const, config: found };
        try {
          const written = await send("updated", endpoints);
          const replaced = otherHosts(before, endpoints);
          if (replaced.length > 0)
            log.warn(
              `ensure() replaced the URLs of another host: ${replaced.join("; ")}. If another app needs its notifications, give it its URL again`,
              { account },
            );
          return { ...written, previous: found };
        } catch (error) {
          // Somebody deleted the configuration after `ensure` read it.
          if (error instanceof NotFoundError) return send("created", endpoints);
          throw error;
        }
      };
      const create = async () => {
        try {
          return await send("created", setUrls(urls));
        } catch (error) {
          // The statuses 400, 409 and 422 may mean that another machine has created the configuration first.
          if (!(error instanceof APIError) || ![400, 409, 422].includes(error.status)) throw error;
          const theirs = await read(certain, options);
          if (!theirs) throw error;
          return update(theirs);
        }
      };

      const found = await read(certain, options);
      return found ? update(found) : create();
    },
  };
}

/** Returns the error of a write that the platform may have done, although its answer was lost. Throws any other error. */
function lostAnswer(error: unknown): StayhookError {
  if (error instanceof ConnectionError) return error;
  // A gateway answers so if it lost the answer of the platform.
  if (error instanceof APIError && (error.status === 502 || error.status === 504)) return error;
  throw error;
}

/** Returns an issue for each part of the platform's configuration that is not as `ensure` asked. */
function differences({ isActive, urls }: Asked, config: WebhookConfig): Issue[] {
  const issue = (path: string[], asked: unknown, has: unknown): Issue => ({
    path,
    message: `ensure() asked for ${asked}, but the platform has ${has}`,
  });
  const has: Urls = { ...config.endpoints, ...config.otherEndpoints };
  const shown = (url: unknown) =>
    url === undefined || url === null
      ? "no URL"
      : parseUrl(url)
        ? maskedUrl(url as string)
        : "a value that is no URL";
  return [
    ...(isActive === config.isActive ? [] : [issue(["isActive"], isActive, config.isActive)]),
    ...Object.entries(urls)
      .filter(([topic, url]) => normalized(url ?? undefined) !== normalized(has[topic] ?? undefined))
      .map(([topic, url]) => {
        const [asked, kept] = [shown(url), shown(has[topic])];
        return issue(["endpoints", topic], asked, asked === kept ? `${kept} with another secret` : kept);
      }),
  ];
}

/** Returns a text for each topic whose URL was on another host, without the secrets of the URLs. */
function otherHosts(before: WireConfig["endpoints"], after: WireConfig["endpoints"]): string[] {
  return Object.entries(before)
    .filter(([topic, url]) => {
      const [old, own] = [parseUrl(url)?.host, parseUrl(after[topic])?.host];
      return old !== undefined && own !== undefined && old !== own;
    })
    .map(([topic, url]) => `${topic}: ${maskedUrl(url)} by ${maskedUrl(after[topic]!)}`);
}

function haveSameUrls(some: WireConfig["endpoints"], others: WireConfig["endpoints"]): boolean {
  const topics = Object.keys(some);
  return (
    topics.length === Object.keys(others).length &&
    topics.every((topic) => normalized(some[topic]) === normalized(others[topic]))
  );
}

function normalized(url: unknown): unknown {
  return parseUrl(url)?.href ?? url;
}

/** The webhook configuration as the client sends it, with all topics in one object. */
export interface WireConfig {
  readonly isActive: boolean;
  readonly endpoints: Readonly<Record<string, string>>;
}

type Urls = Readonly<Record<string, string | null | undefined>>;

/** The configuration that `ensure` was asked for: `isActive` and the URLs by topic, with `null` for a topic to remove. */
interface Asked {
  readonly isActive: boolean;
  readonly urls: Urls;
}

/** @throws InvalidArgumentError naming each field that is wrong */
export function checkConfig(config: ConfigInput, baseUrl: URL): WireConfig {
  check(() => optionsObject({ isActive: isActiveSchema(), ...urlsShape(baseUrl, false) }), config);
  return { isActive: config.isActive, endpoints: setUrls({ ...config.endpoints, ...config.otherEndpoints }) };
}

/** @throws InvalidArgumentError naming each field that is wrong */
export function checkEnsureInput(input: EnsureInput, baseUrl: URL): Asked {
  const isShared = typeof Object(input).endpoints === "string";
  const shape = {
    isActive: isActiveSchema().optional(),
    ...urlsShape(baseUrl, true),
    ...(isShared && { endpoints: option((url) => problemWithShared(url, baseUrl)) }),
  };
  check(() => optionsObject(shape), input);
  const { isActive = true, endpoints, otherEndpoints } = input;
  const byTopic = typeof endpoints === "string" ? sharedEndpoints(endpoints) : endpoints;
  const defined = Object.entries({ ...byTopic, ...otherEndpoints }).filter(([, url]) => url !== undefined);
  return { isActive, urls: Object.fromEntries(defined) };
}

/** @throws InvalidArgumentError if `isActive` is not a boolean */
export function checkIsActive(isActive: unknown): undefined {
  check(isActiveSchema, isActive, { at: ["isActive"] });
}

const isActiveSchema = () => z.boolean({ error: "must be true or false" });

/** @param removable - whether a topic of `endpoints` may be `null` */
function urlsShape(baseUrl: URL, removable: boolean) {
  const url = option((given) => problemWithEndpoint(given, baseUrl));
  const urlOrNull = url.nullish();
  const known = removable ? urlOrNull : url.optional();
  const endpoints = optionsObject(Object.fromEntries(topics.map((topic) => [topic, known])), {
    notObject: "must be an object with a URL for each topic",
    hint: " (a topic that is newer than this package belongs in otherEndpoints)",
  });
  const otherEndpoints = z.unknown().superRefine((given, context) => {
    if (!isObject(given)) return context.addIssue("must be an object with a URL for each topic");
    for (const [topic, each] of Object.entries(given)) {
      const wrong = isTopic(topic)
        ? "is a known topic, so it belongs in endpoints"
        : urlOrNull.safeParse(each).error?.issues[0]?.message;
      if (wrong !== undefined) context.addIssue({ code: "custom", path: [topic], message: wrong });
    }
  });
  return { endpoints, otherEndpoints: otherEndpoints.optional() };
}

/** Drops the topics without a URL. */
export function setUrls(urls: Urls): Record<string, string> {
  const set = Object.entries(urls).filter((entry): entry is [string, string] => (entry[1] ?? null) !== null);
  return Object.fromEntries(set);
}

/** Returns the parts of endpoint URLs that may be secrets: query values, passwords and long last path segments. */
export function secretsIn(config: unknown): string[] {
  const { endpoints, otherEndpoints } = config as Pick<WebhookConfig, "endpoints" | "otherEndpoints">;
  return Object.values({ ...endpoints, ...otherEndpoints }).flatMap((text) => {
    const url = parseUrl(text);
    if (!url) return [];
    const given = [...url.searchParams.values(), url.password];
    const segment = url.pathname.split("/").at(-1) ?? "";
    return [
      ...given.filter((each) => each.length >= 6 && !isTopic(each)),
      // A shorter last segment is probably an ordinary word and no secret.
      ...(segment.length >= 16 ? [segment] : []),
    ];
  });
}

/** Returns the problem with a URL for all topics, or `undefined`. Never shows the URL, which may hold a secret. */
export function problemWithShared(url: unknown, baseUrl: URL): string | undefined {
  const problem = problemWithEndpoint(url, baseUrl);
  if (problem !== undefined) return problem;
  return new URL(String(url)).searchParams.has("topic")
    ? "must not have a `topic` in its query, because ensure() adds the topic"
    : undefined;
}

/** Returns the URL of each topic: the shared URL, with the topic in its query. */
export function sharedEndpoints(given: string): Record<string, string> {
  return Object.fromEntries(topics.map((topic) => [topic, withTopic(given, topic)]));
}
