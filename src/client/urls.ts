import { IS_UNSET } from "../environment.ts";
import { describeKind, InvalidArgumentError } from "../errors.ts";
import { problemWithId, toId } from "../models/ids.ts";
import { isTopic } from "../models/topics.ts";

/** A path below the base URL. If `build` throws, the client's call returns a rejected promise. */
export interface Path {
  /** The path with the names of its parameters in place of their values: `/v2/bookings/{bookingCode}`. */
  readonly route: string;
  /**
   * @returns the path with encoded parameters, and its query. Only a path of `client.request` may have a query
   * @throws InvalidArgumentError if the path or a parameter is invalid
   */
  build(): { readonly path: string; readonly query: string };
}

/** The name and value of one parameter. */
type Parameter = Readonly<Record<string, string | number>>;

/**
 * Makes a path. Encodes each parameter, so that it stays within its segment of the path.
 *
 * @example path`/v2/bookings/${{ bookingCode }}`
 */
export function path(literals: TemplateStringsArray, ...parameters: readonly Parameter[]): Path {
  const fill = (write: (name: string, value: string | number) => string): string =>
    literals.reduce((before, literal, index) => {
      // Before each literal but the first one stands a parameter, which has one name.
      const [name, value] = Object.entries(parameters[index - 1]!)[0]!;
      return before + write(name, value) + literal;
    });
  return {
    route: fill((name) => `{${name}}`),
    build: () => ({ path: fill(segment), query: "" }),
  };
}

function segment(name: string, value: string | number): string {
  const refuse = (message: string): never => {
    throw new InvalidArgumentError({ path: [name], message });
  };
  if (name === "listingId")
    return String(
      toId(value) ??
        refuse(
          Number.isInteger(value)
            ? problemWithId(value)
            : `must be an integer, such as 5717008, not ${describeKind(value)}`,
        ),
    );
  if (Number.isSafeInteger(value)) return String(value);
  if (typeof value !== "string")
    return refuse(`must be a string, such as "HX3K9", not ${describeKind(value)}`);
  if (value === "") return refuse("must not be empty");
  // URL parsers resolve `.` and `..` even if the dots are percent-encoded.
  if (value === "." || value === "..") return refuse("must not be `.` or `..`");
  if (!value.isWellFormed()) return refuse("must not hold a lone surrogate");
  return encodeURIComponent(value);
}

/** Makes a path from the argument of `client.request`. */
export function rawPath(given: string): Path {
  const [before = "", ...query] = typeof given === "string" ? given.split("?") : [];
  return {
    route: before,
    build: () => {
      const message = problemWithPath(given);
      if (message !== undefined) throw new InvalidArgumentError({ path: ["path"], message });
      return { path: before, query: query.join("?") };
    },
  };
}

function problemWithPath(given: unknown): string | undefined {
  if (typeof given !== "string" || !given.startsWith("/")) return "must be a string that begins with /";
  if (given.startsWith("//")) return "must not begin with //, which would name another host";
  if (given.includes("#")) return "must not have a fragment";
  if (!given.isWellFormed()) return "must not hold a lone surrogate";
  const [before = ""] = given.split("?");
  // URL parsers read a backslash as a slash, and drop tabs and line breaks.
  if (before.includes("\\") || /\p{Cc}/u.test(given))
    return "must not hold backslashes or control characters";
  return hasDots(before) ? "must not have a segment `.` or `..`" : undefined;
}

/** Whether a path has a segment `.` or `..`, percent-encoded or not. */
function hasDots(path: string): boolean {
  return path
    .split("/")
    .flatMap((part) => decoded(part).split(/[/\\]/))
    .some((part) => part === "." || part === "..");
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    // The part has an invalid percent sign. Decode only its dots and slashes.
    return part.replace(/%2e/gi, ".").replace(/%2f/gi, "/").replace(/%5c/gi, "\\");
  }
}

