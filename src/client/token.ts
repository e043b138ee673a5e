import { untilAborted } from "./abort.ts";
import { AccessTokenError } from "./errors.ts";

/**
 * Where access tokens come from: a fixed one, or a function that is called before each attempt, and once more
 * (`unauthorized`) after the platform has refused the token that it gave. Caching is the function's own matter.
 */
export type AccessToken =
  | string
  | ((request: { readonly reason: "initial" | "unauthorized" }) => string | Promise<string>);

/** A token, and how many refreshes had ended when it was asked for. */
export interface Token {
  readonly value: string;
  readonly generation: number;
}

/** One client's tokens. A refresh is shared by the calls that run while it does. */
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
    if (typeof this.#accessToken === "string") return { value: this.#accessToken, generation };
    return { value: await untilAborted(this.#call("initial"), signal), generation };
  }

  /** The token to use in place of one that was refused. */
  async refresh(refused: Token, signal: AbortSignal): Promise<Token> {
    // Another call has had the same token refreshed while this one was under way.
    if (this.#refreshed && this.#refreshed.generation > refused.generation) return this.#refreshed;
    this.#flight ??= { token: this.#refresh(), waiting: 0 };
    const flight = this.#flight;
    flight.waiting++;
    try {
      return await untilAborted(flight.token, signal);
    } finally {
      // Also when all have given up waiting: one that hangs must not hang those that come later.
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
      throw new AccessTokenError("The accessToken function threw; see cause.", { cause });
    }
    const problem = problemWithToken(token);
    if (problem !== undefined) throw new AccessTokenError(`What the accessToken function gave ${problem}.`);
    return token as string;
  }
}

/** Why a value cannot be sent as a bearer token, without naming it; `undefined` where it can. */
export function problemWithToken(token: unknown): string | undefined {
  if (typeof token !== "string") return "must be a string";
  if (token.trim() === "") return "must not be empty";
  // Checked here: the runtime's own message would quote the token.
  return /[^\t\x20-\x7e\x80-\xff]/.test(token)
    ? "must hold only what a header can: no line breaks, no characters beyond Latin-1"
    : undefined;
}
