import { type HttpHandler, HttpResponse, http } from "msw";
import { parseUrl } from "../client/urls.ts";
import { InvalidArgumentError } from "../errors.ts";
import { checkNoUnknown } from "../option-names.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";

/** The default base URL of {@link sandboxHandlers}. Pass it to the client under test as `baseUrl`. */
export const sandboxBaseUrl = "https://sandbox.stayhook.test";

/** Options of {@link sandboxHandlers}. */
type SandboxHandlersOptions = {
  /** The `baseUrl` of the client under test. It may have a path. Default {@link sandboxBaseUrl}. */
  readonly baseUrl?: string | URL | undefined;
};

/**
 * Makes request handlers for msw 2 and 3. The handlers answer like the sandbox's API, without `sandbox.listen`. The
 * sandbox sends its deliveries with `fetch`, so another msw handler can receive them. To pass the deliveries directly
 * to a webhook handler instead, call `sandbox.deliverTo`.
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
    // msw reads some characters of a text pattern as wildcards or parameters. So use a regular expression.
    http.all(new RegExp(`^${literal(prefix)}/`), async ({ request }) => {
      const url = `${base.origin}${request.url.slice(prefix.length)}`;
      try {
        return await sandbox.fetch(new Request(url, request));
      } catch {
        // The sandbox broke the connection. Return a network error: msw would turn a thrown error into a 500 answer.
        return HttpResponse.error();
      }
    }),
  ];
}

const literal = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
