import { untilAborted } from "./abort.ts";
import { failureOf } from "./failure.ts";
import { type RequestInfo, tell } from "./observers.ts";
import type { Settings } from "./options.ts";
import { type Body, readBody } from "./read-body.ts";
import type { Redactor } from "./redact.ts";
import { redirectTarget } from "./redirect.ts";
import type { Token, TokenSource } from "./token.ts";

/** What one call to the platform is, over all of its attempts. */
export interface Outgoing {
  readonly method: string;
  readonly url: URL;
  readonly route: string;
  /** Below the base URL. */
  readonly path: string;
  readonly headers: Headers;
  readonly body: string | undefined;
  readonly signal: AbortSignal | undefined;
  /** Tokens and the like that were sent: nothing that is thrown may show them. */
  readonly secrets: Set<string>;
  readonly redact: Redactor;
  /** The token that took the place of a refused one; later attempts keep it. */
  refreshed?: Token | undefined;
}

/** An answer, whole. */
export interface Exchange {
  readonly response: Response;
  readonly body: Body;
}

const maxRedirects = 3;

/** One attempt: a token, the request, its resending with a new token, its redirects, and the body of the answer. */
export async function attempt(
  call: Outgoing,
  number: number,
  signal: AbortSignal,
  settings: Settings,
  tokens: TokenSource,
): Promise<Exchange> {
  let url = call.url;
  let redirects = 0;
  let token = call.refreshed ?? (await tokens.initial(signal));
  for (;;) {
    call.secrets.add(token.value);
    const path = redirects === 0 ? call.path : call.redact.text(url.pathname);
    const info = { method: call.method, route: call.route, path, attempt: number };
    const exchange = await observed(info, call, settings, signal, () =>
      send(call, url, token.value, signal, settings),
    );
    const { response } = exchange;
    if (response.status === 401 && tokens.refreshable && !call.refreshed) {
      token = call.refreshed = await tokens.refresh(token, signal);
      continue;
    }
    const target = redirectTarget(call.method, response, url);
    if (!target || redirects === maxRedirects) return exchange;
    redirects++;
    url = target;
  }
}

/** Sends one request, with a pair of reports to the observers around it. */
async function observed(
  info: RequestInfo,
  call: Outgoing,
  { observers, logger }: Settings,
  signal: AbortSignal,
  exchange: () => Promise<Exchange>,
): Promise<Exchange> {
  signal.throwIfAborted();
  tell(observers.onRequest, info, logger);
  const start = performance.now();
  const duration = (): number => performance.now() - start;
  try {
    const done = await exchange();
    tell(observers.onResponse, { ...info, status: done.response.status, duration: duration() }, logger);
    return done;
  } catch (cause) {
    const error = failureOf(cause, call, signal.aborted);
    tell(observers.onResponse, { ...info, error, duration: duration() }, logger);
    throw error;
  }
}

async function send(
  call: Outgoing,
  url: URL,
  token: string,
  signal: AbortSignal,
  settings: Settings,
): Promise<Exchange> {
  const headers = new Headers(call.headers);
  headers.set("authorization", `Bearer ${token}`);
  const init: RequestInit = { method: call.method, headers, redirect: "manual", signal };
  if (call.body !== undefined) init.body = call.body;
  const response = await untilAborted(Promise.resolve(settings.fetch(url.href, init)), signal);
  return { response, body: await readBody(response, signal) };
}
