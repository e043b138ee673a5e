/*
 * The script of all pages. The pages also work without the script. Attributes give elements behavior:
 *
 * - `main[data-live]`: while the page is visible, the script asks for its contents again after this many ms.
 *   `[data-live-state]` shows the state, such as Live.
 * - `[data-plot]`: the script draws a plot. `time[data-ago]`: the script shows how long ago the time was.
 * - `form[data-select]`: the form selects events. `[data-all]` checks every box, and `[data-selected]` shows the number
 *   of checked boxes. `[data-needs-selection]` is disabled if no box is checked.
 * - `a[data-replace]`, `form[data-replace]`: the next page takes the place of this page in the history, so that Back leads
 *   to the page before, and not to the same one again.
 * - `main[data-retry]`: the page says that the store does not answer. The script loads the page again when it does.
 * - `form[data-stay]`: the script sends the form without a navigation. `[data-notice]` shows the result.
 * - `[data-js]` is visible only if scripts run. `[data-keep]` stays unchanged when the page is updated.
 */

const main = document.querySelector("main");
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// Relative times
const units = [
  [60, 1, "s"],
  [3600, 60, "min"],
  [172800, 3600, "h"],
  [Infinity, 86400, "days"],
];
const span = (seconds) => {
  const [, size, unit] = units.find(([below]) => seconds < below);
  return `${Math.floor(seconds / size)} ${unit}`;
};
const clock = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  timeZoneName: "short",
});
// The text of a time, which is UTC, and the time in the zone of the browser.
function withLocal(text, iso) {
  const date = new Date(iso);
  if (date.getTimezoneOffset() === 0) return text;
  const day = [date.getFullYear(), date.getMonth() + 1, date.getDate()]
    .map((part) => String(part).padStart(2, "0"))
    .join("-");
  return `${text}, ${iso.startsWith(day) ? "" : `${day} `}${clock.format(date)}`;
}
function showTimes() {
  for (const time of all("time[data-ago]")) {
    const seconds = (Date.now() - Date.parse(time.dateTime)) / 1000;
    const said =
      Math.abs(seconds) < 1 ? "now" : seconds < 0 ? `in ${span(-seconds)}` : `${span(seconds)} ago`;
    time.dataset.full ??= withLocal(time.textContent, time.dateTime);
    const text = time.dataset.ago === "short" ? said : `${time.dataset.full} (${said})`;
    if (time.textContent !== text) time.textContent = text;
    if (time.dataset.ago === "short") time.title = time.dataset.full;
  }
}

// Checkboxes
function showSelections() {
  for (const form of all("form[data-select]")) {
    const boxes = all("input[type=checkbox]:not([data-all])", form);
    const checked = boxes.filter((box) => box.checked).length;
    for (const label of all("[data-selected]", form)) label.textContent = `${checked} selected`;
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
const kept = `stayhook:${location.pathname}`;
const longest = 300000;
let samples = [];
try {
  samples = JSON.parse(sessionStorage.getItem(kept)) ?? [];
} catch {}
function addSample(stats) {
  const now = Date.now();
  samples = [...samples, { at: now, stats }].filter(({ at }) => at > now - longest && at <= now).slice(-400);
  try {
    sessionStorage.setItem(kept, JSON.stringify(samples));
  } catch {}
  all("[data-plot]").forEach(draw);
}
function valuesOf(name, kind) {
  const known = samples
    .map(({ at, stats }) => ({ at, value: stats[name] ?? (kind === "age" ? 0 : undefined) }))
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
  const shown = !last ? "…" : kind === "age" ? span(last.value) : `${Number(last.value.toPrecision(2))}/s`;
  figure.querySelector("[data-value]").textContent = shown;
  const top = Math.max(kind === "rate" ? 0.5 : 1, ...values.map(({ value }) => value));
  const points = values.map(
    ({ at, value }) =>
      `${(300 * (1 - (now - at) / width)).toFixed(1)} ${(38 - (36 * value) / top).toFixed(1)}`,
  );
  const line = points.length > 1 ? `M${points.join("L")}` : "";
  figure.querySelector(".line").setAttribute("d", line);
  const [from, to] = [points[0], points.at(-1)].map((point) => point?.split(" ")[0]);
  figure.querySelector(".area").setAttribute("d", line && `${line}L${to} 40L${from} 40Z`);
}

// Changes only the nodes that differ, so that focus, selection and scroll position stay.
function morph(from, to) {
  if (from.nodeType !== 1) {
    if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
    return;
  }
  if (from.hasAttribute("data-keep")) return;
  for (const { name, value } of to.attributes)
    if (from.getAttribute(name) !== value) from.setAttribute(name, value);
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

// How often a form was sent. The answer to a request from before a form would show the page as it was before.
let formsSent = 0;

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
    formsSent++;
    if (answer.ok) form.reset();
    morphChildren(main, page);
    enhance();
    notice.replaceChildren(...news.childNodes);
  } catch {
    location.reload();
  }
});

