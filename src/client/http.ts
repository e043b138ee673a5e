// Sends the requests of the client through ky, and retries them.

import ky from "ky";
import { pause, untilAborted } from "../async.ts";
import type { StayhookError } from "../errors.ts";
import { version } from "../version.ts";
import { Answer, type Exchange } from "./answer.ts";
import { type BodyReader, readBody } from "./body.ts";
import { APIError, ConnectionError, retryAfterMs } from "./client-errors.ts";
import {
  checkRequestOptions,
  type FetchInit,
  type QueryInput,
  type RequestOptions,
  type Settings,
} from "./client-options.ts";
import { failureOf, mistakeError, problemWithResponse, type TimedRequest } from "./failures.ts";
import type { RequestObservation } from "./observers.ts";
import { redactor } from "./redact.ts";
import { bodyOf } from "./request-body.ts";
import { type Token, type TokenSource, tokensOf } from "./tokens.ts";
import { isBelow, type Path } from "./urls.ts";

export const methods = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH"] as const;
/** The HTTP methods that {@link StayhookClient.request} takes. */
export type HttpMethod = (typeof methods)[number];

/** One call to the platform. */
export interface Call {
  readonly method: HttpMethod;
  readonly path: Path;
  /** The query parameters of the endpoint. They override the query in `options`. */
  readonly query?: QueryInput | undefined;
  /** The body, which the client sends as JSON. */
  readonly body?: unknown;
  /** The parts of the body that no error may show, even if the platform's answer contains these parts. */
  readonly secrets?: readonly string[] | undefined;
  /** Finds secrets in the text of an answer that becomes an error, beside those that the call knows. */
  readonly secretsInAnswer?: ((text: string) => string[]) | undefined;
  /** Whether the call is idempotent. Default: `true` for all methods except POST and PATCH. */
  readonly repeatable?: boolean | undefined;
  /** Whether 404 and 410 are valid answers instead of errors. */
  readonly mayBeMissing?: boolean | undefined;
  readonly options: RequestOptions;
}

/** One call, with the values that its attempts share. */
interface Outgoing extends TimedRequest {
  readonly route: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  readonly mayBeMissing: boolean;
  /** The number of requests that the call has sent. */
  sends: number;
  /** The token that replaced a refused token. Later attempts use the new token, too. */
  refreshed?: Token | undefined;
}

const maxRedirects = 3;

// Do not use hooks of ky: their errors show the token. Nor its `timeout` and `signal`: ky joins them with
// `AbortSignal.any`, and a `Request` with a joint signal costs a tenth of a read.
const attempts = ky.create({ throwHttpErrors: false, timeout: false });

/** Sends calls. The library ky makes the attempts. */
export class Http {
  readonly #settings: Settings;
  /** The account whose token the requests have. */
  readonly #account: string | undefined;
  readonly #prepared: ReturnType<typeof prepare>;

  constructor(settings: Settings, account?: string, prepared = prepare(settings)) {
    this.#settings = settings;
    this.#account = account;
    this.#prepared = prepared;
  }

  /** Returns the same, with the tokens of an account. */
  of(account: string): Http {
    return new Http(this.#settings, account, this.#prepared);
  }

  /** @throws StayhookError */
  send(call: Call): Promise<Answer> {
    return this.#prepared.tokens.use(this.#account, (tokens) => this.#send(call, tokens));
  }

  async #send(call: Call, tokens: TokenSource): Promise<Answer> {
    const outgoing = this.#outgoing(call);
    const { method, url, signal } = outgoing;
    const { repeatable = method !== "POST" && method !== "PATCH" } = call;
    let answer: Answer | undefined;
    let attempt = 0;
    try {
      // The answer has been read, so ky gets a stand-in, which also spares it a response of another implementation.
      await attempts(url, {
        method,
        retry: {
          limit: call.options.maxRetries ?? this.#settings.maxRetries,
          methods: [method.toLowerCase() as "get"],
          shouldRetry: async ({ error, retryCount }) => {
            const wait = retryDelay(error, repeatable, retryCount);
            if (wait === undefined) return false;
            await pause(wait, signal);
            return true;
          },
          delay: () => 0,
        },
        fetch: async () => {
          answer = await this.#withinLimit(outgoing, tokens, ++attempt);
          if (answer.cutOff) throw answer.cutOff;
          return done as Response;
        },
      });
    } catch (error) {
      // The reader of the answer decides what an empty body means.
      if (answer?.cutOff === undefined || error !== answer.cutOff) throw failureOf(error, outgoing, false);
    }
    return answer as Answer;
  }

