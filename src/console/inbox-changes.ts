import { type Change, type EventState, eventStates, statesOf } from "../stores/event-states.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import { countEvents, readEvents } from "./event-pages.ts";
import { inWords, queryOf, selectionOf } from "./filter-form.ts";
import { eventsOf, withoutFlash } from "./flash.ts";
import { type Html, hiddenFields, html } from "./html.ts";
import { causeLine } from "./inbox-causes.ts";
import {
  type Counted,
  changeable,
  changeEach,
  countChangeable,
  countLimit,
  hasNewDiscards,
} from "./inbox-counts.ts";
import { rowsOf, type Store } from "./inbox-parts.ts";
import { linkTo, listOf, ofVisit } from "./links.ts";
import type { Replays } from "./replay-line.ts";
import { areTimers, isToCome, matchesOnlyTimers, runNowWords, scheduledWords } from "./scheduled-words.ts";
import { isEmpty, isNarrowed } from "./selection.ts";
import { failureView, type GoTo, type View, type Visit } from "./site.ts";

const did = { replay: "replayed", discard: "discarded" } as const;

/** The largest number of events that a form may select. A form of the console selects at most one page: 50 events. */
const MAX_SELECTION = 200;

/** The page that asks for confirmation, and shows how many events would change. */
export async function confirmView(store: Store, visit: Visit): Promise<View> {
  const { query } = visit;
  const asked = query.get("confirm");
  if (visit.readOnly) return failureView(403, "This console is read-only.");
  if (asked === "erase") return confirmErase(store, query.get("record") ?? "", visit);
  const change = changeOf(asked);
  const selection = selectionOf(query);
  const { filter } = selection;
  if (!change || isEmpty(selection)) return failureView(400, "Choose a filter first.");
  const counted = await countChangeable(store, change, selection);
  const { total, hasMore } = counted;
  const number = hasMore ? `all matching events (${total.toLocaleString("en-US")} or more)` : eventsOf(total);
  const areScheduled = filter.state === "scheduled";
  const onlyTimers = areScheduled && (await matchesOnlyTimers(store, filter));
  const button = areScheduled
    ? scheduledButton(change, total, onlyTimers, hasMore)
    : `${change === "replay" ? "Replay" : "Discard"} ${number}`;
  const replayed = areScheduled ? RUN_NOW_HINT : replayHint(counted.byState);
  const fields = [
    ...queryOf(selection),
    ["all", "1"] as const,
    ["discarded", String(counted.discarded)] as const,
  ];
  const body = html`<h1>${button}?</h1>
<section class="card narrow">${staleNote(query, counted)}<p>The filter is: <strong>${inWords(selection)}</strong>.${counted.places && ` These events touch ${counted.places}.`}</p>
${counted.example && html`<p>${causeLine(counted.example, query)}</p>`}
${counted.lines.length > 0 && html`<ul>${counted.lines.map((line) => html`<li>${line}</li>`)}</ul>`}
${counted.cutAfter !== undefined && html`<p>Only the newest ${counted.cutAfter.toLocaleString("en-US")} events were searched. Older ones do not change.</p>`}
<p>${change === "replay" ? replayed : "The callbacks of discarded events do not run. You can replay a discarded event until the store deletes it."}</p>
<div class="actions">${
    total > 0 &&
    html`<form method="post" data-replace>${visit.csrf}${hiddenFields(fields)}<button class="${change === "replay" ? "primary" : "danger"}" name="do" value="${change}">${button}</button></form>`
  }<a class="button" data-replace href="?${listOf(query)}">Cancel</a></div></section>`;
  return { title: button, body, live: false };
}

const RUN_NOW_HINT =
  "Your app runs their callbacks at once, as if their time had come. They do not run again at their time.";

function scheduledButton(change: Change, count: number, onlyTimers: boolean, hasMore: boolean): string {
  const more = hasMore ? " or more" : "";
  return change === "replay"
    ? `${runNowWords(count, onlyTimers)}${more}`
    : `Cancel ${scheduledWords(count, onlyTimers)}${more}`;
}

function replayHint(byState: ReadonlyMap<EventState, number>): string {
  return `Your app handles each replayed event again, beginning with attempt 1.${
    (byState.get("done") ?? 0) > 0 ? " For events that are done, your callbacks run a second time." : ""
  }`;
}

async function confirmErase(store: Store, ref: string, { csrf, query }: Visit): Promise<View> {
  if (ref === "") return failureView(400, "Choose a record first.");
  const { total, hasMore } = await countEvents(store, { ref }, countLimit());
  const number = hasMore ? `at least ${eventsOf(total)}` : eventsOf(total);
  const body = html`<h1>Erase everything about ${ref}?</h1>
<section class="card narrow"><p>If you erase ${ref}, the store will delete ${number} with notifications and history. The store will also delete the snapshot of the record. You cannot undo the deletion. Copies elsewhere, such as logs and backups, will stay.</p>
<div class="actions"><form method="post" data-replace>${csrf}${hiddenFields([["record", ref]])}<button class="danger" name="do" value="erase">Erase ${ref}</button></form>
<a class="button" data-replace href="?${linkTo(query, { record: ref })}">Cancel</a></div></section>`;
  return { title: `Erase ${ref}`, body, live: false };
}

/** An event that a form names, and the state in which the page showed the event, if the form says so. */
interface Chosen {
  readonly eventId: string;
  readonly state: EventState | undefined;
}

function chosenOf(form: URLSearchParams): Chosen[] {
  return [...new Set(form.getAll("event"))].map((text) => {
    const state = eventStates.find((each) => text.startsWith(`${each} `));
    return { state, eventId: state ? text.slice(state.length + 1) : text };
  });
}

