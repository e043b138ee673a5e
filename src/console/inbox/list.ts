import type { EventFilter } from "../../stores/event-store.ts";
import type { AvailableHealth } from "../../webhooks/health.ts";
import { type Html, html } from "../shell/html.ts";
import { hiddenFields, plot, time } from "../shell/layout.ts";
import type { View, Visit } from "../shell/site.ts";
import { filterForm, filterOf, queryOf, states } from "./filter.ts";
import { flashOf, type Inbox, personalToggle, rowsOf } from "./parts.ts";

const PAGE = 50;

/** The first page: how much there is in each state, and the events that match the filter. */
export async function listView({ store, health }: Inbox, visit: Visit): Promise<View> {
  const { query } = visit;
  const filter = filterOf(query);
  const after = query.get("after") || undefined;
  const isPersonal = query.has("personal");
  const [healthNow, found] = await Promise.all([
    health(),
    // One more tells whether there is another page.
    store.list({ ...filter, limit: PAGE + 1, after }),
  ]);
  if (healthNow.state === "unavailable") throw healthNow.error;
  const shown = found.slice(0, PAGE);
  const next = found.length > PAGE ? shown.at(-1)!.eventId : undefined;
  const kept: Readonly<Record<string, string>> = isPersonal ? { personal: "1" } : {};
  const isSelectable = !visit.readOnly;

  const body = html`${flashOf(query)}${pauseOf(healthNow)}
<div class="head"><h1>Events</h1><span class="actions">${personalToggle(query, isPersonal)}</span></div>
<div class="plots" id="plots">${plot("received", "Received", "rate")}${plot("done", "Handled", "rate")}${plot("oldest", "Oldest waiting", "age")}</div>
${tabsOf(healthNow.counts, filter, kept)}
${filterForm(filter, hiddenFields(Object.entries({ ...(filter.state && { state: filter.state }), ...kept })))}
<form class="list" method="post" data-select>${isSelectable && [visit.csrf, hiddenFields([["back", String(query)]]), toolsOf(filter)]}
${
  shown.length > 0
    ? rowsOf(shown, { isPersonal, isSelectable })
    : html`<p class="empty">No events${Object.keys(filter).length > 0 && " match"}. ${
        healthNow.lastReceivedAt &&
        html`The last notification was received ${time(healthNow.lastReceivedAt, { short: true })}.`
      }</p>`
}</form>
<nav class="pages" aria-label="Pages of events">${
    after !== undefined && html`<a class="button" href="?${queryOf(filter, kept)}">Newest</a>`
  }${next !== undefined && html`<a class="button" rel="next" href="?${queryOf(filter, { ...kept, after: next })}">Older</a>`}</nav>`;
  return { title: filter.state ? `Events: ${filter.state}` : "Events", body };
}

function tabsOf(
  counts: AvailableHealth["counts"],
  filter: EventFilter,
  kept: Readonly<Record<string, string>>,
): Html {
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const tab = (state: EventFilter["state"], name: string, count: number) =>
    html`<li class="${state === "parked" && count > 0 && "bad"}"><a href="?${queryOf({ ...filter, state }, kept)}"${
      filter.state === state && html` aria-current="page"`
    }>${name} <b>${count.toLocaleString("en-US")}</b></a></li>`;
  return html`<nav aria-label="States"><ul class="tabs">${tab(undefined, "All", total)}${states.map((state) =>
    tab(state, `${state[0]?.toUpperCase()}${state.slice(1)}`, counts[state]),
  )}</ul></nav>`;
}

/** The buttons above the events. A change of all events that match needs a filter, and shows their number first. */
function toolsOf(filter: EventFilter): Html {
  const all = (change: "replay" | "discard", text: string) =>
    html`<a class="button${change === "discard" && " danger"}" href="?${queryOf(filter, { confirm: change })}">${text}</a>`;
  return html`<div class="tools"><label data-js hidden><input type="checkbox" data-all aria-label="Select all on this page"><span data-selected>0 selected</span></label>
<button name="do" value="replay" data-needs-selection>Replay selected</button><button class="danger" name="do" value="discard" data-needs-selection>Discard selected</button>
${
  Object.keys(filter).length > 0 &&
  html`<span class="end">${all("replay", "Replay all that match…")}${all("discard", "Discard all that match…")}</span>`
}</div>`;
}

function pauseOf({ state, pausedSince }: AvailableHealth): Html | undefined {
  if (state === "stopped")
    return html`<p class="flash wait">This process handles no more events: its handler is closed.</p>`;
  if (!pausedSince) return undefined;
  return html`<p class="flash wait">This process pauses because the platform is out of reach, since ${time(pausedSince)}. Notifications are still recorded.</p>`;
}
