// Pages of one model (#rollout/MODEL, #shapes/MODEL): the one that is looked at stands in the place of the board.
"use strict";

const PAGE_MS = 5000;
// By the word of the address: what shows the page over a snapshot, the paths it asks for as long as it is looked at, what takes their
// answers (null: refused), and what forgets those of another model.
const PAGES = {};

let opened = { kind: "", model: "" };
let asking = 0;
let shownLive = null;

const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const dayAndTime = (seconds) => {
  const date = new Date(seconds * 1000);
  return date.toDateString() === new Date().toDateString() ? clock.format(date) : `${day.format(date)} ${clock.format(date)}`;
};

const xOf = (span, at) => Math.min(100, Math.max(0, (100 * (at - span.from)) / (span.until - span.from))).toFixed(2);

// Steps of something under way, each with its label, state, and when it began.
const SIGNS = { done: "✓", now: "●", paused: "‖", bad: "✕", "": "" };
function makeStep() {
  const root = make("li");
  const part = { root, mark: make("span", "mark"), label: make("span", "label"), time: make("time") };
  part.mark.setAttribute("aria-hidden", "true");
  root.append(part.mark, part.label, part.time);
  return part;
}

function fillSteps(list, steps) {
  sync(list, steps, (step) => step.label, makeStep, (part, step) => {
    flag(part.root, "state", step.state);
    if (step.state === "now" || step.state === "paused" || step.state === "bad") part.root.setAttribute("aria-current", "step");
    else part.root.removeAttribute("aria-current");
    put(part.mark, SIGNS[step.state]);
    put(part.label, step.label);
    put(part.time, step.at === null ? "" : when(step.at));
  });
}

// What happened: a line with its time, a word or two beside it, and the reason.
function makeEvent() {
  const root = make("li");
  const top = make("div", "top");
  const part = { root, time: make("time"), phase: make("span", "name"), verdict: make("span", "tag"), right: make("span", "right"), reason: make("p", "detail") };
  top.append(part.time, part.phase, part.verdict, part.right);
  root.append(top, part.reason);
  return part;
}

function showPage() {
  if (opened.kind && shownLive) PAGES[opened.kind].show(shownLive, opened.model);
}

function showPages(live) {
  shownLive = live;
  showPage();
}

async function readPage() {
  clearTimeout(asking);
  if (!opened.kind || document.hidden) return;
  if (at("board").hidden) {
    asking = setTimeout(readPage, WAITS_MS[0]);
    return;
  }
  const wanted = opened;
  const page = PAGES[wanted.kind];
  const read = async (path) => {
    const response = await fetch(path, { headers: bearer(), cache: "no-store", signal: AbortSignal.timeout(10000) });
    return response.ok ? response.json() : null;
  };
  try {
    const answers = await Promise.all(page.paths(encodeURIComponent(wanted.model)).map(read));
    if (wanted === opened) {
      page.take(...answers);
      showPage();
    }
  } catch {
    // The bar says that the connection is lost; the page keeps what it has.
  }
  if (wanted === opened) asking = setTimeout(readPage, PAGE_MS);
}

function turnPage() {
  const found = /^#(\w+)\/(.+)$/.exec(location.hash);
  let wanted = { kind: "", model: "" };
  try {
    if (found && Object.hasOwn(PAGES, found[1])) wanted = { kind: found[1], model: decodeURIComponent(found[2]) };
  } catch {
    // No model has such a name.
  }
  if (wanted.kind !== opened.kind || wanted.model !== opened.model) {
    for (const page of Object.values(PAGES)) page.forget();
    scrollTo(0, 0);
  }
  opened = wanted;
  flag(document.body, "page", wanted.kind);
  showPage();
  if (wanted.kind) at("main").focus();
  readPage();
}

function beginPages() {
  window.addEventListener("hashchange", turnPage);
  document.addEventListener("visibilitychange", readPage);
  turnPage();
}
