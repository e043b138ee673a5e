import { InvalidArgumentError } from "../errors.ts";
import { eventTypes } from "../models/event-types.ts";
import { eventOrigins, eventReasons } from "../stores/event-states.ts";
import { filterFields, readFilter } from "./event-filter.ts";
import { type Html, html } from "./html.ts";
import { ofVisit } from "./links.ts";
import { isEmpty, type Selection } from "./selection.ts";

/**
 * Reads the selection from a query or a form. Its parameters are named like the fields of `EventFilter` and
 * {@link Selection}.
 *
 * @throws InvalidArgumentError naming each wrong value
 */
export function selectionOf(query: URLSearchParams): Selection {
  const { filter, problems } = readFilter((field) => query.get(field));
  if (problems.length > 0)
    throw new InvalidArgumentError(problems.map(({ field, message }) => ({ path: [field], message })));
  const error = query.get("error")?.trim() || undefined;
  const cause = filter.state === "parked" ? query.get("cause") || undefined : undefined;
  return { filter, error, cause };
}

/** Returns the selection as query parameters or hidden fields. */
export function queryOf({ filter, error, cause }: Selection): URLSearchParams {
  const entries = { ...filter, error, cause };
  const fields = [...filterFields, "error", "cause"] as const;
  return new URLSearchParams(
    fields.flatMap((name): [string, string][] => {
      const value = entries[name];
      return value === undefined ? [] : [[name, value instanceof Date ? value.toISOString() : value]];
    }),
  );
}

/** The query of a list with this selection, which keeps what all pages of the visit keep. */
export function listQuery(
  selection: Selection,
  query: URLSearchParams,
  more: Readonly<Record<string, string>> = {},
): URLSearchParams {
  return new URLSearchParams([...queryOf(selection), ...ofVisit(query), ...Object.entries(more)]);
}

/** The selection in words: `parked, reason callback, error contains “calendar”`. */
export function inWords(selection: Selection): string {
  const { error, cause } = selection;
  const fields = [...queryOf({ filter: selection.filter })].map(([name, value]) =>
    name === "state" ? value : `${name.replace(/[A-Z]/, (letter) => ` ${letter.toLowerCase()}`)} ${value}`,
  );
  if (error !== undefined) fields.push(`error contains “${error}”`);
  if (cause !== undefined) fields.push("one cause");
  return fields.join(", ");
}

/**
 * The form of the filter. It has no field for the state, because the tabs above the form choose the state.
 *
 * @param kept - the hidden fields
 * @param clear - the query of the list without this filter
 */
export function filterForm({ filter, error }: Selection, kept: Html, clear: URLSearchParams): Html {
  const { account, ref, type, reason, source, receivedAfter, receivedBefore } = filter;
  const isUsed = !isEmpty({ filter: { ...filter, state: undefined }, error });
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
<label>Error contains<input name="error" value="${error}" placeholder="timed out" autocomplete="off" maxlength="200"></label>
${select("reason", "Reason", eventReasons, reason)}${select("source", "Source", eventOrigins, source)}
${moment("receivedAfter", "Received from (UTC)", receivedAfter)}${moment("receivedBefore", "Received before (UTC)", receivedBefore)}
<span class="actions"><button class="primary">Apply</button>${isUsed && html`<a class="button" href="?${clear}">Clear</a>`}</span>
</form></details>`;
}
