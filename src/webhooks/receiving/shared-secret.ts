import { InvalidArgumentError, type Issue } from "../../errors.ts";
import { checkNoUnknown } from "../../options.ts";
import { type Verify, type VerifyRequest, withWeakness } from "./verify.ts";

/** Options of {@link sharedSecret}: where the secret is, in exactly one place, and what it is. */
export type SharedSecretOptions = {
  /**
   * One, or several while it is being changed: any of them lets a request in. An unset variable throws. A handler warns
   * of a secret with fewer than 16 characters.
   */
  readonly secret: string | readonly (string | undefined)[] | undefined;
} & (
  | {
      /** Name of the query parameter. */
      readonly query: string;
      readonly header?: undefined;
      readonly pathSegment?: undefined;
    }
  | {
      /** Name of the header. */
      readonly header: string;
      readonly query?: undefined;
      readonly pathSegment?: undefined;
    }
  | {
      /** The last segment of the path. */
      readonly pathSegment: "last";
      readonly query?: undefined;
      readonly header?: undefined;
    }
);

/**
 * A `verify` that lets in who knows a secret: it is in the endpoint URL that was configured at the platform, or
 * in a header that a proxy adds. Compared in constant time. A parameter that occurs twice is refused.
 *
 * @throws {InvalidArgumentError} where a secret is missing, empty, or has white space around it, or not exactly one
 * place is named
 * @example
 * ```ts
 * // The platform was given https://example.com/hooks?key=<secret>
 * verify: sharedSecret({ query: "key", secret: process.env.WEBHOOK_SECRET }),
 * ```
 */
export function sharedSecret(options: SharedSecretOptions): Verify {
  checkNoUnknown(options, ["secret", "query", "header", "pathSegment"]);
  const secrets = checkSecrets(options);
  const find = checkPlace(options);
  // Made at the first request: Workers allow no crypto before it.
  let known: Promise<readonly string[]> | readonly string[] | undefined;
  const verify: Verify = (request) => {
    const candidates = find(request);
    known ??= digestsOf(secrets);
    const given = digestsOf(candidates);
    return known instanceof Promise || given instanceof Promise
      ? Promise.all([given, known]).then(([some, others]) => anyEqual(some, others))
      : anyEqual(given, known);
  };
  const isShort = secrets.some((secret) => secret.length < LEAST_LENGTH);
  return isShort ? withWeakness(verify, SHORT) : verify;
}

/** A secret of fewer characters can be guessed. */
const LEAST_LENGTH = 16;
const SHORT =
  `a secret of sharedSecret has fewer than ${LEAST_LENGTH} characters, so strangers may guess it. ` +
  "Make one with `openssl rand -hex 32`";

function checkSecrets(options: SharedSecretOptions): readonly string[] {
  const { secret } = (options ?? {}) as Partial<SharedSecretOptions>;
  const secrets: readonly unknown[] = Array.isArray(secret) ? secret : [secret];
  const usable = (one: unknown): boolean => typeof one === "string" && one.trim() !== "";
  if (secrets.length === 0 || !secrets.every(usable)) {
    throw new InvalidArgumentError({
      path: ["secret"],
      message: "must not be missing or empty; is the environment variable set?",
    });
  }
  if (secrets.some((one) => one !== (one as string).trim())) {
    throw new InvalidArgumentError({
      path: ["secret"],
      message: "must not begin or end with white space. Is there a line break in the environment variable?",
    });
  }
  return secrets as readonly string[];
}

type Find = (request: VerifyRequest) => readonly string[];

function checkPlace(options: SharedSecretOptions): Find {
  const places = (["query", "header", "pathSegment"] as const).filter(
    (place) => options[place] !== undefined,
  );
  const refuse = (issue: Issue): never => {
    throw new InvalidArgumentError(issue);
  };
  if (places.length !== 1) {
    refuse({ path: [], message: "sharedSecret takes exactly one of query, header and pathSegment" });
  }
  const { query, header, pathSegment } = options;
  if (pathSegment !== undefined) {
    return pathSegment === "last" ? inPath : refuse({ path: ["pathSegment"], message: 'must be "last"' });
  }
  if (header !== undefined) {
    return isToken(header)
      ? inHeader(header)
      : refuse({ path: ["header"], message: "must be a header's name" });
  }
  return typeof query === "string" && query !== ""
    ? inQuery(query)
    : refuse({ path: ["query"], message: "must be a parameter's name" });
}

function isToken(name: unknown): boolean {
  return typeof name === "string" && /^[!#$%&'*+.^_`|~0-9a-z-]+$/i.test(name);
}

// Sent twice, its values arrive joined, and match nothing.
function inHeader(name: string): Find {
  return ({ headers }) => {
    const value = headers.get(name);
    return value === null ? [] : [value];
  };
}

function inQuery(name: string): Find {
  return ({ url }) => {
    const search = url.split("#", 1)[0]?.split("?").slice(1).join("?") ?? "";
    // Of `??key=`, the parameter is called `?key`: URLSearchParams would drop a question mark that it begins with.
    const query = search.startsWith("?") ? `&${search}` : search;
    const values = new URLSearchParams(query).getAll(name);
    // Two could be one that was added to a URL that leaked, or hide what another server in front has checked.
    if (values.length !== 1) return [];
    // A plus sign is a space by the rules of forms, and itself in a secret that was pasted into a URL as it is.
    return query.includes("+") ? [...values, ...plusAsItself(query, name)] : values;
  };
}

function plusAsItself(query: string, name: string): string[] {
  return new URLSearchParams(query.replaceAll("+", "%2B")).getAll(name);
}

const inPath: Find = ({ url }) => {
  const path = url.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, "").split(/[?#]/, 1)[0] ?? "";
  const segment = path.split("/").findLast((part) => part !== "");
  if (segment === undefined) return [];
  try {
    return [decodeURIComponent(segment)];
  } catch {
    return [segment];
  }
};

/** Hexadecimal digests. Without a promise where `node:crypto` is there: `crypto.subtle` takes a thread for each. */
function digestsOf(texts: readonly string[]): Promise<readonly string[]> | readonly string[] {
  const hash = nodeHash();
  return hash ? texts.map((text) => hash("sha256", text)) : Promise.all(texts.map(webDigestOf));
}

/** A neutral bundle imports no `node:crypto`. Bun and Deno have the function, too; Workers do with `nodejs_compat`. */
function nodeHash(): ((algorithm: string, text: string) => string) | undefined {
  const hash = globalThis.process?.getBuiltinModule?.("node:crypto")?.hash;
  return typeof hash === "function" ? hash : undefined;
}

async function webDigestOf(text: string): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Compares each with each, always: how long it takes must not tell which one it was. */
function anyEqual(given: readonly string[], known: readonly string[]): boolean {
  let matches = false;
  for (const one of given) for (const other of known) matches = equal(one, other) || matches;
  return matches;
}

/** Of digests, which are of one length, in a time that does not depend on where they differ. */
function equal(left: string, right: string): boolean {
  let difference = 0;
  for (let index = 0; index < left.length; index++)
    difference |= left.charCodeAt(index) ^ right.charCodeAt(index);
  return difference === 0;
}
