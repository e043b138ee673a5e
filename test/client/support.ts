import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import { StayhookClient } from "../../src/client/client.ts";
import type { ClientOptions } from "../../src/client/client-options.ts";
import type { Logger } from "../../src/logger.ts";
import type { Booking, Listing } from "../../src/models/records.ts";
import { serve } from "../support/serve.ts";

export interface Received {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** An answer to a request: status, JSON, text and headers, or a function that writes the response itself. */
export interface Reply {
  readonly status?: number;
  readonly json?: unknown;
  readonly text?: string;
  readonly headers?: Record<string, string>;
  readonly raw?: (response: ServerResponse) => void;
}

export interface Platform {
  readonly url: string;
  readonly requests: Received[];
}

type Answering = (request: Received, index: number) => Reply | Promise<Reply>;

/** Starts a server on loopback. It answers from a list, whose last entry repeats, or by a function. */
export async function platform(answer: readonly Reply[] | Answering): Promise<Platform> {
  const requests: Received[] = [];
  const reply: Answering =
    typeof answer === "function" ? answer : (_, index) => answer[Math.min(index, answer.length - 1)] ?? {};
  const url = await serve(async (incoming, response) => {
    let body = "";
    for await (const chunk of incoming) body += chunk;
    const { method = "", url = "", headers } = incoming;
    const request = { method, url, headers, body };
    const index = requests.push(request) - 1;
    const { status = 200, json, text, headers: sent = {}, raw } = await reply(request, index);
    if (raw) return raw(response);
    response.writeHead(status, json === undefined ? sent : { "content-type": "application/json", ...sent });
    response.end(json === undefined ? text : JSON.stringify(json));
  });
  return { url, requests };
}

export const accessToken = "tok_9f8e7d6c5b4a";

/** What the clients of `clientOf` send with, unless a test says otherwise. `undefined` stands for the runtime's `fetch`. */
export const transport: { fetch: ClientOptions["fetch"] } = { fetch: undefined };

export function clientOf<B extends Booking = Booking, L extends Listing = Listing>(
  { url }: Platform,
  options: Partial<ClientOptions<B, L>> = {},
): StayhookClient<B, L> {
  return new StayhookClient<B, L>({ baseUrl: url, accessToken, fetch: transport.fetch, ...options });
}

/** Makes a client without retries, and a platform that gives it this answer. */
export async function answering<B extends Booking = Booking, L extends Listing = Listing>(
  reply: Reply,
  options: Partial<ClientOptions<B, L>> = {},
): Promise<StayhookClient<B, L>> {
  return clientOf(await platform([reply]), { maxRetries: 0, ...options });
}

/** Returns the error of a promise that must reject. */
export async function rejection<E = Error & Record<string, unknown>>(promise: Promise<unknown>): Promise<E> {
  const resolved = Symbol();
  const error = await promise.then(
    () => resolved,
    (reason) => reason,
  );
  if (error === resolved) throw new Error("was expected to reject");
  return error as E;
}

/** Makes a `fetch` without network. It answers from a list, whose last entry repeats, and keeps its calls. */
export function fakeFetch(
  answers: readonly (Response | Error | ((init: RequestInit) => Promise<Response>))[],
) {
  const calls: { url: string; init: RequestInit }[] = [];
  const fetch = async (url: string, init: RequestInit): Promise<Response> => {
    const answer = answers[Math.min(calls.push({ url, init }) - 1, answers.length - 1)];
    if (typeof answer === "function") return answer(init);
    if (answer instanceof Error) throw answer;
    return (answer as Response).clone();
  };
  return { calls, fetch };
}

/** Makes a logger that keeps its warnings. */
export function keepingLogger() {
  const warnings: string[] = [];
  const logger: Logger = ({ level, message }) => void (level === "warn" && warnings.push(message));
  return { warnings, logger };
}
