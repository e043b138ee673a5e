import { type FetchHandler, fetchHandler } from "../adapters/handlers.ts";
import { isEqual } from "../webhooks/receiving/verify.ts";
import { cookieOf } from "./form-guard.ts";
import { refuse, respond, type SiteOptions } from "./site.ts";

/**
 * Guards a site on this machine by a token. The first URL has it in its query (`?token=…`). From then on the browser has
 * it in a cookie that scripts and other sites do not get. A name other than this machine's is refused, because a
 * stranger's name may lead to this machine (DNS rebinding).
 *
 * @param site - makes the site with the `authorize` of the token
 */
export function behindToken(
  token: string,
  site: (authorize: SiteOptions["authorize"]) => FetchHandler,
): FetchHandler {
  const inner = site((request) => isEqual(cookieOf(request, nameOf(new URL(request.url))) ?? "", token));
  return fetchHandler(async (request) => {
    const url = new URL(request.url);
    if (!/^(localhost|127\.0\.0\.1|\[::1\])$/.test(url.hostname))
      return refuse(403, "This host is not served here.");
    const given = url.searchParams.get("token");
    if (given === null) return inner.fetch(request);
    if (!isEqual(given, token))
      return refuse(403, "The token is not valid. Open the URL that the command printed last.");
    url.searchParams.delete("token");
    const cookie = `${nameOf(url)}=${token}; Path=/; HttpOnly; SameSite=Strict`;
    return respond(303, "", { location: `?${url.searchParams}`, "set-cookie": cookie });
  });
}

/** Cookies are not kept apart by port. */
const nameOf = ({ port }: URL): string => `stayhook-token-${port || "80"}`;
