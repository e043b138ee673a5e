import { type Html, type HtmlValue, html } from "./html.ts";
import type { Site, View, Visit } from "./site.ts";

/** The whole document of a page. */
export function pageOf(site: Site, view: View, visit: Visit): Html {
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
<script src="?asset=script.js" defer></script>
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
<main id="main" tabindex="-1"${live && html` data-live="${site.live?.unfocused ? "unfocused" : "focused"}"`}>${view.body}</main>
</body>
</html>
`;
}

/** The color of a {@link badge}. */
export type Tone = "plain" | "wait" | "busy" | "good" | "bad";

/** A word with a color, such as a state. */
export function badge(tone: Tone, text: string): Html {
  return html`<span class="badge ${tone}">${text}</span>`;
}

/** A time. The script shows it as `3 min ago` where there is little room (`short`), else beside the time. */
export function time(date: Date, { short = false }: { readonly short?: boolean } = {}): Html {
  const iso = date.toISOString();
  const shown = `${iso.slice(0, 10)} ${iso.slice(11, short ? 19 : 23)} UTC`;
  return html`<time datetime="${iso}" data-ago="${short ? "short" : "long"}">${shown}</time>`;
}

/**
 * A small plot of the last five minutes. The script draws it from the site's `stats` while the page is open.
 *
 * @param name - of the value in `stats`
 * @param kind - `rate`: the value counts up, and its change per second is drawn. `age`: the value is in seconds
 */
export function plot(name: string, label: string, kind: "rate" | "age" | "number"): Html {
  return html`<figure class="plot" id="plot-${name}" data-plot="${name}" data-kind="${kind}" data-keep data-js hidden>
<figcaption>${label}</figcaption><span class="value" data-value>…</span>
<svg viewBox="0 0 300 40" preserveAspectRatio="none" aria-hidden="true"><path class="area"/><path class="line"/></svg></figure>`;
}

/** A list of names and values. Values that are `undefined` are left out. */
export function facts(entries: readonly (readonly [name: string, value: HtmlValue])[]): Html {
  return html`<dl class="facts">${entries.map(
    ([name, value]) => value !== undefined && html`<div><dt>${name}</dt><dd>${value}</dd></div>`,
  )}</dl>`;
}

/** Hidden fields of a form. */
export function hiddenFields(fields: Iterable<readonly [name: string, value: string]>): Html {
  return html`${[...fields].map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)}`;
}

/** Shows ms in a readable unit: `142 ms`, `2.1 s`, `3 min`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}
