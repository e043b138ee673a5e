import { InvalidArgumentError } from "../errors.ts";
import { eventTypes } from "../models/event-types.ts";
import type { EventFilter } from "../stores/event-filter.ts";
import { eventOrigins, eventReasons } from "../stores/event-states.ts";
import { filterFields, readFilter } from "./event-filter.ts";
import { type Html, html } from "./html.ts";

/**
 * Reads the filter from a query or a form. Its parameters are named like the fields of `EventFilter`.
 *
 * @throws InvalidArgumentError naming each wrong value
 */
export function filterOf(query: URLSearchParams): EventFilter {
  const { filter, problems } = readFilter((field) => query.get(field));
  if (problems.length === 0) return filter;
  throw new InvalidArgumentError(problems.map(({ field, message }) => ({ path: [field], message })));
}

/** Returns the filter as query parameters or hidden fields, followed by the parameters in `more`. */
export function queryOf(filter: EventFilter, more: Readonly<Record<string, string>> = {}): URLSearchParams {
  const fields = filterFields.flatMap((name): [string, string][] => {
    const value = filter[name];
    return value === undefined ? [] : [[name, value instanceof Date ? value.toISOString() : value]];
  });
  return new URLSearchParams([...fields, ...Object.entries(more)]);
}

/** The filter in words: `parked, reason callback`. */
export function inWords(filter: EventFilter): string {
  const fields = [...queryOf(filter)].map(([name, value]) =>
    name === "state" ? value : `${name.replace(/[A-Z]/, (letter) => ` ${letter.toLowerCase()}`)} ${value}`,
  );
  return fields.join(", ");
}

/** The form of the filter. It has no field for the state, because the tabs above the form choose the state. */
export function filterForm(filter: EventFilter, kept: Html): Html {
  const { account, ref, type, reason, source, receivedAfter, receivedBefore } = filter;
  const isUsed = Object.keys(filter).some((name) => name !== "state");
  const select = (name: string, label: string, choices: readonly string[], chosen: string | undefined) =>
    html`<label>${label}<select name="${name}"><option value="">any</option>${choices.map(
      (choice) => html`<option${choice === chosen && html` selected`}>${choice}</option>`,
    )}</select></label>`;
  const moment = (name: string, label: string, date: Date | undefined) =>
    html`<label>${label}<input type="datetime-local" name="${name}" value="${date?.toISOString().slice(0, 16)}"></label>`;
  return html`<details class="card" id="filter"${isUsed && html` open`}><summary>Filter</summary>
<form class="filter" method="get">${kept}
<label>Account<input name="account" value="${account}" placeholder="any" autocomplete="off"></label>
<label>Record<input name="ref" value="${ref}" placeholder="booking:HX3K9" autocomplete="off"></label>
<label>Type<input name="type" value="${type}" placeholder="booking.Confirmed" list="types" autocomplete="off"></label>
<datalist id="types">${eventTypes.map((each) => html`<option value="${each}"></option>`)}</datalist>
${select("reason", "Reason", eventReasons, reason)}${select("source", "Source", eventOrigins, source)}
${moment("receivedAfter", "Received from (UTC)", receivedAfter)}${moment("receivedBefore", "Received before (UTC)", receivedBefore)}
<span class="actions"><button class="primary">Apply</button>${isUsed && html`<a class="button" href="?">Clear</a>`}</span>
</form></details>`;
}
