import { type FetchHandler, fetchHandler } from "../../adapters/fetch-handler.ts";
import type { Log } from "../../logger.ts";
import { csrfTokenOf, isOwnForm, readForm, securityHeaders } from "./guard.ts";
import { type Html, html } from "./html.ts";
import { pageOf } from "./layout.ts";
import { icon, script } from "./script.ts";
import { liveStream } from "./stream.ts";
import { style } from "./style.ts";

/*
 * The shell of this package's own pages: the inbox of `createConsole`, and the sandbox's page of the platform.
 *
 * All pages of a site have one path. Links and forms name a page by the query alone (`?event=…`), so that the site works
 * below any path, behind any proxy, with and without a slash at its end. The shell itself uses the names `live`, `asset`
 * and `csrf`.
 *
 * - `createSite(site, options)` makes the `fetch`. It calls `authorize`, guards forms, sends the headers, and streams.
 * - `html` (html.ts) is the template that escapes; `hiddenFields`, `badge`, `time` (layout.ts) are common parts.
 * - `style` and `script` serve every site. Elements ask for behavior by attributes; script.ts lists them.
 */

/** A page. */
export interface View {
  readonly title: string;
  /** The contents of `<main>`. It must be the same text as long as nothing changes: show times with `time`. */
  readonly body: Html;
  /** Default 200. */
  readonly status?: number | undefined;
  /** Whether the page follows what happens while it is open. Default `true`. */
  readonly live?: boolean | undefined;
}

/** Sends the browser to another page of the site. */
export interface GoTo {
  readonly goTo: URLSearchParams;
}

/** The input of a page. */
export interface Visit {
  readonly query: URLSearchParams;
  /** Whether changes are refused. A page then has no forms that change anything. */
  readonly readOnly: boolean;
  /** The hidden field that each form with `method="post"` needs. */
  readonly csrf: Html;
}

/** The pages of a site. */
export interface Site {
  /** The name in the header and in each title. */
  readonly name: string;
  /** Links in the header: text and query. */
  readonly links?: readonly (readonly [text: string, query: string])[] | undefined;
  /** Makes the search field in the header: its query parameter and its label. */
  readonly search?: { readonly name: string; readonly label: string } | undefined;
  view(visit: Visit): Promise<View | GoTo>;
  /** Does what a form asks for. */
  act(form: URLSearchParams, visit: Visit): Promise<View | GoTo>;
  /** How often a page looks for changes, in ms, and whether it does so without the focus. Default: 2,000, and no. */
  readonly live?: { readonly every: number; readonly unfocused: boolean } | undefined;
  /** Values for plots, by name. */
  stats?(): Promise<Readonly<Record<string, number | undefined>>>;
}

/** Options of {@link createSite}. */
export interface SiteOptions {
  /** Whether a request is allowed. Anything but `true`, or an error, refuses it. */
  readonly authorize: (request: Request) => boolean | Promise<boolean>;
  /** Other paths are answered 404. A path of `/` is taken as well, because routers and proxies cut prefixes off. Default: any path. */
  readonly basePath?: string | undefined;
  readonly readOnly?: boolean | undefined;
  readonly log: Log;
}

/** The most streams at once. Each reads the store every two seconds. */
const MAX_STREAMS = 50;

const assets: Readonly<Record<string, readonly [type: string, text: string]>> = {
  "style.css": ["text/css; charset=utf-8", style],
  "script.js": ["text/javascript; charset=utf-8", script],
  "icon.svg": ["image/svg+xml", icon],
};

