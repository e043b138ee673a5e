import { createInterface } from "node:readline";
import { parseUrl } from "../client/urls.ts";
import { isTopic, topics } from "../models/webhook-config.ts";
import type { Invocation, Option } from "./command.ts";
import { UsageError } from "./exit-code.ts";

// An endpoint's URL usually holds a secret, and other users of the machine can read a process's arguments.

/** @param what - what the URL is for */
function urlOption(what: string, variable: string): Option {
  return { type: "string", value: "<url>", help: `${what}; - reads it from stdin; default: ${variable}` };
}

const variableOf = (topic: string): string => `STAYHOOK_ENDPOINT_${topic.toUpperCase()}`;

export const endpointOptions: Readonly<Record<string, Option>> = Object.fromEntries(
  topics.map((topic) => [topic, urlOption(`the endpoint for notifications of ${topic}`, variableOf(topic))]),
);

export const toOption = (what: string): Readonly<Record<string, Option>> => ({
  to: urlOption(what, "STAYHOOK_TO"),
});

/**
 * The URLs of the topics that were given. Where one was given on the command line, the environment does not count.
 *
 * @returns an empty text for a topic that was given an empty one
 * @throws UsageError where stdin has fewer lines than it should
 */
export async function endpointsOf(invocation: Invocation): Promise<Record<string, string>> {
  const { io, text } = invocation;
  const given = Object.fromEntries(
    topics.flatMap((topic) => {
      const url = text(topic);
      return url === undefined ? [] : [[topic, url]];
    }),
  );
  if (Object.keys(given).length === 0)
    return Object.fromEntries(
      topics.flatMap((topic) => {
        const url = io.env[variableOf(topic)];
        return url ? [[topic, url]] : [];
      }),
    );
  for (const [topic, url] of Object.entries(given)) warnOfQuery(invocation, topic, url, variableOf(topic));
  const fromStdin = Object.keys(given).filter((topic) => given[topic] === "-");
  if (fromStdin.length === 0) return given;
  const lines = await linesOf(io.stdin, fromStdin.length);
  // One line stands for all topics: one handler usually serves them.
  for (const [index, topic] of fromStdin.entries()) {
    const line = lines.length === 1 ? lines[0] : lines[index];
    if (line === undefined)
      throw new UsageError("stdin needs one URL, or one line for each option that is -");
    given[topic] = line;
  }
  return given;
}

/** The URL in `--to`, on stdin or in STAYHOOK_TO. @throws UsageError where stdin has none */
export async function toOf(invocation: Invocation): Promise<string | undefined> {
  const to = toGiven(invocation);
  if (to !== "-") return to;
  const [line] = await linesOf(invocation.io.stdin, 1);
  if (line === undefined) throw new UsageError("stdin has no URL for --to");
  return line;
}

/** The same, but `-` as it is, for a command that reads stdin itself. */
export function toGiven(invocation: Invocation): string | undefined {
  const to = invocation.text("to");
  if (to === undefined) return invocation.io.env.STAYHOOK_TO || undefined;
  warnOfQuery(invocation, "to", to, "STAYHOOK_TO");
  return to;
}

function warnOfQuery({ out }: Invocation, option: string, url: string, variable: string): void {
  if (parseUrl(url)?.search)
    out.warn(
      `other users of this machine can read the query of --${option}; use --${option} - or ${variable} instead`,
    );
}

/** The first lines of stdin that are not empty, `count` at most. */
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
