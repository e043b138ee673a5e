import { refsAbout } from "../account.ts";
import { type Change, eventStates } from "../stores/event-states.ts";
import { forEach } from "./event-pages.ts";
import { inWords, queryOf, selectionOf } from "./filter-form.ts";
import { eventsOf, withoutFlash } from "./flash.ts";
import { type Html, hiddenFields, html } from "./html.ts";
import { causeLine } from "./inbox-causes.ts";
import { type Inbox, rowsOf, type Store } from "./inbox-parts.ts";
import { linkTo, listOf, ofVisit } from "./links.ts";
import {
  type Chosen,
  countDiscarded,
  type Description,
  type Operation,
  type Plan,
  planOfAll,
  planOfChosen,
  planOfErase,
} from "./plan.ts";
import type { Replays } from "./replay-line.ts";
import { isEmpty } from "./selection.ts";
import { failureView, type GoTo, type View, type Visit } from "./site.ts";

const did = { replay: "replayed", discard: "discarded" } as const;

/** The largest number of events that a form may select. A form of the console selects at most one page: 50 events. */
const MAX_SELECTION = 200;

/** The page that asks for confirmation, and shows what would change. */
export async function confirmView(store: Store, visit: Visit): Promise<View> {
  const { query } = visit;
  if (visit.readOnly) return failureView(403, "This console is read-only.");
  const asked = query.get("confirm");
  if (asked === "erase") {
    const ref = query.get("record") ?? "";
    if (ref === "") return failureView(400, "Choose a record first.");
    const back = linkTo(query, { record: ref });
    const described = await planOfErase(store, ref).describe();
    const button = `Erase ${ref}`;
    return questionView(described, { action: asked, button, fields: [["record", ref]], back }, visit);
  }
  const action = changeOf(asked);
  const selection = selectionOf(query);
  if (!action || isEmpty(selection)) return failureView(400, "Choose a filter first.");
  const described = await planOfAll(store, action, selection).describe();
  const { discarded, cause } = described;
  const fields = [...queryOf(selection), ["all", "1"] as const, ["discarded", `${discarded}`] as const];
  const before = html`${staleNote(query, discarded)}<p>The filter is: <strong>${inWords(selection)}</strong>.</p>
${cause && html`<p>${causeLine(cause, query)}</p>`}`;
  return questionView(described, { action, fields, back: listOf(query), before }, visit);
}

/** How a page asks whether a plan shall be carried out. */
interface Question {
  readonly action: Change | "erase";
  /** The text of the button. Default: the question. */
  readonly button?: string;
  /** The hidden fields of the form. */
  readonly fields: Iterable<readonly [name: string, value: string]>;
  /** The page to which "Cancel" leads. */
  readonly back: URLSearchParams;
  readonly before?: Html | undefined;
}

function questionView(
  { question, notes, total, early }: Description,
  { action, button = question, fields, back, before }: Question,
  { csrf }: Visit,
): View {
  const tone = action === "replay" ? "primary" : "danger";
  // A record to erase may have a snapshot alone.
  const canAct = total > 0 || action === "erase";
  const body = html`<h1>${question}?</h1>
<section class="card narrow">${before}<ul>${notes.map((note) => html`<li>${note}</li>`)}</ul>
<div class="actions">${
    canAct &&
    html`<form method="post" data-replace>${csrf}${hiddenFields([...fields])}<button class="${tone}" name="do" value="${action}">${button}</button></form>`
  }<a class="button" data-replace href="?${back}">Cancel</a></div></section>
${early.length > 0 && html`<div class="list">${rowsOf(early, { query: back })}</div>`}`;
  return { title: question, body, live: false };
}

