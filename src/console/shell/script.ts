/** The favicon. */
export const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#3f51c7"/><path d="M4.5 8.2 7 10.7l4.7-5.2" fill="none" stroke="#fff" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round"/></svg>`;

/**
 * The script of all pages, which work without it. It gives elements behavior by their attributes:
 *
 * - `main[data-live]`: follows the page's stream while the window has the focus; `[data-live-state]` says so.
 * - `[data-plot]`: see `plot` in layout.ts. `time[data-ago]`: see `time`.
 * - `form[data-select]`: `[data-all]` checks every box, `[data-selected]` counts, `[data-needs-selection]` is
 *   disabled while there is no selection.
 * - `form[data-stay]`: sends the form, shows the answer in place, and shows its `[data-notice]`.
 * - `[data-js]` is shown where scripts run. `[data-keep]` is left alone when the page changes.
 */
export const script = `"use strict";
const main = document.querySelector("main");
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// Times
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

// Selections
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
  // The mean of ten seconds. Deleted events make a count fall, which is no rate.
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
  const shown = !last ? "…" : kind === "age" ? span(last.value) : kind === "rate"
    ? Number(last.value.toPrecision(2)) + "/s" : String(last.value);
  figure.querySelector("[data-value]").textContent = shown;
  const top = Math.max(kind === "rate" ? 0.5 : 1, ...values.map(({ value }) => value));
  const points = values.map(({ at, value }) =>
    (300 * (1 - (now - at) / width)).toFixed(1) + " " + (38 - 36 * value / top).toFixed(1));
  const line = points.length > 1 ? "M" + points.join("L") : "";
  figure.querySelector(".line").setAttribute("d", line);
  const [from, to] = [points[0], points.at(-1)].map((point) => point?.split(" ")[0]);
  figure.querySelector(".area").setAttribute("d", line && line + "L" + to + " 40L" + from + " 40Z");
}

// The page, as the server has it now: changes what differs, so that focus, selection and position stay.
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

// Forms that change the page in place, without a navigation that loses the position
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

// The stream
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
    // The server ends each stream after a while, and the browser opens the next one.
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
