// The URL of an endpoint, as you give it to the platform.

import { checkAccount } from "../account.ts";
import { isLoopback, parseUrl } from "../client/urls.ts";
import { InvalidArgumentError, StayhookError } from "../errors.ts";
import { checkNoUnknown } from "../option-names.ts";
import { type AccountFrom, accountIn } from "./receiving/account.ts";
import { type SecretPlace, secretPlaceOf, type Verify } from "./receiving/verify.ts";

/** Options of {@link WebhookHandler.endpointUrl}. */
export type EndpointUrlOptions = {
  /** The account whose URL it is. A handler with `accountFrom` requires it, and no other handler takes it. */
  readonly account?: string | undefined;
};

interface Endpoint {
  readonly accountFrom?: AccountFrom | undefined;
  readonly verify?: Verify | false | undefined;
}

/**
 * Returns the URL with the parameters of the account and the secret.
 *
 * @throws InvalidArgumentError if an argument is wrong, or if a request to the URL would be refused
 */
export async function endpointUrl(
  { accountFrom, verify }: Endpoint,
  base: string | URL,
  options: EndpointUrlOptions = {},
): Promise<string> {
  checkNoUnknown(options, ["account"]);
  const account = accountOf(options, accountFrom);
  const url = checkBase(base);
  if (account !== undefined && accountFrom !== undefined && typeof accountFrom !== "function")
    setParameter(url, accountFrom.query, account);
  const place = secretPlaceOf(verify);
  if (place) await setSecret(url, place, account);
  if (accountFrom !== undefined) checkAccountIn(url, accountFrom, account);
  return url.href;
}

function accountOf(
  { account }: EndpointUrlOptions,
  accountFrom: AccountFrom | undefined,
): string | undefined {
  if (accountFrom !== undefined) return checkAccount(account);
  if (account === undefined) return undefined;
  throw new InvalidArgumentError({
    path: ["account"],
    message: "needs a handler with the option accountFrom",
  });
}

function checkBase(base: unknown): URL {
  const url = parseUrl(base instanceof URL ? base.href : base);
  if (url !== undefined && url.hash === "" && (url.protocol === "https:" || isLoopback(url))) return url;
  throw new InvalidArgumentError({
    path: ["base"],
    message: "must be an absolute https URL without a fragment, or an http URL of a loopback host",
  });
}

/** Leaves the other parameters as they are. `searchParams` would encode them again, and could change a secret. */
function setParameter(url: URL, name: string, value: string): void {
  const others = url.search
    .slice(1)
    .split("&")
    .filter((part) => part !== "" && !new URLSearchParams(part).has(name));
  url.search = [...others, `${encodeURIComponent(name)}=${encodeURIComponent(value)}`].join("&");
}

async function setSecret(url: URL, place: SecretPlace, account: string | undefined): Promise<void> {
  const { query, pathSegment, secretsOf } = place;
  if (query === undefined && pathSegment === undefined) return;
  const secrets = await secretsOf(account);
  const [secret] = secrets;
  if (secret === undefined)
    throw new StayhookError(
      `sharedSecret has no secret for the account ${account}, so its URL cannot be made.`,
    );
  if (query !== undefined) setParameter(url, query, secret);
  else setLastSegment(url, secret, secrets);
  // A secret such as `..` changes the path.
  if (!place.isIn(url.pathname + url.search, secret))
    throw new InvalidArgumentError({
      path: ["base"],
      message:
        "must be a URL in which sharedSecret finds the secret. Use another secret, such as `openssl rand -hex 32`",
    });
}

function setLastSegment(url: URL, secret: string, secrets: readonly string[]): void {
  const segments = url.pathname
    .split("/")
    .filter((part, index, all) => part !== "" || index < all.length - 1);
  // A path that ends with another accepted secret gets the first one in its place.
  if (secrets.some((each) => encodeURIComponent(each) === segments.at(-1))) segments.pop();
  url.pathname = [...segments, encodeURIComponent(secret)].join("/");
}

/** A function finds the account in the URL alone, because the headers of the platform's requests are unknown. */
function checkAccountIn(url: URL, accountFrom: AccountFrom, account: string | undefined): void {
  const headers = { host: url.host };
  let found: string | undefined;
  let cause: unknown;
  try {
    found = accountIn({ url: url.pathname + url.search, headers }, accountFrom);
  } catch (error) {
    cause = error;
  }
  if (found === account) return;
  throw new InvalidArgumentError({
    path: ["base"],
    message:
      `must be a URL in which accountFrom finds the account ${account}` +
      (found === undefined
        ? cause instanceof Error
          ? ", but accountFrom threw"
          : ", but it finds none"
        : `, but it finds ${found}`),
  });
}
