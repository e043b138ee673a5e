import { type FetchHandler, fetchHandler } from "../adapters/handlers.ts";
import type { Log } from "../logger.ts";
import { assets } from "./assets.ts";
import { csrfTokenOf, isOwnForm, readForm, securityHeaders } from "./form-guard.ts";
import { type Html, html } from "./html.ts";

/*
 * This file serves the web pages of this package: the inbox of `createConsole`, and the page of the sandbox.
 *
 * All pages of a site share one path. The URLs in links and forms are only a query (`?event=…`), so that a site works
 * at any path and behind any proxy. This file reserves the parameters `live`, `asset` and `csrf`.
 *
 * - `createSite(site, options)` answers requests: it calls `authorize`, guards forms and sets headers.
 * - `html` (html.ts) is the template that escapes values. `hiddenFields`, `badge` and `time` are common parts.
 * - browser/style.css and browser/script.js serve every site. script.js lists the attributes that it supports.
 */

/** A page. */
export interface View {
  readonly title: string;
  /**
   * The contents of `<main>`. Open pages load every change of the contents. Show ages with `time`: the script in the
   * browser updates them, so the contents do not change.
   */
  readonly body: Html;
  /** The HTTP status. Default 200. */
  readonly status?: number | undefined;
  /** Whether the open page updates itself. Default `true`. */
  readonly live?: boolean | undefined;
}

/** Sends the browser to another page of the site. */
export interface GoTo {
  readonly goTo: URLSearchParams;
}

/** The request for a page. */
export interface Visit {
  readonly query: URLSearchParams;
  /** Whether the site refuses changes. A read-only page must show no forms that change anything. */
  readonly readOnly: boolean;
  /** The hidden field that each form with `method="post"` needs. */
  readonly csrf: Html;
}

/** The pages of a site. */
export interface Site {
  /** The name in the header and in each title. */
  readonly name: string;
  /** The links in the header. Each link has a text and a query. */
  readonly links?: readonly (readonly [text: string, query: string])[] | undefined;
  /** The query parameter and the label of the search field in the header. */
  readonly search?: { readonly name: string; readonly label: string } | undefined;
  view(visit: Visit): Promise<View | GoTo>;
  /** Handles a form that the user has sent. */
  act(form: URLSearchParams, visit: Visit): Promise<View | GoTo>;
  /** The time between two updates of an open page, ms. Default 2,000. */
  readonly every?: number | undefined;
  /** The numbers that the charts show, by name. */
  stats?(): Promise<Stats>;
}

type Stats = Readonly<Record<string, number | undefined>>;

/** Options of {@link createSite}. */
export interface SiteOptions {
  /** Decides whether a request is allowed. The site allows the request only if the result is `true`. */
  readonly authorize: (request: Request) => boolean | Promise<boolean>;
  /** The path of the site. The site also answers at `/`, because routers may remove the path. Default: any path. */
  readonly basePath?: string | undefined;
  readonly readOnly?: boolean | undefined;
  readonly log: Log;
}

/** The default time between two updates of an open page, ms. */
const EVERY = 2000;

