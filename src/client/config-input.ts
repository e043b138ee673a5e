import { InvalidArgumentError, type Issue } from "../errors.ts";
import { isObject } from "./unwrap.ts";
import { parseUrl, problemWithEndpoint } from "./url-rules.ts";

/** A URL for each topic: https, or http on a loopback host where the client's `baseUrl` is on one too. */
export interface EndpointsInput {
  readonly bookings?: string | undefined;
  readonly listings?: string | undefined;
  readonly messages?: string | undefined;
  /** Topics that are newer than this package. */
  readonly [topic: string]: string | undefined;
}

/** What is written as the webhook configuration. */
export interface ConfigInput {
  /** Whether notifications are sent. */
  readonly isActive: boolean;
  readonly endpoints: EndpointsInput;
}

/** @throws InvalidArgumentError naming each field that is wrong */
export function checkConfig(config: ConfigInput, baseUrl: URL): ConfigInput {
  const issues = [
    ...problemsWithSwitch((config as ConfigInput | undefined)?.isActive),
    ...problemsWithEndpoints(config?.endpoints, baseUrl, false),
  ];
  if (issues.length > 0) throw new InvalidArgumentError(issues);
  return { isActive: config.isActive, endpoints: config.endpoints };
}

/** @throws InvalidArgumentError where it is no boolean */
export function checkSwitch(isActive: unknown): undefined {
  const issues = problemsWithSwitch(isActive);
  if (issues.length > 0) throw new InvalidArgumentError(issues);
}

export function problemsWithSwitch(isActive: unknown): Issue[] {
  return typeof isActive === "boolean" ? [] : [{ path: ["isActive"], message: "must be true or false" }];
}

/** What in endpoint URLs is likely to be the secret by which an endpoint knows the platform. */
export function secretsIn(config: unknown): string[] {
  const urls = Object.values((config as ConfigInput).endpoints).map((url) => parseUrl(url));
  return urls.flatMap((url) => {
    if (!url) return [];
    const segment = url.pathname.split("/").at(-1) ?? "";
    const given = [...url.searchParams.values(), url.password].filter((text) => text.length >= 6);
    // A short last segment is rather a word.
    return segment.length >= 16 ? [...given, segment] : given;
  });
}

/** @param removable - whether a topic may be `null` */
export function problemsWithEndpoints(endpoints: unknown, baseUrl: URL, removable: boolean): Issue[] {
  if (!isObject(endpoints))
    return [{ path: ["endpoints"], message: "must be an object: a URL for each topic" }];
  const issues: Issue[] = [];
  for (const [topic, url] of Object.entries(endpoints)) {
    if (url === undefined || (removable && url === null)) continue;
    const message = problemWithEndpoint(url, baseUrl);
    if (message !== undefined) issues.push({ path: ["endpoints", topic], message });
  }
  return issues;
}
