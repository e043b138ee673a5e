import {
  badge,
  duration,
  facts,
  type Html,
  type HtmlValue,
  hiddenFields,
  html,
  type Tone,
  time,
} from "../console/html.ts";
import type { View, Visit } from "../console/site.ts";
import { bookingTable, listingTable } from "../models/statuses.ts";
import { recordOf, type SandboxDelivery, type SandboxRequest } from "./observations.ts";
import { routeNames } from "./platform.ts";
import type { Sandbox, SandboxAccount } from "./sandbox.ts";
import { bookingMoves, type SandboxBooking } from "./sandbox-bookings.ts";
import { listingMoves } from "./sandbox-listings.ts";
import { possibleMoves } from "./sandbox-records.ts";
import { describeFault, describeScope } from "./verbs.ts";

/** The data of the page. The methods copy only the last entries, because the full lists can have 100,000 entries. */
export interface PageSource {
  readonly sandbox: Sandbox;
  /** The token of each account. Each of them opens the page. */
  readonly tokens: readonly string[];
  /** Returns the last `limit` deliveries of an account, the oldest first. */
  deliveries(limit: number, account: string | undefined): SandboxDelivery[];
  /** Returns the last `limit` requests of an account, the oldest first. */
  requests(limit: number, account: string | undefined): SandboxRequest[];
}

/** The message that the page shows after a click on a button. */
export interface Notice {
  readonly tone: "good" | "bad";
  readonly text: string;
}

const maxRecords = 100;
const maxDeliveries = 40;
const maxRequests = 12;

export function platformView(
  source: PageSource,
  account: SandboxAccount,
  visit: Visit,
  notice?: Notice,
): View {
  const { sandbox } = source;
  const body = html`${noticeOf(notice)}
<div class="head"><h1>Platform</h1><span class="soft">Seed ${sandbox.seed}</span></div>
${accountsOf(sandbox, account)}${endpointsOf(account)}
<div class="halves"><div>${bookingsOf(account, visit)}${listingsOf(account, visit)}</div>
<div>${deliveriesOf(source, account, visit)}${deliveryForm(sandbox, visit)}${faultsOf(account, visit)}${requestsOf(source, account)}</div></div>`;
  return { title: account.accountId === undefined ? "Platform" : `Platform, ${account.accountId}`, body };
}

/** The page of one event: its notification and its deliveries. */
export function eventView(account: SandboxAccount, eventId: string, visit: Visit, notice?: Notice): View {
  const deliveries = account.deliveries.filter((delivery) => delivery.eventId === eventId);
  const [first] = deliveries;
  if (!first)
    return {
      title: "Unknown event",
      status: 404,
      body: html`${noticeOf(notice)}<h1>There was no delivery of this event</h1>`,
    };
  const body = html`${noticeOf(notice)}<p class="crumb"><a href="?${queryOf(account)}">Platform</a></p>
<div class="head"><h1>${subjectOf(first)}</h1>${form(visit, [["event", eventId]], [["redeliver", "Resend"]])}</div>
<div class="columns"><section class="card" aria-labelledby="attempts"><h2 id="attempts">Deliveries</h2><ol class="timeline">${deliveries.map(attemptOf)}</ol></section>
<section class="card" aria-labelledby="notification"><h2 id="notification">Notification</h2>${facts([
    ["event", html`<code>${eventId}</code>`],
    ["topic", first.topic],
    ["to", withoutQuery(first.url)],
  ])}<pre>${textOf(first.notification)}</pre></section></div>`;
  return { title: subjectOf(first), body };
}

const noticeOf = (notice: Notice | undefined): Html =>
  html`<div id="notice" role="status" data-keep data-notice>${notice && html`<p class="flash ${notice.tone}">${notice.text}</p>`}</div>`;

/** Returns the query that keeps the account. */
function queryOf({ accountId }: SandboxAccount, more: Readonly<Record<string, string>> = {}): string {
  return String(new URLSearchParams({ ...(accountId !== undefined && { account: accountId }), ...more }));
}

/** The links to the accounts, with the one that the page shows. */
function accountsOf(sandbox: Sandbox, shown: SandboxAccount): Html | undefined {
  if (sandbox.accounts.length === 0) return undefined;
  const links = sandbox.accounts.map((id) => {
    const isShown = id === shown.accountId;
    return html`<li><a href="?${String(new URLSearchParams({ account: id }))}"${isShown && html` aria-current="page"`}>${id}</a></li>`;
  });
  return html`<nav aria-label="Accounts"><ul class="tabs">${links}</ul></nav>`;
}

