import type { FetchHandler } from "../adapters/handlers.ts";
import { InvalidArgumentError } from "../errors.ts";
import { Log } from "../logger.ts";
import { type Change, type EventState, eventStates, statesOf } from "../stores/event-states.ts";
import type {
  AttemptEntry,
  EventFilter,
  EventStore,
  RecordSnapshot,
  StoredEvent,
} from "../stores/event-store.ts";
import { HISTORY_LENGTH } from "../stores/outcomes.ts";
import { type AvailableHealth, type Health, healthOf } from "../webhooks/health.ts";
import { StoreCounts } from "../webhooks/store-counts.ts";
import { storedId } from "../webhooks/stored-id.ts";
import { knownType } from "../webhooks/timers.ts";
import { filterForm, filterOf, queryOf } from "./filter-form.ts";
import {
  badge,
  duration,
  facts,
  type Html,
  type HtmlValue,
  hiddenFields,
  html,
  plot,
  type Tone,
  time,
} from "./html.ts";
import { act, confirmView, flashOf, refused } from "./inbox-changes.ts";
import { createSite, type GoTo, type Site, type SiteOptions, type View, type Visit } from "./site.ts";
import { describeChanges, type Step, timelineOf } from "./timeline.ts";

type Store = EventStore<unknown>;

/** The parts of a handler that the inbox uses. */
interface Inbox {
  readonly store: Store;
  health(): Promise<Health>;
}

/** Makes a console from a store, for the command line tool, which has no handler. */
export function storeConsole(
  store: Store,
  options: Pick<SiteOptions, "authorize" | "readOnly">,
): FetchHandler {
  const counts = new StoreCounts(store);
  const health = () =>
    healthOf({ store, counts, queue: undefined, closed: false, lastReceivedAt: undefined });
  return inboxOf({ store, health }, { ...options, log: new Log() });
}

/** Makes the console's pages for the events of a store. */
export function inboxOf(inbox: Inbox, options: SiteOptions): FetchHandler {
  const site: Site = {
    name: "Stayhook",
    links: [["Events", ""]],
    search: { name: "find", label: "Booking code, listing id or event id" },
    view: (visit) => withoutBadFilters(viewOf(inbox, visit)),
    act: (form) => withoutBadFilters(act(inbox.store, form)),
    stats: async () => {
      const [counts, waiting] = await Promise.all([inbox.store.counts(), inbox.store.oldestWaiting()]);
      return {
        received: sumOf(counts),
        done: counts.done,
        oldest: waiting === undefined ? undefined : waiting / 1000,
      };
    },
  };
  return createSite(site, options);
}

async function viewOf(inbox: Inbox, visit: Visit): Promise<View | GoTo> {
  const { query } = visit;
  const [find, event, record] = ["find", "event", "record"].map((name) => query.get(name));
  if (typeof find === "string") return findView(inbox.store, find);
  if (query.has("confirm")) return confirmView(inbox.store, visit);
  if (event) return eventView(inbox.store, event, visit);
  if (record) return recordView(inbox.store, record, visit);
  return listView(inbox, visit);
}

async function withoutBadFilters(answer: Promise<View | GoTo>): Promise<View | GoTo> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof InvalidArgumentError)
      return refused(html`The filter cannot be read. ${error.message}.`);
    throw error;
  }
}

/** The largest number of events that a page lists. */
const PAGE = 50;

