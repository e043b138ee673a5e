import { StayhookClient } from "../client/client.ts";
import { UsageError } from "./exit-code.ts";

/** @throws UsageError naming what is missing; InvalidArgumentError where it cannot be used */
export function connect(
  env: Readonly<Record<string, string | undefined>>,
  baseUrl: string | undefined = env.STAYHOOK_BASE_URL,
): StayhookClient {
  const { STAYHOOK_ACCESS_TOKEN: accessToken } = env;
  const missing = [
    baseUrl ? undefined : "the platform's URL (STAYHOOK_BASE_URL, or --base-url)",
    accessToken ? undefined : "the access token (STAYHOOK_ACCESS_TOKEN)",
  ].filter((each) => each !== undefined);
  if (!baseUrl || !accessToken) throw new UsageError(`set ${missing.join(" and ")}`);
  return new StayhookClient({ baseUrl, accessToken });
}