function endpointsOf({ webhookConfig }: SandboxAccount): Html {
  if (!webhookConfig)
    return html`<p class="flash wait">There is no webhook configuration yet, so the sandbox delivers nothing. Call <code>client.webhookConfig.ensure()</code> in your app, or start the sandbox with <code>--to</code>.</p>`;
  const topics = Map.groupBy(Object.entries(webhookConfig.endpoints), ([, url]) => withoutQuery(url));
  const lines = [...topics].map(
    ([url, entries]) =>
      html`<span class="soft">${entries.map(([topic]) => topic).join(", ")}</span><code>${url}</code>`,
  );
  const { isActive } = webhookConfig;
  return html`<section class="list" aria-label="Webhook configuration"><div class="items"><div class="item"><strong>Webhooks</strong>${isActive ? badge("good", "active") : badge("wait", "not active")}${lines}</div></div></section>`;
}

type Tint = "primary" | "danger";
type Button = readonly [act: string, text: string, tint?: Tint | undefined];

const moveButton = (move: string, tint?: Tint): Button => [
  move,
  move[0]!.toUpperCase() + move.slice(1),
  tint,
];

/** A form whose buttons update the page without loading it again. */
function form(
  visit: Visit,
  hidden: readonly (readonly [name: string, value: string])[],
  buttons: readonly Button[],
  {
    content,
    label,
    more,
  }: { readonly content?: HtmlValue; readonly label?: string; readonly more?: HtmlValue } = {},
): Html {
  const shown = buttons.map(
    ([act, text, tint = ""]) =>
      html`<button class="small ${tint}" name="do" value="${act}"${label !== undefined && html` aria-label="${text} ${label}"`}>${text}</button>`,
  );
  return html`<form class="in-place" method="post" data-stay>${visit.csrf}${hiddenFields(hidden)}${content}<span class="buttons">${shown}</span>${more}</form>`;
}

const field = (name: string, label: string, attributes: Html, value: HtmlValue = ""): Html =>
  html`<label class="field">${label}<input name="${name}" value="${value}" autocomplete="off" ${attributes}></label>`;

/** Makes a date field. If the value is not `YYYY-MM-DD`, makes a text field: a date field would look empty. */
const dateField = (name: string, label: string, value = ""): Html =>
  field(name, label, /^(?:\d{4}-\d\d-\d\d)?$/.test(value) ? html`type="date"` : html`type="text"`, value);
const countAttributes = (max?: number): Html =>
  html`type="number" min="0"${max !== undefined && html` max="${max}"`}`;

function list(id: string, title: string, tools: HtmlValue, rows: readonly Html[], empty: string): Html {
  return html`<section class="list" aria-labelledby="${id}"><div class="tools"><h2 id="${id}">${title}</h2>${tools}</div>${
    rows.length > 0 ? html`<ol class="items">${rows}</ol>` : html`<p class="empty">${empty}</p>`
  }</section>`;
}

const tones: Readonly<Record<string, Tone>> = Object.fromEntries(
  [...bookingTable, ...listingTable].map(({ name, tone }) => [name, tone]),
);

function bookingsOf({ bookings }: SandboxAccount, visit: Visit): Html {
  const all = bookings.list();
  const tools = form(
    visit,
    [],
    [
      ["request", "New request", "primary"],
      ["book", "Instant booking"],
    ],
    {
      more: html`<details><summary class="soft">Choose the fields</summary><div class="filter">${field(
        "bookingCode",
        "Booking code",
        html`maxlength="100"`,
      )}${field("listingId", "Listing", countAttributes())}${dateField("checkIn", "Check-in")}${dateField("checkOut", "Check-out")}</div></details>`,
    },
  );
  return list(
    "bookings",
    `Bookings (${all.length})`,
    tools,
    newest(all).map((booking) => bookingRow(booking, visit)),
    "No bookings yet.",
  );
}

function bookingRow(
  { bookingCode, status, listingId, checkIn, checkOut }: SandboxBooking,
  visit: Visit,
): Html {
  const hidden = [["booking", bookingCode]] as const;
  const buttons = possibleMoves(bookingMoves, status).map((move) =>
    moveButton(move, tones[bookingMoves[move].to] === "good" ? "primary" : "danger"),
  );
  const dates = html`<div class="filter">${dateField("checkIn", "Check-in", String(checkIn))}${dateField("checkOut", "Check-out", String(checkOut))}</div>`;
  return html`<li id="booking-${idOf(bookingCode)}"><span class="info"><strong>${bookingCode}</strong>${badge(tones[status] ?? "plain", status)}<span class="soft">${checkIn} to ${checkOut}, listing ${listingId}</span></span>
<span class="end">${buttons.length > 0 && form(visit, hidden, buttons, { label: `booking ${bookingCode}` })}</span>
<details><summary class="button small" aria-label="Alter booking ${bookingCode}">Alter</summary>${form(visit, hidden, [["alter", "Save"]], { content: dates, label: `booking ${bookingCode}` })}</details></li>`;
}

