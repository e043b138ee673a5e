import { html } from "../shell/html.ts";
import type { GoTo, View, Visit } from "../shell/site.ts";
import { queryOf } from "./filter.ts";
import { flashOf, type Inbox, personalToggle, recordLink, rowsOf, snapshotFacts } from "./parts.ts";

const EVENTS = 50;

/** A booking or listing: its snapshot and its events. */
export async function recordView({ store }: Inbox, ref: string, visit: Visit): Promise<View> {
  const [record, found] = await Promise.all([store.recordOf(ref), store.list({ ref, limit: EVENTS + 1 })]);
  const isPersonal = visit.query.has("personal");
  const erase = new URLSearchParams({ confirm: "erase", record: ref });
  const body = html`${flashOf(visit.query)}
<p class="crumb"><a href="?">Events</a> / Record</p>
<div class="head"><h1>${ref}</h1><span class="actions">${personalToggle(visit.query, isPersonal)}${
    !visit.readOnly && html`<a class="button danger" href="?${erase}">Erase…</a>`
  }</span></div>
<section class="card"><h2>Record as last handled</h2>${
    record
      ? snapshotFacts(record, isPersonal)
      : html`<p class="soft">No snapshot is stored: no event of it has been handled to its end.</p>`
  }</section>
<section><h2>Events</h2><div class="list">${
    found.length > 0
      ? rowsOf(found.slice(0, EVENTS), { isPersonal, isSelectable: false })
      : html`<p class="empty">No events of this record are stored.</p>`
  }</div>
<p><a href="?${queryOf({ ref })}">Select, replay or discard events of this record</a></p></section>`;
  return { title: ref, body };
}

/** Finds an event by its id, or a booking or listing by its code, its id or its ref. */
export async function findView({ store }: Inbox, given: string): Promise<View | GoTo> {
  const text = given.trim().slice(0, 300);
  if (text === "") return { goTo: new URLSearchParams() };
  const event = await store.get(text.toLowerCase());
  if (event) return { goTo: new URLSearchParams({ event: event.eventId }) };
  const refs = candidatesOf(text);
  const known = await Promise.all(
    refs.map(async (ref) => {
      const [record, events] = await Promise.all([store.recordOf(ref), store.list({ ref, limit: 1 })]);
      return record !== undefined || events.length > 0;
    }),
  );
  const found = refs.filter((_, index) => known[index]);
  if (found.length === 1) return { goTo: new URLSearchParams({ record: found[0]! }) };
  const body =
    found.length > 0
      ? html`<h1>Several records match “${text}”</h1><ul>${found.map((ref) => html`<li>${recordLink(ref)}</li>`)}</ul>`
      : html`<h1>Nothing is stored about “${text}”</h1>
<p>No notification of it was recorded, or its events were erased or deleted after their time. Codes of bookings, ids of listings and ids of events can be looked up.</p>
<p><a href="?">All events</a></p>`;
  return { title: "Find", body, live: false, status: found.length > 0 ? 200 : 404 };
}

function candidatesOf(text: string): readonly string[] {
  if (/^(booking|listing):/.test(text)) return [text];
  const codes = [text, text.toUpperCase(), text.toLowerCase()].map((code) => `booking:${code}`);
  return [...new Set([...codes, `listing:${text}`])];
}
