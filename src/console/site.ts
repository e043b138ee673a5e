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
  /** Whether the open page updates itself. Default `true`. With `retry`, it loads itself again when it can be shown. */
  readonly live?: boolean | "retry" | undefined;
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
  /** Who has sent the request, if `authorize` has said so. */
  readonly user?: string | undefined;
  /** The hidden field that each form with `method="post"` needs. */
  readonly csrf: Html;
}

/** The pages of a site. */
export interface Site {
  /** The name in the header and in each title. */
  readonly name: string;
  /** The query of the first page, to which the name in the header links. Default: an empty query. */
  home?(query: URLSearchParams): URLSearchParams;
  /** The links in the header. Each link has a text and a query. */
  links?(query: URLSearchParams): readonly (readonly [text: string, query: URLSearchParams])[];
  /** The search field in the header: its query parameter, its label, and the hidden fields beside it. */
  readonly search?:
    | { readonly name: string; readonly label: string; kept(query: URLSearchParams): Html }
    | undefined;
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
  /** Decides whether a request is allowed. The site allows the request only if the result is `true` or `{ user }`. */
  readonly authorize: (request: Request) => unknown;
  /** The path of the site. The site also answers at `/`, because routers may remove the path. Default: any path. */
  readonly basePath?: string | undefined;
  readonly readOnly?: boolean | undefined;
  readonly log: Log;
}

/** The default time between two updates of an open page, ms. */
const EVERY = 2000;

/** Makes the handler that answers the requests for a site. Its `fetch` never rejects. */
export function createSite(site: Site, options: SiteOptions): FetchHandler {
  const pages = new Pages(site, options);
  return fetchHandler(async (request) => {
    try {
      return await pages.answer(request);
    } catch (error) {
      options.log.limited("console", "error", `a web page of ${site.name} could not be rendered`, { error });
      return pages.failed(request);
    }
  });
}

class Pages {
  readonly #site: Site;
  readonly #options: SiteOptions;

  constructor(site: Site, options: SiteOptions) {
    this.#site = site;
    this.#options = options;
  }

  async answer(request: Request): Promise<Response> {
    const visitor = await this.#visitorOf(request);
    if (!visitor) return refuse(403, "You are not allowed to see this page.");
    const { pathname, searchParams: query } = new URL(request.url);
    const { basePath, readOnly = false } = this.#options;
    if (!isBelow(pathname, basePath)) return refuse(404, "Not found.");
    const token = csrfTokenOf(request);
    const csrf = html`<input type="hidden" name="csrf" value="${token.value}">`;
    switch (request.method) {
      case "GET":
      case "HEAD": {
        const response = await this.#get({ query, readOnly, csrf, ...visitor });
        if (token.cookie !== undefined) response.headers.append("set-cookie", token.cookie);
        return request.method === "GET" ? response : new Response(null, response);
      }
      case "POST":
        return this.#post(request, { query, readOnly, csrf, ...visitor });
      default:
        return refuse(405, "Method not allowed.", { allow: readOnly ? "GET, HEAD" : "GET, HEAD, POST" });
    }
  }

  /** Answers a request whose page could not be rendered. */
  failed({ url, method }: Request): Response {
    const { searchParams: query } = new URL(url);
    if (query.has("live")) return refuse(503, UNAVAILABLE);
    const view = method === "POST" ? unknownResultView(query) : unavailableView;
    return this.#show(view, { query, readOnly: this.#options.readOnly ?? false, csrf: html`` });
  }

