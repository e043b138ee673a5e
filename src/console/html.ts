/** HTML in which all text from outside is escaped. Only the function {@link html} makes such objects. */
export class Html {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  toString(): string {
    return this.#text;
  }
}

/** A value in a template of {@link html}. `undefined`, `null` and `false` become empty text. */
export type HtmlValue =
  | Html
  | URLSearchParams
  | string
  | number
  | undefined
  | null
  | false
  | readonly HtmlValue[];

/**
 * A tagged template that escapes its values, for text and for attributes in double quotes.
 *
 * @example
 * ```ts
 * html`<a href="${link}" class="${kind}">${name}</a>${isNew && html`<b>new</b>`}${rows.map((row) => html`<li>${row}</li>`)}`
 * ```
 */
export function html(strings: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  return new Html(strings.map((text, index) => text + textOf(values[index])).join(""));
}

function textOf(value: HtmlValue): string {
  if (value === undefined || value === null || value === false) return "";
  if (value instanceof Html) return value.toString();
  if (Array.isArray(value)) return value.map(textOf).join("");
  return escapeText(String(value));
}

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
  "`": "&#96;",
};

function escapeText(text: string): string {
  return (
    text
      .replace(/[&<>"'`]/g, (character) => entities[character]!)
      // Control characters, and characters that reorder text, could make one status look like another. Escape both.
      .replace(
        /[^\P{Cc}\n\t]|[\p{Cs}\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu,
        (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
      )
  );
}

/** The color of a {@link badge}. */
export type Tone = "plain" | "wait" | "busy" | "good" | "bad";

/** A word with a color, such as a state. */
export function badge(tone: Tone, text: string): Html {
  return html`<span class="badge ${tone}">${text}</span>`;
}

/**
 * Makes the HTML of a time. The script in the page adds the age, such as `3 min ago`. With `short`, the script shows
 * only the age.
 */
export function time(date: Date, { short = false }: { readonly short?: boolean } = {}): Html {
  const iso = date.toISOString();
  const shown = `${iso.slice(0, 10)} ${iso.slice(11, short ? 19 : 23)} UTC`;
  return html`<time datetime="${iso}" data-ago="${short ? "short" : "long"}">${shown}</time>`;
}

/**
 * A small plot of the last five minutes. The script draws the plot from the site's `stats` while the page is open.
 *
 * @param name - the name of the value in `stats`
 * @param kind - `rate` draws how much the value grows per second. `age` draws the value itself, in seconds
 */
export function plot(name: string, label: string, kind: "rate" | "age"): Html {
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
