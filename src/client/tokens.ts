import { untilAborted } from "../async.ts";
import { AccessTokenError } from "./client-errors.ts";
import { type AccessToken, problemWithToken } from "./client-options.ts";

/** An access token. `generation` counts the refreshes so far: a token from a later refresh has a higher number. */
export interface Token {
  readonly value: string;
  readonly generation: number;
}

const sources = new WeakMap<object, TokenSource>();

/** Returns the source of a client's tokens. Clients with the same function share it, so a clone shares the refreshes. */
export function tokenSourceOf(accessToken: AccessToken): TokenSource {
  if (typeof accessToken === "string") return new TokenSource(accessToken);
  const source = sources.get(accessToken) ?? new TokenSource(accessToken);
  sources.set(accessToken, source);
  return source;
}

/** Gives the tokens of one function. Concurrent calls share a refresh. */
export class TokenSource {
  readonly #accessToken: AccessToken;
  #generation = 0;
  #refreshed: Token | undefined;
  #flight: { readonly token: Promise<Token>; waiting: number } | undefined;

  constructor(accessToken: AccessToken) {
    this.#accessToken = accessToken;
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
    let token: unknown;
    try {
      token = await (this.#accessToken as Exclude<AccessToken, string>)({ reason });
    } catch (cause) {
      throw new AccessTokenError("The accessToken function threw an error; see error.cause.", { cause });
    }
    const problem = problemWithToken(token);
    if (problem !== undefined)
      throw new AccessTokenError(`The accessToken function returned an invalid token: the token ${problem}.`);
    return token as string;
  }
}
