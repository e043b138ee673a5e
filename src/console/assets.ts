/** The favicon. */
export const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#3f51c7"/><path d="M4.5 8.2 7 10.7l4.7-5.2" fill="none" stroke="#fff" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round"/></svg>`;

/**
 * The script of all pages. The pages also work without the script. Attributes give elements behavior:
 *
 * - `main[data-live=focused]`: the script updates the page while the window has the focus. With `unfocused`, the script
 *   also updates a visible page without the focus. `[data-live-state]` shows the state, such as Paused.
 * - `[data-plot]`: the script draws a plot. `time[data-ago]`: the script shows how long ago the time was.
 * - `form[data-select]`: the form selects events. `[data-all]` checks every box, and `[data-selected]` shows the number
 *   of checked boxes. `[data-needs-selection]` is disabled if no box is checked.
 * - `form[data-stay]`: the script sends the form without a navigation. `[data-notice]` shows the result.
 * - `[data-js]` is visible only if scripts run. `[data-keep]` stays unchanged when the page is updated.
 */
export const script = `"use strict";
const main = document.querySelector("main");
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// Relative times
const units = [[60, 1, "s"], [3600, 60, "min"], [172800, 3600, "h"], [Infinity, 86400, "days"]];
const span = (seconds) => {
  const [, size, unit] = units.find(([below]) => seconds < below);
  return Math.floor(seconds / size) + " " + unit;
};
function showTimes() {
  for (const time of all("time[data-ago]")) {
    const seconds = (Date.now() - Date.parse(time.dateTime)) / 1000;
    const said = Math.abs(seconds) < 1 ? "now" : seconds < 0 ? "in " + span(-seconds) : span(seconds) + " ago";
    time.dataset.full ??= time.textContent;
    const text = time.dataset.ago === "short" ? said : time.dataset.full + " (" + said + ")";
    if (time.textContent !== text) time.textContent = text;
    if (time.dataset.ago === "short") time.title = time.dataset.full;
  }
}

// Checkboxes
function showSelections() {
  for (const form of all("form[data-select]")) {
    const boxes = all("input[type=checkbox]:not([data-all])", form);
    const checked = boxes.filter((box) => box.checked).length;
    for (const label of all("[data-selected]", form)) label.textContent = checked + " selected";
    for (const button of all("[data-needs-selection]", form)) button.disabled = checked === 0;
    for (const box of all("[data-all]", form)) {
      box.checked = checked > 0 && checked === boxes.length;
      box.indeterminate = checked > 0 && checked < boxes.length;
    }
  }
}
document.addEventListener("change", ({ target }) => {
  if (target.matches?.("[data-all]"))
    for (const box of all("input[type=checkbox]:not([data-all])", target.form)) box.checked = target.checked;
  showSelections();
});

// Plots
const kept = "stayhook:" + location.pathname;
const longest = 300000;
let samples = [];
try { samples = JSON.parse(sessionStorage.getItem(kept)) ?? []; } catch {}
function addSample(stats) {
  const now = Date.now();
  samples = [...samples, { at: now, stats }].filter(({ at }) => at > now - longest && at <= now).slice(-400);
  try { sessionStorage.setItem(kept, JSON.stringify(samples)); } catch {}
  all("[data-plot]").forEach(draw);
}
function valuesOf(name, kind) {
  const known = samples.map(({ at, stats }) => ({ at, value: stats[name] ?? (kind === "age" ? 0 : undefined) }))
    .filter(({ value }) => value !== undefined);
  if (kind !== "rate") return known;
  // The mean rate over 10 s. If deleted events lower a count, the rate is 0.
  return known.slice(1).map(({ at, value }, index) => {
    const before = known[Math.max(0, index - 4)];
    return { at, value: Math.max(0, value - before.value) / Math.max(1, (at - before.at) / 1000) };
  });
}
function draw(figure) {
  const { plot, kind } = figure.dataset;
  const values = valuesOf(plot, kind);
  const last = values.at(-1);
  const now = Date.now();
  const width = Math.max(60000, now - (values[0]?.at ?? now));
  const shown = !last ? "…" : kind === "age" ? span(last.value) : Number(last.value.toPrecision(2)) + "/s";
  figure.querySelector("[data-value]").textContent = shown;
  const top = Math.max(kind === "rate" ? 0.5 : 1, ...values.map(({ value }) => value));
  const points = values.map(({ at, value }) =>
    (300 * (1 - (now - at) / width)).toFixed(1) + " " + (38 - 36 * value / top).toFixed(1));
  const line = points.length > 1 ? "M" + points.join("L") : "";
  figure.querySelector(".line").setAttribute("d", line);
  const [from, to] = [points[0], points.at(-1)].map((point) => point?.split(" ")[0]);
  figure.querySelector(".area").setAttribute("d", line && line + "L" + to + " 40L" + from + " 40Z");
}

// Changes only the nodes that differ, so that focus, selection and scroll position stay.
function morph(from, to) {
  if (from.nodeType !== 1) {
    if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
    return;
  }
  if (from.hasAttribute("data-keep")) return;
  for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  for (const { name } of [...from.attributes])
    if (!to.hasAttribute(name) && !(name === "open" && from.matches("details"))) from.removeAttribute(name);
  morphChildren(from, to);
}
function morphChildren(from, to) {
  let at = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    const known = wanted.id ? [...from.children].find(({ id }) => id === wanted.id) : undefined;
    if (known) {
      if (known === at) at = at.nextSibling;
      else from.insertBefore(known, at);
      morph(known, wanted);
    } else if (at && at.nodeName === wanted.nodeName && !at.id && !wanted.id) {
      const next = at.nextSibling;
      morph(at, wanted);
      at = next;
    } else from.insertBefore(document.importNode(wanted, true), at);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}
function enhance() {
  for (const element of all("[data-js]")) element.hidden = false;
  showTimes();
  showSelections();
}

// Sends a form without a navigation, which would lose the scroll position.
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches("form[data-stay]")) return;
  event.preventDefault();
  const body = new URLSearchParams(new FormData(form, event.submitter));
  try {
    const answer = await fetch(location.href, { method: "POST", body });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
    const [notice, news] = [main, page].map((within) => within.querySelector("[data-notice]"));
    if (answer.ok) form.reset();
    morphChildren(main, page);
    enhance();
    notice.replaceChildren(...news.childNodes);
  } catch {
    location.reload();
  }
});

// The event stream
const state = document.querySelector("[data-live-state]");
let source;
function say(word, text) {
  state.hidden = false;
  state.dataset.state = word;
  state.textContent = text;
}
function follow() {
  if (source || document.hidden || !main.hasAttribute("data-live")) return;
  const query = new URLSearchParams(location.search);
  query.set("live", "1");
  const opened = new EventSource("?" + query);
  source = opened;
  say("wait", "Connecting");
  opened.onopen = () => say("on", "Live");
  opened.addEventListener("stats", ({ data }) => {
    say("on", "Live");
    addSample(JSON.parse(data));
  });
  opened.addEventListener("page", ({ data }) => {
    const page = new DOMParser().parseFromString("<main>" + JSON.parse(data) + "</main>", "text/html");
    morphChildren(main, page.querySelector("main"));
    enhance();
    all("[data-plot]").forEach(draw);
  });
  opened.addEventListener("trouble", () => say("off", "The store does not answer"));
  opened.onerror = () => {
    if (opened.readyState === 2) say("off", "Not live: load the page again");
    // The server ends each stream after 2 min. Do not show a short reconnect.
    else setTimeout(() => opened === source && opened.readyState !== 1 && say("wait", "Reconnecting"), 4000);
  };
}
function rest() {
  if (!source) return;
  source.close();
  source = undefined;
  say("paused", "Paused");
}
addEventListener("blur", () => main.dataset.live !== "unfocused" && rest());
addEventListener("focus", follow);
addEventListener("pagehide", rest);
addEventListener("pageshow", follow);
document.addEventListener("visibilitychange", () => (document.hidden ? rest() : follow()));

enhance();
all("[data-plot]").forEach(draw);
setInterval(showTimes, 5000);
follow();
`;

