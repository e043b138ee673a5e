import { untilAborted } from "../async.ts";
import { AccessTokenError } from "./errors.ts";

/**
 * The access token, or a function that gives it. The client calls the function before each attempt (`initial`), and
 * once more in a call whose token the platform refused (`unauthorized`). The function may cache its tokens.
 */
export type AccessToken =
  | string
  | ((request: {
      /** Why the client asks: for an attempt, or because the platform refused the token. */
      readonly reason: "initial" | "unauthorized";
    }) => string | Promise<string>);

/** A token. `generation` is the number of refreshes that had ended when the client asked for it. */
export interface Token {
  readonly value: string;
  readonly generation: number;
}

/** The tokens of one client. Calls that run at the same time share a refresh. */
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

  /** Gives the token that replaces a refused one. */
  async refresh(refused: Token, signal: AbortSignal): Promise<Token> {
    // Another call has refreshed the same token while this call was under way.
    if (this.#refreshed && this.#refreshed.generation > refused.generation) return this.#refreshed;
    this.#flight ??= { token: this.#refresh(), waiting: 0 };
    const flight = this.#flight;
    flight.waiting++;
    try {
      return await untilAborted(flight.token, signal);
    } finally {
      // Forget the refresh when no call waits for it, so that one that hangs does not block later calls.
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
      throw new AccessTokenError("The accessToken function threw an error; see cause.", { cause });
    }
    const problem = problemWithToken(token);
    if (problem !== undefined)
      throw new AccessTokenError(`The accessToken function gave a bad token: it ${problem}.`);
    return token as string;
  }
}

/** Why a value cannot be sent as a bearer token; `undefined` if it can. It does not show the value. */
export function problemWithToken(token: unknown): string | undefined {
  if (typeof token !== "string") return "must be a string";
  if (token.trim() === "") return "must not be empty";
  // Checked here, because the runtime's message would show the token.
  return /[^\t\x20-\x7e\x80-\xff]/.test(token)
    ? "must hold only what a header can: no line breaks, no characters beyond Latin-1"
    : undefined;
}