/** Makes the function that answers the requests for a site. It never rejects. */
export function createSite(site: Site, options: SiteOptions): FetchHandler {
  const { authorize, basePath, readOnly = false, log } = options;
  let streams = 0;

  const isAllowed = async (request: Request): Promise<boolean> => {
    try {
      return (await authorize(request)) === true;
    } catch (error) {
      const details = { error, fromUserCode: true };
      log.limited(
        "console-authorize",
        "warn",
        "the console's authorize function failed; the request was refused",
        details,
      );
      return false;
    }
  };

  const visitOf = (query: URLSearchParams, token: string): Visit => {
    const csrf = html`<input type="hidden" name="csrf" value="${token}">`;
    return { query, readOnly, csrf };
  };

  const show = (answer: View | GoTo, visit: Visit): Response => {
    if ("goTo" in answer) return respond(303, "", { location: `?${answer.goTo}` });
    const page = pageOf(site, answer, visit);
    return respond(answer.status ?? 200, String(page), { "content-type": "text/html; charset=utf-8" });
  };

  const stream = (visit: Visit): Response => {
    if (streams >= MAX_STREAMS) return refuse(503, "Too many pages are open.");
    streams++;
    const look = async () => {
      const [view, stats = {}] = await Promise.all([site.view(visit), site.stats?.()]);
      return { body: "goTo" in view ? "" : String(view.body), stats };
    };
    const headers = { "content-type": "text/event-stream", "x-accel-buffering": "no" };
    return respond(
      200,
      liveStream(look, () => streams--, site.live?.every),
      headers,
    );
  };

  const get = async (query: URLSearchParams, token: string): Promise<Response> => {
    const asset = query.get("asset");
    if (asset !== null) {
      const found = Object.hasOwn(assets, asset) ? assets[asset] : undefined;
      return found ? respond(200, found[1], { "content-type": found[0] }) : refuse(404, "Not found.");
    }
    const isLive = query.has("live");
    query.delete("live");
    const visit = visitOf(query, token);
    return isLive ? stream(visit) : show(await site.view(visit), visit);
  };

  const post = async (request: Request, query: URLSearchParams, token: string): Promise<Response> => {
    if (readOnly) return refuse(405, "This page is read-only.", { allow: "GET, HEAD" });
    const form = await readForm(request);
    if (typeof form === "number") return refuse(form, "The form cannot be read.");
    if (!isOwnForm(request, form))
      return refuse(
        403,
        "The form is not this page's own. Load the page again, and send the form from there.",
      );
    const visit = visitOf(query, token);
    return show(await site.act(form, visit), visit);
  };

  const answer = async (request: Request): Promise<Response> => {
    if (!(await isAllowed(request))) return refuse(403, "You are not allowed to see this page.");
    const { pathname, searchParams } = new URL(request.url);
    if (!isBelow(pathname, basePath)) return refuse(404, "Not found.");
    const token = csrfTokenOf(request);
    switch (request.method) {
      case "GET":
      case "HEAD": {
        const response = await get(searchParams, token.value);
        if (token.cookie !== undefined) response.headers.append("set-cookie", token.cookie);
        if (request.method === "GET") return response;
        await response.body?.cancel();
        return new Response(null, response);
      }
      case "POST":
        return post(request, searchParams, token.value);
      default:
        return refuse(405, "Method not allowed.", { allow: readOnly ? "GET, HEAD" : "GET, HEAD, POST" });
    }
  };

  return fetchHandler(async (request) => {
    try {
      return await answer(request);
    } catch (error) {
      log.limited("console", "error", `a page of ${site.name} could not be made`, { error });
      return refuse(503, "The page cannot be shown now. The log of the server says why.");
    }
  });
}

function isBelow(path: string, basePath: string | undefined): boolean {
  if (basePath === undefined) return true;
  const cut = path.startsWith(basePath) ? path.slice(basePath.length) : path;
  return cut === "" || cut === "/";
}

function refuse(status: number, text: string, headers: Readonly<Record<string, string>> = {}): Response {
  return respond(status, `${text}\n`, { "content-type": "text/plain; charset=utf-8", ...headers });
}

function respond(
  status: number,
  body: string | ReadableStream<Uint8Array>,
  headers: Readonly<Record<string, string>>,
): Response {
  return new Response(status === 303 ? null : body, { status, headers: { ...securityHeaders, ...headers } });
}
