import { InvalidArgumentError, type Issue } from "../../errors.ts";
import { checkNoUnknown } from "../../option-names.ts";
import { type AskedSecrets, askedSecrets, derivedKeys, type SecretsOf } from "./account-keys.ts";
import { queryOf, queryValues } from "./request.ts";

/** The argument of {@link Verify}. */
export interface VerifyRequest {
  /** The HTTP method, such as `POST`. */
  readonly method: string;
  /** Path and query, or the whole URL, as the server gives it. */
  readonly url: string;
  /** The headers of the request. */
  readonly headers: Headers;
  /** The topic of the endpoint. It is `undefined` if the endpoint has no topic. */
  readonly topic: string | undefined;
  /** The account of the request, in a handler with `accountFrom`. Other handlers' requests have no account. */
  readonly account?: string | undefined;
  /**
   * Reads the bytes of the body. Rejects if the body is larger than `maxBodyBytes`, does not arrive in time, or was
   * already read by a body parser.
   */
  readonly rawBody: () => Promise<Uint8Array>;
}

/**
 * Decides whether the handler accepts a request. Only the result `true` accepts the request. If the function returns
 * another value or throws, the handler answers 401. If it takes longer than 10 s, or than `replyWithin` if that is less, the
 * handler answers 503.
 *
 * @example
 * ```ts
 * verify: ({ headers }) => headers.get("x-forwarded-client-cert-ok") === "1",
 * ```
 */
export type Verify = (request: VerifyRequest) => boolean | Promise<boolean>;

// `import` and `require` load separate copies of the package. `Symbol.for` gives the same symbol to each copy.
const WEAKNESS = Symbol.for("stayhook.weakness");

/** Marks a `verify` that is easy to bypass. The handler logs `weakness` as a warning. */
function withWeakness(verify: Verify, weakness: string): Verify {
  return Object.defineProperty(verify, WEAKNESS, { value: weakness });
}

/** What a handler must know of the `verify` that {@link sharedSecret} made. */
export interface SecretPlace {
  readonly query: string | undefined;
  readonly pathSegment: "last" | undefined;
  /** Whether each account has secrets of its own. */
  readonly hasAccounts: boolean;
  readonly secretsOf: SecretsOf;
  /** Whether a URL has the secret where requests are asked for it. A secret in a header is in no URL. */
  readonly isIn: (url: string, secret: string) => boolean;
}

const PLACE = Symbol.for("stayhook.secretPlace");

/** Returns `undefined` if {@link sharedSecret} did not make `verify`. */
export function secretPlaceOf(verify: unknown): SecretPlace | undefined {
  return typeof verify === "function" ? (verify as { readonly [PLACE]?: SecretPlace })[PLACE] : undefined;
}

/** Returns what strangers or hosts may do because of the option `verify`, for the log. */
export function weaknessesOf(verify: Verify | false | undefined, hasAccounts: boolean): string[] {
  if (verify === undefined)
    return [
      "the handler has no `verify` option, so anyone who knows its URL can send notifications. " +
        "Set `verify: sharedSecret(...)`, or `verify: false` if a proxy checks the requests",
    ];
  const own = (verify as { readonly [WEAKNESS]?: string })[WEAKNESS];
  const isShared = hasAccounts && secretPlaceOf(verify)?.hasAccounts === false;
  return [...(isShared ? [SHARED] : []), ...(own === undefined ? [] : [own])];
}

const SHARED =
  "all accounts have one secret, so each host who reads its own URL can send notifications of other accounts. " +
  "Set `perAccount: true` in sharedSecret";

// Keep `query` last in the union: if all three options are missing, the error of TypeScript names the last member.
/** Options of {@link sharedSecret}: the secret, and exactly one of `query`, `header` and `pathSegment`. */
export type SharedSecretOptions = {
  /**
   * The accepted secret, or several accepted secrets during a rotation. If an environment variable is unset, the
   * secret is `undefined`, and `sharedSecret` throws. The handler logs a warning for a secret with fewer than 16
   * characters.
   *
   * In a handler with `accountFrom`, this may be a function that gives the accepted secrets of an account. For
   * `undefined`, the answer is 401. If the function throws, the answer is 503.
   */
  readonly secret:
    | string
    | readonly (string | undefined)[]
    | undefined
    | ((request: {
        /** The account of the request. */
        readonly account: string;
      }) => AskedSecrets | Promise<AskedSecrets>);
  /**
   * Whether each account has a key of its own: HMAC-SHA256 of the account under the secret, in hexadecimal digits. A host
   * who reads its own URL then cannot send notifications of another account. The handler needs `accountFrom`. Default
   * `false`.
   */
  readonly perAccount?: boolean | undefined;
} & (
  | {
      /** The secret is the last segment of the URL's path. Do not add `query` or `header`. */
      readonly pathSegment: "last";
      /** `query` must be absent if the secret is in `pathSegment`. */
      readonly query?: undefined;
      /** `header` must be absent if the secret is in `pathSegment`. */
      readonly header?: undefined;
    }
  | {
      /** The name of the header that has the secret. Do not add `query` or `pathSegment`. */
      readonly header: string;
      /** `query` must be absent if the secret is in `header`. */
      readonly query?: undefined;
      /** `pathSegment` must be absent if the secret is in `header`. */
      readonly pathSegment?: undefined;
    }
  | {
      /** The name of the query parameter that has the secret. Do not add `header` or `pathSegment`. */
      readonly query: string;
      /** `header` must be absent if the secret is in `query`. */
      readonly header?: undefined;
      /** `pathSegment` must be absent if the secret is in `query`. */
      readonly pathSegment?: undefined;
    }
);

