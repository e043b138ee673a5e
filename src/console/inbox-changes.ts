import type { EventFilter } from "../stores/event-filter.ts";
import {
  type Change,
  choosableStates,
  type EventState,
  eventStates,
  statesOf,
} from "../stores/event-states.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import { eventsOfCause, MOST_GROUPED } from "./causes.ts";
import { countEvents } from "./event-pages.ts";
import { filterOf, inWords, queryOf } from "./filter-form.ts";
import { type Html, hiddenFields, html } from "./html.ts";
import { rowsOf, type Store } from "./inbox-parts.ts";
import type { Replays } from "./replay-line.ts";
import { areTimers, isToCome, matchesOnlyTimers, runNowWords, scheduledWords } from "./scheduled-words.ts";
import type { GoTo, View, Visit } from "./site.ts";

/** The order in which states are counted. Parked events come first, because counting may stop early. */
const countOrder: readonly EventState[] = ["parked", "retrying", "scheduled", "pending", "done"];
const did = { replay: "replayed", discard: "discarded" } as const;

/** Counting stops at `COUNT_LIMIT` events of one state, or after `COUNT_TIMEOUT` ms. */
const COUNT_LIMIT = 10_000;
const COUNT_TIMEOUT = 5000;
const countLimit = () => ({ events: COUNT_LIMIT, endsAt: performance.now() + COUNT_TIMEOUT });
/** The largest number of events that a form may select. A form of the console selects at most one page: 50 events. */
const MAX_SELECTION = 200;

