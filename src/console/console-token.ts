import { type FetchHandler, fetchHandler } from "../adapters/handlers.ts";
import { isEqual } from "../webhooks/receiving/verify.ts";
import { cookieOf } from "./form-guard.ts";
import { assetOf, refuse, respond, type SiteOptions } from "./site.ts";

/**
 * Requires a token for a site on this machine. The user opens a URL with the token in its query (`?token=…`). The
 * answer puts the token into a cookie that scripts and other sites cannot read. The URL's host must be localhost or a
 * loopback address, because a hostile site could make its own host name resolve to this machine (DNS rebinding).
 *
 * @param site - makes the site. Its argument `authorize` checks the cookie
 */
export function behindToken(
  token: string,
  site: (authorize: SiteOptions["authorize"]) => FetchHandler,
): FetchHandler {
  const isKnown = (request: Request) => isEqual(cookieOf(request, nameOf(new URL(request.url))) ?? "", token);
  const inner = site(isKnown);
  return fetchHandler(async (request) => {
    const url = new URL(request.url);
    if (!/^(localhost|127\.0\.0\.1|\[::1\])$/.test(url.hostname))
      return refuse(
        403,
        "The console answers only at localhost, 127.0.0.1 and [::1]. Open the URL that the command 'stayhook console' printed.",
      );
    const given = url.searchParams.get("token");
    if (given === null) {
      if (isKnown(request)) return inner.fetch(request);
      // The pages that refuse a request look like the others.
      const asset = url.searchParams.get("asset");
      if (asset !== null) return assetOf(asset);
      // The cookie of a browser outlives the command, and each start of the command makes a new token.
      return refuse(
        403,
        "This page needs the token of the running command. If the command 'stayhook console' was started again, open the new URL that the command has printed.",
        { isStyled: true },
      );
    }
    if (!isEqual(given, token))
      return refuse(
        403,
        "The token in the URL is not valid. Open the last URL that the command 'stayhook console' printed.",
        { isStyled: true },
      );
    url.searchParams.delete("token");
    const cookie = `${nameOf(url)}=${token}; Path=/; HttpOnly; SameSite=Strict`;
    return respond(303, "", { location: `?${url.searchParams}`, "set-cookie": cookie });
  });
}

/** Returns the cookie's name. The name includes the port, because all ports of a host share their cookies. */
const nameOf = ({ port }: URL): string => `stayhook-token-${port || "80"}`;
