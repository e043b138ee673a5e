// What the pages of the inbox share: the rows of events, and the snapshot of a record.

import { accountOf, splitKey } from "../account.ts";
import { splitFrames } from "../error-text.ts";
import type { ThingStatus } from "../stays/things.ts";
import type { EventFilter } from "../stores/event-filter.ts";
import type { EventState } from "../stores/event-states.ts";
import type { EventStore } from "../stores/event-store.ts";
import type { RecordSnapshot } from "../stores/snapshot.ts";
import type { AttemptEntry, StoredEvent } from "../stores/stored-event.ts";
import type { Health } from "../webhooks/health.ts";
import type { OperatedObservation } from "../webhooks/observability.ts";
import { knownType } from "../webhooks/timer-rules.ts";
import { parkedAt } from "./cause-key.ts";
import { type Soonest, soonest } from "./event-pages.ts";
import { withoutFlash } from "./flash.ts";
import { badge, facts, type Html, html, type Tone, time } from "./html.ts";
import { linkTo, listOf } from "./links.ts";
import { impersonalError } from "./shown-error.ts";

export type Store = EventStore<unknown>;

/** The parts of a handler that the inbox uses. */
export interface Inbox {
  readonly store: Store;
  health(): Promise<Health>;
  /** Takes down a change that a user has made. */
  operated(operation: OperatedObservation): void;
}

/** The largest number of events that a page lists. */
export const PAGE = 50;

/** A page reads at most this many scheduled events, or as many as it can in this time, ms. */
const MOST_READ = 100_000;
const READ_TIMEOUT = 5000;

/** The matching scheduled events that are due first. */
export function toComeOf(store: Store, filter: EventFilter, most: number): Promise<Soonest> {
  const limit = { events: MOST_READ, endsAt: performance.now() + READ_TIMEOUT };
  return soonest(store, { ...filter, state: "scheduled" }, most, limit);
}

/** Says that a page leaves out older events of a record. */
export const cutNote = (shown: number): Html =>
  html`<p class="soft">You see the newest ${shown} events. Older ones are stored, too.</p>`;

/** Says which scheduled events a page leaves out. `undefined` if it shows all of them. */
export function cutOf({ events, total, hasMore }: Soonest): Html | undefined {
  if (!hasMore && total <= events.length) return undefined;
  const [shown, all] = [events.length, total].map((count) => count.toLocaleString("en-US"));
  return hasMore
    ? html`<p class="soft">You see ${shown} of more than ${all} scheduled events: those of the ${all} newest that are due first. Earlier ones may be missing. Filter by record or type.</p>`
    : html`<p class="soft">You see the ${shown} of ${all} scheduled events that are due first.</p>`;
}

const tones: Readonly<Record<EventState, Tone>> = {
  scheduled: "wait",
  pending: "plain",
  processing: "busy",
  retrying: "wait",
  done: "good",
  parked: "bad",
};

export function stateBadge({ state, reason }: StoredEvent): Html {
  return reason === "discarded" && state === "done"
    ? badge("plain", "discarded")
    : badge(tones[state], state);
}

export function typeOf(event: StoredEvent): string {
  const { topic, ref } = event;
  const kind = ref === null ? undefined : splitKey(ref).rest.split(":")[0];
  return knownType(event) ?? `${kind ?? topic ?? "event"}, type not known yet`;
}

export function recordLink(query: URLSearchParams, ref: string): Html {
  return html`<a class="over" href="?${linkTo(query, { record: ref })}">${ref}</a>`;
}

/** Whether the pages show personal data, which the user asks for once in a visit. */
export const isPersonal = (query: URLSearchParams): boolean => query.has("personal");

/** The time that matters in a row, and its label. */
function shownTime(event: StoredEvent): readonly [label: string, at: Date] {
  const { state, dueAt, receivedAt } = event;
  if (state === "scheduled" && dueAt) return ["due", dueAt];
  return state === "parked" ? ["parked", parkedAt(event)] : ["received", receivedAt];
}

/** The value of a form's field `event`. It has the state, so that a stale page changes no event of another state. */
export const choiceOf = ({ eventId, state }: StoredEvent): string => `${state} ${eventId}`;

/** The error of an attempt in a row. Without its text, the place in the user's code tells it from others. */
function errorLine(entry: AttemptEntry, isAllShown: boolean): string | undefined {
  if (isAllShown) return splitFrames(entry.error ?? "").text || undefined;
  const shown = impersonalError(entry);
  return shown && [shown.text, ...shown.frames.slice(0, 1)].join(" ");
}

