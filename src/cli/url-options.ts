// The URLs that a command takes: `--to`, its variable, or stdin.

import { parseUrl, withParameter, withTopic } from "../client/urls.ts";
import { isTopic } from "../models/topics.ts";
import { type Invocation, type Option, type Options, UsageError } from "./command.ts";
import { linesOf } from "./lines.ts";
import type { Io } from "./output.ts";

/** The next step for an account without a webhook configuration. */
export const howToMakeConfig =
  "To make one, set STAYHOOK_ENDPOINT to your public URL and run: npx stayhook config ensure";

// An endpoint's URL usually holds a secret, and other users of the machine can read a process's arguments. So the URL
// can also come from stdin or from an environment variable.

/** @param use - the purpose of the URL */
export const urlOption = (use: string, variable?: string): Option => ({
  value: "<url>",
  help: `${use}; "-" reads the URL from stdin${variable === undefined ? "" : `; default: ${variable}`}`,
});

/**
 * The environment variables that stand for `--to`. The public URL of the app and the URL of the app on this machine
 * have a variable each, so that a variable that was exported for the sandbox configures nothing at the platform.
 */
export type ToVariable = "STAYHOOK_ENDPOINT" | "STAYHOOK_TARGET";

export const toOption = (use: string, variable?: ToVariable): Options => ({ to: urlOption(use, variable) });

/**
 * Reads the URL from `--to`, from stdin, or from the variable.
 *
 * @throws UsageError if `--to` is `-` and stdin is empty
 */
export async function toOf(invocation: Invocation, variable?: ToVariable): Promise<string | undefined> {
  const to = toGiven(invocation, variable);
  if (to !== "-") return to;
  const [line] = await firstLinesOf(invocation.io, 1);
  if (line === undefined) throw new UsageError('Stdin is empty. If --to is "-", write the URL to stdin.');
  return line;
}

/** Reads the URL of the app on this machine from `--to`, stdin or STAYHOOK_TARGET. @throws UsageError */
export async function targetOf(invocation: Invocation): Promise<string | undefined> {
  const to = await toOf(invocation, "STAYHOOK_TARGET");
  if (to !== undefined && !parseUrl(to))
    throw new UsageError("--to or STAYHOOK_TARGET must be an http or https URL.");
  return to;
}

/** Returns `--to` or the variable. Returns `-` unchanged, because `stayhook sandbox` reads stdin itself. */
export function toGiven(invocation: Invocation, variable?: ToVariable): string | undefined {
  const to = invocation.text("to");
  if (to !== undefined) {
    warnOfQuery(invocation, "to", to, variable);
    return to;
  }
  return (variable && invocation.io.env[variable]) || undefined;
}

export function warnOfQuery({ out }: Invocation, option: string, url: string, variable?: string): void {
  if (parseUrl(url)?.search)
    out.warn(
      `Other users of this machine can read the query of the URL in --${option}. Give the URL on stdin (--${option} -)${variable === undefined ? "" : ` or in ${variable}`} instead.`,
    );
}

/** Returns the first `count` non-empty lines of stdin. */
export async function firstLinesOf(io: Io, count: number): Promise<string[]> {
  const found: string[] = [];
  for await (const line of linesOf(io)) {
    if (line.trim() !== "") found.push(line.trim());
    if (found.length === count) break;
  }
  return found;
}

/** Adds the topic to the query of a URL, unless the query has a topic already. */
export function addTopic(to: string, topic: string | null): string {
  const isMissing = topic !== null && isTopic(topic) && !new URL(to).searchParams.has("topic");
  return isMissing ? withTopic(to, topic) : to;
}

/** Adds the account to the query of a URL, unless the query has an account already. */
export function addAccount(to: string, account: string | undefined): string {
  const isMissing = account !== undefined && !new URL(to).searchParams.has("account");
  return isMissing ? withParameter(to, "account", account) : to;
}
