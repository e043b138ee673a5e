import { runWrapped, untilAborted } from "../async.ts";
import {
  AbortError,
  AccessTokenError,
  ConnectionError,
  ConnectionTimeoutError,
  StayhookError,
  shorten,
} from "./client-errors.ts";
import {
  type AccessToken,
  notify,
  problemWithToken,
  type RequestObservation,
  type Settings,
} from "./client-options.ts";
import type { Redactor } from "./redact.ts";
import { isBelow } from "./urls.ts";

/** One call to the platform, with the values that its attempts share. */
export interface Outgoing {
  readonly method: string;
  readonly url: URL;
  readonly route: string;
  /** The path below the base URL. */
  readonly path: string;
  readonly headers: Headers;
  readonly body: string | undefined;
  readonly signal: AbortSignal | undefined;
  /** The time limit of each attempt, ms. */
  readonly timeout: number;
  /** The tokens and other secrets of the call. No error may show them. */
  readonly secrets: Set<string>;
  readonly redact: Redactor;
  /** The number of requests that the call has sent. */
  sends: number;
  /** The token that replaced a refused token. Later attempts use the new token, too. */
  refreshed?: Token | undefined;
}

/** An answer whose body has been read. */
export interface Exchange {
  readonly response: Response;
  readonly body: Body;
}

/** The body of an answer. */
export interface Body {
  /** The parsed JSON body, or the text of a body that is not JSON. `undefined` if the body is empty. */
  readonly value: unknown;
  readonly kind: "json" | "text" | "empty";
  /** Whether the body was longer than {@link maxBodyBytes}, so that its end is missing. */
  readonly truncated: boolean;
}

/** The longest body that the client reads, in bytes. */
export const maxBodyBytes = 10 * 1024 * 1024;

const maxRedirects = 3;

/**
 * Makes one attempt: gets a token, sends the request, sends it again with a new token after a 401, follows
 * redirects, and reads the body.
 */
export async function attempt(
  call: Outgoing,
  number: number,
  signal: AbortSignal,
  settings: Settings,
  tokens: TokenSource,
): Promise<Exchange> {
  let { url } = call;
  let redirects = 0;
  let token = call.refreshed ?? (await tokens.initial(signal));
  for (;;) {
    call.secrets.add(token.value);
    const path = redirects === 0 ? call.path : call.redact.text(url.pathname);
    const info = { method: call.method, route: call.route, path, attempt: number };
    const sending = () => send(call, url, token.value, signal, settings);
    const exchange = await (isWatched(settings)
      ? traced(info, url, call, settings, () => observed(info, settings, signal, sending))
      : sending());
    const { response } = exchange;
    if (response.status === 401 && tokens.refreshable && !call.refreshed) {
      token = call.refreshed = await tokens.refresh(token, signal);
      continue;
    }
    const target = redirectTarget(call.method, response, url, settings.baseUrl);
    if (!target || redirects === maxRedirects) return exchange;
    redirects++;
    url = target;
  }
}

function isWatched({ telemetry, observers: { onRequest, onResponse } }: Settings): boolean {
  return Boolean(telemetry?.request || onRequest || onResponse);
}

/** Sends one request inside the wrapper of the user's telemetry. */
async function traced(
  info: RequestObservation,
  url: URL,
  call: Outgoing,
  { telemetry, log }: Settings,
  exchange: () => Promise<Exchange>,
): Promise<Exchange> {
  const resendCount = call.sends++;
  if (!telemetry?.request) return exchange();
  const request = { ...info, url: call.redact.text(url.origin + url.pathname), resendCount };
  const { done } = await runWrapped(
    (run) => telemetry.request(request, run),
    async () => {
      const done = await exchange();
      return { status: done.response.status, done };
    },
    (error) =>
      log.limited("telemetry", "warn", "the telemetry function `request` failed", {
        error,
        fromUserCode: true,
      }),
  );
  return done;
}

/** Sends one request, and reports its start and its end to the observers. */
async function observed(
  info: RequestObservation,
  { observers, log }: Settings,
  signal: AbortSignal,
  exchange: () => Promise<Exchange>,
): Promise<Exchange> {
  signal.throwIfAborted();
  notify(observers.onRequest, info, log);
  const start = performance.now();
  const duration = (): number => performance.now() - start;
  try {
    const done = await exchange();
    notify(observers.onResponse, { ...info, status: done.response.status, duration: duration() }, log);
    return done;
  } catch (thrown) {
    const error = thrown as StayhookError;
    notify(observers.onResponse, { ...info, error, duration: duration() }, log);
    throw error;
  }
}

/**
 * Sends one request and reads its answer.
 *
 * @throws StayhookError
 */
async function send(
  call: Outgoing,
  url: URL,
  token: string,
  signal: AbortSignal,
  { fetch }: Settings,
): Promise<Exchange> {
  const headers = new Headers(call.headers);
  headers.set("authorization", `Bearer ${token}`);
  const init: RequestInit = { method: call.method, headers, redirect: "manual", signal };
  if (call.body !== undefined) init.body = call.body;
  let reader: BodyReader | undefined;
  const exchange = async (): Promise<Exchange> => {
    signal.throwIfAborted();
    const response = await fetch(url.href, init);
    signal.throwIfAborted();
    reader = response.body?.getReader();
    return { response, body: await readBody(reader ?? (await response.text())) };
  };
  try {
    // Use one abort listener for the whole answer. A listener for each chunk would cost as much time as the parsing.
    return await untilAborted(exchange(), signal);
  } catch (cause) {
    release(reader);
    throw failureOf(cause, call, signal.aborted);
  }
}