/** @param query - the query of the page, which the links keep */
export function rowsOf(
  events: readonly StoredEvent[],
  { query, isSelectable = false }: { readonly query: URLSearchParams; readonly isSelectable?: boolean },
): Html {
  const row = (event: StoredEvent) => {
    const { eventId, ref, attempts, reason, history } = event;
    const account = accountOf(event);
    const [label, when] = shownTime(event);
    const last = history.at(-1);
    const lastError = last && errorLine(last, isPersonal(query));
    const tried = attempts > 1 ? `${attempts} attempts` : undefined;
    const why = [reason === "discarded" ? undefined : reason, tried].filter(Boolean).join(", ");
    return html`<li id="row-${eventId}">${
      isSelectable &&
      html`<input type="checkbox" name="event" value="${choiceOf(event)}" aria-label="Select ${typeOf(event)} ${ref}">`
    }<span class="state">${stateBadge(event)}</span>
<a class="main" href="?${linkTo(query, { event: eventId })}">${typeOf(event)}</a>
<span>${ref === null ? html`<span class="soft">${account === undefined ? "no record" : `${account}, no record`}</span>` : recordLink(query, ref)}</span>
<span class="why">${why}</span><span class="when">${label} ${time(when, { short: true })}</span>${
      lastError !== undefined && html`<span class="error mono">${lastError}</span>`
    }</li>`;
  };
  return html`<ol class="rows ${!isSelectable && "plain"}">${events.map(row)}</ol>`;
}

/** The link to the list from which the user came. */
export const wayBack = (query: URLSearchParams): Html => html`<a href="?${listOf(query)}">Events</a>`;

/** A link to the same page with or without personal data. */
export function personalToggle(query: URLSearchParams): Html {
  const isShown = isPersonal(query);
  const hidden = withoutFlash(query);
  hidden.delete("personal");
  return html`<a class="button" data-replace href="?${isShown ? hidden : shownQuery(query)}">${isShown ? "Hide" : "Show"} personal data</a>`;
}

/** The query of the same page with personal data. */
export function shownQuery(query: URLSearchParams): URLSearchParams {
  const shown = withoutFlash(query);
  shown.set("personal", "1");
  return shown;
}

/**
 * The fields that a handler tracks by default. They hold no personal data. The `track` option may add fields with
 * personal data, so the pages hide all other fields until the user asks for personal data.
 */
export const impersonal = ["checkIn", "checkOut", "listingId", "listingName"];

export function snapshotCard(
  record: RecordSnapshot | undefined,
  query: URLSearchParams,
  missing: string,
): Html {
  const content = record ? snapshotFacts(record, isPersonal(query)) : html`<p class="soft">${missing}</p>`;
  return html`<section class="card"><h2>Last snapshot of the record</h2>${content}</section>`;
}

function snapshotFacts({ snapshot, sequence, seenAt }: RecordSnapshot, isShown: boolean): Html {
  const shown = (name: string, value: unknown) => {
    if (!isShown && !impersonal.includes(name)) return html`<span class="soft">hidden</span>`;
    return typeof value === "string" ? value : JSON.stringify(value);
  };
  return facts([
    ["status", snapshot.status],
    ...Object.entries(snapshot.fields).map(([name, value]) => [name, shown(name, value)] as const),
    ["changes", sequence],
    ["last seen", time(seenAt, { short: true })],
  ]);
}

/** What exists for the stay of a booking, and what is to come. Not its value, which may be a door code. */
export function thingsCard(things: readonly ThingStatus[], query: URLSearchParams): Html {
  const rows = things.map(({ name, listingId, stay, state, at, error }) => {
    const failed =
      error !== undefined && (isPersonal(query) ? error : "failed. The error may have personal data");
    return html`<tr><td>${name}</td><td>${listingId}</td><td>${stay.checkIn} to ${stay.checkOut}</td><td>${state}</td><td>${time(at, { short: true })}</td><td>${failed}</td></tr>`;
  });
  return html`<section class="card"><h2>Things of the stay</h2><table><thead><tr><th>Thing</th><th>Listing</th><th>Stay</th><th>State</th><th>Next, or since</th><th>Error</th></tr></thead><tbody>${rows}</tbody></table></section>`;
}
