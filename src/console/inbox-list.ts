import type { EventFilter } from "../stores/event-filter.ts";
import { eventStates } from "../stores/event-states.ts";
import type { AvailableHealth } from "../webhooks/health.ts";
import { parkedAt } from "./cause-key.ts";
import { type Cause, causesOf } from "./causes.ts";
import type { Soonest } from "./event-pages.ts";
import { filterForm, listQuery, queryOf, selectionOf } from "./filter-form.ts";
import { inKnownCase } from "./find-refs.ts";
import { flashOf } from "./flash.ts";
import { type Html, hiddenFields, html, plot, time } from "./html.ts";
import { causesView } from "./inbox-causes.ts";
import {
  cutOf,
  type Inbox,
  isPersonal,
  PAGE,
  personalToggle,
  rowsOf,
  type Store,
  shownQuery,
  toComeOf,
} from "./inbox-parts.ts";
import { ofVisit } from "./links.ts";
import { type Found, isEmpty, isNarrowed, type Selection, search } from "./selection.ts";
import type { GoTo, View, Visit } from "./site.ts";

/** The first page: the number of events in each state, and the events that match the filter. */
export async function listView({ store, health }: Inbox, visit: Visit): Promise<View | GoTo> {
  const { query } = visit;
  const selection = selectionOf(query);
  const { filter } = selection;
  const after = query.get("after") || undefined;
  const [healthNow, listed] = await Promise.all([health(), listedOf(store, selection, after)]);
  if (healthNow.state === "unavailable") throw healthNow.error;
  const { ref } = filter;
  const known = ref !== undefined && listed.events.length === 0 ? await inKnownCase(store, ref) : ref;
  if (known !== ref) return { goTo: listQuery({ ...selection, filter: { ...filter, ref: known } }, query) };
  const isSelectable = !visit.readOnly;
  const rows = { query, isSelectable };
  const body = html`${flashOf(query)}${pauseOf(healthNow)}
<div class="head"><h1>Events</h1><span class="actions">${personalToggle(query)}</span></div>
<div class="plots" id="plots">${plot("received", "Received", "rate")}${plot("done", "Handled", "rate")}${plot("oldest", "Oldest waiting", "age")}</div>
${tabsOf(healthNow.counts, selection, query)}
${filterForm(selection, hiddenFields([...queryOf({ filter: { state: filter.state } }), ...ofVisit(query)]), clearedOf(filter, query))}
${listed.causes && listed.causes.length > 0 && causesView(listed.causes, selection, visit)}
${searchNote(listed, filter)}${selection.error !== undefined && hiddenNote(query)}
<form class="list" method="post" data-select data-replace>${isSelectable && [visit.csrf, hiddenFields([["back", String(query)]]), toolsOf(selection, query)]}
${
  listed.events.length > 0
    ? listed.toCome
      ? daysOf(listed.toCome, rows)
      : rowsOf(listed.events, rows)
    : html`<p class="empty">No events${!isEmpty(selection) && " match"}. ${
        healthNow.lastReceivedAt &&
        html`The last notification was received ${time(healthNow.lastReceivedAt, { short: true })}.`
      }</p>`
}</form>
<nav class="pages" aria-label="Pages of events">${
    after !== undefined && html`<a class="button" href="?${listQuery(selection, query)}">Newest</a>`
  }${listed.next !== undefined && html`<a class="button" rel="next" href="?${listQuery(selection, query, { after: listed.next })}">${listed.cutAfter === undefined || filter.state === "parked" ? "Older" : "Search older events"}</a>`}</nav>`;
  return { title: filter.state ? `Events: ${filter.state}` : "Events", body };
}

const clearedOf = ({ state }: EventFilter, query: URLSearchParams): URLSearchParams =>
  listQuery({ filter: { state } }, query);

/** The events of a page of the list. */
interface Listed extends Found {
  /** What is to come, if the events are scheduled. */
  readonly toCome?: Soonest | undefined;
  /** The causes of all parked events, on the first page of them. */
  readonly causes?: readonly Cause[] | undefined;
}

async function listedOf(store: Store, selection: Selection, after: string | undefined): Promise<Listed> {
  const { filter } = selection;
  if (filter.state === "parked") return parkedOf(store, selection, after);
  if (isNarrowed(selection)) return search(store, selection, { limit: PAGE, after });
  if (filter.state === "scheduled") {
    const toCome = await toComeOf(store, filter, MOST_SCHEDULED);
    return { events: toCome.events, toCome, next: undefined, cutAfter: undefined };
  }
  // Ask for one more event, to know whether there is another page.
  const found = await store.list({ ...filter, limit: PAGE + 1, after });
  const events = found.slice(0, PAGE);
  return { events, next: found.length > PAGE ? events.at(-1)!.eventId : undefined, cutAfter: undefined };
}

/** The tab "Parked" shows and groups at most this many events, because an open page reads them again and again. */
const MOST_PARKED = 1000;