function listingsOf({ listings }: SandboxAccount, visit: Visit): Html {
  const all = listings.list();
  const tools = form(visit, [], [["submit", "New listing", "primary"]]);
  const rows = newest(all).map(({ listingId, listingName, status }) => {
    const buttons = possibleMoves(listingMoves, status).map((move) => moveButton(move));
    return html`<li id="listing-${listingId}"><strong>${listingId}</strong>${badge(tones[status] ?? "plain", status)}<span class="soft">${listingName}</span>
<span class="end">${buttons.length > 0 && form(visit, [["listing", String(listingId)]], buttons, { label: `listing ${listingId}` })}</span></li>`;
  });
  return list("listings", `Listings (${all.length})`, tools, rows, "No listings yet.");
}

/** Escapes a text for an HTML `id`, which must not have spaces. */
const idOf = (text: string): string => encodeURIComponent(text.toWellFormed());

const newest = <T>(all: readonly T[]): T[] => all.slice(-maxRecords).reverse();

function deliveriesOf(source: PageSource, account: SandboxAccount, visit: Visit): Html {
  const { duplicates = 0, drop = 0 } = source.sandbox.delivery.current;
  const toggle = (act: string, text: string, isOn: boolean) =>
    html`<button class="small" name="do" value="${act}" aria-pressed="${isOn ? "true" : "false"}">${text}</button>`;
  const tools = html`<form class="in-place end" method="post" data-stay>${visit.csrf}<span class="buttons">${toggle("duplicate", "Duplicate", duplicates > 0)}${toggle("drop", "Drop", drop > 0)}</span></form>`;
  const seen = new Map<string, number>();
  const rows = source.deliveries(maxDeliveries, account.accountId).map((delivery) => {
    const { eventId, attempt, sentAt } = delivery;
    const key = `${idOf(eventId ?? "")}-${attempt}-${sentAt.getTime()}`;
    const count = (seen.get(key) ?? 0) + 1;
    seen.set(key, count);
    return deliveryRow(delivery, account, `delivery-${key}-${count}`, visit);
  });
  return list("deliveries", "Deliveries", tools, rows.reverse(), "No deliveries yet.");
}

function deliveryRow(delivery: SandboxDelivery, account: SandboxAccount, id: string, visit: Visit): Html {
  const { eventId, sentAt, attempt } = delivery;
  const subject = subjectOf(delivery);
  return html`<li id="${id}">${badge(...answerOf(delivery))}${
    eventId === undefined
      ? html`<strong>${subject}</strong>`
      : html`<a href="?${queryOf(account, { event: eventId })}">${subject}</a>`
  }<span class="soft">${joined(attempt > 1 && `attempt ${attempt}`, marksOf(delivery))}</span>
<span class="end"><span class="soft">${latencyOf(delivery)}${time(sentAt, { short: true })}</span>${
    eventId !== undefined && form(visit, [["event", eventId]], [["redeliver", "Resend"]], { label: subject })
  }</span></li>`;
}

function attemptOf(delivery: SandboxDelivery): Html {
  const [tone, text] = answerOf(delivery);
  const { sentAt, error, attempt } = delivery;
  return html`<li class="${tone}"><strong>${text}</strong> ${joined(`attempt ${attempt}`, marksOf(delivery))}<br>${time(sentAt)}<p>${latencyOf(delivery)}${error !== undefined && !delivery.dropped && error}</p></li>`;
}

function answerOf({ dropped, duration, status }: SandboxDelivery): readonly [tone: Tone, text: string] {
  if (dropped) return ["wait", "dropped"];
  if (duration === undefined) return ["busy", "sending"];
  if (status === undefined) return ["bad", "no answer"];
  return [status === 200 ? "good" : "bad", String(status)];
}

const latencyOf = ({ duration: ms, dropped }: SandboxDelivery): Html | undefined =>
  ms === undefined || dropped ? undefined : html`<span class="latency">${duration(ms)}</span> `;

const marksOf = ({ duplicate, delay }: SandboxDelivery): string =>
  joined(duplicate && "duplicate", delay > 0 && `delayed ${duration(delay)}`);