// Forms and links whose next page takes the place of this one
let isSending = false;
let isQuestion = false;
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches("form[data-replace]")) return;
  event.preventDefault();
  if (isSending) return;
  isSending = true;
  const body = new URLSearchParams(new FormData(form, event.submitter));
  try {
    const answer = await fetch(location.href, { method: "POST", body });
    if (answer.redirected) location.replace(answer.url);
    else showAnswer(await answer.text());
  } catch {
    say("off", "Not sent: try again");
  }
  isSending = false;
});
// Shows the answer to a form that has led to no other page: a question, or why the form was refused.
function showAnswer(text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  isQuestion = true;
  history.pushState(null, "", location.href);
  document.title = page.title;
  morphChildren(main, page.querySelector("main"));
  enhance();
  say("paused", "Paused");
  main.focus();
  scrollTo(0, 0);
}
// A link to a part of the page, such as "Skip to the content", causes the event, too.
addEventListener("popstate", () => isQuestion && location.reload());
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-replace]");
  const isPlain = !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
  if (!link || !isPlain) return;
  event.preventDefault();
  location.replace(link.href);
});

// Live updates
const state = document.querySelector("[data-live-state]");
const every = Number(main.dataset.live);
let timer;
let isAsking = false;
let [took, tookBefore] = [0, 0];

function say(word, text) {
  state.hidden = false;
  state.dataset.state = word;
  state.textContent = text;
}

// Asks for the contents of the page, and asks again later. Stops while the page is hidden.
async function follow() {
  if (isAsking || isQuestion || !every) return;
  clearTimeout(timer);
  if (document.hidden) return say("paused", "Paused");
  isAsking = true;
  const began = performance.now();
  const isAllowed = await update().catch(() => isQuestion || (say("wait", "Reconnecting") ?? true));
  [tookBefore, took] = [took, performance.now() - began];
  isAsking = false;
  if (!isAllowed) return say("off", "Not live: load the page again");
  // Ask a slow store less often, but do not let a single slow answer delay the page.
  timer = setTimeout(follow, Math.max(every, 10 * Math.min(took, tookBefore)));
}

// Resolves to whether the user may still see the page.
async function update() {
  const query = new URLSearchParams(location.search);
  query.set("live", "1");
  const formsBefore = formsSent;
  const answer = await fetch(`?${query}`, { signal: AbortSignal.timeout(30000) });
  if (answer.status === 401 || answer.status === 403) return false;
  if (!answer.ok) {
    say("off", "The store does not answer");
    return true;
  }
  const { body, stats } = await answer.json();
  if (isQuestion) return true;
  if (body === null || main.hasAttribute("data-retry")) location.reload();
  say("on", "Live");
  if (body !== null && formsBefore === formsSent) {
    const page = new DOMParser().parseFromString(`<main>${body}</main>`, "text/html");
    morphChildren(main, page.querySelector("main"));
    enhance();
  }
  addSample(stats);
  return true;
}

document.addEventListener("visibilitychange", follow);
addEventListener("pageshow", follow);

enhance();
all("[data-plot]").forEach(draw);
setInterval(showTimes, 5000);
follow();
