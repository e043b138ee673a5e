import { type Change, changedFrom } from "../../stores/event-states.ts";
import type { AttemptEntry, StoredEvent } from "../../stores/event-store.ts";
import { type Html, html } from "../shell/html.ts";
import { duration, facts, hiddenFields, type Tone, time } from "../shell/layout.ts";
import type { View, Visit } from "../shell/site.ts";
import {
  flashOf,
  type Inbox,
  personalToggle,
  recordLink,
  rowsOf,
  snapshotFacts,
  stateBadge,
  typeOf,
} from "./parts.ts";

/** How many other events of the record a page shows. */
const OTHERS = 20;
/** How many attempts a store keeps. */
const HISTORY = 10;

/** One event: what happened to it, its notification, and its record. */
export async function eventView({ store }: Inbox, eventId: string, visit: Visit): Promise<View> {
  const event = await store.get(eventId.toLowerCase());
  if (!event) return { title: "No such event", status: 404, body: missing(), live: false };
  const { ref } = event;
  const [record, others] =
    ref === null
      ? [undefined, []]
      : await Promise.all([store.recordOf(ref), store.list({ ref, limit: OTHERS + 1 })]);
  const isPersonal = visit.query.has("personal");
  const rest = others.filter((other) => other.eventId !== event.eventId).slice(0, OTHERS);

  const body = html`${flashOf(visit.query)}
<p class="crumb"><a href="?">Events</a> / <span class="mono">${event.eventId}</span></p>
<div class="head"><h1>${typeOf(event)}</h1>${stateBadge(event)}
<span class="actions">${personalToggle(visit.query, isPersonal)}${!visit.readOnly && buttonsOf(event, visit)}</span></div>
<div class="columns"><div>
<section class="card"><h2>Timeline</h2>${timelineOf(event, isPersonal)}</section>
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
  ref !== null &&
  html`<section class="card"><h2>Record as last handled</h2>${
    record
      ? snapshotFacts(record, isPersonal)
      : html`<p class="soft">No event of this record has been handled yet.</p>`
  }</section>`
}</div></div>
${
  ref !== null &&
  rest.length > 0 &&
  html`<section><h2>Other events of ${ref}</h2><div class="list">${rowsOf(rest, { isPersonal, isSelectable: false })}</div></section>`
}`;
  return { title: `${typeOf(event)} ${ref}`, body };
}

function missing(): Html {
  return html`<h1>No such event</h1><p>No event with this id is stored. It may have been erased, or deleted after its time.</p><p><a href="?">All events</a></p>`;
}

/** Buttons for the changes that the event's state allows. */
function buttonsOf({ eventId, state }: StoredEvent, { csrf }: Visit): Html {
  const button = (change: Change, text: string) =>
    html`<form method="post">${csrf}${hiddenFields([
      ["event", eventId],
      ["back", String(new URLSearchParams({ event: eventId }))],
    ])}<button class="${change === "replay" ? "primary" : "danger"}" name="do" value="${change}">${text}</button></form>`;
  return html`${changedFrom.discard.includes(state) && button("discard", "Discard")}${
    changedFrom.replay.includes(state) && button("replay", state === "retrying" ? "Try now" : "Replay")
  }`;
}

const origins: Readonly<Record<StoredEvent["source"], string>> = {
  webhook: "Received",
  reconcile: "Found by the reconciler",
  recheck: "Second read scheduled",
};

const outcomes: Readonly<Record<AttemptEntry["outcome"], readonly [Tone, string]>> = {
  done: ["good", "Handled"],
  retrying: ["bad", "Attempt failed"],
  parked: ["bad", "Attempt failed, and the event was parked"],
  lost: ["bad", "Attempt lost: its process did not say how it ended"],
};

function timelineOf(event: StoredEvent, isPersonal: boolean): Html {
  const { source, topic, timestamp, receivedAt, history } = event;
  const attempt = ({ at, outcome, reason, duration: took, worker, error }: AttemptEntry) => {
    const [tone, text] = outcomes[outcome];
    const details = [reason && `Reason: ${reason}`, `took ${duration(took)}`, worker && `on ${worker}`];
    return html`<li class="${tone}"><strong>${text}</strong> ${time(at)}<p>${details.filter(Boolean).join(", ")}</p>${
      error !== undefined &&
      (isPersonal ? html`<pre>${error}</pre>` : html`<p>The error's text is hidden.</p>`)
    }</li>`;
  };
  return html`<ol class="timeline">
<li><strong>${origins[source]}</strong> ${time(receivedAt)}<p>${topic !== null && `Topic ${topic}. `}${source === "webhook" && `The notification is dated ${timestamp.replace(/\.000Z$/, "Z")}.`}</p></li>
${history.length >= HISTORY && html`<li><strong>Earlier attempts are no longer kept</strong></li>`}
${history.map(attempt)}${nextOf(event)}</ol>`;
}

/** The last step: what the event waits for, or how it ended without an attempt. */
function nextOf({ state, reason, dueAt, doneAt }: StoredEvent): Html | undefined {
  const step = (tone: Tone, text: string, at: Date | null) =>
    html`<li class="${tone}"><strong>${text}</strong> ${at && time(at)}</li>`;
  switch (state) {
    case "pending":
      return step("wait", "Waits for its turn", dueAt);
    case "processing":
      return step("busy", "Being handled, under a lease until", dueAt);
    case "retrying":
      return step("wait", "Next attempt", dueAt);
    case "parked":
      return step("bad", "Parked until somebody replays or discards it", null);
    case "done":
      return reason === "discarded" ? step("plain", "Discarded", doneAt) : undefined;
  }
}

function notificationOf({ notification }: StoredEvent, isPersonal: boolean): Html {
  if (notification === null) return html`<p class="soft">No notification brought this event.</p>`;
  if (!isPersonal) return html`<p class="soft">Hidden, because it may have personal data.</p>`;
  return html`<pre>${indented(notification)}</pre>`;
}

function indented(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}