/** The page that asks for confirmation, and shows how many events would change. */
export async function confirmView(store: Store, visit: Visit): Promise<View> {
  const { query } = visit;
  const asked = query.get("confirm");
  if (visit.readOnly) return refused("This console is read-only.", 403);
  if (asked === "erase") return confirmErase(store, query.get("record") ?? "", visit);
  const change = changeOf(asked);
  const filter = filterOf(query);
  if (!change || Object.keys(filter).length === 0) return refused("Choose a filter first.");
  const cause = filter.state === "parked" ? query.get("cause") || undefined : undefined;
  const { byState, hasMore } =
    cause === undefined
      ? await countChangeable(store, change, filter)
      : await countOfCause(store, filter, cause);
  const counted = [...byState].filter(([, count]) => count > 0);
  const total = counted.reduce((sum, [, count]) => sum + count, 0);
  const number = hasMore ? `all matching events (${total.toLocaleString("en-US")} or more)` : events(total);
  const areScheduled = filter.state === "scheduled";
  const onlyTimers = areScheduled && (await matchesOnlyTimers(store, filter));
  const button = areScheduled
    ? scheduledButton(change, total, onlyTimers, hasMore)
    : `${change === "replay" ? "Replay" : "Discard"} ${number}`;
  const replayed = areScheduled ? RUN_NOW_HINT : replayHint(byState);
  const body = html`<h1>${button}?</h1>
<section class="card narrow"><p>The filter is: <strong>${inWords(filter)}${cause !== undefined && ", one cause"}</strong>.</p>
${counted.length > 0 && html`<ul>${counted.map(([state, count]) => html`<li>${count.toLocaleString("en-US")} ${state}</li>`)}</ul>`}
<p>${change === "replay" ? replayed : "The callbacks of discarded events do not run. You can replay a discarded event until the store deletes it."}</p>
<div class="actions">${
    total > 0 &&
    html`<form method="post">${visit.csrf}${hiddenFields([
      ...queryOf(filter, cause === undefined ? {} : { cause }),
      ["all", "1"],
    ])}<button class="${change === "replay" ? "primary" : "danger"}" name="do" value="${change}">${button}</button></form>`
  }<a class="button" href="?${queryOf(filter)}">Cancel</a></div></section>`;
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

async function confirmErase(store: Store, ref: string, { csrf }: Visit): Promise<View> {
  if (ref === "") return refused("Choose a record first.");
  const { total, hasMore } = await countEvents(store, { ref }, countLimit());
  const number = hasMore ? `at least ${events(total)}` : events(total);
  const body = html`<h1>Erase everything about ${ref}?</h1>
<section class="card narrow"><p>If you erase ${ref}, the store will delete ${number} with notifications and history. The store will also delete the snapshot of the record. You cannot undo the deletion. Copies elsewhere, such as logs and backups, will stay.</p>
<div class="actions"><form method="post">${csrf}${hiddenFields([["record", ref]])}<button class="danger" name="do" value="erase">Erase ${ref}</button></form>
<a class="button" href="?${new URLSearchParams({ record: ref })}">Cancel</a></div></section>`;
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
  const toCome: StoredEvent[] = [];
  for (const { eventId } of chosen) {
    const event = await store.get(eventId);
    if (event && isToCome(event)) toCome.push(event);
  }
  if (toCome.length === 0) return undefined;
  const others = chosen.length - toCome.length;
  const question = runNowWords(toCome.length, areTimers(toCome));
  const button = others > 0 ? `${question}, and replay ${events(others)}` : question;
  const back = form.get("back") ?? "";
  const fields = [
    ...form.getAll("event").map((value) => ["event", value] as const),
    ["back", back] as const,
    ["confirmed", "1"] as const,
  ];
  const body = html`<h1>${button}?</h1>
<section class="card narrow"><p>${RUN_NOW_HINT}</p>
<div class="actions"><form method="post">${csrf}${hiddenFields(fields)}<button class="primary" name="do" value="replay">${button}</button></form>
<a class="button" href="?${new URLSearchParams(back)}">Cancel</a></div></section>
<div class="list">${rowsOf(toCome, { isPersonal: false, isSelectable: false })}</div>`;
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
  if (asked === "erase") return erase(store, form.get("record") ?? "");
  const change = changeOf(asked);
  if (!change) return refused("The form asks for an unknown action. Load the page again.");
  if (form.has("all")) {
    const filter = filterOf(form);
    if (Object.keys(filter).length === 0) return refused("Choose a filter first.");
    const cause = form.get("cause");
    const followed = cause
      ? await eventsOfCause(store, filter, cause, { limit: MOST_GROUPED })
      : // Without a state, a replay changes events of some states only.
        filter.state && filter;
    const run = change === "replay" && followed ? await replays.of(store, followed) : undefined;
    const changed = cause ? await changeCause(store, change, filter, cause) : await store[change](filter);
    return { goTo: queryOf(filter, { [did[change]]: String(changed), ...(run !== undefined && { run }) }) };
  }
  const chosen = chosenOf(form);
  if (chosen.length > MAX_SELECTION) return refused(`You can select at most ${MAX_SELECTION} events.`);
  if (chosen.length === 0) return refused("Select events first.");
  const question = change === "replay" ? await confirmRunNow(store, chosen, form, visit) : undefined;
  if (question) return question;
  const followed = change === "replay" ? await readAll(store, chosen) : [];
  const run = await replays.of(store, followed);
  let changed = 0;
  for (const filter of chosen) changed += await store[change](filter);
  const goTo = new URLSearchParams(form.get("back") ?? "");
  for (const name of flashNames) goTo.delete(name);
  goTo.set(did[change], String(changed));
  goTo.set("of", String(chosen.length));
  if (run !== undefined) goTo.set("run", run);
  return { goTo };
}

/** The chosen events that a replay would change: those that are in the state in which the page showed them. */
async function readAll(store: Store, chosen: readonly Chosen[]): Promise<StoredEvent[]> {
  const found: StoredEvent[] = [];
  for (const { eventId, state } of chosen) {
    const event = await store.get(eventId);
    if (
      event &&
      statesOf("replay", { eventId }).includes(event.state) &&
      (state ?? event.state) === event.state
    )
      found.push(event);
  }
  return found;
}

async function erase(store: Store, ref: string): Promise<View | GoTo> {
  if (ref === "") return refused("Choose a record first.");
  if ((await store.list({ ref, state: "processing", limit: 1 })).length > 0)
    return refused(
      `An event of ${ref} is being handled now. Nothing was erased. Try again in a minute.`,
      409,
    );
  const erased = await store.erase(ref);
  return { goTo: new URLSearchParams({ erased: String(erased) }) };
}

function changeOf(asked: string | null): Change | undefined {
  return asked === "replay" || asked === "discard" ? asked : undefined;
}

/** The page that says why a request was refused. */
export function refused(text: string | Html, status = 400): View {
  const body = html`<h1>The request was refused</h1><p class="flash bad" role="alert">${text}</p><p><a href="?">All events</a></p>`;
  return { title: "The request was refused", body, status, live: false };
}

async function countOfCause(store: Store, filter: EventFilter, cause: string) {
  const { length } = await eventsOfCause(store, filter, cause, { limit: MOST_GROUPED });
  return { byState: new Map<EventState, number>([["parked", length]]), hasMore: false };
}

/** Changes the parked events of a cause one by one, because a store cannot choose events by their error. */
async function changeCause(
  store: Store,
  change: Change,
  filter: EventFilter,
  cause: string,
): Promise<number> {
  if (filter.state !== "parked") return 0;
  let changed = 0;
  for (const { eventId } of await eventsOfCause(store, filter, cause, { limit: MOST_GROUPED }))
    changed += await store[change]({ eventId, state: "parked" });
  return changed;
}

/** Counts the events that would change, by state. `hasMore` is true if a limit stopped the count. */
async function countChangeable(
  store: Store,
  change: Change,
  filter: EventFilter,
): Promise<{ byState: Map<EventState, number>; hasMore: boolean }> {
  const wanted = countOrder.filter(
    (state) => choosableStates(change, filter).includes(state) && (filter.state ?? state) === state,
  );
  const limit = countLimit();
  const byState = new Map<EventState, number>();
  for (const state of wanted) {
    const { total, hasMore } = await countEvents(store, { ...filter, state }, limit);
    byState.set(state, total);
    if (hasMore) return { byState, hasMore };
  }
  return { byState, hasMore: false };
}

/** The query parameters with the result of a form: `replayed=3&of=5` means that 3 of 5 events were replayed. */
const verbs = ["replayed", "discarded", "erased"] as const;
const flashNames = [...verbs, "of", "run"];

/** The message with the result of the last form. */
export function flashOf(query: URLSearchParams): Html | undefined {
  const numberOf = (name: string) => {
    const text = query.get(name) ?? "";
    return /^\d{1,9}$/.test(text) ? Number(text) : undefined;
  };
  const verb = verbs.find((name) => numberOf(name) !== undefined);
  if (!verb) return undefined;
  const count = numberOf(verb) ?? 0;
  const left = (numberOf("of") ?? count) - count;
  const said = `${verb[0]?.toUpperCase()}${verb.slice(1)} ${events(count)}.`;
  return left <= 0
    ? html`<p class="flash" role="status">${said}</p>`
    : html`<p class="flash wait" role="status">${said} ${events(left)} could not be ${verb} because of ${left === 1 ? "its" : "their"} state. Look at ${left === 1 ? "it" : "them"} again: somebody else may have changed ${left === 1 ? "it" : "them"}.</p>`;
}

/** Returns a text such as `1 event` or `300 events`. */
function events(count: number): string {
  return `${count.toLocaleString("en-US")} ${count === 1 ? "event" : "events"}`;
}
