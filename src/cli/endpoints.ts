import { createInterface } from "node:readline";
import { parseUrl } from "../client/urls.ts";
import { isTopic, topics } from "../models/records.ts";
import type { Invocation, Option, Options } from "./command.ts";
import { UsageError } from "./exit-code.ts";

// An endpoint's URL usually holds a secret, and other users of the machine can read a process's arguments. So each
// URL may come from stdin or from the environment.

/** @param use - what the URL is for */
function urlOption(use: string, variable: string): Option {
  return { type: "string", value: "<url>", help: `${use}; - reads it from stdin; default: ${variable}` };
}

const variableOf = (topic: string): string => `STAYHOOK_ENDPOINT_${topic.toUpperCase()}`;

export const endpointOptions: Options = Object.fromEntries(
  topics.map((topic) => [topic, urlOption(`the endpoint for notifications of ${topic}`, variableOf(topic))]),
);

export const toOption = (use: string): Options => ({ to: urlOption(use, "STAYHOOK_TO") });

/**
 * Reads the URLs of the topics: those on the command line, or else those in the environment.
 *
 * @returns an empty text for a topic whose option is empty
 * @throws UsageError if stdin has too few lines
 */
export async function endpointsOf(invocation: Invocation): Promise<Record<string, string>> {
  const { io, text } = invocation;
  const urls = (read: (topic: string) => string | undefined): Record<string, string> =>
    Object.fromEntries(
      topics.flatMap((topic) => {
        const url = read(topic);
        return url === undefined ? [] : [[topic, url]];
      }),
    );
  const given = urls(text);
  if (Object.keys(given).length === 0) return urls((topic) => io.env[variableOf(topic)] || undefined);
  for (const [topic, url] of Object.entries(given)) warnOfQuery(invocation, topic, url, variableOf(topic));
  const fromStdin = Object.keys(given).filter((topic) => given[topic] === "-");
  if (fromStdin.length === 0) return given;
  const lines = await linesOf(io.stdin, fromStdin.length);
  // One handler usually serves all topics, so one line is enough.
  for (const [index, topic] of fromStdin.entries()) {
    const line = lines.length === 1 ? lines[0] : lines[index];
    if (line === undefined)
      throw new UsageError("Stdin must have one URL, or one line for each option that is -.");
    given[topic] = line;
  }
  return given;
}

/** Reads the URL from `--to`, stdin or STAYHOOK_TO. @throws UsageError if `--to` is `-` and stdin is empty */
export async function toOf(invocation: Invocation): Promise<string | undefined> {
  const to = toGiven(invocation);
  if (to !== "-") return to;
  const [line] = await linesOf(invocation.io.stdin, 1);
  if (line === undefined) throw new UsageError("Stdin has no URL for --to.");
  return line;
}

/** Like {@link toOf}, but returns `-` instead of reading stdin. The sandbox reads commands from stdin. */
export function toGiven(invocation: Invocation): string | undefined {
  const to = invocation.text("to");
  if (to === undefined) return invocation.io.env.STAYHOOK_TO || undefined;
  warnOfQuery(invocation, "to", to, "STAYHOOK_TO");
  return to;
}

function warnOfQuery({ out }: Invocation, option: string, url: string, variable: string): void {
  if (parseUrl(url)?.search)
    out.warn(
      `Other users of this machine can read the query of --${option}. Use --${option} - or ${variable} instead.`,
    );
}

/** The first `count` lines of stdin that are not empty. */
async function linesOf(stdin: Invocation["io"]["stdin"], count: number): Promise<string[]> {
  const found: string[] = [];
  const lines = createInterface({ input: stdin });
  for await (const line of lines) {
    if (line.trim() !== "") found.push(line.trim());
    if (found.length === count) break;
  }
  lines.close();
  return found;
}

/** A URL with `***` for each part that may be a secret: a value in the query, a password, a long last segment. */
export function masked(text: string): string {
  const url = parseUrl(text);
  if (!url) return text;
  const query = [...new URLSearchParams(url.search)].map(([name, value]) => {
    const isPlain = name === "topic" && isTopic(value);
    return `${encodeURIComponent(name)}=${isPlain ? value : "***"}`;
  });
  const path = url.pathname.replace(/[^/]{16,}$/, "***");
  const user = url.username === "" ? "" : `${url.username}${url.password === "" ? "" : ":***"}@`;
  return `${url.protocol}//${user}${url.host}${path}${query.length === 0 ? "" : `?${query.join("&")}`}`;
}

/** The part of a URL that is safe to show. Its path and query may hold a secret. */
export const originOf = (url: string): string => new URL(url).origin;

/** The platform's limit for an answer, ms. */
export const REPLY_TIME = 30_000;

/** An endpoint's answer. */
export interface Posted {
  /** `undefined` if no answer came. */
  readonly status: number | undefined;
  /** Why there was no answer. */
  readonly error: string | undefined;
  /** ms */
  readonly duration: number;
}

/**
 * Sends a body as the platform does: as JSON, without following redirects, for 30 s at most. Rejects only when
 * `signal` aborts.
 */
export async function post(
  url: string,
  body: string | undefined,
  signal: AbortSignal,
  method = "POST",
): Promise<Posted> {
  const began = performance.now();
  const since = () => Math.round(performance.now() - began);
  try {
    const response = await fetch(url, {
      method,
      redirect: "manual",
      signal: AbortSignal.any([signal, AbortSignal.timeout(REPLY_TIME)]),
      ...(body === undefined ? {} : { body, headers: { "content-type": "application/json" } }),
    });
    await response.body?.cancel();
    return { status: response.status, error: undefined, duration: since() };
  } catch (error) {
    signal.throwIfAborted();
    return { status: undefined, error: reasonOf(error), duration: since() };
  }
}

/** A short reason without the URL, which may hold a secret. */
function reasonOf(error: unknown): string {
  if (error instanceof Error && error.name === "TimeoutError")
    return `no answer within ${REPLY_TIME / 1000} s`;
  const { cause } = Object(error) as { readonly cause?: Error & { readonly code?: unknown } };
  if (typeof cause?.code === "string") return cause.code;
  return cause instanceof Error ? cause.message : "no connection";
}