/** Makes the handler that answers the requests for a site. Its `fetch` never rejects. */
export function createSite(site: Site, options: SiteOptions): FetchHandler {
  const { authorize, basePath, readOnly = false, log } = options;
  const isAllowed = async (request: Request): Promise<boolean> => {
    try {
      return (await authorize(request)) === true;
    } catch (error) {
      const text = "the console refused a request, because its `authorize` function threw";
      log.limited("console-authorize", "warn", text, { error, fromUserCode: true });
      return false;
    }
  };

  const show = (answer: View | GoTo, visit: Visit): Response => {
    if ("goTo" in answer) return respond(303, "", { location: `?${answer.goTo}` });
    const page = pageOf(site, answer, visit);
    return respond(answer.status ?? 200, String(page), { "content-type": "text/html; charset=utf-8" });
  };

  /** Answers the script of an open page, which asks for the contents again and again. */
  const update = async (visit: Visit): Promise<Response> => {
    const [view, stats = {}] = await Promise.all([site.view(visit), site.stats?.()]);
    const body = "goTo" in view ? "" : String(view.body);
    return respond(200, JSON.stringify({ body, stats }), { "content-type": "application/json" });
  };

  const get = async (visit: Visit): Promise<Response> => {
    const { query } = visit;
    const asset = query.get("asset");
    if (asset !== null) {
      const found = Object.hasOwn(assets, asset) ? assets[asset] : undefined;
      return found ? respond(200, found[1], { "content-type": found[0] }) : refuse(404, "Not found.");
    }
    const isLive = query.has("live");
    query.delete("live");
    return isLive ? update(visit) : show(await site.view(visit), visit);
  };

  const post = async (request: Request, visit: Visit): Promise<Response> => {
    if (readOnly) return refuse(405, "This page is read-only.", { allow: "GET, HEAD" });
    const form = await readForm(request);
    if (typeof form === "number")
      return refuse(form, "The form cannot be read. Load the page again, and send the form again.");
    const foreign = "The form was not sent from this page. Load the page again, and send the form again.";
    if (!isOwnForm(request, form)) return refuse(403, foreign);
    return show(await site.act(form, visit), visit);
  };

  const answer = async (request: Request): Promise<Response> => {
    if (!(await isAllowed(request))) return refuse(403, "You are not allowed to see this page.");
    const { pathname, searchParams: query } = new URL(request.url);
    if (!isBelow(pathname, basePath)) return refuse(404, "Not found.");
    const token = csrfTokenOf(request);
    const csrf = html`<input type="hidden" name="csrf" value="${token.value}">`;
    switch (request.method) {
      case "GET":
      case "HEAD": {
        const response = await get({ query, readOnly, csrf });
        if (token.cookie !== undefined) response.headers.append("set-cookie", token.cookie);
        return request.method === "GET" ? response : new Response(null, response);
      }
      case "POST":
        return post(request, { query, readOnly, csrf });
      default:
        return refuse(405, "Method not allowed.", { allow: readOnly ? "GET, HEAD" : "GET, HEAD, POST" });
    }
  };

  return fetchHandler(async (request) => {
    try {
      return await answer(request);
    } catch (error) {
      log.limited("console", "error", `a web page of ${site.name} could not be rendered`, { error });
      return refuse(503, "The page cannot be shown now. The log of the server says why.");
    }
  });
}

function isBelow(path: string, basePath: string | undefined): boolean {
  if (basePath === undefined) return true;
  const cut = path.startsWith(basePath) ? path.slice(basePath.length) : path;
  return cut === "" || cut === "/";
}

export function refuse(
  status: number,
  text: string,
  headers: Readonly<Record<string, string>> = {},
): Response {
  return respond(status, `${text}\n`, { "content-type": "text/plain; charset=utf-8", ...headers });
}

/** Makes a response with the security headers. */
export function respond(status: number, body: string, headers: Readonly<Record<string, string>>): Response {
  return new Response(status === 303 ? null : body, { status, headers: { ...securityHeaders, ...headers } });
}

/** The HTML document of a page. */
function pageOf(site: Site, view: View, visit: Visit): Html {
  const { search } = site;
  const live = view.live ?? true;
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${view.title} · ${site.name}</title>
<link rel="icon" href="?asset=icon.svg">
<link rel="stylesheet" href="?asset=style.css">
<script type="module" src="?asset=script.js"></script>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header class="bar">
<a class="brand" href="?">${site.name}</a>
<nav aria-label="Pages">${site.links?.map(([text, query]) => html`<a href="?${query}">${text}</a>`)}</nav>
${visit.readOnly && html`<span class="note">Read-only</span>`}
<span class="live" data-live-state hidden></span>
${
  search &&
  html`<form class="find" role="search" method="get"><label class="sr" for="find">${search.label}</label>
<input id="find" type="search" name="${search.name}" placeholder="${search.label}" autocomplete="off" required maxlength="300"><button>Find</button></form>`
}
</header>
<main id="main" tabindex="-1"${live && html` data-live="${site.every ?? EVERY}"`}>${view.body}</main>
</body>
</html>
`;
}