/**
 * The page that asks whether scheduled events shall run now. `undefined` if the form selects none, or if the user has
 * confirmed.
 */
async function confirmRunNow(
  store: Store,
  chosen: readonly Chosen[],
  form: URLSearchParams,
  { csrf }: Visit,
): Promise<View | undefined> {
  if (form.has("confirmed")) return undefined;
  const events = await readEvents(
    store,
    chosen.map(({ eventId }) => eventId),
  );
  const toCome = events.filter(isToCome);
  if (toCome.length === 0) return undefined;
  const others = chosen.length - toCome.length;
  const question = runNowWords(toCome.length, areTimers(toCome));
  const button = others > 0 ? `${question}, and replay ${eventsOf(others)}` : question;
  const back = form.get("back") ?? "";
  const fields = [
    ...form.getAll("event").map((value) => ["event", value] as const),
    ["back", back] as const,
    ["confirmed", "1"] as const,
  ];
  const body = html`<h1>${button}?</h1>
<section class="card narrow"><p>${RUN_NOW_HINT}</p>
<div class="actions"><form method="post" data-replace>${csrf}${hiddenFields(fields)}<button class="primary" name="do" value="replay">${button}</button></form>
<a class="button" data-replace href="?${new URLSearchParams(back)}">Cancel</a></div></section>
<div class="list">${rowsOf(toCome, { query: new URLSearchParams(back) })}</div>`;
  return { title: button, body, live: false };
}

/** Replays, discards or erases the events that a form names. */
export async function act(
  store: Store,
  form: URLSearchParams,
  visit: Visit,
  replays: Replays,
): Promise<View | GoTo> {
  const asked = form.get("do");
  if (asked === "erase") return erase(store, form.get("record") ?? "", visit.query);
  const change = changeOf(asked);
  if (!change) return failureView(400, "The form asks for an unknown action. Load the page again.");
  if (form.has("all")) return changeAll(store, change, form, visit, replays);
  const chosen = chosenOf(form);
  if (chosen.length > MAX_SELECTION)
    return failureView(400, `You can select at most ${MAX_SELECTION} events.`);
  if (chosen.length === 0) return failureView(400, "Select events first.");
  const question = change === "replay" ? await confirmRunNow(store, chosen, form, visit) : undefined;
  if (question) return question;
  const followed = change === "replay" ? await readAll(store, chosen) : [];
  const run = await replays.of(store, followed);
  let changed = 0;
  for (const filter of chosen) changed += await store[change](filter);
  const goTo = withoutFlash(new URLSearchParams(form.get("back") ?? ""));
  goTo.set("of", String(chosen.length));
  return { goTo: withResult(goTo, change, changed, run) };
}

function withResult(goTo: URLSearchParams, change: Change, changed: number, run: string | undefined) {
  goTo.set(did[change], String(changed));
  if (run !== undefined) goTo.set("run", run);
  return goTo;
}

/** Changes all events that match a selection. */
async function changeAll(
  store: Store,
  change: Change,
  form: URLSearchParams,
  visit: Visit,
  replays: Replays,
): Promise<View | GoTo> {
  const selection = selectionOf(form);
  const { filter } = selection;
  if (isEmpty(selection)) return failureView(400, "Choose a filter first.");
  if (change === "replay" && (await hasNewDiscards(store, filter, form)))
    return {
      goTo: new URLSearchParams([
        ...queryOf(selection),
        ...ofVisit(visit.query),
        ["confirm", change],
        ["stale", form.get("discarded")!],
      ]),
    };
  const found = isNarrowed(selection) ? await changeable(store, change, selection) : undefined;
  // Without a state, a replay changes events of some states only.
  const followed = found?.events ?? (filter.state && filter);
  const run = change === "replay" && followed ? await replays.of(store, followed) : undefined;
  const changed = found ? await changeEach(store, change, found.events) : await store[change](filter);
  // The events of a cause are parked no more, so the next page shows the other causes.
  const goTo = queryOf({ ...selection, cause: undefined });
  for (const [name, value] of ofVisit(visit.query)) goTo.set(name, value);
  return { goTo: withResult(goTo, change, changed, run) };
}

/** The chosen events that a replay would change: those that are in the state in which the page showed them. */
async function readAll(store: Store, chosen: readonly Chosen[]): Promise<StoredEvent[]> {
  const shown = new Map(chosen.map(({ eventId, state }) => [eventId, state]));
  const events = await readEvents(store, [...shown.keys()]);
  return events.filter(
    ({ eventId, state }) =>
      statesOf("replay", { eventId }).includes(state) && (shown.get(eventId) ?? state) === state,
  );
}

async function erase(store: Store, ref: string, query: URLSearchParams): Promise<View | GoTo> {
  if (ref === "") return failureView(400, "Choose a record first.");
  if ((await store.list({ ref, state: "processing", limit: 1 })).length > 0)
    return failureView(
      409,
      `An event of ${ref} is being handled now. Nothing was erased. Try again in a minute.`,
    );
  const erased = await store.erase(ref);
  return { goTo: new URLSearchParams([["erased", String(erased)], ...listOf(query)]) };
}

function changeOf(asked: string | null): Change | undefined {
  return asked === "replay" || asked === "discard" ? asked : undefined;
}

function staleNote(query: URLSearchParams, { discarded }: Counted): Html | undefined {
  const before = query.get("stale");
  if (before === null || !(discarded > Number(before))) return undefined;
  return html`<p class="flash wait" role="alert">Nothing was replayed. Since you opened the page, somebody has discarded ${eventsOf(discarded - Number(before))} of this filter. To leave them out, choose a state.</p>`;
}