  /** @throws InvalidArgumentError if an argument is invalid, before the client sends anything */
  #outgoing(call: Call): Outgoing {
    const { method, options } = call;
    const { headers: given, timeout = this.#settings.timeout, query: asked } = checkRequestOptions(options);
    const { path, query } = call.path.build();
    const body = bodyOf(method, call.body);
    const url = new URL(this.#prepared.base + path);
    const further = asked || call.query ? searchOf({ ...asked, ...call.query }) : "";
    if (query || further) url.search = [query, further].filter(Boolean).join("&");
    return {
      method,
      url,
      route: call.path.route,
      path,
      headers: this.#headersOf(given, body !== undefined),
      body,
      signal: options.signal,
      timeout,
      secrets: new Set(call.secrets),
      secretsInAnswer: call.secretsInAnswer,
      maxResponseBytes: this.#settings.maxResponseBytes,
      mayBeMissing: call.mayBeMissing === true,
      sends: 0,
      asksToken: false,
    };
  }

  /** Merges the client's headers with the headers of one call. */
  #headersOf(given: Headers | undefined, hasBody: boolean): Readonly<Record<string, string>> {
    const { headers } = this.#prepared;
    if (!given && !hasBody) return headers;
    const type = hasBody && { "content-type": "application/json" };
    return { ...type, ...headers, ...Object.fromEntries(given ?? []) };
  }

  /** Makes one attempt, which its time limit and the signal of the call abort. */
  async #withinLimit(call: Outgoing, tokens: TokenSource, number: number): Promise<Answer> {
    const { signal, timeout } = call;
    const limit = new AbortController();
    const abort = (): void => limit.abort(signal?.reason);
    const timer = setTimeout(() => limit.abort(new DOMException("too late", "TimeoutError")), timeout);
    signal?.addEventListener("abort", abort);
    try {
      signal?.throwIfAborted();
      return await this.#attempt(call, tokens, number, limit.signal);
    } catch (error) {
      throw failureOf(error, call, limit.signal.aborted);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
  }

  /** Makes one attempt: gets a token, sends the request, refreshes the token after a 401, and follows redirects. */
  async #attempt(call: Outgoing, tokens: TokenSource, number: number, signal: AbortSignal): Promise<Answer> {
    let { url } = call;
    let redirects = 0;
    call.asksToken = true;
    let token = call.refreshed ?? (await tokens.initial(signal));
    for (;;) {
      call.asksToken = false;
      call.secrets.add(token.value);
      signal.throwIfAborted();
      const send = () => this.#exchange(call, url, token.value, signal);
      const exchange = await (this.#settings.observers.length > 0
        ? this.#observed(call, url, number, send)
        : send());
      const { response } = exchange;
      if (response.status === 401 && tokens.refreshable && !call.refreshed) {
        call.asksToken = true;
        token = call.refreshed = await tokens.refresh(token, signal);
        continue;
      }
      const target = redirectTarget(call.method, response, url, this.#settings.baseUrl);
      // A retried DELETE may get a 404, because an earlier attempt deleted the record.
      if (!target || redirects === maxRedirects)
        return new Answer(exchange, call, call.mayBeMissing || (call.method === "DELETE" && number > 1));
      redirects++;
      url = target;
    }
  }