/** Replays, discards or erases the events that a form names. */
export async function act(
  inbox: Inbox,
  form: URLSearchParams,
  visit: Visit,
  replays: Replays,
): Promise<View | GoTo> {
  const { store } = inbox;
  const tell = (operation: Operation) => inbox.operated({ kind: "operated", user: visit.user, ...operation });
  const asked = form.get("do");
  if (asked === "erase") return erase(store, form.get("record") ?? "", visit, tell);
  const change = changeOf(asked);
  if (!change) return failureView(400, "The form asks for an unknown action. Load the page again.");
  const planned = form.has("all")
    ? await allOf(store, change, form, visit)
    : await chosenOf(store, change, form, visit);
  if (!("plan" in planned)) return planned;
  const { plan, next: goTo } = planned;
  const run = change === "replay" ? await replays.of(store, plan.events()) : undefined;
  goTo.set(did[change], String(await plan.run(tell)));
  if (run !== undefined) goTo.set("run", run);
  return { goTo };
}

/** A plan that the user has confirmed, and the page that follows. */
interface Planned {
  readonly plan: Plan;
  readonly next: URLSearchParams;
}

/** The change of all events that match a selection. */
async function allOf(
  store: Store,
  change: Change,
  form: URLSearchParams,
  visit: Visit,
): Promise<View | GoTo | Planned> {
  const selection = selectionOf(form);
  if (isEmpty(selection)) return failureView(400, "Choose a filter first.");
  const before = form.get("discarded");
  const isReplay = change === "replay" && before !== null;
  if (isReplay && (await countDiscarded(store, selection.filter)) > Number(before))
    return {
      goTo: new URLSearchParams([
        ...queryOf(selection),
        ...ofVisit(visit.query),
        ["confirm", change],
        ["stale", before],
      ]),
    };
  // The events of a cause are parked no more, so the next page shows the other causes.
  const others = queryOf({ ...selection, cause: undefined });
  const next = new URLSearchParams([...others, ...ofVisit(visit.query)]);
  return { plan: planOfAll(store, change, selection), next };
}

/** The change of the events that a form names. Asks before some of them run early. */
async function chosenOf(
  store: Store,
  change: Change,
  form: URLSearchParams,
  visit: Visit,
): Promise<View | Planned> {
  const named = form.getAll("event");
  const chosen = [...new Set(named)].map((text): Chosen => {
    const state = eventStates.find((each) => text.startsWith(`${each} `));
    return { state, eventId: state ? text.slice(state.length + 1) : text };
  });
  if (chosen.length > MAX_SELECTION)
    return failureView(400, `You can select at most ${MAX_SELECTION} events.`);
  if (chosen.length === 0) return failureView(400, "Select events first.");
  const plan = await planOfChosen(store, change, chosen);
  const described = await plan.describe();
  const back = new URLSearchParams(form.get("back") ?? "");
  if (described.early.length > 0 && !form.has("confirmed")) {
    const fields = [
      ...named.map((value) => ["event", value] as const),
      ["back", String(back)] as const,
      ["confirmed", "1"] as const,
    ];
    return questionView(described, { action: change, fields, back }, visit);
  }
  const next = withoutFlash(back);
  next.set("of", String(chosen.length));
  return { plan, next };
}

async function erase(
  store: Store,
  ref: string,
  { query }: Visit,
  tell: (operation: Operation) => void,
): Promise<View | GoTo> {
  if (ref === "") return failureView(400, "Choose a record first.");
  const processing = await forEach(refsAbout(ref), (each) =>
    store.list({ ref: each, state: "processing", limit: 1 }),
  );
  if (processing.flat().length > 0)
    return failureView(
      409,
      `An event of ${ref} is being handled now. Nothing was erased. Try again in a minute.`,
    );
  const erased = await planOfErase(store, ref).run(tell);
  return { goTo: new URLSearchParams([["erased", String(erased)], ...listOf(query)]) };
}

function changeOf(asked: string | null): Change | undefined {
  return asked === "replay" || asked === "discard" ? asked : undefined;
}

/** Says that somebody has discarded events since the page was opened. */
function staleNote(query: URLSearchParams, discarded: number): Html | undefined {
  const before = query.get("stale");
  if (before === null || !(discarded > Number(before))) return undefined;
  return html`<p class="flash wait" role="alert">Nothing was replayed. Since you opened the page, somebody has discarded ${eventsOf(discarded - Number(before))} of this filter. To leave them out, choose a state.</p>`;
}
