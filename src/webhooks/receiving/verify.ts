import { InvalidArgumentError, type Issue } from "../../errors.ts";
import { checkNoUnknown } from "../../option-names.ts";
import { queryValues } from "./request.ts";

/** The argument of {@link Verify}. */
export interface VerifyRequest {
  /** The HTTP method. */
  readonly method: string;
  /** Path and query, or the whole URL, as the server gives it. */
  readonly url: string;
  /** The headers of the request. */
  readonly headers: Headers;
  /** The topic of the endpoint, if it was told one. */
  readonly topic: string | undefined;
  /**
   * Reads the bytes of the body. Rejects if the body is larger than `maxBodyBytes`, does not arrive in time, or was read
   * by a body parser before.
   */
  readonly rawBody: () => Promise<Uint8Array>;
}

/**
 * Decides whether the handler accepts a request. Only `true` accepts it. For any other value, and if it throws, the
 * handler answers 401. If it does not decide within `replyWithin`, the handler answers 503.
 *
 * @example
 * ```ts
 * verify: ({ headers }) => headers.get("x-forwarded-client-cert-ok") === "1",
 * ```
 */
export type Verify = (request: VerifyRequest) => boolean | Promise<boolean>;

// `require` loads another copy of the package than `import`. This symbol is the same in both.
const WEAKNESS = Symbol.for("stayhook.weakness");

/** Marks a `verify` that strangers may get past. A handler made with it logs the text as a warning. */
export function withWeakness(verify: Verify, weakness: string): Verify {
  return Object.defineProperty(verify, WEAKNESS, { value: weakness });
}

export function weaknessOf(verify: Verify): string | undefined {
  return (verify as { readonly [WEAKNESS]?: string })[WEAKNESS];
}

// `query` stands last in the union, because TypeScript reports a missing place by the last member.
/** Options of {@link sharedSecret}: the secret, and the one place where it is. Give exactly one of `query`, `header`, `pathSegment`. */
export type SharedSecretOptions = {
  /**
   * One secret, or several during a rotation: each of them is accepted. `undefined`, as of an unset variable, throws. A
   * handler warns of a secret with fewer than 16 characters.
   */
  readonly secret: string | readonly (string | undefined)[] | undefined;
} & (
  | {
      /** The last segment of the path. Give exactly one of `query`, `header`, `pathSegment`. */
      readonly pathSegment: "last";
      /** Absent: the secret is in `pathSegment`. */
      readonly query?: undefined;
      /** Absent: the secret is in `pathSegment`. */
      readonly header?: undefined;
    }
  | {
      /** Name of the header. Give exactly one of `query`, `header`, `pathSegment`. */
      readonly header: string;
      /** Absent: the secret is in `header`. */
      readonly query?: undefined;
      /** Absent: the secret is in `header`. */
      readonly pathSegment?: undefined;
    }
  | {
      /** Name of the query parameter. Give exactly one of `query`, `header`, `pathSegment`. */
      readonly query: string;
      /** Absent: the secret is in `query`. */
      readonly header?: undefined;
      /** Absent: the secret is in `query`. */
      readonly pathSegment?: undefined;
    }
);

/**
 * Makes a `verify` that accepts requests with a secret: in the endpoint URL that you gave the platform, or in a header that
 * a proxy adds. Compares in constant time. Refuses a parameter that occurs twice.
 *
 * @throws InvalidArgumentError if a secret is missing or empty, or has white space around it, or if the options do not name
 * exactly one place
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
  const verify: Verify = (request) => {
    let matches = false;
    // Always compares all pairs, so that the time does not tell which secret matched.
    for (const given of find(request))
      for (const secret of secrets) matches = isEqual(given, secret) || matches;
    return matches;
  };
  const isShort = secrets.some((secret) => secret.length < LEAST_LENGTH);
  return isShort ? withWeakness(verify, SHORT) : verify;
}

/** A handler warns of shorter secrets. */
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
      message: "must not be missing or empty. Is the environment variable set?",
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

// The values of a repeated header arrive joined, and match no secret.
function inHeader(name: string): Find {
  return ({ headers }) => {
    const value = headers.get(name);
    return value === null ? [] : [value];
  };
}

function inQuery(name: string): Find {
  return ({ url }) => {
    const search = url.split("#", 1)[0]?.split("?").slice(1).join("?") ?? "";
    // The parameter of `??key=` is named `?key`, but URLSearchParams drops a leading question mark.
    const query = search.startsWith("?") ? `&${search}` : search;
    const values = queryValues(query, name);
    // A second value could hide the one that a server in front has checked.
    if (values.length !== 1) return [];
    // In a form, a plus sign is a space. In a secret that was pasted into a URL, it is itself.
    return query.includes("+") ? [...values, ...withPlusAsItself(query, name)] : values;
  };
}

function withPlusAsItself(query: string, name: string): string[] {
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

/**
 * Compares two texts in a time that depends only on the length of the known one. Does not use `timingSafeEqual`, which
 * needs a digest of both. The digests would cost as much as the rest of a check, and are asynchronous on Workers.
 */
export function isEqual(given: string, known: string): boolean {
  let difference = given.length ^ known.length;
  for (let index = 0; index < known.length; index++)
    // A short text is read again from its beginning, so that its length changes nothing.
    difference |= given.charCodeAt(index % given.length) ^ known.charCodeAt(index);
  return difference === 0;
}
