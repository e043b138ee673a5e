import * as z from "zod";
import { isLoopback, parseUrl } from "../client/urls.ts";

/** The webhook configuration that the sandbox holds. */
export interface SandboxWebhookConfig {
  readonly isActive: boolean;
  /** From topic to URL. */
  readonly endpoints: Readonly<Record<string, string>>;
}

/** A body of the two endpoints that write a configuration. A topic beyond the three that are known is kept too. */
export const webhookConfigBody = z.object(
  {
    isActive: z.boolean({ error: missingOr("must be true or false") }),
    endpoints: z.record(
      z.string(),
      z.string({ error: "must be a URL" }).superRefine((url, context) => {
        const message = describeEndpoint(url);
        if (message !== undefined) context.addIssue({ code: "custom", message });
      }),
      { error: missingOr("must be an object with a URL for each topic") },
    ),
  },
  { error: "must be an object" },
);

/** What is wrong with a URL as an endpoint, if something is. */
export function describeEndpoint(text: string): string | undefined {
  const url = parseUrl(text);
  if (!url) return "must be a URL";
  if (url.protocol !== "https:" && !isLoopback(url))
    return "must be an https URL, or http on a loopback host";
  if (url.username !== "" || url.password !== "") return "must not hold a user name or password";
  return undefined;
}

function missingOr(message: string): (issue: { readonly input?: unknown }) => string {
  return (issue) => (issue.input === undefined ? "is missing" : message);
}