  /** Who has sent the request. `undefined` if the request is not allowed. */
  async #visitorOf(request: Request): Promise<Pick<Visit, "user"> | undefined> {
    // A copy, because `authorize` may read the body. A body that a framework has read cannot be copied.
    const shown = request.body && !request.bodyUsed ? request.clone() : request;
    try {
      const answer = await this.#options.authorize(shown);
      if (answer === true) return {};
      const { user } = Object(answer) as { readonly user?: unknown };
      return typeof user === "string" && user !== "" ? { user } : undefined;
    } catch (error) {
      const text = "the console refused a request, because its `authorize` function threw";
      this.#options.log.limited("console-authorize", "warn", text, { error, fromUserCode: true });
      return undefined;
    } finally {
      // The body arrives no longer when both copies are canceled.
      if (shown !== request && !shown.body?.locked) shown.body?.cancel().catch(() => {});
    }
  }

  async #get(visit: Visit): Promise<Response> {
    const { query } = visit;
    const asset = query.get("asset");
    if (asset !== null) return assetOf(asset);
    const isLive = query.has("live");
    query.delete("live");
    return isLive ? this.#update(visit) : this.#show(await this.#site.view(visit), visit);
  }

  async #post(request: Request, visit: Visit): Promise<Response> {
    if (visit.readOnly) return refuse(405, "This page is read-only.", { allow: "GET, HEAD" });
    const form = await readForm(request);
    const again = "Load the page again, and send the form again.";
    if (typeof form === "number")
      return this.#show(failureView(form, `The form cannot be read. ${again}`), visit);
    if (!isOwnForm(request, form))
      return this.#show(failureView(403, `The form was not sent from this page. ${again}`), visit);
    return this.#show(await this.#site.act(form, visit), visit);
  }

  /** Answers the script of an open page, which asks for the contents again and again. */
  async #update(visit: Visit): Promise<Response> {
    const [view, stats = {}] = await Promise.all([this.#site.view(visit), this.#site.stats?.()]);
    const body = "goTo" in view ? null : String(view.body);
    return respond(200, JSON.stringify({ body, stats }), { "content-type": "application/json" });
  }

  #show(answer: View | GoTo, visit: Visit): Response {
    if ("goTo" in answer) return respond(303, "", { location: `?${answer.goTo}` });
    return respondPage(answer.status ?? 200, pageOf(this.#site, answer, visit));
  }
}

const UNAVAILABLE = "The page cannot be shown now. The log of the server says why.";

/** The page of a store that does not answer. It loads itself again, also without JavaScript. */
const unavailableView: View = {
  title: "The page cannot be shown now",
  body: html`<h1>The page cannot be shown now</h1><p class="flash bad" role="alert">The store may not answer. The log of the server says why.</p><p>This page tries again every few seconds, and appears when the store is back.</p>`,
  status: 503,
  live: "retry",
};

/** The page after a form during which the store failed. */
const unknownResultView = (query: URLSearchParams): View =>
  failureView(
    503,
    html`The store may not answer. Your change may be made, made in part, or not at all. The log of the server says why. <a href="?${query}">Load the page again</a> to see.`,
  );

/** The page that says why a request was refused. */
export function failureView(status: number, text: string | Html): View {
  const title = "The request was refused";
  const body = html`<h1>${title}</h1><p class="flash bad" role="alert">${text}</p><p><a href="?">All events</a></p>`;
  return { title, body, status, live: false };
}

function isBelow(path: string, basePath: string | undefined): boolean {
  if (basePath === undefined) return true;
  const cut = path.startsWith(basePath) ? path.slice(basePath.length) : path;
  return cut === "" || cut === "/";
}

/**
 * Refuses a request with a page that needs nothing else from the server.
 *
 * @param options - further headers, and whether the browser may load the stylesheet
 */
export function refuse(
  status: number,
  text: string,
  { isStyled = false, ...headers }: { readonly isStyled?: boolean; readonly allow?: string } = {},
): Response {
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${text}</title>
${isStyled && html`<link rel="icon" href="?asset=icon.svg"><link rel="stylesheet" href="?asset=style.css">`}
</head>
<body><main><h1>This page cannot be shown</h1><p>${text}</p></main></body>
</html>
`;
  return respondPage(status, page, headers);
}

/** Answers with a file that all pages load. */
export function assetOf(name: string): Response {
  const found = Object.hasOwn(assets, name) ? assets[name] : undefined;
  const [type, text] = found ?? ["text/plain; charset=utf-8", "Not found.\n"];
  return respond(found ? 200 : 404, text, { "content-type": type });
}

/** Makes a response with the security headers. */
export function respond(status: number, body: string, headers: Readonly<Record<string, string>>): Response {
  return new Response(status === 303 ? null : body, { status, headers: { ...securityHeaders, ...headers } });
}

function respondPage(status: number, page: Html, headers?: Readonly<Record<string, string>>): Response {
  return respond(status, String(page), { "content-type": "text/html; charset=utf-8", ...headers });
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
${live === "retry" && html`<noscript><meta http-equiv="refresh" content="10"></noscript>`}
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header class="bar">
<a class="brand" href="?${site.home?.(visit.query)}">${site.name}</a>
<nav aria-label="Pages">${site.links?.(visit.query).map(([text, query]) => html`<a href="?${query}">${text}</a>`)}</nav>
${visit.readOnly && html`<span class="note">Read-only</span>`}
<span class="live" data-live-state hidden></span>
${
  search &&
  html`<form class="find" role="search" method="get">${search.kept(visit.query)}<label class="sr" for="find">${search.label}</label>
<input id="find" type="search" name="${search.name}" placeholder="${search.label}" autocomplete="off" required maxlength="300"><button>Find</button></form>`
}
</header>
<main id="main" tabindex="-1"${live && html` data-live="${site.every ?? EVERY}"`}${live === "retry" && html` data-retry`}>${view.body}</main>
</body>
</html>
`;
}
