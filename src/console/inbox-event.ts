import { parseExactly } from "../models/exact-json.ts";
import { type Change, statesOf } from "../stores/event-states.ts";
import { HISTORY_LENGTH } from "../stores/outcomes.ts";
import type { AttemptEntry, StoredEvent } from "../stores/stored-event.ts";
import { storedId } from "../webhooks/own-ids.ts";
import { causeOf } from "./cause-key.ts";
import { listQuery } from "./filter-form.ts";
import { flashOf } from "./flash.ts";
import { duration, facts, type Html, type HtmlValue, hiddenFields, html, type Tone, time } from "./html.ts";
import {
  choiceOf,
  cutNote,
  impersonal,
  isPersonal,
  personalToggle,
  recordLink,
  rowsOf,
  type Store,
  snapshotCard,
  stateBadge,
  typeOf,
  wayBack,
} from "./inbox-parts.ts";
import { linkTo, listOf } from "./links.ts";
import { impersonalError } from "./shown-error.ts";
import type { View, Visit } from "./site.ts";
import { describeChanges, newestFirst, type Step, timelineOf } from "./timeline.ts";

/** The page of an event lists at most this many other events of the same record. */
const OTHERS = 20;

/** The page of an event, with its history, its notification and its record. */
export async function eventView(store: Store, eventId: string, visit: Visit): Promise<View> {
  const event = await store.get(storedId(eventId));
  if (!event) {
    const body = html`<h1>No such event</h1><p>No event with this id is stored. The event may have been erased, or deleted because of its age.</p><p><a href="?${listOf(visit.query)}">Events</a></p>`;
    return { title: "No such event", status: 404, body, live: false };
  }
  const { ref } = event;
  const [record, others] =
    ref === null
      ? [undefined, []]
      : await Promise.all([store.snapshotOf(ref), store.list({ ref, limit: OTHERS + 2 })]);
  const { query } = visit;
  const rest = others.filter((other) => other.eventId !== event.eventId);

  const body = html`${flashOf(query)}
<p class="crumb">${wayBack(query)} / <span class="mono">${event.eventId}</span></p>
<div class="head"><h1>${typeOf(event)}</h1>${stateBadge(event)}
<span class="actions">${personalToggle(query)}${!visit.readOnly && buttonsOf(event, visit)}</span></div>
<div class="columns"><div>
<section class="card"><h2>Timeline</h2>${timelineView(event, isPersonal(query))}</section>
<section class="card"><h2>Notification</h2>${notificationOf(event, isPersonal(query))}</section>
</div><div>
<section class="card"><h2>Event</h2>${facts([
    ["record", ref === null ? undefined : recordLink(query, ref)],
    ["source", event.source],
    ["topic", event.topic ?? undefined],
    ["attempts", event.attempts],
    ["reason", event.reason ?? undefined],
    ["cause", event.state === "parked" ? causeLink(event, query) : undefined],
    ["trace", event.traceparent ?? undefined],
  ])}</section>
${ref !== null && snapshotCard(record, query, "No event of this record has been handled yet.")}</div></div>
${
  ref !== null &&
  rest.length > 0 &&
  html`<section><h2>Other events of ${ref}</h2><div class="list">${rowsOf(rest.slice(0, OTHERS), { query })}</div>
${rest.length > OTHERS && html`${cutNote(OTHERS)}<p><a href="?${linkTo(query, { record: ref })}">What is to come, and more events of this record</a></p>`}</section>`
}`;
  return { title: `${typeOf(event)} ${ref}`, body };
}

/** A link to the parked events that failed in the same way. */
const causeLink = (event: StoredEvent, query: URLSearchParams): Html =>
  html`<a href="?${listQuery({ filter: { state: "parked" }, cause: causeOf(event) }, query)}">Parked events with this cause</a>`;

/** Buttons for the changes that the event's state allows. */
function buttonsOf(event: StoredEvent, { csrf, query }: Visit): Html {
  const { eventId, state, dueAt } = event;
  const button = (change: Change, text: string) =>
    html`<form method="post" data-replace>${csrf}${hiddenFields([
      ["event", choiceOf(event)],
      ["back", String(linkTo(query, { event: eventId }))],
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
  thing: "Planned for the stay",
};

const outcomes: Readonly<Record<AttemptEntry["outcome"], readonly [Tone, string]>> = {
  done: ["good", "Handled"],
  retrying: ["bad", "Attempt failed"],
  parked: ["bad", "Attempt failed, and the event was parked"],
  lost: ["bad", "Attempt lost: the process did not record a result"],
};

const timelineView = (event: StoredEvent, isShown: boolean): Html =>
  html`<ol class="timeline">${newestFirst(timelineOf(event)).map((step) => stepView(event, step, isShown))}</ol>`;

/** The item of a step. A done event has none at the start: its last attempt says so. */
function stepView(event: StoredEvent, step: Step, isShown: boolean): Html | undefined {
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
      return item(
        ...outcomes[step.entry.outcome],
        step.entry.at,
        attemptView(step.entry, isShown, step.same),
      );
    case "replayed":
      return item("plain", "Replayed");
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

function attemptView(entry: AttemptEntry, isAllShown: boolean, same: readonly AttemptEntry[] = []): Html {
  const { reason, duration: took, worker, error, changes } = entry;
  const details = [reason && `Reason: ${reason}`, `took ${duration(took)}`, worker && `on ${worker}`];
  const shown = impersonalError(entry);
  const rest = shown ? "The rest of the error" : "The error";
  const hidden = html`${shown && html`<pre>${[shown.text, ...shown.frames].join("\n    ")}</pre>`}${
    shown?.isCut !== false && html`<p>${rest} is hidden, because it may have personal data.</p>`
  }`;
  const isShown = (name: string) => isAllShown || name === "status" || impersonal.includes(name);
  return html`<p>${details.filter(Boolean).join(", ")}</p>${
    changes && html`<p>Changed: ${describeChanges(changes, isShown)}</p>`
  }${error !== undefined && (isAllShown ? html`<pre>${error}</pre>` : hidden)}${
    same.length > 0 &&
    html`<p>The same error in ${same.length} earlier ${same.length === 1 ? "attempt" : "attempts"}, the first ${time(same.at(-1)!.at)}</p>`
  }`;
}

function notificationOf({ notification }: StoredEvent, isShown: boolean): Html {
  if (notification === null) return html`<p class="soft">This event has no notification.</p>`;
  if (!isShown)
    return html`<p class="soft">The notification is hidden, because it may have personal data.</p>`;
  let text = notification;
  try {
    text = JSON.stringify(parseExactly(notification), null, 2);
  } catch {}
  return html`<pre>${text}</pre>`;
}
