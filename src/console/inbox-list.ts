import type { EventFilter } from "../stores/event-filter.ts";
import { eventStates } from "../stores/event-states.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import type { AvailableHealth } from "../webhooks/health.ts";
import { type Cause, causesOf, eventsOfCause, MOST_GROUPED } from "./causes.ts";
import type { Soonest } from "./event-pages.ts";
import { filterForm, filterOf, queryOf } from "./filter-form.ts";
import { type Html, hiddenFields, html, plot, time } from "./html.ts";
import { flashOf } from "./inbox-changes.ts";
import { cutOf, type Inbox, PAGE, personalToggle, rowsOf, toComeOf } from "./inbox-parts.ts";
import { impersonalError } from "./shown-error.ts";
import type { View, Visit } from "./site.ts";

/** The first page: the number of events in each state, and the events that match the filter. */
export async function listView({ store, health }: Inbox, visit: Visit): Promise<View> {
  const { query } = visit;
  const filter = filterOf(query);
  const after = query.get("after") || undefined;
  const isPersonal = query.has("personal");
  const isToCome = filter.state === "scheduled";
  const cause = filter.state === "parked" ? query.get("cause") || undefined : undefined;
  const isGrouped = filter.state === "parked" && cause === undefined && after === undefined;
  // Ask for one more event, to know whether there is another page.
  const page = { limit: PAGE + 1, after };
  const [healthNow, found, causes] = await Promise.all([
    health(),
    isToCome
      ? toComeOf(store, filter, MOST_SCHEDULED)
      : cause === undefined
        ? store.list({ ...filter, ...page })
        : eventsOfCause(store, filter, cause, page),
    isGrouped ? causesOf(store, filter) : [],
  ]);
  if (healthNow.state === "unavailable") throw healthNow.error;
  const toCome = "total" in found ? found : undefined;
  const shown = "total" in found ? found.events : found.slice(0, PAGE);
  const next = "length" in found && found.length > PAGE ? shown.at(-1)!.eventId : undefined;
  const kept: Readonly<Record<string, string>> = {
    ...(isPersonal && { personal: "1" }),
    ...(cause !== undefined && { cause }),
  };
  const isSelectable = !visit.readOnly;

  const body = html`${flashOf(query)}${pauseOf(healthNow)}
<div class="head"><h1>Events</h1><span class="actions">${personalToggle(query, isPersonal)}</span></div>
<div class="plots" id="plots">${plot("received", "Received", "rate")}${plot("done", "Handled", "rate")}${plot("oldest", "Oldest waiting", "age")}</div>
${tabsOf(healthNow.counts, filter, isPersonal ? { personal: "1" } : {})}
${filterForm(filter, hiddenFields(Object.entries({ ...(filter.state && { state: filter.state }), ...kept })))}
${causes.length > 0 && causesView(causes, filter, visit, isPersonal)}
${
  cause !== undefined &&
  html`<p>You see the events of one cause. <a href="?${queryOf(filter, isPersonal ? { personal: "1" } : {})}">All causes</a></p>`
}
<form class="list" method="post" data-select>${isSelectable && [visit.csrf, hiddenFields([["back", String(query)]]), toolsOf(filter, cause)]}
${
  shown.length > 0
    ? toCome
      ? daysOf(toCome, { isPersonal, isSelectable })
      : rowsOf(shown, { isPersonal, isSelectable })
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
  filter: EventFilter,
  kept: Readonly<Record<string, string>>,
): Html {
  const tab = (state: EventFilter["state"], name: string, count: number) =>
    html`<li class="${state === "parked" && count > 0 && "bad"}"><a href="?${queryOf({ ...filter, state }, kept)}"${
      filter.state === state && html` aria-current="page"`
    }>${name} <b>${count.toLocaleString("en-US")}</b></a></li>`;
  return html`<nav aria-label="States"><ul class="tabs">${tab(undefined, "All", sumOf(counts))}${tabStates.map(
    (state) => tab(state, `${state[0]?.toUpperCase()}${state.slice(1)}`, counts[state]),
  )}</ul></nav>`;
}

/** Makes the buttons above the events. If the filter has fields, adds the buttons that change all matching events. */
function toolsOf(filter: EventFilter, cause: string | undefined): Html {
  const all = (change: "replay" | "discard", text: string) =>
    html`<a class="button${change === "discard" && " danger"}" href="?${queryOf(filter, { ...(cause !== undefined && { cause }), confirm: change })}">${text}</a>`;
  return html`<div class="tools"><label data-js hidden><input type="checkbox" data-all aria-label="Select all on this page"><span data-selected>0 selected</span></label>
<button name="do" value="replay" data-needs-selection>Replay selected</button><button class="danger" name="do" value="discard" data-needs-selection>Discard selected</button>
${
  Object.keys(filter).length > 0 &&
  html`<span class="end">${all("replay", "Replay all matching events…")}${all("discard", "Discard all matching events…")}</span>`
}</div>`;
}

/** The causes of parked events, each with a link to its events and a button to replay them. */
function causesView(
  causes: readonly Cause[],
  filter: EventFilter,
  { readOnly }: Visit,
  isPersonal: boolean,
): Html {
  const personal: Readonly<Record<string, string>> = isPersonal ? { personal: "1" } : {};
  const row = ({ key, event, count, records, accounts, first, last }: Cause) => {
    const error = isPersonal ? firstLine(event) : impersonalError(event.history.at(-1) ?? {})?.text;
    const where = [
      `${records.toLocaleString("en-US")} ${records === 1 ? "record" : "records"}`,
      accounts > 0 && `${accounts.toLocaleString("en-US")} ${accounts === 1 ? "account" : "accounts"}`,
    ];
    const text = `${count.toLocaleString("en-US")} × ${event.reason}`;
    return html`<li id="cause-${key}"><a href="?${queryOf(filter, { ...personal, cause: key })}">${text}</a>
<span class="mono">${error}</span>
<span class="soft">${where.filter(Boolean).join(" in ")}, first parked ${time(first, { short: true })}, last ${time(last, { short: true })}</span>${
      !readOnly &&
      html`<a class="button" href="?${queryOf(filter, { cause: key, confirm: "replay" })}">Replay these ${count.toLocaleString("en-US")}…</a>`
    }</li>`;
  };
  const total = causes.reduce((sum, { count }) => sum + count, 0);
  return html`<section class="card" id="causes"><h2>Causes</h2><ol class="causes">${causes.slice(0, MOST_CAUSES).map(row)}</ol>${
    causes.length > MOST_CAUSES &&
    html`<p class="soft">${causes.length - MOST_CAUSES} rarer causes are left out.</p>`
  }${total >= MOST_GROUPED && html`<p class="soft">Only the newest ${MOST_GROUPED.toLocaleString("en-US")} parked events are counted.</p>`}</section>`;
}

/** The largest number of causes that the page shows. */
const MOST_CAUSES = 20;

const firstLine = ({ history }: StoredEvent): string => (history.at(-1)?.error ?? "").split("\n", 1)[0]!;

function pauseOf({ state, pausedSince }: AvailableHealth): Html | undefined {
  if (state === "stopped")
    return html`<p class="flash wait">This process handles no more events, because its handler is closed.</p>`;
  if (!pausedSince) return undefined;
  return html`<p class="flash wait">Processing has been paused since ${time(pausedSince)}, because the platform is out of reach. Notifications are still recorded.</p>`;
}