const joined = (...parts: readonly (string | false | undefined)[]): string =>
  parts.filter(Boolean).join(", ");

/** Names the record of a notification, such as `Booking HX3K9`. */
function subjectOf({ notification, topic }: SandboxDelivery): string {
  const { booking, listing } = recordOf(notification);
  if (booking !== undefined) return `Booking ${booking}`;
  return listing === undefined ? `Event of ${topic}` : `Listing ${listing}`;
}

function deliveryForm({ delivery }: Sandbox, visit: Visit): Html {
  const { duplicates = 0, drop = 0, delay = 0, timeout = 30_000, shuffle = false, retry } = delivery.current;
  const content = html`<div class="filter">${field("duplicates", "Duplicates of each notification", countAttributes(100), duplicates)}${field(
    "drop",
    "Lost deliveries, %",
    html`type="number" min="0" max="100" step="any"`,
    drop * 100,
  )}${field("delay", "Delay, ms", countAttributes(), typeof delay === "object" ? delay[1] : delay)}${field("timeout", "Timeout, ms", countAttributes(), timeout)}${field(
    "retry",
    "Waits before retries, ms",
    html`placeholder="1000, 5000" pattern="[\\d\\s,]*"`,
    (retry?.schedule ?? []).join(", "),
  )}<label class="check"><input type="checkbox" name="shuffle"${shuffle !== false && html` checked`}>Random order</label></div>`;
  return html`<details class="card"><summary>Delivery options</summary>${form(
    visit,
    [],
    [
      ["deliver", "Apply", "primary"],
      ["normal", "Reset"],
    ],
    { content },
  )}${form(visit, [], [["advance", "Advance the clock"]], {
    content: html`<label class="field">By<select name="minutes"><option value="1">1 minute</option><option value="60">1 hour</option><option value="360">6 hours</option><option value="1440">1 day</option></select></label>`,
  })}</details>`;
}

const presets: readonly (readonly [text: string, fields: Readonly<Record<string, string>>])[] = [
  ["Outage, 503", { status: "503" }],
  ["Rate limit, 429", { status: "429" }],
  ["Slow, 3 s", { delay: "3000" }],
  ["Cut off", { cutOff: "1" }],
];

function faultsOf({ faults }: SandboxAccount, visit: Visit): Html {
  const rows = faults
    .list()
    .map(
      (fault, index) =>
        html`<li><strong>${describeFault(fault)}</strong><span class="soft">${describeScope(fault)}</span><span class="end">${form(visit, [["fault", String(index)]], [["end-fault", "End"]], { label: `fault ${describeFault(fault)}` })}</span></li>`,
    );
  const tools =
    rows.length > 0 && html`<span class="end">${form(visit, [], [["heal", "End all faults"]])}</span>`;
  const quick = presets.map(([text, fields]) => form(visit, Object.entries(fields), [["fault", text]]));
  const content = html`<div class="filter"><label class="field">Requests<select name="route"><option value="">all</option>${routeNames.map((name) => html`<option>${name}</option>`)}</select></label>${field(
    "status",
    "Status",
    html`type="number" min="300" max="599"`,
  )}${field("delay", "Delay, ms", countAttributes())}${field("rate", "Share of requests, %", html`type="number" min="0" max="100" step="any"`)}${field("times", "Number of requests", html`type="number" min="1"`)}<label class="check"><input type="checkbox" name="cutOff">Cut off</label></div>`;
  return html`${list("faults", "Faults of the API", tools, rows, "No faults: the API answers every request.")}<details class="card"><summary>Add a fault</summary><div class="buttons">${quick}</div>${form(visit, [], [["fault", "Add", "primary"]], { content })}</details>`;
}

function requestsOf({ requests }: PageSource, { accountId }: SandboxAccount): Html {
  const rows = requests(maxRequests, accountId).map(
    ({ method, path, status, receivedAt, fault }) =>
      html`<li>${badge(status < 400 ? "good" : "bad", String(status))}<code>${method} ${withoutQuery(path)}</code>${fault && html`<span class="soft">fault</span>`}<span class="end soft">${time(receivedAt, { short: true })}</span></li>`,
  );
  return list("requests", "Requests to the API", undefined, rows.reverse(), "No requests yet.");
}

/** Hides the query, because the query of an endpoint may hold a secret. */
const withoutQuery = (url: string): string => url.replace(/\?.*/s, "?…");

const textOf = (notification: unknown): string =>
  typeof notification === "string" ? notification : JSON.stringify(notification, null, 2);