/** The stylesheet of all pages. */
export const style = `
:root {
  color-scheme: light dark;
  --page: #f7f8fa; --card: #fff; --line: #e3e6ec; --text: #1a1e27; --soft: #596173; --hover: #f1f3f8;
  --accent: #3f51c7; --on-accent: #fff;
  --good: #146638; --good-back: #e2f4e9; --bad: #b0241b; --bad-back: #fde9e7;
  --wait: #7a4f00; --wait-back: #fcf1d8; --busy: #2a45b5; --busy-back: #e6ebfd; --plain-back: #eceff4;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0f1115; --card: #16191f; --line: #272c36; --text: #e4e7ee; --soft: #9ba4b5; --hover: #1c2028;
    --accent: #8c9bff; --on-accent: #0f1115;
    --good: #6fd49a; --good-back: #13301f; --bad: #ff9389; --bad-back: #3b1917;
    --wait: #f0c063; --wait-back: #33270d; --busy: #a3b4ff; --busy-back: #1b2450; --plain-back: #232833;
  }
}
* { box-sizing: border-box; }
[hidden] { display: none !important; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--text); font: 14px/1.5 ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
a { color: inherit; text-decoration-color: var(--line); text-underline-offset: 3px; }
a:hover { text-decoration-color: currentColor; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 4px; }
main:focus { outline: none; }
code, pre, .mono { font-family: ui-monospace, "SF Mono", "Cascadia Code", Menlo, Consolas, monospace; font-size: .92em; }
h1 { font-size: 20px; line-height: 1.3; margin: 0; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { font-size: 13px; margin: 0 0 10px; font-weight: 600; }
.sr { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.skip { position: absolute; left: 12px; top: -60px; background: var(--card); padding: 8px 14px; border-radius: 6px; z-index: 9; }
.skip:focus { top: 8px; }
.soft { color: var(--soft); }

.bar { display: flex; flex-wrap: wrap; align-items: center; gap: 8px 18px; padding: 10px max(20px, calc((100vw - 1160px) / 2)); background: var(--card); border-bottom: 1px solid var(--line); }
.brand { font-weight: 650; text-decoration: none; letter-spacing: -.01em; }
.brand::before { content: ""; display: inline-block; width: 10px; height: 10px; border-radius: 3px; background: var(--accent); margin-right: 8px; }
.bar nav { display: flex; gap: 14px; margin-right: auto; }
.bar nav a { color: var(--soft); text-decoration: none; }
.bar nav a:hover { color: var(--text); }
.note { color: var(--soft); border: 1px solid var(--line); border-radius: 99px; padding: 0 9px; font-size: 12px; }
.live { color: var(--soft); font-size: 12px; display: inline-flex; align-items: center; gap: 6px; }
.live::before { content: ""; width: 7px; height: 7px; border-radius: 50%; background: var(--soft); }
.live[data-state=on]::before { background: #2faa64; }
.live[data-state=off]::before { background: #d9483b; }
.find { display: flex; gap: 6px; flex: 0 1 340px; min-width: 0; }
.find input { flex: 1; min-width: 0; }

main { max-width: 1200px; margin: 0 auto; padding: 22px 20px 60px; }
.head { display: flex; flex-wrap: wrap; align-items: center; gap: 10px 14px; margin-bottom: 18px; }
.head .actions { margin-left: auto; }
.crumb { margin: 0 0 6px; font-size: 13px; color: var(--soft); }
.actions { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; }
.actions form { display: contents; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 16px 18px; margin-bottom: 16px; }
.card > :first-child { margin-top: 0; }
.card > :last-child { margin-bottom: 0; }
.card.narrow { max-width: 640px; }
h1 + .card, h1 + p { margin-top: 14px; }
h2:not(.card > *) { margin-top: 22px; }
.columns { display: grid; grid-template-columns: minmax(0, 1.7fr) minmax(0, 1fr); gap: 16px; align-items: start; }
.flash { background: var(--good-back); color: var(--good); border-radius: 8px; padding: 9px 14px; margin: 0 0 16px; }
.flash.bad { background: var(--bad-back); color: var(--bad); }
.flash.wait { background: var(--wait-back); color: var(--wait); }
.empty { color: var(--soft); text-align: center; padding: 40px 16px; margin: 0; }

button, .button, input, select { font: inherit; color: inherit; background: var(--card); border: 1px solid var(--line); border-radius: 7px; padding: 5px 10px; min-height: 32px; }
input, select { border-color: color-mix(in srgb, var(--soft) 55%, var(--line)); }
input[type=checkbox] { min-height: 0; width: 16px; height: 16px; margin: 0; accent-color: var(--accent); }
button, .button { cursor: pointer; font-weight: 500; text-decoration: none; white-space: nowrap; display: inline-block; }
button:hover, .button:hover { background: var(--hover); }
button:disabled { color: var(--soft); cursor: default; opacity: .75; }
.primary { background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
.primary:hover { background: color-mix(in srgb, var(--accent) 88%, var(--text)); }
.danger { color: var(--bad); }
::placeholder { color: var(--soft); opacity: 1; }

.badge { display: inline-block; border-radius: 99px; padding: 1px 9px; font-size: 12px; font-weight: 500; white-space: nowrap; background: var(--plain-back); color: var(--text); }
.badge.good { color: var(--good); background: var(--good-back); }
.badge.bad { color: var(--bad); background: var(--bad-back); }
.badge.wait { color: var(--wait); background: var(--wait-back); }
.badge.busy { color: var(--busy); background: var(--busy-back); }

.tabs { display: flex; flex-wrap: wrap; gap: 4px; margin: 0 0 14px; padding: 0; list-style: none; }
.tabs a { display: block; padding: 5px 11px; border-radius: 7px; text-decoration: none; color: var(--soft); border: 1px solid transparent; }
.tabs a:hover { background: var(--hover); color: var(--text); }
.tabs a[aria-current] { background: var(--card); border-color: var(--line); color: var(--text); font-weight: 500; }
.tabs b { font-weight: 600; color: var(--text); font-variant-numeric: tabular-nums; margin-left: 5px; }
.tabs .bad b { color: var(--bad); }

.plots { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 12px; margin-bottom: 18px; }
.plots:not(:has(.plot:not([hidden]))) { display: none; }
.plot { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 10px 14px 0; display: grid; grid-template-columns: 1fr auto; overflow: hidden; }
.plot figcaption { color: var(--soft); font-size: 13px; }
.plot .value { font-weight: 600; font-variant-numeric: tabular-nums; }
.plot svg { grid-column: 1 / -1; width: calc(100% + 28px); height: 40px; margin: 4px -14px 0; display: block; }
.plot .line { fill: none; stroke: var(--accent); stroke-width: 1.5; vector-effect: non-scaling-stroke; }
.plot .area { fill: var(--accent); opacity: .1; }

.filter { display: grid; grid-template-columns: repeat(auto-fill, minmax(180px, 1fr)); gap: 10px; align-items: end; }
.filter label, .field { display: grid; gap: 3px; font-size: 12px; color: var(--soft); min-width: 0; }
.filter :is(input, select) { width: 100%; min-width: 0; font-size: 13px; color: var(--text); }
details.card { padding: 0; }
details.card > summary { padding: 9px 16px; cursor: pointer; color: var(--soft); font-size: 13px; border-radius: 10px; }
details.card > :not(summary) { padding: 4px 16px 16px; }

.list { background: var(--card); border: 1px solid var(--line); border-radius: 10px; overflow: hidden; }
.list > .tools { display: flex; flex-wrap: wrap; align-items: center; gap: 8px; padding: 9px 14px; border-bottom: 1px solid var(--line); }
.tools .end { margin-left: auto; display: flex; flex-wrap: wrap; gap: 8px; }
.tools label { display: inline-flex; gap: 10px; align-items: center; color: var(--soft); min-width: 110px; }
.rows { list-style: none; margin: 0; padding: 0; }
.rows > li { position: relative; display: grid; grid-template-columns: 16px 96px minmax(0, 1.3fr) minmax(0, 1fr) minmax(0, 1fr) 92px; gap: 14px; align-items: center; padding: 9px 14px; border-bottom: 1px solid var(--line); }
.rows.plain > li { grid-template-columns: 96px minmax(0, 1.3fr) minmax(0, 1fr) minmax(0, 1fr) 92px; }
.rows > li:last-child { border-bottom: 0; }
.rows > li:hover { background: var(--hover); }
.rows .main { font-weight: 500; text-decoration: none; overflow-wrap: anywhere; }
.rows .main::after { content: ""; position: absolute; inset: 0; }
.rows :is(input, .over) { position: relative; z-index: 1; }
.rows .over { overflow-wrap: anywhere; }
.rows .when { text-align: right; color: var(--soft); font-variant-numeric: tabular-nums; }
.rows .why { color: var(--soft); overflow-wrap: anywhere; }
.rows .why:empty { visibility: hidden; }
.rows .error { grid-column: 3 / -1; color: var(--soft); font-size: 13px; overflow-wrap: anywhere; margin-top: -8px; }
.pages { display: flex; gap: 8px; justify-content: space-between; padding: 12px 0; }

.facts { margin: 0 0 12px; display: grid; gap: 7px; }
.facts > div { display: grid; grid-template-columns: 110px minmax(0, 1fr); gap: 12px; }
.facts dt { color: var(--soft); }
.facts dd { margin: 0; overflow-wrap: anywhere; }
pre { margin: 0; padding: 12px 14px; background: var(--page); border-radius: 8px; white-space: pre-wrap; overflow-wrap: anywhere; }

.timeline { list-style: none; margin: 0; padding: 0; }
.timeline > li { position: relative; padding: 0 0 18px 24px; overflow-wrap: anywhere; }
.timeline > li::before { content: ""; position: absolute; left: 3px; top: 6px; width: 9px; height: 9px; border-radius: 50%; background: var(--soft); }
.timeline > li::after { content: ""; position: absolute; left: 7px; top: 18px; bottom: -4px; width: 1px; background: var(--line); }
.timeline > li:last-child { padding-bottom: 0; }
.timeline > li:last-child::after { display: none; }
.timeline > .good::before { background: var(--good); }
.timeline > .bad::before { background: var(--bad); }
.timeline > .wait::before { background: none; border: 2px solid var(--wait); }
.timeline > .busy::before { background: var(--busy); }
.timeline p { margin: 2px 0 0; color: var(--soft); font-size: 13px; }
.timeline pre { margin-top: 8px; }
.timeline time { color: var(--soft); font-size: 13px; }

.halves { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 0 16px; align-items: start; }
.list:has(> .items) { margin-bottom: 16px; }
.tools h2 { margin: 0 auto 0 0; }
.items { list-style: none; margin: 0; padding: 0; }
.items > li, .item { display: flex; flex-wrap: wrap; align-items: center; gap: 5px 10px; padding: 8px 14px; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
.items > :last-child { border-bottom: 0; }
.items .end { margin-left: auto; display: flex; flex-wrap: wrap; align-items: center; gap: 5px 10px; }
.items .info { flex-basis: 100%; display: flex; flex-wrap: wrap; align-items: center; gap: 5px 10px; }
.items .info ~ .end { margin-left: 0; }
.items details[open] { flex-basis: 100%; }
.items summary { list-style: none; width: fit-content; }
.items summary::-webkit-details-marker { display: none; }
.items span:empty { display: none; }
.tools summary { cursor: pointer; font-size: 13px; }
.items code { min-width: 0; }
.in-place { display: grid; gap: 10px; margin: 0; min-width: 0; }
.in-place .filter { margin-top: 8px; grid-template-columns: repeat(auto-fit, minmax(120px, 1fr)); }
.filter .check input { width: 16px; }
.tools .filter label { display: grid; gap: 3px; }
.tools:has(details[open]) .in-place { flex-basis: 100%; }
.card > .in-place + .in-place, .card > .buttons + .in-place { margin-top: 6px; }
.buttons { display: flex; flex-wrap: wrap; gap: 6px; }
.small { min-height: 28px; padding: 2px 10px; font-size: 13px; }
.small[aria-pressed=true] { background: var(--wait-back); color: var(--wait); border-color: currentColor; }
.filter .check { display: flex; color: var(--text); gap: 7px; align-items: center; font-size: 13px; min-height: 32px; }
.latency { font-variant-numeric: tabular-nums; color: var(--text); }
.list > .empty { padding: 18px 14px; }

@media (max-width: 760px) {
  .columns, .halves { grid-template-columns: minmax(0, 1fr); }
  main { padding: 16px 12px 48px; }
  .bar { padding: 10px 12px; }
  .find { flex-basis: 100%; }
  .head .actions { margin-left: 0; }
  .tools .end { margin-left: 0; }
  .rows > li, .rows.plain > li { grid-template-columns: 16px minmax(0, 1fr) auto; gap: 3px 12px; }
  .rows.plain > li { grid-template-columns: minmax(0, 1fr) auto; }
  .rows > li > * { grid-column: 2; }
  .rows.plain > li > * { grid-column: 1; }
  .rows > li > input { grid-column: 1; grid-row: 1; }
  .rows > li > .main { grid-row: 1; }
  .rows > li > :is(.state, .when) { grid-column: -2; text-align: right; }
  .rows > li > .state { grid-row: 1; }
  .rows > li > .when { grid-row: 2; }
  .rows .why:empty { display: none; }
  .plots { gap: 8px; }
  .plot { padding: 8px 10px 0; grid-template-columns: 1fr; }
  .plot svg { width: calc(100% + 20px); margin: 4px -10px 0; height: 28px; }
  .tools label { flex-basis: 100%; }
  .rows > li > .error { margin: 0; grid-column: 2 / -1; }
  .timeline time { display: block; }
  .facts > div { grid-template-columns: 92px minmax(0, 1fr); }
}
`;
