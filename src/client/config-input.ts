// The arguments of the methods of `client.webhookConfig`.

import * as z from "zod";
import type { Endpoints } from "../models/records.ts";
import { isTopic, topics } from "../models/topics.ts";
import { check, option, optionsObject } from "../options.ts";
import { isObject } from "./json.ts";
import { problemWithEndpoint, withTopic } from "./urls.ts";

/** A webhook configuration, as `create` and `update` take it. */
export type ConfigInput = {
  /** Whether the platform sends notifications. */
  readonly isActive: boolean;
  /** The URL of each topic: https, or http if both the URL and the client's `baseUrl` have a loopback host. */
  readonly endpoints: Readonly<Endpoints>;
  /** The URLs of topics that are newer than this package. If a topic is `null`, the request does not contain it. */
  readonly otherEndpoints?: Readonly<Record<string, string | null>> | undefined;
};

/** The configuration that `ensure` sets up. */
export type EnsureInput = {
  /** Whether the platform sends notifications. Default `true`. */
  readonly isActive?: boolean | undefined;
  /**
   * The URL of each topic. A topic that you leave out keeps its URL, and `null` removes the topic's URL. A string is
   * one URL for all topics: `ensure` adds `topic=<topic>` to its query.
   */
  readonly endpoints: string | { readonly [T in keyof Endpoints]: Endpoints[T] | null };
  /** The URLs of topics that are newer than this package. `null` removes a topic. */
  readonly otherEndpoints?: Readonly<Record<string, string | null>> | undefined;
};

/** The webhook configuration as the client sends it, with all topics in one object. */
export interface WireConfig {
  readonly isActive: boolean;
  readonly endpoints: Readonly<Record<string, string>>;
}

export type Urls = Readonly<Record<string, string | null | undefined>>;

/** The configuration that `ensure` was asked for: `isActive` and the URLs by topic, with `null` for a topic to remove. */
export interface WantedConfig {
  readonly isActive: boolean;
  readonly urls: Urls;
}

/** @throws InvalidArgumentError naming each field that is wrong */
export function checkConfig(config: ConfigInput, baseUrl: URL): WireConfig {
  check(() => optionsObject({ isActive: isActiveSchema(), ...urlsShape(baseUrl, false) }), config);
  return { isActive: config.isActive, endpoints: setUrls({ ...config.endpoints, ...config.otherEndpoints }) };
}

/** @throws InvalidArgumentError naming each field that is wrong */
export function checkEnsureInput(input: EnsureInput, baseUrl: URL): WantedConfig {
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
  const endpoint = removable ? urlOrNull : url.optional();
  const endpoints = optionsObject(Object.fromEntries(topics.map((topic) => [topic, endpoint])), {
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
