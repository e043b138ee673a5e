// The causes of parked events, as the list and the page that asks for confirmation show them.

import { splitFrames } from "../error-text.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import { lineOf, withoutIds } from "./cause-key.ts";
import { type Cause, placesOf } from "./causes.ts";
import { listQuery } from "./filter-form.ts";
import { countOf } from "./flash.ts";
import { type Html, html, time } from "./html.ts";
import { isPersonal, recordLink, shownQuery } from "./inbox-parts.ts";
import type { Selection } from "./selection.ts";
import { impersonalError } from "./shown-error.ts";
import type { Visit } from "./site.ts";

/** The largest number of causes that the page shows, and of records of one cause. */
const MOST_CAUSES = 20;
const MOST_RECORDS = 500;
/** The largest number of characters of an error that a cause shows. */
const MOST_TEXT = 400;

const reasons: Readonly<Record<string, string>> = {
  callback: "Your callback threw.",
  "not-found": "The platform does not know the record.",
  denied: "The platform refused the read.",
  "invalid-record": "The platform sent a record in an unexpected form.",
  unavailable: "The platform was out of reach.",
};

/** Each cause with a link to its events and a button to replay them. One cause alone also has its records. */
export function causesView(causes: readonly Cause[], selection: Selection, visit: Visit): Html {
  const { query } = visit;
  const isOne = selection.cause !== undefined;
  const hides = !isPersonal(query) && causes.some(({ event }) => event.reason === "callback");
  return html`<section class="card" id="causes"><h2>${isOne ? "One cause" : "Causes"}</h2><ol class="causes">${causes
    .slice(0, MOST_CAUSES)
    .map((cause) => rowOf(cause, selection, visit))}</ol>${
    hides &&
    html`<p class="soft">Messages of your callbacks are hidden, because they may name a guest. <a data-replace href="?${shownQuery(query)}">Show them</a></p>`
  }${
    causes.length > MOST_CAUSES &&
    html`<p class="soft">${causes.length - MOST_CAUSES} rarer causes are left out.</p>`
  }${isOne && html`<p><a href="?${listQuery({ ...selection, cause: undefined }, query)}">All causes</a></p>`}</section>`;
}

function rowOf(cause: Cause, selection: Selection, { query, readOnly }: Visit): Html {
  const { key, event, count, first, last } = cause;
  const one = { ...selection, cause: key };
  const title = `${count.toLocaleString("en-US")} × ${event.reason}`;
  const isOne = selection.cause !== undefined;
  return html`<li id="cause-${key}"><div>${isOne ? html`<strong>${title}</strong>` : html`<a href="?${listQuery(one, query)}">${title}</a>`}
${causeLine(event, query, count > 1)}
<p class="soft">${reasons[event.reason ?? ""]} ${placesOf(cause)}, first parked ${time(first, { short: true })}, last ${time(last, { short: true })}</p>${
    isOne && recordsOf(cause, query)
  }</div>${
    !readOnly &&
    html`<a class="button" href="?${listQuery(one, query, { confirm: "replay" })}">Replay these ${count.toLocaleString("en-US")}…</a>`
  }</li>`;
}

/**
 * The error of a cause, and where in the user's code it was thrown. If several events have the error, dots are in place of
 * the ids in its first line. The causes behind that line are those of the event.
 */
export function causeLine(event: StoredEvent, query: URLSearchParams, hasMany = true): Html {
  const error = event.history.at(-1)?.error ?? "";
  const shown = impersonalError(event.history.at(-1) ?? {});
  const line = isPersonal(query) ? lineOf(event) : (shown?.text ?? "");
  const { text, frames } = splitFrames(error);
  const rest = isPersonal(query) ? text.slice(line.length) : "";
  const said = `${hasMany ? withoutIds(line, event) : line}${rest}`;
  const cut = said.length > MOST_TEXT ? `${said.slice(0, MOST_TEXT)}…` : said;
  return html`<span class="mono">${cut}</span>${frames[0] && html` <span class="mono soft">${frames[0]}</span>`}`;
}

/** Says which bookings and listings a cause touches. */
function recordsOf({ records }: Cause, query: URLSearchParams): Html | false {
  if (records.length === 0) return false;
  const shown = records.slice(0, MOST_RECORDS);
  return html`<details id="records"><summary>${placesOf({ records, accounts: [] })}</summary><ul class="refs">${shown.map(
    (ref) => html`<li>${recordLink(query, ref)}</li>`,
  )}</ul>${
    records.length > shown.length &&
    html`<p class="soft">${countOf(records.length - shown.length, "record")} more</p>`
  }</details>`;
}
