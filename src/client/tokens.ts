import { untilAborted } from "../async.ts";
import { AccessTokenError } from "./client-errors.ts";
import { type AccessToken, problemWithToken } from "./client-options.ts";

/** An access token. `generation` counts the refreshes so far: a token from a later refresh has a higher number. */
export interface Token {
  readonly value: string;
  readonly generation: number;
}

const tokensOfFunctions = new WeakMap<object, Tokens>();

/** Returns the tokens of a client. Clients with the same function share them, so a clone shares the refreshes. */
export function tokensOf(accessToken: AccessToken): Tokens {
  if (typeof accessToken === "string") return new Tokens(accessToken);
  const tokens = tokensOfFunctions.get(accessToken) ?? new Tokens(accessToken);
  tokensOfFunctions.set(accessToken, tokens);
  return tokens;
}

/**
 * Gives the tokens of one function. Concurrent calls for one account share a refresh. An account without a running call
 * takes no memory, because a later call asks `accessToken` anyway.
 */
export class Tokens {
  readonly #accessToken: AccessToken;
  readonly #used = new Map<string | undefined, { readonly source: TokenSource; calls: number }>();

  constructor(accessToken: AccessToken) {
    this.#accessToken = accessToken;
  }

  /** Makes a call with the tokens of an account. */
  async use<T>(account: string | undefined, call: (source: TokenSource) => Promise<T>): Promise<T> {
    const used = this.#used.get(account) ?? { source: new TokenSource(this.#accessToken, account), calls: 0 };
    this.#used.set(account, used);
    used.calls++;
    try {
      return await call(used.source);
    } finally {
      if (--used.calls === 0) this.#used.delete(account);
    }
  }
}

/** Gives the tokens of one account while calls for it run. Concurrent calls share a refresh. */
export class TokenSource {
  readonly #accessToken: AccessToken;
  readonly #account: string | undefined;
  #generation = 0;
  #refreshed: Token | undefined;
  #flight: { readonly token: Promise<Token>; waiting: number } | undefined;

  constructor(accessToken: AccessToken, account: string | undefined) {
    this.#accessToken = accessToken;
    this.#account = account;
  }

  get refreshable(): boolean {
    return typeof this.#accessToken === "function";
  }

  async initial(signal: AbortSignal): Promise<Token> {
    const generation = this.#generation;
    const given = this.#accessToken;
    const value = typeof given === "string" ? given : await untilAborted(this.#call("initial"), signal);
    return { value, generation };
  }

  /** Gives the token that replaces a refused token. */
  async refresh(refused: Token, signal: AbortSignal): Promise<Token> {
    // Do not refresh again if another call has already replaced the refused token.
    if (this.#refreshed && this.#refreshed.generation > refused.generation) return this.#refreshed;
    this.#flight ??= { token: this.#refresh(), waiting: 0 };
    const flight = this.#flight;
    flight.waiting++;
    try {
      return await untilAborted(flight.token, signal);
    } finally {
      // Forget a refresh that no call waits for any more. If the refresh hangs, it must not block later calls.
      if (--flight.waiting === 0 && this.#flight === flight) this.#flight = undefined;
    }
  }

  async #refresh(): Promise<Token> {
    const value = await this.#call("unauthorized");
    this.#refreshed = { value, generation: ++this.#generation };
    return this.#refreshed;
  }

  async #call(reason: "initial" | "unauthorized"): Promise<string> {
    const whose = this.#account === undefined ? "" : ` for account ${this.#account}`;
    let token: unknown;
    try {
      token = await (this.#accessToken as Exclude<AccessToken, string>)({ account: this.#account, reason });
    } catch (cause) {
      throw new AccessTokenError(`The accessToken function threw an error${whose}; see error.cause.`, {
        cause,
      });
    }
    const problem = problemWithToken(token);
    if (problem !== undefined)
      throw new AccessTokenError(
        `The accessToken function returned an invalid token${whose}: the token ${problem}.`,
      );
    return token as string;
  }
}