type BodyReader = ReadableStreamDefaultReader<Uint8Array>;

/** Frees the connection. Does not wait, and ignores errors. */
function release(reader: BodyReader | undefined): void {
  reader?.cancel().catch(() => {});
}

/** Reads a body, and parses it as JSON if possible. The content type does not matter. */
async function readBody(body: BodyReader | string): Promise<Body> {
  const { text, truncated } =
    typeof body === "string" ? { text: body, truncated: false } : await readText(body);
  if (truncated) return { value: text, kind: "text", truncated };
  if (text.trim() === "") return { value: undefined, kind: "empty", truncated };
  try {
    return { value: JSON.parse(text), kind: "json", truncated };
  } catch {
    return { value: text, kind: "text", truncated };
  }
}

const utf8 = new TextDecoder();

async function readText(reader: BodyReader): Promise<{ text: string; truncated: boolean }> {
  let text = "";
  let bytes = 0;
  let last: Uint8Array | undefined;
  // Use a stream decoder only for a body of several chunks: `utf8` decodes a single chunk ten times faster.
  let decoder: TextDecoder | undefined;
  while (bytes <= maxBodyBytes) {
    const { done, value } = await reader.read();
    if (done) return { text: text + (decoder ?? utf8).decode(last), truncated: false };
    if (last) {
      decoder ??= new TextDecoder();
      text += decoder.decode(last, { stream: true });
    }
    last = value;
    bytes += value.byteLength;
  }
  release(reader);
  return { text: text + (decoder ?? utf8).decode(last), truncated: true };
}

const redirectStatuses = new Set([301, 302, 303, 307, 308]);

/**
 * Returns the target of a redirect, or `undefined` if the client must not follow the redirect. The client follows
 * only redirects of GET and HEAD requests to URLs below `baseUrl`.
 */
function redirectTarget(method: string, response: Response, from: URL, baseUrl: URL): URL | undefined {
  if ((method !== "GET" && method !== "HEAD") || !redirectStatuses.has(response.status)) return undefined;
  const location = response.headers.get("location");
  if (!location || !URL.canParse(location, from)) return undefined;
  const target = new URL(location, from);
  return isBelow(target, baseUrl) ? target : undefined;
}

/** Describes a redirect that the client did not follow, for an error. Returns `undefined` for any other answer. */
export function describeRedirect(response: Response): string | undefined {
  if (response.type === "opaqueredirect")
    return "the answer is a redirect, but this runtime hides its target";
  if (response.status < 300 || response.status > 399) return undefined;
  const location = response.headers.get("location");
  return location ? `the client did not follow the redirect to ${location}` : undefined;
}

// The codes are those of Node and Bun.
const reasons: readonly { codes: RegExp; reason: string; hint: string }[] = [
  { codes: /^(ECONNREFUSED|ConnectionRefused)$/, reason: "connection refused", hint: " Is baseUrl right?" },
  { codes: /^(ENOTFOUND|EAI_AGAIN)$/, reason: "host not found", hint: " Is baseUrl right?" },
  { codes: /^(ECONNRESET|EPIPE|UND_ERR_SOCKET|ConnectionClosed)$/, reason: "connection lost", hint: "" },
  { codes: /(?:)/, reason: "no complete answer", hint: "" },
];

/** Makes the error for a call that got no complete answer. An error of this package stays as it is. */
export function failureOf(cause: unknown, call: Outgoing, timedOut: boolean): StayhookError {
  const { method, url, signal, redact } = call;
  // Check for an abort first, because the signal's reason may be a `StayhookError`, too.
  if (signal?.aborted && (cause === signal.reason || !(cause instanceof StayhookError)))
    return new AbortError(`${method} ${call.path} was aborted.`, { cause: signal.reason });
  if (cause instanceof StayhookError) return cause;
  const request = `${method} ${shorten(redact.text(url.origin + url.pathname))}`;
  if (timedOut)
    return new ConnectionTimeoutError(`${request}: no complete answer within ${call.timeout} ms.`);
  const detail = detailOf(cause);
  const { reason, hint } = reasons.find(({ codes }) => codes.test(detail))!;
  const shown = detail === "" ? "" : ` (${shorten(redact.text(detail))})`;
  return new ConnectionError(`${request}: ${reason}${shown}.${hint}`, { cause: redact.cause(cause) });
}

/** Returns the first code in an error's chain of causes, such as `ECONNREFUSED`, or else the last message. */
function detailOf(error: unknown, depth = 5): string {
  const { code, message, cause } = Object(error) as Readonly<Record<string, unknown>>;
  if (typeof code === "string") return code;
  const below = cause === undefined || depth === 0 ? "" : detailOf(cause, depth - 1);
  return below || (typeof message === "string" ? message : "");
}

/** An access token. `generation` counts the refreshes so far: a token from a later refresh has a higher number. */
export interface Token {
  readonly value: string;
  readonly generation: number;
}

/** Gives the tokens of one client. Concurrent calls share a refresh. */
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
