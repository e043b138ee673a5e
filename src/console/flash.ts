// The message with the result of the last form, which the query of the next page holds.

import { type Html, html } from "./html.ts";

/** `replayed=3&of=5` means that 3 of 5 events were replayed. */
const verbs = ["replayed", "discarded", "erased"] as const;
const flashNames: readonly string[] = [...verbs, "of"];

/** The query of the same page without the result of the last form. */
export function withoutFlash(query: URLSearchParams): URLSearchParams {
  return new URLSearchParams([...query].filter(([name]) => !flashNames.includes(name)));
}

export function flashOf(query: URLSearchParams): Html | undefined {
  const numberOf = (name: string) => {
    const text = query.get(name) ?? "";
    return /^\d{1,9}$/.test(text) ? Number(text) : undefined;
  };
  const verb = verbs.find((name) => numberOf(name) !== undefined);
  if (!verb) return undefined;
  const count = numberOf(verb) ?? 0;
  const left = (numberOf("of") ?? count) - count;
  const said = `${verb[0]?.toUpperCase()}${verb.slice(1)} ${eventsOf(count)}.`;
  return left <= 0
    ? html`<p class="flash" role="status">${said}</p>`
    : html`<p class="flash wait" role="status">${said} ${eventsOf(left)} could not be ${verb} because of ${left === 1 ? "its" : "their"} state. Look at ${left === 1 ? "it" : "them"} again: somebody else may have changed ${left === 1 ? "it" : "them"}.</p>`;
}

/** Returns a text such as `1 event` or `300 parked events`. */
export function eventsOf(count: number, state = ""): string {
  return countOf(count, state === "" ? "event" : `${state} event`);
}

/** Returns a text such as `1 record` or `1,200 records`. */
export function countOf(count: number, noun: string): string {
  return `${count.toLocaleString("en-US")} ${noun}${count === 1 ? "" : "s"}`;
}
