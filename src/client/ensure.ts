// `ensure` of `client.webhookConfig`: reads the configuration, and writes what differs.

import { pause } from "../async.ts";
import { type Issue, StayhookError } from "../errors.ts";
import type { WebhookConfig } from "../models/records.ts";
import type { Answer } from "./answer.ts";
import type { Reader } from "./api-promise.ts";
import { APIError, ConnectionError, NotFoundError } from "./client-errors.ts";
import { setUrls, type Urls, type WantedConfig, type WireConfig } from "./config-input.ts";
import { secretsIn } from "./endpoint-secrets.ts";
import { maskedUrl, parseUrl } from "./urls.ts";

/** The result of `ensure`. */
export type Ensured = {
  /** The action that `ensure` took. */
  readonly action: "created" | "updated" | "unchanged";
  /** The configuration as `ensure` read it last. */
  readonly config: WebhookConfig;
  /** The configuration that `ensure` found and replaced. It is `undefined` unless `action` is `updated`. */
  readonly previous?: WebhookConfig | undefined;
};

interface EnsureOptions {
  readonly wanted: WantedConfig;
  /** Reads the configuration. No error shows `secrets`, which later calls may add to. */
  readonly read: <T>(reader: Reader<T>, secrets: Iterable<string>) => Promise<T>;
  readonly write: (method: "POST" | "PUT", body: WireConfig, secrets: Iterable<string>) => Promise<unknown>;
  /** Reads the configuration from an answer. Resolves to `undefined` if there is none. */
  readonly current: (answer: Answer) => WebhookConfig | undefined | Promise<WebhookConfig | undefined>;
  readonly warn: (message: string) => void;
  readonly signal: AbortSignal | undefined;
}

/** One call of `ensure`. */
export class Ensure {
  readonly #wanted: WantedConfig;
  readonly #options: EnsureOptions;
  /** The secrets of all URLs that this call has sent or read. */
  readonly #secrets: Set<string>;

  constructor(options: EnsureOptions) {
    this.#wanted = options.wanted;
    this.#options = options;
    this.#secrets = new Set(secretsIn({ endpoints: options.wanted.urls }));
  }

  async run(): Promise<Ensured> {
    const found = await this.#read();
    return found ? this.#update(found) : this.#create();
  }

  async #create(): Promise<Ensured> {
    try {
      return await this.#send("created", setUrls(this.#wanted.urls));
    } catch (error) {
      // The statuses 400, 409 and 422 may mean that another machine has created the configuration first.
      if (!(error instanceof APIError) || ![400, 409, 422].includes(error.status)) throw error;
      const theirs = await this.#read();
      if (!theirs) throw error;
      return this.#update(theirs);
    }
  }

  async #update(found: WebhookConfig): Promise<Ensured> {
    const { isActive, urls } = this.#wanted;
    const before = setUrls({ ...found.endpoints, ...found.otherEndpoints });
    const endpoints = setUrls({ ...before, ...urls });
    if (isActive === found.isActive && haveSameUrls(endpoints, before))
      return { action: "unchanged", config: found };
    try {
      const written = await this.#send("updated", endpoints);
      const replaced = otherHosts(before, endpoints);
      if (replaced.length > 0)
        this.#options.warn(
          `ensure() replaced the URLs of another host: ${replaced.join("; ")}. If another app needs its notifications, give it its URL again`,
        );
      return { ...written, previous: found };
    } catch (error) {
      // Somebody deleted the configuration after `ensure` read it.
      if (error instanceof NotFoundError) return this.#send("created", endpoints);
      throw error;
    }
  }

  /** Writes the configuration, and reads it back: the answer to a write may repeat the request, whatever the platform keeps. */
  async #send(action: "created" | "updated", endpoints: WireConfig["endpoints"]): Promise<Ensured> {
    const { write, signal } = this.#options;
    const body = { isActive: this.#wanted.isActive, endpoints };
    const lost = await write(action === "created" ? "POST" : "PUT", body, this.#secrets).then(
      () => undefined,
      lostAnswer,
    );
    try {
      let config = await this.#readBack();
      if (config instanceof StayhookError) {
        // A platform of several machines may need a moment until all of them have the write.
        await pause(500, signal ?? new AbortController().signal);
        config = await this.#readBack();
      }
      if (config instanceof StayhookError) throw config;
      return { action, config };
    } catch (error) {
      throw lost ?? error;
    }
  }

  /** Reads the configuration after a write. Gives the error if the platform does not have what was asked for. */
  #readBack(): Promise<WebhookConfig | StayhookError> {
    return this.#options.read(async (answer) => {
      const config = await this.#certain(answer);
      if (!config)
        return answer.notFound("ensure() wrote the webhook configuration, but the platform does not have it");
      const issues = differences(this.#wanted, config);
      return issues.length === 0 ? config : answer.invalid(issues);
    }, this.#secrets);
  }

  #read(): Promise<WebhookConfig | undefined> {
    return this.#options.read((answer) => this.#certain(answer), this.#secrets);
  }

  /** Like `current`, but an empty answer does not mean that there is no configuration. */
  async #certain(answer: Answer): Promise<WebhookConfig | undefined> {
    if (answer.cutOff) throw answer.cutOff;
    const config = await this.#options.current(answer);
    for (const secret of config ? secretsIn(config) : []) this.#secrets.add(secret);
    return config;
  }
}

/** Returns the error of a write that the platform may have done, although its answer was lost. Throws any other error. */
function lostAnswer(error: unknown): StayhookError {
  if (error instanceof ConnectionError) return error;
  // A gateway answers so if it lost the answer of the platform.
  if (error instanceof APIError && (error.status === 502 || error.status === 504)) return error;
  throw error;
}

/** Returns an issue for each part of the platform's configuration that is not as `ensure` asked. */
function differences({ isActive, urls }: WantedConfig, config: WebhookConfig): Issue[] {
  const issue = (path: string[], asked: unknown, has: unknown): Issue => ({
    path,
    message: `ensure() asked for ${asked}, but the platform has ${has}`,
  });
  const has: Urls = { ...config.endpoints, ...config.otherEndpoints };
  const shown = (url: unknown): string =>
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
