import { InvalidArgumentError, type Issue } from "../errors.ts";
import { type EventState, eventOrigins, eventReasons } from "../stores/event-states.ts";
import type { EventFilter } from "../stores/event-store.ts";
import { type Html, html } from "./html.ts";

/** The states in the order of the tabs. */
export const states: readonly EventState[] = ["pending", "processing", "retrying", "parked", "done"];
/** Suggestions for an event's type. Do not import `eventTypes` here: the import would load the models and zod. */
const types = [
  ...["Initiated", "Request", "Confirmed", "Declined", "Cancelled"].map((status) => `booking.${status}`),
  ...["InReview", "Published", "Hidden"].map((status) => `listing.${status}`),
  "message",
];

/** The query parameters of a filter. They are named like the fields of `EventFilter`. */
const NAMES = ["state", "ref", "type", "reason", "source", "receivedAfter", "receivedBefore"] as const;

/**
 * Reads the filter from a query or a form. Empty values count as missing.
 *
 * @throws InvalidArgumentError naming each wrong value. Without the error, the filter would select too many events
 */
export function filterOf(query: URLSearchParams): EventFilter {
  const issues: Issue[] = [];
  const text = (name: (typeof NAMES)[number]) => query.get(name)?.trim() || undefined;
  const choice = <T extends string>(name: (typeof NAMES)[number], choices: readonly T[]) => {
    const value = text(name);
    const chosen = choices.find((each) => each === value);
    if (value !== undefined && chosen === undefined)
      issues.push({ path: [name], message: `must be one of ${choices.join(", ")}` });
    return chosen;
  };
  const date = (name: (typeof NAMES)[number]) => {
    const value = text(name);
    if (value === undefined) return undefined;
    const parsed = dateOf(value);
    if (!parsed) issues.push({ path: [name], message: "must be a time, such as 2026-11-21T12:00" });
    return parsed;
  };
  const filter: EventFilter = {
    state: choice("state", states),
    ref: refOf(text("ref")),
    type: text("type"),
    reason: choice("reason", eventReasons),
    source: choice("source", eventOrigins),
    receivedAfter: date("receivedAfter"),
    receivedBefore: date("receivedBefore"),
  };
  if (issues.length > 0) throw new InvalidArgumentError(issues);
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined));
}

/** Reads a time. Browsers send no time zone, so a time without a zone is UTC, like all times on these pages. */
function dateOf(text: string): Date | undefined {
  const match = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?$/.exec(text);
  if (!match) return undefined;
  const date = new Date(match[1] !== undefined && match[4] === undefined ? `${text}Z` : text);
  return Number.isNaN(date.getTime()) ? undefined : date;
}

/** Makes a ref from a text without a prefix: a number is a listing's id, and any other text is a booking's code. */
function refOf(text: string | undefined): string | undefined {
  if (text === undefined || text.includes(":")) return text;
  return `${/^\d+$/.test(text) ? "listing" : "booking"}:${text}`;
}

/** Returns the filter as query parameters or hidden fields, followed by the parameters in `more`. */
export function queryOf(filter: EventFilter, more: Readonly<Record<string, string>> = {}): URLSearchParams {
  const fields = NAMES.flatMap((name): [string, string][] => {
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
  const { ref, type, reason, source, receivedAfter, receivedBefore } = filter;
  const isUsed = Object.keys(filter).some((name) => name !== "state");
  const select = (name: string, label: string, choices: readonly string[], chosen: string | undefined) =>
    html`<label>${label}<select name="${name}"><option value="">any</option>${choices.map(
      (choice) => html`<option${choice === chosen && html` selected`}>${choice}</option>`,
    )}</select></label>`;
  const moment = (name: string, label: string, date: Date | undefined) =>
    html`<label>${label}<input type="datetime-local" name="${name}" value="${date?.toISOString().slice(0, 16)}"></label>`;
  return html`<details class="card" id="filter"${isUsed && html` open`}><summary>Filter</summary>
<form class="filter" method="get">${kept}
<label>Record<input name="ref" value="${ref}" placeholder="booking:HX3K9" autocomplete="off"></label>
<label>Type<input name="type" value="${type}" placeholder="booking.Confirmed" list="types" autocomplete="off"></label>
<datalist id="types">${types.map((each) => html`<option value="${each}"></option>`)}</datalist>
${select("reason", "Reason", eventReasons, reason)}${select("source", "Source", eventOrigins, source)}
${moment("receivedAfter", "Received from (UTC)", receivedAfter)}${moment("receivedBefore", "Received before (UTC)", receivedBefore)}
<span class="actions"><button class="primary">Apply</button>${isUsed && html`<a class="button" href="?">Clear</a>`}</span>
</form></details>`;
}
