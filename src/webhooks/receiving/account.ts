// Finds the account of a request, because a notification does not name its account.

import { isAccount } from "../../account.ts";
import { Mistake, Refused } from "./answers.ts";
import { headerOf, queryOf, queryValues, type RequestHeaders, toHeaders } from "./request.ts";

/** The argument of a function in {@link AccountFrom}. */
export type AccountRequest = {
  /** The URL of the request. Its host is that of the header `Host`. */
  readonly url: URL;
  /** The headers of the request. */
  readonly headers: Headers;
};

/** Where a request names its account: in a query parameter, or where your function finds it. */
export type AccountFrom =
  | {
      /** The name of the query parameter that holds the account, such as `account`. */
      readonly query: string;
    }
  | ((request: AccountRequest) => string | undefined);

/** What an adapter or a caller has found, or what to find it in. */
interface Asked {
  readonly url: string;
  readonly headers: RequestHeaders;
  /** What the adapter has found. It wins. */
  readonly account?: string | readonly string[] | undefined;
}

/**
 * Returns the account of a request.
 *
 * @throws Refused if the request names no account, or several
 * @throws the error of the user's function
 */
export function accountIn(asked: Asked, from: AccountFrom): string {
  const given: unknown = asked.account ?? found(asked, from);
  if (given instanceof Promise) {
    given.catch(() => {});
    throw new Mistake(
      "The function that finds the account returned a promise. It must return the account itself.",
    );
  }
  const [account, ...others] = new Set<unknown>(Array.isArray(given) ? given : [given]);
  if (others.length > 0 || !isAccount(account)) throw new Refused("account");
  return account;
}

function found({ url, headers }: Asked, from: AccountFrom): unknown {
  if (typeof from !== "function") return queryValues(queryOf(url), from.query);
  const parsed = parse(url, headerOf(headers, "host"));
  if (parsed === undefined) return undefined;
  return from({ url: parsed, headers: toHeaders(headers) });
}

function parse(url: string, host = ""): URL | undefined {
  // Such a character would end the host, so that the client would choose the path.
  const base = `https://${/[/?#@\\]/.test(host) ? "" : host}`;
  const origin = URL.canParse(base) ? base : "https://localhost";
  // A path that begins with two slashes would name a host.
  const text = url.startsWith("/") ? origin + url : url;
  return URL.canParse(text, origin) ? new URL(text, origin) : undefined;
}
