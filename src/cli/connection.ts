import { StayhookClient } from "../client/client.ts";
import type { LogEntry } from "../logger.ts";
import { UsageError } from "./exit-code.ts";

/**
 * @param given - the base URL on the command line
 * @param warn - prints the client's warnings
 * @throws UsageError naming what is missing; InvalidArgumentError where it cannot be used
 */
export function connect(
  env: Readonly<Record<string, string | undefined>>,
  given: string | undefined,
  warn: (message: string) => void,
): StayhookClient {
  const { STAYHOOK_ACCESS_TOKEN: accessToken, STAYHOOK_BASE_URL } = env;
  const baseUrl = given ?? STAYHOOK_BASE_URL;
  const missing = [
    baseUrl ? undefined : "the platform's URL (STAYHOOK_BASE_URL, or --base-url)",
    accessToken ? undefined : "the access token (STAYHOOK_ACCESS_TOKEN)",
  ].filter((each) => each !== undefined);
  if (!baseUrl || !accessToken) throw new UsageError(`set ${missing.join(" and ")}`);
  const logger = ({ level, message }: LogEntry) => {
    if (level === "warn" || level === "error") warn(message.replace(/^stayhook: /, ""));
  };
  return new StayhookClient({ baseUrl, accessToken, logger });
}
