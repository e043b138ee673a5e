import { StayhookClient } from "../client/client.ts";
import type { LogEntry } from "../logger.ts";
import { UsageError } from "./command.ts";
import type { Io, Output } from "./output.ts";

// A file of its own, so that the help does not import the client. It cannot import client/client.ts on demand, because
// the build removes the files of the modules that index.ts exports.

/** @throws UsageError naming each missing setting; InvalidArgumentError for an invalid setting */
export function clientOf(
  baseUrl: string | undefined,
  { env }: Io,
  out: Output,
  tokens?: ReadonlyMap<string, string>,
): StayhookClient {
  const { STAYHOOK_ACCESS_TOKEN: ownToken } = env;
  const hasTokens = tokens !== undefined && [...tokens.values()].every((token) => token !== "");
  const accessToken = hasTokens
    ? ({ account = "" }: { readonly account: string | undefined }) => tokens.get(account)!
    : ownToken;
  const missing = [
    baseUrl ? [] : ["STAYHOOK_BASE_URL (the platform's URL; or use --base-url)"],
    accessToken ? [] : ["STAYHOOK_ACCESS_TOKEN (the access token)"],
  ].flat();
  if (!baseUrl || !accessToken) throw new UsageError(`Set ${missing.join(" and ")}.`);
  const logger = ({ level, message }: LogEntry) => {
    if (level === "warn" || level === "error") out.warn(message.replace(/^stayhook: /, ""));
  };
  return new StayhookClient({ baseUrl, accessToken, logger });
}
