import { refsAbout } from "../account.ts";
import type { FetchHandler } from "../adapters/handlers.ts";
import { InvalidArgumentError } from "../errors.ts";
import { Log } from "../logger.ts";
import { healthOf } from "../webhooks/health.ts";
import { storedId } from "../webhooks/own-ids.ts";
import { StoreCounts } from "../webhooks/store-counts.ts";
import { thingsOf } from "../webhooks/things-of.ts";
import { forEach } from "./event-pages.ts";
import { listQuery } from "./filter-form.ts";
import { knownRefs, refsOfAccounts } from "./find-refs.ts";
import { flashOf, withoutFlash } from "./flash.ts";
import { hiddenFields, html } from "./html.ts";
import { act, confirmView } from "./inbox-changes.ts";
import { eventView } from "./inbox-event.ts";
import { listView, sumOf } from "./inbox-list.ts";
import {
  cutNote,
  cutOf,
  type Inbox,
  PAGE,
  personalToggle,
  recordLink,
  rowsOf,
  type Store,
  snapshotCard,
  thingsCard,
  toComeOf,
  wayBack,
} from "./inbox-parts.ts";
import { linkTo, listOf, ofVisit } from "./links.ts";
import { Replays } from "./replay-line.ts";
import {
  createSite,
  failureView,
  type GoTo,
  type Site,
  type SiteOptions,
  type View,
  type Visit,
} from "./site.ts";

/** Makes a console from a store, for the command line tool, which has no handler. */
export function storeConsole(
  store: Store,
  { operated, ...options }: Pick<SiteOptions, "authorize" | "readOnly"> & Pick<Inbox, "operated">,
): FetchHandler {
  const counts = new StoreCounts(store);
  const health = () =>
    healthOf({ store, counts, queue: undefined, closed: false, lastReceivedAt: undefined });
  return inboxOf({ store, health, operated }, { ...options, log: new Log() });
}

/** Makes the console's pages for the events of a store. */
export function inboxOf(inbox: Inbox, options: SiteOptions): FetchHandler {
  const replays = new Replays();
  const site: Site = {
    name: "Stayhook",
    home: (query) => new URLSearchParams(ofVisit(query)),
    links: (query) => [["Events", listOf(query)]],
    search: {
      name: "find",
      label: "Booking code, listing id or event id",
      kept: (query) => hiddenFields(listOf(query)),
    },
    view: (visit) => withoutBadFilters(withReplay(replays, inbox, visit)),
    act: (form, visit) => withoutBadFilters(act(inbox, form, visit, replays)),
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
  if (typeof find === "string") return findView(inbox.store, find, query);
  if (query.has("confirm")) return confirmView(inbox.store, visit);
  if (event) return eventView(inbox.store, event, visit);
  if (record) return recordView(inbox.store, record, visit);
  return listView(inbox, visit);
}

/** A page, behind what came of the last replay, which then need not be told twice. */
async function withReplay(replays: Replays, inbox: Inbox, visit: Visit): Promise<View | GoTo> {
  const { query } = visit;
  const replay = await replays.lineOf(query);
  if (!replay) return viewOf(inbox, visit);
  const { line, total } = replay;
  const isTold = [query.get("replayed"), query.get("of") ?? String(total)].every((n) => n === String(total));
  const view = await viewOf(inbox, isTold ? { ...visit, query: withoutFlash(query) } : visit);
  return "body" in view ? { ...view, body: html`${line}${view.body}` } : view;
}

async function withoutBadFilters(answer: Promise<View | GoTo>): Promise<View | GoTo> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof InvalidArgumentError)
      return failureView(400, html`The filter cannot be read. ${error.message}.`);
    throw error;
  }
}

/** The page of a booking or listing, with its snapshot and its events. */
async function recordView(store: Store, ref: string, visit: Visit): Promise<View> {
  const [record, toCome, things] = await Promise.all([
    store.snapshotOf(ref),
    toComeOf(store, { ref }, PAGE),
    thingsOf(store, ref),
  ]);
  const { events: others, hasMore } = await otherEventsOf(store, ref, toCome.total, PAGE);
  const { query } = visit;
  const body = html`${flashOf(query)}
<p class="crumb">${wayBack(query)} / Record</p>
<div class="head"><h1>${ref}</h1><span class="actions">${personalToggle(query)}${
    !visit.readOnly &&
    html`<a class="button danger" href="?${linkTo(query, { confirm: "erase", record: ref })}">Erase…</a>`
  }</span></div>
${snapshotCard(record, query, "No snapshot of this record is stored. The store saves a snapshot when an event of the record is done.")}
${things.length > 0 && thingsCard(things, query)}
${
  toCome.events.length > 0 &&
  html`<section><h2>To come</h2><div class="list">${cutOf(toCome)}${rowsOf(toCome.events, { query })}</div></section>`
}
<section><h2>Events</h2><div class="list">${
    others.length > 0
      ? rowsOf(others, { query })
      : html`<p class="empty">No events of this record are stored.</p>`
  }</div>
${hasMore && cutNote(PAGE)}<p><a href="?${listQuery({ filter: { ref } }, query)}">Select, replay or discard events of this record</a></p></section>`;
  return { title: ref, body };
}

/**
 * The newest events of a record that are not to come, and the messages about a booking.
 *
 * @param toCome - the number of scheduled events, which the store lists among the others
 */
async function otherEventsOf(store: Store, ref: string, toCome: number, most: number) {
  const lists = await forEach(refsAbout(ref), (each) => store.list({ ref: each, limit: most + toCome + 1 }));
  const others = lists
    .flat()
    .filter(({ state }) => state !== "scheduled")
    .sort((one, other) => other.receivedAt.getTime() - one.receivedAt.getTime());
  return { events: others.slice(0, most), hasMore: others.length > most };
}

/** Finds an event by its id, a booking by its code or ref, or a listing by its id or ref. */
async function findView(store: Store, given: string, query: URLSearchParams): Promise<View | GoTo> {
  const text = given.trim().slice(0, 300);
  if (text === "") return { goTo: listOf(query) };
  const event = await store.get(storedId(text));
  if (event) return { goTo: linkTo(query, { event: event.eventId }) };
  const known = await knownRefs(store, text, query.get("account") || undefined);
  const found = known.length > 0 ? known : await refsOfAccounts(store, text);
  if (found.length === 1) return { goTo: linkTo(query, { record: found[0]! }) };
  const body =
    found.length > 0
      ? html`<h1>Several records match “${text}”</h1><ul>${found.map((ref) => html`<li>${recordLink(query, ref)}</li>`)}</ul>`
      : html`<h1>Nothing is stored about “${text}”</h1>
<p>The store has no event with this code or id. The events may have been erased, or deleted because of their age. Search for a booking code, a listing id or an event id.</p>
<p>${wayBack(query)}</p>`;
  return { title: "Find", body, live: false, status: found.length > 0 ? 200 : 404 };
}