/** Whether the host of a URL is this machine. */
export function isLoopback(url: URL): boolean {
  const host = url.hostname.replace(/\.$/, "");
  return (
    host === "localhost" || host.endsWith(".localhost") || host === "[::1]" || /^127(?:\.\d+){3}$/.test(host)
  );
}

/** Whether a URL has the origin of `baseUrl`, a path below the path of `baseUrl`, and no credentials. */
export function isBelow(url: URL, baseUrl: URL): boolean {
  const bare = url.username === "" && url.password === "" && url.origin === baseUrl.origin;
  return bare && url.pathname.startsWith(baseUrl.pathname.replace(/\/?$/, "/")) && !hasDots(url.pathname);
}

/** Parses an absolute http or https URL. Returns `undefined` for any other text, even if `URL` accepts the text. */
export function parseUrl(text: unknown): URL | undefined {
  if (typeof text !== "string" || !/^https?:\/\/[^\s\\\p{Cc}]+$/iu.test(text) || !URL.canParse(text))
    return undefined;
  return new URL(text);
}

/** Returns the base URL without a trailing slash, or a message if the URL is not allowed. */
export function checkBaseUrl(given: unknown, allowInsecureHttp: boolean): URL | string {
  const url = parseUrl(given instanceof URL ? given.href : given);
  if (!url) return "must be an absolute URL, such as https://api.example.com";
  if (url.username !== "" || url.password !== "")
    return "must not hold a user name or password. Use the option accessToken";
  // Test `href`, because `search` and `hash` are empty for a lone ? or #.
  if (/[?#]/.test(url.href)) return "must have neither a query nor a fragment";
  if (url.protocol !== "https:" && !isLoopback(url) && !allowInsecureHttp)
    return "must be https. Use http only for a loopback host, or set allowInsecureHttp to true";
  if (/\/v\d+\/*$/i.test(url.pathname)) {
    const [, version] = /\/(v\d+)\/*$/i.exec(url.pathname) ?? [];
    return `must not end in /${version}, because the client adds /v2 to each path. Leave out /${version}`;
  }
  url.pathname = url.pathname.replace(/\/+$/, "");
  return url;
}

/** Adds `topic=<topic>` to the query of an endpoint's URL. */
export function withTopic(endpoint: string, topic: string): string {
  return withParameter(endpoint, "topic", topic);
}

/** Adds a parameter to the query of an endpoint's URL. @param value - a text that needs no encoding */
export function withParameter(endpoint: string, name: string, value: string): string {
  const url = new URL(endpoint);
  // Do not use `searchParams`: it would encode the whole query again, and could change a secret in the query.
  url.search += `${url.search === "" ? "" : "&"}${name}=${value}`;
  return url.href;
}

/** Returns the problem with an endpoint's URL, or `undefined`. Never shows the URL, which may hold a secret. */
export function problemWithEndpoint(given: unknown, baseUrl: URL): string | undefined {
  if (given === "") return `must not be empty ${IS_UNSET}`;
  const url = parseUrl(given);
  if (!url) return "must be an absolute https URL";
  const sandboxed = isLoopback(url) && isLoopback(baseUrl);
  return url.protocol === "https:" || sandboxed ? undefined : "must be https";
}

/** Replaces possible secrets in a URL by `***`: the password, values in the query, and a long last path segment. */
export function maskedUrl(text: string): string {
  const url = parseUrl(text);
  if (!url) return text;
  const query = [...new URLSearchParams(url.search)].map(([name, value]) => {
    const isPlain = name === "topic" && isTopic(value);
    return `${encodeURIComponent(name)}=${isPlain ? value : "***"}`;
  });
  const path = url.pathname.replace(/[^/]{16,}$/, "***");
  const user = url.username === "" ? "" : `${url.username}${url.password === "" ? "" : ":***"}@`;
  return `${url.protocol}//${user}${url.host}${path}${query.length === 0 ? "" : `?${query.join("&")}`}`;
}