/** Parked events, of which the one that parked last comes first. An event may park a day after it was received. */
async function parkedOf(store: Store, selection: Selection, after: string | undefined): Promise<Listed> {
  const { events, cutAfter } = await search(
    store,
    selection,
    isNarrowed(selection) ? {} : { most: MOST_PARKED },
  );
  const sorted = events.toSorted((one, other) => Number(parkedAt(other)) - Number(parkedAt(one)));
  // If the event before this page is parked no more, begin anew.
  const start = after === undefined ? 0 : sorted.findIndex(({ eventId }) => eventId === after) + 1;
  const page = sorted.slice(start, start + PAGE);
  return {
    events: page,
    causes: after === undefined ? causesOf(sorted) : undefined,
    next: start + PAGE < sorted.length ? page.at(-1)!.eventId : undefined,
    cutAfter,
  };
}

/** Says that a search for an error also finds what the page hides. */
function hiddenNote(query: URLSearchParams): Html | undefined {
  if (isPersonal(query)) return undefined;
  return html`<p class="soft">The search also reads the parts of errors that are hidden, because they may have personal data. <a data-replace href="?${shownQuery(query)}">Show them</a></p>`;
}

/** Says that a search has not read all events of its filter. */
function searchNote({ cutAfter }: Found, { state }: EventFilter): Html | undefined {
  if (cutAfter === undefined) return undefined;
  const others = state === "parked" ? "a time" : "a state or a time";
  return html`<p class="soft">You see what is in ${cutAfter.toLocaleString("en-US")} events, those of the filter that were received last. For older ones, set ${others} in the filter.</p>`;
}

/** The tab "Scheduled" shows at most this many events. */
const MOST_SCHEDULED = 1000;

/** The rows of scheduled events under the days on which they are due, in UTC. */
function daysOf(toCome: Soonest, options: Parameters<typeof rowsOf>[1]): Html {
  const days = Map.groupBy(toCome.events, ({ dueAt }) => dueAt?.toISOString().slice(0, 10) ?? "");
  return html`${cutOf(toCome)}${[...days].map(([day, of]) => html`<h2>${day} UTC</h2>${rowsOf(of, options)}`)}`;
}

/** The states in the order of the tabs. */
const tabStates = [...eventStates.filter((state) => state !== "done"), "done"] as const;

export const sumOf = (counts: AvailableHealth["counts"]): number =>
  Object.values(counts).reduce((sum, count) => sum + count, 0);

function tabsOf(
  counts: AvailableHealth["counts"],
  { filter, error }: Selection,
  query: URLSearchParams,
): Html {
  const tab = (state: EventFilter["state"], name: string, count: number) =>
    html`<li class="${state === "parked" && count > 0 && "bad"}"><a href="?${listQuery({ filter: { ...filter, state }, error }, query)}"${
      filter.state === state && html` aria-current="page"`
    }>${name} <b>${count.toLocaleString("en-US")}</b></a></li>`;
  const isFiltered = !isEmpty({ filter: { ...filter, state: undefined }, error });
  return html`<nav aria-label="States"><ul class="tabs">${tab(undefined, "All", sumOf(counts))}${tabStates.map(
    (state) => tab(state, `${state[0]?.toUpperCase()}${state.slice(1)}`, counts[state]),
  )}</ul>${isFiltered && html`<p class="soft">These numbers count all events, also those outside the filter.</p>`}</nav>`;
}

/** Makes the buttons above the events. If the filter has fields, adds the buttons that change all matching events. */
function toolsOf(selection: Selection, query: URLSearchParams): Html {
  // Scheduled events have not been tried yet, so a replay would be the wrong word.
  const [replay, replayAll, discard, discardAll] =
    selection.filter.state === "scheduled"
      ? ["Run selected now", "Run all matching events now…", "Cancel selected", "Cancel all matching events…"]
      : [
          "Replay selected",
          "Replay all matching events…",
          "Discard selected",
          "Discard all matching events…",
        ];
  const all = (change: "replay" | "discard", text: string | undefined) =>
    html`<a class="button${change === "discard" && " danger"}" href="?${listQuery(selection, query, { confirm: change })}">${text}</a>`;
  return html`<div class="tools"><label data-js hidden><input type="checkbox" data-all aria-label="Select all on this page"><span data-selected>0 selected</span></label>
<button name="do" value="replay" data-needs-selection>${replay}</button><button class="danger" name="do" value="discard" data-needs-selection>${discard}</button>
${
  !isEmpty(selection) &&
  html`<span class="end">${all("replay", replayAll)}${all("discard", discardAll)}</span>`
}</div>`;
}

function pauseOf({ state, pausedSince }: AvailableHealth): Html | undefined {
  if (state === "stopped")
    return html`<p class="flash wait">This process handles no more events, because its handler is closed.</p>`;
  if (!pausedSince) return undefined;
  return html`<p class="flash wait">Processing has been paused since ${time(pausedSince)}, because the platform is out of reach. Notifications are still recorded.</p>`;
}
