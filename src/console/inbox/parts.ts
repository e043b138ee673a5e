import type { EventState } from "../../stores/event-states.ts";
import type { EventStore, RecordSnapshot, StoredEvent } from "../../stores/event-store.ts";
import type { Health } from "../../webhooks/health.ts";
import { type Html, html } from "../shell/html.ts";
import { badge, facts, type Tone, time } from "../shell/layout.ts";

/** The parts of a handler that the inbox uses. */
export interface Inbox {
  readonly store: EventStore<unknown>;
  health(): Promise<Health>;
}

const tones: Readonly<Record<EventState, Tone>> = {
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

export function typeOf({ type, topic, ref }: StoredEvent): string {
  return type ?? `${ref?.split(":")[0] ?? topic ?? "event"}, not read yet`;
}

export function recordLink(ref: string): Html {
  return html`<a class="over" href="?${new URLSearchParams({ record: ref })}">${ref}</a>`;
}

/** Rows of events. */
export function rowsOf(
  events: readonly StoredEvent[],
  { isPersonal, isSelectable }: { readonly isPersonal: boolean; readonly isSelectable: boolean },
): Html {
  const row = (event: StoredEvent) => {
    const { eventId, ref, attempts, reason, receivedAt, lastError } = event;
    const tried = attempts > 1 ? `${attempts} attempts` : undefined;
    const why = [reason === "discarded" ? undefined : reason, tried].filter(Boolean).join(", ");
    return html`<li id="row-${eventId}">${
      isSelectable &&
      html`<input type="checkbox" name="event" value="${eventId}" aria-label="Select ${typeOf(event)} ${ref}">`
    }<span class="state">${stateBadge(event)}</span>
<a class="main" href="?${new URLSearchParams({ event: eventId })}">${typeOf(event)}</a>
<span>${ref === null ? html`<span class="soft">no record</span>` : recordLink(ref)}</span>
<span class="why">${why}</span><span class="when">${time(receivedAt, { short: true })}</span>${
      isPersonal && lastError !== null && html`<span class="error mono">${lastError}</span>`
    }</li>`;
  };
  return html`<ol class="rows ${!isSelectable && "plain"}">${events.map(row)}</ol>`;
}

/** A link to the same page with or without personal data. */
export function personalToggle(query: URLSearchParams, isPersonal: boolean): Html {
  const other = new URLSearchParams(query);
  if (isPersonal) other.delete("personal");
  else other.set("personal", "1");
  return html`<a class="button" href="?${other}">${isPersonal ? "Hide" : "Show"} personal data</a>`;
}

/**
 * The fields that are tracked by default. They name no person. A handler's own `track` may add fields that do, so the
 * pages hide all others until somebody asks for them.
 */
const impersonal = ["checkIn", "checkOut", "listingId", "listingName"];

export function snapshotFacts({ snapshot, sequence, seenAt }: RecordSnapshot, isPersonal: boolean): Html {
  const fields = Object.entries(snapshot.fields).map(([name, value]): [string, Html | string] => [
    name,
    isPersonal || impersonal.includes(name)
      ? typeof value === "string"
        ? value
        : JSON.stringify(value)
      : html`<span class="soft">hidden</span>`,
  ]);
  return facts([
    ["status", snapshot.status],
    ...fields,
    ["changes", sequence],
    ["seen", time(seenAt, { short: true })],
  ]);
}

/** The query parameters that say how many events the last form changed, for {@link flashOf}. */
export const flashNames = ["replayed", "discarded", "erased", "of"] as const;

/** The line with the result of the last form. */
export function flashOf(query: URLSearchParams): Html | undefined {
  const numberOf = (name: string) => {
    const text = query.get(name) ?? "";
    return /^\d{1,9}$/.test(text) ? Number(text) : undefined;
  };
  const [verb, count] =
    (["replayed", "discarded", "erased"] as const)
      .map((name) => [name, numberOf(name)] as const)
      .find(([, number]) => number !== undefined) ?? [];
  if (verb === undefined || count === undefined) return undefined;
  const asked = numberOf("of") ?? count;
  const left = asked - count;
  const said = `${verb[0]?.toUpperCase()}${verb.slice(1)} ${events(count)}.`;
  return left <= 0
    ? html`<p class="flash" role="status">${said}</p>`
    : html`<p class="flash wait" role="status">${said} ${events(left)} could not be ${verb} in the present state.</p>`;
}

/** `1 event`, `300 events`. */
export function events(count: number): string {
  return `${count.toLocaleString("en-US")} ${count === 1 ? "event" : "events"}`;
}