  /** Sends one request, and reports its start and its end to the observers. */
  async #observed(
    call: Outgoing,
    url: URL,
    attempt: number,
    exchange: () => Promise<Exchange>,
  ): Promise<Exchange> {
    const { observers } = this.#settings;
    const redact = redactor(call.secrets);
    const request: RequestObservation = {
      id: crypto.randomUUID(),
      method: call.method,
      route: call.route,
      path: redact.text(url === call.url ? call.path : url.pathname),
      url: redact.text(url.origin + url.pathname),
      attempt,
      resendCount: call.sends++,
      ...(this.#account !== undefined && { account: this.#account }),
    };
    for (const each of observers) each.onRequest?.(request);
    const start = performance.now();
    const ended = (end: { readonly status: number } | { readonly error: StayhookError }): void => {
      for (const each of observers)
        each.onResponse?.({ ...request, ...end, duration: performance.now() - start });
    };
    try {
      const done = await exchange();
      ended({ status: done.response.status });
      return done;
    } catch (error) {
      ended({ error: error as StayhookError });
      throw error;
    }
  }

  /**
   * Sends one request and reads its whole answer.
   *
   * @throws StayhookError
   */
  async #exchange(call: Outgoing, url: URL, token: string, signal: AbortSignal): Promise<Exchange> {
    const headers = { ...call.headers, authorization: `Bearer ${token}` };
    const init: FetchInit = { method: call.method, headers, redirect: "manual", signal };
    // Next.js 14 caches every GET that does not say so.
    if (knowsCache()) init.cache = "no-store";
    if (call.body !== undefined) init.body = call.body;
    let reader: BodyReader | undefined;
    const exchange = async (): Promise<Exchange> => {
      const response = (await this.#settings.fetch(url.href, init)) as Response;
      signal.throwIfAborted();
      const problem = problemWithResponse(response);
      if (problem !== undefined) throw mistakeError(`\`fetch\` ${problem}`, call);
      // The body of another implementation, such as node-fetch, may be a stream of Node.
      reader = response.body?.getReader?.();
      return { response, body: await readBody(reader ?? (await response.text()), call.maxResponseBytes) };
    };
    try {
      // Use one abort listener for the whole answer. A listener for each chunk would cost as much time as the parsing.
      return await untilAborted(exchange(), signal);
    } catch (cause) {
      reader?.cancel().catch(() => {});
      throw failureOf(cause, call, signal.aborted);
    }
  }
}

/** What ky gets for an answer. */
const done: Pick<Response, "ok"> = { ok: true };

/** Whether the runtime knows `cache`. Older Workers throw an error for it. */
function knowsCache(): boolean {
  return "cache" in Request.prototype;
}

/** What the requests of all accounts have in common. */
function prepare({ accessToken, baseUrl, headers: given }: Settings) {
  const own = { accept: "application/json", "user-agent": `stayhook/${version}` };
  const headers: Readonly<Record<string, string>> = { ...own, ...Object.fromEntries(given ?? []) };
  const base = baseUrl.origin + baseUrl.pathname.replace(/\/$/, "");
  return { tokens: tokensOf(accessToken), base, headers };
}

/** Encodes a query for a URL. */
export function searchOf(query: QueryInput): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    for (const one of Array.isArray(value) ? value : [value])
      if (one !== undefined && one !== null) search.append(name, String(one));
  return search.toString();
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

/** The longest wait before a retry, ms. If `Retry-After` asks for a longer wait, the client does not retry. */
const maxWait = 60_000;

/**
 * Returns the wait before a retry, ms, or `undefined` if the client must not retry the call. Without a `Retry-After` of
 * a second or more, the wait is 500 ms, doubled for each further retry up to 8 s. Jitter subtracts up to half of the wait.
 *
 * @param repeatable - whether the call is idempotent
 * @param retry - the number of the retry, from 1
 */
function retryDelay(error: unknown, repeatable: boolean, retry: number): number | undefined {
  const { status = 0, headers } = error instanceof APIError ? error : {};
  const asked = headers && retryAfterMs(headers);
  const isTransient = error instanceof ConnectionError || status === 408 || status === 429 || status >= 500;
  const hadNoEffect = status === 429 || (status === 503 && asked !== undefined);
  if (!(repeatable ? isTransient : hadNoEffect)) return undefined;
  const usual = Math.min(500 * 2 ** (retry - 1), 8000) * (1 - Math.random() / 2);
  // A platform that asks for no wait, or for one that has passed, would get all requests of all clients at once.
  const wait = asked !== undefined && asked >= 1000 ? asked : Math.max(asked ?? 0, usual);
  return wait > maxWait ? undefined : wait;
}
