import { type HttpHandler, HttpResponse, http } from "msw";
import { parseUrl } from "../client/urls.ts";
import { InvalidArgumentError } from "../errors.ts";
import { checkNoUnknown } from "../option-names.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";

/** The default base URL of {@link sandboxHandlers}: the `baseUrl` of the client under test. */
export const sandboxBaseUrl = "https://sandbox.stayhook.test";

/** Options of {@link sandboxHandlers}. */
export interface SandboxHandlersOptions {
  /** The `baseUrl` of the client under test. It may have a path. Default {@link sandboxBaseUrl}. */
  readonly baseUrl?: string | URL | undefined;
}

/**
 * Makes request handlers for msw 2 and 3 that answer as the sandbox's API. They need no server and no `listen`. The
 * sandbox delivers by `fetch`, so another msw handler can take the deliveries. With `sandbox.deliverTo`, it calls the
 * webhook handler directly.
 *
 * @throws InvalidArgumentError if `baseUrl` is not an http or https URL
 * @example
 * ```ts
 * import { setupServer } from "msw/node";
 * import { createSandbox } from "stayhook/testing";
 * import { sandboxBaseUrl, sandboxHandlers } from "stayhook/testing/msw";
 *
 * const sandbox = createSandbox();
 * const server = setupServer(...sandboxHandlers(sandbox));
 * server.listen();
 * const client = new StayhookClient({ baseUrl: sandboxBaseUrl, accessToken: sandbox.accessToken });
 * sandbox.deliverTo(webhooks.fetch);
 * ```
 */
export function sandboxHandlers(
  sandbox: Pick<Sandbox, "fetch">,
  options: SandboxHandlersOptions = {},
): HttpHandler[] {
  checkNoUnknown(options, ["baseUrl"]);
  const { baseUrl = sandboxBaseUrl } = options;
  const base = parseUrl(String(baseUrl));
  if (!base || !/^https?:$/.test(base.protocol))
    throw new InvalidArgumentError({ path: ["baseUrl"], message: "must be an http or https URL" });
  const prefix = `${base.origin}${base.pathname.replace(/\/+$/, "")}`;
  return [
    // A regular expression, because a text pattern of msw gives a meaning to some characters of a URL.
    http.all(new RegExp(`^${literal(prefix)}/`), async ({ request }) => {
      const url = `${base.origin}${request.url.slice(prefix.length)}`;
      try {
        return await sandbox.fetch(new Request(url, request));
      } catch {
        // msw would answer 500 to a thrown error. The sandbox rejects when it breaks the connection.
        return HttpResponse.error();
      }
    }),
  ];
}

const literal = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