/** The first page: the number of events in each state, and the events that match the filter. */
async function listView({ store, health }: Inbox, visit: Visit): Promise<View> {
  const { query } = visit;
  const filter = filterOf(query);
  const after = query.get("after") || undefined;
  const isPersonal = query.has("personal");
  const isToCome = filter.state === "scheduled";
  const [healthNow, found] = await Promise.all([
    health(),
    // Ask for one more event, to know whether there is another page.
    isToCome ? toComeOf(store, filter) : store.list({ ...filter, limit: PAGE + 1, after }),
  ]);
  if (healthNow.state === "unavailable") throw healthNow.error;
  const shown = isToCome ? found : found.slice(0, PAGE);
  const next = !isToCome && found.length > PAGE ? shown.at(-1)!.eventId : undefined;
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
    ? isToCome
      ? daysOf(shown, { isPersonal, isSelectable })
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

/** Scheduled events are read up to this number, because a store cannot list them by their due time. */
const MOST_SCHEDULED = 1000;

/** Returns the scheduled events that match, the one that is due first first. */
async function toComeOf(store: Store, filter: EventFilter): Promise<StoredEvent[]> {
  return byDueTime(await store.list({ ...filter, limit: MOST_SCHEDULED }));
}

function byDueTime(events: readonly StoredEvent[]): StoredEvent[] {
  return [...events].sort((one, other) => Number(one.dueAt) - Number(other.dueAt));
}

/** The rows of scheduled events under the days on which they are due, in UTC. */
function daysOf(events: readonly StoredEvent[], options: Parameters<typeof rowsOf>[1]): Html {
  const days = Map.groupBy(events, ({ dueAt }) => dueAt?.toISOString().slice(0, 10) ?? "");
  const cut =
    events.length >= MOST_SCHEDULED &&
    html`<p class="soft">Only ${MOST_SCHEDULED.toLocaleString("en-US")} scheduled events are shown. Filter by record or type.</p>`;
  return html`${cut}${[...days].map(([day, of]) => html`<h2>${day} UTC</h2>${rowsOf(of, options)}`)}`;
}

/** The states in the order of the tabs. */
const tabStates = [...eventStates.filter((state) => state !== "done"), "done"] as const;

const sumOf = (counts: AvailableHealth["counts"]): number =>
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
function toolsOf(filter: EventFilter): Html {
  const all = (change: "replay" | "discard", text: string) =>
    html`<a class="button${change === "discard" && " danger"}" href="?${queryOf(filter, { confirm: change })}">${text}</a>`;
  return html`<div class="tools"><label data-js hidden><input type="checkbox" data-all aria-label="Select all on this page"><span data-selected>0 selected</span></label>
<button name="do" value="replay" data-needs-selection>Replay selected</button><button class="danger" name="do" value="discard" data-needs-selection>Discard selected</button>
${
  Object.keys(filter).length > 0 &&
  html`<span class="end">${all("replay", "Replay all matching events…")}${all("discard", "Discard all matching events…")}</span>`
}</div>`;
}

function pauseOf({ state, pausedSince }: AvailableHealth): Html | undefined {
  if (state === "stopped")
    return html`<p class="flash wait">This process handles no more events, because its handler is closed.</p>`;
  if (!pausedSince) return undefined;
  return html`<p class="flash wait">Processing has been paused since ${time(pausedSince)}, because the platform is out of reach. Notifications are still recorded.</p>`;
}

/** The page of an event lists at most this many other events of the same record. */
const OTHERS = 20;

/** The page of an event, with its history, its notification and its record. */
async function eventView(store: Store, eventId: string, visit: Visit): Promise<View> {
  const event = await store.get(storedId(eventId));
  if (!event) {
    const body = html`<h1>No such event</h1><p>No event with this id is stored. The event may have been erased, or deleted because of its age.</p><p><a href="?">All events</a></p>`;
    return { title: "No such event", status: 404, body, live: false };
  }
  const { ref } = event;
  const [record, others] =
    ref === null
      ? [undefined, []]
      : await Promise.all([store.snapshotOf(ref), store.list({ ref, limit: OTHERS + 1 })]);
  const isPersonal = visit.query.has("personal");
  const rest = others.filter((other) => other.eventId !== event.eventId).slice(0, OTHERS);

  const body = html`${flashOf(visit.query)}
<p class="crumb"><a href="?">Events</a> / <span class="mono">${event.eventId}</span></p>
<div class="head"><h1>${typeOf(event)}</h1>${stateBadge(event)}
<span class="actions">${personalToggle(visit.query, isPersonal)}${!visit.readOnly && buttonsOf(event, visit)}</span></div>
<div class="columns"><div>
<section class="card"><h2>Timeline</h2>${timelineView(event, isPersonal)}</section>
<section class="card"><h2>Notification</h2>${notificationOf(event, isPersonal)}</section>
</div><div>
<section class="card"><h2>Event</h2>${facts([
    ["record", ref === null ? undefined : recordLink(ref)],
    ["source", event.source],
    ["topic", event.topic ?? undefined],
    ["attempts", event.attempts],
    ["reason", event.reason ?? undefined],
    ["trace", event.traceparent ?? undefined],
  ])}</section>
${
  ref !== null && snapshotCard(record, isPersonal, "No event of this record has been handled yet.")
}</div></div>
${
  ref !== null &&
  rest.length > 0 &&
  html`<section><h2>Other events of ${ref}</h2><div class="list">${rowsOf(rest, { isPersonal, isSelectable: false })}</div></section>`
}`;
  return { title: `${typeOf(event)} ${ref}`, body };
}

/** Buttons for the changes that the event's state allows. */
function buttonsOf({ eventId, state, dueAt }: StoredEvent, { csrf }: Visit): Html {
  const button = (change: Change, text: string) =>
    html`<form method="post">${csrf}${hiddenFields([
      ["event", eventId],
      ["back", String(new URLSearchParams({ event: eventId }))],
    ])}<button class="${change === "replay" ? "primary" : "danger"}" name="do" value="${change}">${text}</button></form>`;
  const can = (change: Change) => statesOf(change, { eventId }).includes(state);
  const isScheduled = state === "scheduled";
  return html`${can("discard") && button("discard", isScheduled ? "Cancel" : "Discard")}${
    can("replay") && button("replay", (isScheduled && "Run now") || (dueAt ? "Try now" : "Replay"))
  }`;
}

const origins: Readonly<Record<StoredEvent["source"], string>> = {
  webhook: "Received",
  reconcile: "Found by the reconciler",
  recheck: "Recheck scheduled",
  timer: "Timer set",
};

const outcomes: Readonly<Record<AttemptEntry["outcome"], readonly [Tone, string]>> = {
  done: ["good", "Handled"],
  retrying: ["bad", "Attempt failed"],
  parked: ["bad", "Attempt failed, and the event was parked"],
  lost: ["bad", "Attempt lost: the process did not record a result"],
};

const timelineView = (event: StoredEvent, isPersonal: boolean): Html =>
  html`<ol class="timeline">${timelineOf(event).map((step) => stepView(event, step, isPersonal))}</ol>`;

/** The item of a step. A done event has none at the end: its last attempt says so. */
function stepView(event: StoredEvent, step: Step, isPersonal: boolean): Html | undefined {
  const item = (tone: Tone, text: string, at: Date | null = null, more?: HtmlValue) =>
    html`<li class="${tone}"><strong>${text}</strong> ${at && time(at)}${more}</li>`;
  switch (step.step) {
    case "received": {
      const { source, topic, timestamp } = event;
      const sent = `The notification has the timestamp ${timestamp.replace(/\.000Z$/, "Z")}.`;
      const more = html`<p>${topic !== null && `Topic ${topic}. `}${source === "webhook" && sent}</p>`;
      return item("plain", origins[source], step.at, more);
    }
    case "cut":
      return item("plain", `The store keeps only the last ${HISTORY_LENGTH} attempts`);
    case "attempt":
      return item(...outcomes[step.entry.outcome], step.entry.at, attemptView(step.entry, isPersonal));
    case "scheduled":
      return item("wait", "Scheduled for", step.at);
    case "pending":
      return item("wait", step.at ? "Waiting. The attempt is due" : "Waiting", step.at);
    case "processing":
      return item("busy", "Being handled. The lease ends", step.at);
    case "retrying":
      return item("wait", "Next attempt", step.at);
    case "parked":
      return item("bad", "Parked until somebody replays or discards the event");
    case "discarded":
      return item("plain", "Discarded", step.at);
    case "done":
      return undefined;
  }
}

function attemptView(entry: AttemptEntry, isPersonal: boolean): Html {
  const { reason, duration: took, worker, error, changes } = entry;
  const details = [reason && `Reason: ${reason}`, `took ${duration(took)}`, worker && `on ${worker}`];
  const hidden = html`<p>The error is hidden, because it may have personal data.</p>`;
  const isShown = (name: string) => isPersonal || name === "status" || impersonal.includes(name);
  return html`<p>${details.filter(Boolean).join(", ")}</p>${
    changes && html`<p>Changed: ${describeChanges(changes, isShown)}</p>`
  }${error !== undefined && (isPersonal ? html`<pre>${error}</pre>` : hidden)}`;
}

function notificationOf({ notification }: StoredEvent, isPersonal: boolean): Html {
  if (notification === null) return html`<p class="soft">This event has no notification.</p>`;
  if (!isPersonal)
    return html`<p class="soft">The notification is hidden, because it may have personal data.</p>`;
  let text = notification;
  try {
    text = JSON.stringify(JSON.parse(notification), null, 2);
  } catch {}
  return html`<pre>${text}</pre>`;
}

/** The page of a booking or listing, with its snapshot and its events. */
async function recordView(store: Store, ref: string, visit: Visit): Promise<View> {
  const [record, found] = await Promise.all([store.snapshotOf(ref), store.list({ ref, limit: PAGE })]);
  const isPersonal = visit.query.has("personal");
  const erase = new URLSearchParams({ confirm: "erase", record: ref });
  const toCome = byDueTime(found.filter(({ state }) => state === "scheduled"));
  const others = found.filter(({ state }) => state !== "scheduled");
  const body = html`${flashOf(visit.query)}
<p class="crumb"><a href="?">Events</a> / Record</p>
<div class="head"><h1>${ref}</h1><span class="actions">${personalToggle(visit.query, isPersonal)}${
    !visit.readOnly && html`<a class="button danger" href="?${erase}">Erase…</a>`
  }</span></div>
${snapshotCard(record, isPersonal, "No snapshot of this record is stored. The store saves a snapshot when an event of the record is done.")}
${
  toCome.length > 0 &&
  html`<section><h2>To come</h2><div class="list">${rowsOf(toCome, { isPersonal, isSelectable: false })}</div></section>`
}
<section><h2>Events</h2><div class="list">${
    others.length > 0
      ? rowsOf(others, { isPersonal, isSelectable: false })
      : html`<p class="empty">No events of this record are stored.</p>`
  }</div>
<p><a href="?${queryOf({ ref })}">Select, replay or discard events of this record</a></p></section>`;
  return { title: ref, body };
}

/** Finds an event by its id, a booking by its code or ref, or a listing by its id or ref. */
async function findView(store: Store, given: string): Promise<View | GoTo> {
  const text = given.trim().slice(0, 300);
  if (text === "") return { goTo: new URLSearchParams() };
  const event = await store.get(storedId(text));
  if (event) return { goTo: new URLSearchParams({ event: event.eventId }) };
  const codes = [text, text.toUpperCase(), text.toLowerCase()].map((code) => `booking:${code}`);
  const refs = /^(booking|listing):/.test(text) ? [text] : [...new Set([...codes, `listing:${text}`])];
  const known = await Promise.all(
    refs.map(async (ref) => {
      const [record, events] = await Promise.all([store.snapshotOf(ref), store.list({ ref, limit: 1 })]);
      return record !== undefined || events.length > 0;
    }),
  );
  const found = refs.filter((_, index) => known[index]);
  if (found.length === 1) return { goTo: new URLSearchParams({ record: found[0]! }) };
  const body =
    found.length > 0
      ? html`<h1>Several records match “${text}”</h1><ul>${found.map((ref) => html`<li>${recordLink(ref)}</li>`)}</ul>`
      : html`<h1>Nothing is stored about “${text}”</h1>
<p>The store has no event with this code or id. The events may have been erased, or deleted because of their age. Search for a booking code, a listing id or an event id.</p>
<p><a href="?">All events</a></p>`;
  return { title: "Find", body, live: false, status: found.length > 0 ? 200 : 404 };
}

const tones: Readonly<Record<EventState, Tone>> = {
  scheduled: "wait",
  pending: "plain",
  processing: "busy",
  retrying: "wait",
  done: "good",
  parked: "bad",
};

function stateBadge({ state, reason }: StoredEvent): Html {
  return reason === "discarded" && state === "done"
    ? badge("plain", "discarded")
    : badge(tones[state], state);
}

function typeOf(event: StoredEvent): string {
  const { topic, ref } = event;
  return knownType(event) ?? `${ref?.split(":")[0] ?? topic ?? "event"}, type not known yet`;
}

function recordLink(ref: string): Html {
  return html`<a class="over" href="?${new URLSearchParams({ record: ref })}">${ref}</a>`;
}

function rowsOf(
  events: readonly StoredEvent[],
  { isPersonal, isSelectable }: { readonly isPersonal: boolean; readonly isSelectable: boolean },
): Html {
  const row = (event: StoredEvent) => {
    const { eventId, ref, state, attempts, reason, receivedAt, dueAt, history } = event;
    const when = state === "scheduled" && dueAt ? dueAt : receivedAt;
    const lastError = history.at(-1)?.error;
    const tried = attempts > 1 ? `${attempts} attempts` : undefined;
    const why = [reason === "discarded" ? undefined : reason, tried].filter(Boolean).join(", ");
    return html`<li id="row-${eventId}">${
      isSelectable &&
      html`<input type="checkbox" name="event" value="${eventId}" aria-label="Select ${typeOf(event)} ${ref}">`
    }<span class="state">${stateBadge(event)}</span>
<a class="main" href="?${new URLSearchParams({ event: eventId })}">${typeOf(event)}</a>
<span>${ref === null ? html`<span class="soft">no record</span>` : recordLink(ref)}</span>
<span class="why">${why}</span><span class="when">${time(when, { short: true })}</span>${
      isPersonal && lastError !== undefined && html`<span class="error mono">${lastError}</span>`
    }</li>`;
  };
  return html`<ol class="rows ${!isSelectable && "plain"}">${events.map(row)}</ol>`;
}

/** A link to the same page with or without personal data. */
function personalToggle(query: URLSearchParams, isPersonal: boolean): Html {
  const other = new URLSearchParams(query);
  if (isPersonal) other.delete("personal");
  else other.set("personal", "1");
  return html`<a class="button" href="?${other}">${isPersonal ? "Hide" : "Show"} personal data</a>`;
}

/**
 * The fields that a handler tracks by default. They hold no personal data. The `track` option may add fields with
 * personal data, so the pages hide all other fields until the user asks for personal data.
 */
const impersonal = ["checkIn", "checkOut", "listingId", "listingName"];

function snapshotCard(record: RecordSnapshot | undefined, isPersonal: boolean, missing: string): Html {
  const content = record ? snapshotFacts(record, isPersonal) : html`<p class="soft">${missing}</p>`;
  return html`<section class="card"><h2>Last snapshot of the record</h2>${content}</section>`;
}

function snapshotFacts({ snapshot, sequence, seenAt }: RecordSnapshot, isPersonal: boolean): Html {
  const shown = (name: string, value: unknown) => {
    if (!isPersonal && !impersonal.includes(name)) return html`<span class="soft">hidden</span>`;
    return typeof value === "string" ? value : JSON.stringify(value);
  };
  return facts([
    ["status", snapshot.status],
    ...Object.entries(snapshot.fields).map(([name, value]) => [name, shown(name, value)] as const),
    ["changes", sequence],
    ["last seen", time(seenAt, { short: true })],
  ]);
}
