import { type HttpHandler, HttpResponse, http } from "msw";
import { parseUrl } from "../client/urls.ts";
import { checkNoUnknown } from "../options.ts";
import { refuse } from "../sandbox/records.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";

/** Where {@link sandboxHandlers} puts the platform unless told: the `baseUrl` for the client under test. */
export const sandboxBaseUrl = "https://sandbox.stayhook.test";

/** Options of {@link sandboxHandlers}. */
export interface SandboxHandlersOptions {
  /** The base URL that the client under test has; a path is kept as a prefix. Default {@link sandboxBaseUrl}. */
  readonly baseUrl?: string | URL | undefined;
}

/**
 * The sandbox's API as request handlers of msw 2 or 3: no server, and no `listen`. Deliveries go out by `fetch`,
 * so that a handler of yours can take them, or straight to the webhook handler with `sandbox.deliverTo`.
 *
 * @throws InvalidArgumentError where `baseUrl` is no http or https URL
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
  if (!base || !/^https?:$/.test(base.protocol)) refuse("must be an http or https URL", "baseUrl");
  const prefix = `${base.origin}${base.pathname.replace(/\/+$/, "")}`;
  return [
    // A pattern in text would read what is special in a base URL as its own.
    http.all(new RegExp(`^${literal(prefix)}/`), async ({ request }) => {
      const url = `${base.origin}${request.url.slice(prefix.length)}`;
      try {
        return await sandbox.fetch(new Request(url, request));
      } catch {
        // What a handler throws msw answers with a 500; this is a connection that broke.
        return HttpResponse.error();
      }
    }),
  ];
}

const literal = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
