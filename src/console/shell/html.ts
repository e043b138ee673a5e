/** HTML in which all text from outside is escaped. Only {@link html} makes it. */
export class Html {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  toString(): string {
    return this.#text;
  }
}

/** A value in a template of {@link html}. `undefined`, `null` and `false` leave nothing behind. */
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
      // Characters that change the order of the text shown would let a status pass for another one.
      .replace(
        /[^\P{Cc}\n\t]|[\p{Cs}\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu,
        (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
      )
  );
}