/**
 * Makes a `verify` that accepts requests with a secret. The secret is in the endpoint URL that you gave the platform,
 * or in a header that a proxy adds. The comparison takes constant time. `verify` refuses a request whose query
 * parameter occurs with different values.
 *
 * @throws InvalidArgumentError if a secret is missing, is empty, or has white space at its beginning or end. Also
 * throws this error if the options do not have exactly one of `query`, `header` and `pathSegment`
 * @example
 * ```ts
 * // The platform calls https://example.com/hooks?key=<secret>
 * verify: sharedSecret({ query: "key", secret: process.env.WEBHOOK_SECRET }),
 * ```
 */
export function sharedSecret(options: SharedSecretOptions): Verify {
  checkNoUnknown(options, ["secret", "query", "header", "pathSegment", "perAccount"]);
  const find = checkPlace(options);
  const { query, header, pathSegment, perAccount = false } = options;
  const { secretsOf, isShort } = checkSecrets(options);
  const verify: Verify = (request) => {
    const secrets = secretsOf(request.account);
    const given = find(request);
    return secrets instanceof Promise
      ? secrets.then((known) => matches(given, known))
      : matches(given, secrets);
  };
  const hasAccounts = perAccount || typeof options.secret === "function";
  const isIn = (url: string, secret: string) => find({ url, headers: new Headers() }).includes(secret);
  const value: SecretPlace = { query, pathSegment, hasAccounts, secretsOf, isIn };
  Object.defineProperty(verify, PLACE, { value });
  const place =
    query !== undefined
      ? ` in the query parameter ${query}`
      : header !== undefined
        ? ` in the header ${header}`
        : "";
  return isShort ? withWeakness(verify, tooShort(place)) : verify;
}

function matches(given: readonly string[], secrets: readonly string[]): boolean {
  let matched = false;
  // Always compare all pairs, so that the time does not tell which secret matched.
  for (const one of given) for (const secret of secrets) matched = isEqual(one, secret) || matched;
  return matched;
}

/** The handler logs a warning for a secret with fewer characters. */
const LEAST_LENGTH = 16;
const tooShort = (place: string) =>
  `a secret passed to sharedSecret${place} has fewer than ${LEAST_LENGTH} characters, so strangers may guess it. ` +
  "Make a secret with `openssl rand -hex 32`";

function checkSecrets(options: SharedSecretOptions): {
  readonly secretsOf: SecretsOf;
  readonly isShort: boolean;
} {
  const { secret, perAccount = false } = (options ?? {}) as Partial<SharedSecretOptions>;
  const refuse = (message: string, path = "secret"): never => {
    throw new InvalidArgumentError({ path: [path], message });
  };
  if (typeof perAccount !== "boolean") refuse("must be true or false", "perAccount");
  if (typeof secret === "function") {
    if (perAccount)
      refuse("must be a text if perAccount is true. A function gives the keys of each account itself");
    return { secretsOf: askedSecrets(secret), isShort: false };
  }
  const secrets: readonly unknown[] = Array.isArray(secret) ? secret : [secret];
  const usable = (one: unknown): one is string => typeof one === "string" && one.trim() !== "";
  if (secrets.length === 0 || !secrets.every(usable))
    return refuse("must not be missing or empty. Is the environment variable set?");
  if (secrets.some((one) => one !== one.trim()))
    return refuse(
      "must not begin or end with white space. Is there a line break in the environment variable?",
    );
  const isShort = secrets.some((one) => one.length < LEAST_LENGTH);
  return { secretsOf: perAccount ? derivedKeys(secrets) : () => secrets, isShort };
}

type Find = (request: Pick<VerifyRequest, "url" | "headers">) => readonly string[];

function checkPlace(options: SharedSecretOptions): Find {
  const places = (["query", "header", "pathSegment"] as const).filter(
    (place) => options?.[place] !== undefined,
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

// `Headers` joins the values of a repeated header, so a repeated header matches no secret.
function inHeader(name: string): Find {
  return ({ headers }) => {
    const value = headers.get(name);
    return value === null ? [] : [value];
  };
}

function inQuery(name: string): Find {
  return ({ url }) => {
    const search = queryOf(url);
    // `??key=` has a parameter named `?key`. `URLSearchParams` would drop the `?` of this name, so put `&` before it.
    const query = search.startsWith("?") ? `&${search}` : search;
    const values = queryValues(query, name);
    // Refuse different values: a proxy may have checked only one of them. Some proxies add an equal one.
    if (values.some((value) => value !== values[0])) return [];
    // `+` means a space if the query was encoded, and a plus sign if the secret was pasted into the URL. Try both.
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
 * Compares two texts in a time that depends only on the length of `known`. Does not use `timingSafeEqual`, which needs
 * digests of both texts. Digests take as long as the rest of `verify`, and are asynchronous in Web Crypto.
 */
export function isEqual(given: string, known: string): boolean {
  // If the lengths differ, compare `known` with itself, so that the length of `given` does not affect the time.
  const compared = given.length === known.length ? given : known;
  let difference = given.length ^ known.length;
  for (let index = 0; index < known.length; index++)
    difference |= compared.charCodeAt(index) ^ known.charCodeAt(index);
  return difference === 0;
}
