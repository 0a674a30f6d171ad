// The console: reads /admin/live with the admin key and shows it. All text goes in as text, never as HTML.
"use strict";

const KEY = "penstock-admin-key";
const PAST = "penstock-console-past";
const PAST_SECONDS = 300;
const STALE_MS = 4000;
const HIDDEN_MS = 60000;
const WAITS_MS = [500, 1000, 2000, 4000, 8000, 15000];
const MILD = new Set(["limited", "invalid", "denied", "filtered", "cut", "client_gone", "deferred"]);
const STATES = {
  ready: ["●", "good"], returning: ["◐", "good"], parked: ["▪", "good"], draining: ["▽", "warn"], drained: ["○", "warn"], probing: ["◌", "warn"],
  connecting: ["…", "bad"], refused: ["⊘", "bad"], wedged: ["■", "bad"], ejected: ["✕", "bad"], unknown: ["?", "warn"],
};

const at = (id) => document.getElementById(id);

// --- Elements -------------------------------------------------------------------------------------------------------

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function drawn(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

// Only what differs is written: less work, and a screen reader is not told the same twice.
function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function flag(element, name, on) {
  if (on) element.dataset[name] = on === true ? "" : on;
  else delete element.dataset[name];
}

// Makes the children of `parent` those of `items`, in their order; an item's element stays the same as long as its key.
const parts = new WeakMap();
function sync(parent, items, keyOf, create, fill) {
  const old = parts.get(parent) || new Map();
  const now = new Map();
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    if (now.has(key)) continue;
    const part = old.get(key) || create(item);
    old.delete(key);
    now.set(key, part);
    if (part.root === place) place = place.nextElementSibling;
    else parent.insertBefore(part.root, place);
    fill(part, item);
  }
  for (const part of old.values()) part.root.remove();
  parts.set(parent, now);
}

// --- Numbers --------------------------------------------------------------------------------------------------------

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

function number(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  if (value < 10) return value.toFixed(value < 1 ? 2 : 1);
  return whole.format(value);
}

function count(value) {
  if (value === null || value === undefined) return "–";
  if (value < 100000) return whole.format(value);
  return value < 9995000 ? `${number(value / 1000)} k` : `${number(value / 1000000)} M`;
}

// A number and its unit.
function duration(seconds) {
  if (seconds === null || seconds === undefined) return ["–", ""];
  if (seconds < 0.00995) return [(seconds * 1000).toFixed(1), "ms"];
  if (seconds < 0.9995) return [(seconds * 1000).toFixed(0), "ms"];
  if (seconds < 99.5) return [seconds.toFixed(seconds < 9.995 ? 2 : 1), "s"];
  return [whole.format(seconds), "s"];
}

// A number stays on the line of its unit.
const took = (seconds) => duration(seconds).join("\u00a0").trim();
const when = (seconds) => clock.format(new Date(seconds * 1000));
const usd = (value) => `$${value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 2 : 0 })}`;
const rate = (value) => (value === null || value === undefined ? "–" : `${number(value)}/s`);
// A line breaks between the two, not within one.
const tails = (times) => (times ? `p95 ${took(times.p95)}~· p99 ${took(times.p99)}`.replaceAll(" ", "\u00a0").replace("~", " ") : "");
const shapeOf = (shape) =>
  ["tp", "ep", "pp"].filter((name) => name === "tp" || shape[name] > 1).map((name) => `${name}${shape[name]}`).join(" ");

// --- Headline figures -----------------------------------------------------------------------------------------------

let past = [];

const half = (name) => (live) => [live.headline[name] ? live.headline[name].p50 : null];
const middle = (name) => (live) => duration(live.headline[name] && live.headline[name].p50);
const spread = (name) => (live) => tails(live.headline[name]);
const peak = (name) => () => {
  const known = past.map((point) => point[name][0]).filter((value) => value !== null);
  return known.length > 1 ? `at most ${whole.format(Math.max(...known))} in 5 min` : "";
};
const each = (name, unit) => (live) => [number(live.headline[name]), live.headline[name] === null ? "" : unit];

const FIGURES = [
  { name: "requests", label: "Requests", value: each("requests_per_second", "/s"), now: (live) => [live.headline.requests_per_second],
    more: (live) => (live.seconds ? `${count(Math.round(live.headline.requests_per_second * live.seconds))} in ${live.seconds.toFixed(0)} s` : "") },
  { name: "ttft", label: "First token, p50", value: middle("ttft"), more: spread("ttft"), now: half("ttft") },
  { name: "itl", label: "Between tokens, p50", value: middle("itl"), more: spread("itl"), now: half("itl") },
  { name: "errors", label: "Errors", value: each("errors_per_second", "/s"), now: (live) => [live.headline.errors_per_second],
    more: () => "failed by the service", alarm: (live) => live.headline.errors_per_second > 0 },
  { name: "tokens", label: "Answers’ tokens", value: each("tokens_per_second", "/s"), now: (live) => [live.headline.tokens_per_second],
    more: (live) => (live.seconds ? `prompts ${rate(live.headline.prompt_tokens_per_second)}` : "") },
  { name: "flight", label: "In flight", value: (live) => [count(live.headline.in_flight), ""], now: (live) => [live.headline.in_flight], more: peak("flight") },
  { name: "queued", label: "Queued", value: (live) => [count(live.headline.queued), ""], now: (live) => [live.headline.queued], more: peak("queued") },
  { name: "request", label: "Whole request, p50", value: middle("request"), more: spread("request"), now: half("request") },
];

function makeFigure(figure) {
  const root = make("div", "figure");
  const dd = make("dd", "value");
  const value = make("span");
  const unit = make("span", "unit");
  dd.append(value, unit);
  const more = make("dd", "more");
  const svg = drawn("svg", { viewBox: "0 0 100 30", preserveAspectRatio: "none", "aria-hidden": "true" });
  const area = drawn("path", { class: "spark-area" });
  const line = drawn("path", { class: "spark" });
  svg.append(area, line);
  const last = make("dd");
  last.append(svg);
  root.append(make("dt", "", figure.label), dd, more, last);
  return { root, value, unit, more, area, line };
}

function remember(live) {
  const point = { t: live.time };
  for (const figure of FIGURES) point[figure.name] = figure.now(live).map((value) => (value === undefined ? null : value));
  point.scaling = sizesNow(live);
  past = past.filter((old) => old.t > live.time - PAST_SECONDS && old.t < live.time);
  past.push(point);
}

// A line through the last minutes, and the area below it; pauses and what is not known are gaps.
function spark(name, now) {
  const values = past.map((point) => point[name][0]);
  const most = Math.max(...values.filter((value) => value !== null), 1e-9);
  const x = (index) => (100 * (1 - (now - past[index].t) / PAST_SECONDS)).toFixed(2);
  const y = (value) => (29 - (27 * value) / most).toFixed(2);
  let line = "", area = "", start = null, before = null;
  const close = (index) => { if (start !== null) area += `L${x(index)} 30L${start} 30Z`; start = null; };
  values.forEach((value, index) => {
    const broken = before === null || past[index].t - past[before].t > 5;
    if (value === null || broken) { if (before !== null) close(before); before = null; }
    if (value === null) return;
    const step = `${start === null ? "M" : "L"}${x(index)} ${y(value)}`;
    if (start === null) start = x(index);
    line += step;
    area += step;
    before = index;
  });
  if (before !== null) close(before);
  return { line, area };
}

function showFigures(live) {
  sync(at("figures"), FIGURES, (figure) => figure.name, makeFigure, (part, figure) => {
    const [value, unit] = figure.value(live);
    put(part.value, value);
    put(part.unit, unit);
    put(part.more, figure.more(live) || " ");
    flag(part.root, "alarm", Boolean(figure.alarm && figure.alarm(live)));
    const { line, area } = spark(figure.name, live.time);
    part.line.setAttribute("d", line);
    part.area.setAttribute("d", area);
  });
  const ended = Object.entries(live.headline.outcomes || {}).sort((a, b) => b[1] - a[1]);
  const said = ended.map(([name, value]) => `${name.replaceAll("_", " ")} ${rate(value)}`).join(" · ");
  put(at("outcomes"), live.seconds ? (said ? `Not answered in full: ${said}` : live.headline.requests_per_second ? "Every request was answered in full." : "No request has ended.") : " ");
  const waiting = live.headline.in_flight === null ? "" : "gathering";
  put(at("window"), live.seconds ? `over the last ${live.seconds.toFixed(0)} s` : waiting);
}

// --- Fleet ----------------------------------------------------------------------------------------------------------

function makeMeter(label) {
  const root = make("div", "meter");
  const name = make("span", "label", label);
  const track = make("span", "track");
  const fill = make("span", "fill");
  const amount = make("span", "amount");
  track.append(fill);
  root.append(name, track, amount);
  track.setAttribute("aria-hidden", "true");
  return { root, name, fill, amount };
}

function fillMeter(meter, share, text, known = true) {
  meter.fill.style.width = `${known ? Math.min(100, Math.max(0, share * 100)).toFixed(1) : 0}%`;
  put(meter.amount, text);
  flag(meter.root, "full", known && share >= 1);
  flag(meter.root, "near", known && share >= 0.9 && share < 1);
}

function makeTile() {
  const root = make("li", "tile");
  const top = make("div", "top");
  const name = make("span", "name");
  const state = make("span", "state");
  top.append(name, state);
  const kv = makeMeter("KV");
  const load = make("p", "load");
  const loads = ["running", "waiting", "in flight"].map((label) => {
    const item = make("span", "", label);
    const value = make("b");
    item.append(value);
    load.append(item);
    return value;
  });
  const place = make("p", "place");
  const why = make("p", "why");
  const foot = make("div", "foot");
  const version = make("span", "version");
  const button = make("button");
  button.type = "button";
  foot.append(version, button);
  root.append(top, kv.root, load, place, why, foot);
  return { root, name, state, kv, loads, place, why, version, button };
}

// Where a replica stands that shares GPUs with others: its shape is its own, and not its pool's.
function placeOf({ group, shape, state }) {
  if (!group) return "";
  const gpus = group.first === group.last ? `GPU ${group.first}` : `GPUs ${group.first}–${group.last}`;
  const held = state === "parked" ? "parked on" : `${shapeOf(shape)} on`;
  const now = ["prepared", "changing"].includes(group.state) ? `, ${group.state}` : "";
  return `${held} ${gpus} of ${group.name}${now}`;
}

function whyOf(row) {
  const said = [];
  if (row.reason) said.push(row.reason);
  if (row.group && row.group.failure) said.push(`change ${row.group.change} of its shape failed: ${row.group.failure}`);
  if (row.drain) said.push(`by ${row.drain.actor}, ${when(row.drain.since)}, grace ${row.drain.grace_seconds} s`);
  if (row.share < 1 && row.share > 0) said.push(`may get ${Math.round(row.share * 100)} % of requests`);
  if (row.breaker_seconds) said.push(`looked at again in ${Math.ceil(row.breaker_seconds)} s`);
  return said.join("; ");
}

function fillTile(tile, row) {
  const [sign, health] = STATES[row.state] || ["?", "warn"];
  const heard = !["unknown", "connecting", "refused"].includes(row.state);
  flag(tile.root, "health", health);
  put(tile.name, row.id);
  tile.name.title = row.address;
  put(tile.state, `${sign} ${row.state}`);
  const share = row.kv_blocks_total ? row.kv_blocks_used / row.kv_blocks_total : 0;
  fillMeter(tile.kv, share, heard && row.kv_blocks_total ? `${Math.round(share * 100)} %` : "–", heard);
  const loads = [heard ? count(row.running) : "–", heard ? count(row.waiting) : "–", count(row.in_flight)];
  tile.loads.forEach((value, index) => put(value, loads[index]));
  put(tile.place, placeOf(row));
  tile.place.hidden = !row.group;
  put(tile.why, whyOf(row));
  tile.why.title = tile.why.textContent;
  put(tile.version, row.version ? `version ${row.version}` : "");
  tile.version.title = row.version;
  const own = row.drain && row.drain.target === row.id;
  const verb = row.drain ? "resume" : "drain";
  tile.button.hidden = Boolean(row.drain && !own);
  put(tile.button, verb === "drain" ? "Drain" : "Resume");
  tile.button.setAttribute("aria-label", `${tile.button.textContent} ${row.id} of ${row.model}`);
  tile.button.onclick = () => askDrain(verb, row.model, row.id);
}

function makePool() {
  const root = make("div", "pool");
  const header = make("header");
  const title = make("h4");
  const shape = make("span", "tag");
  const role = make("span", "tag");
  const facts = make("p", "facts");
  const buttons = make("div", "buttons");
  const button = make("button");
  button.type = "button";
  buttons.append(button);
  header.append(title, shape, role, facts, buttons);
  const tiles = make("ul", "tiles");
  root.append(header, tiles);
  return { root, title, shape, role, facts, button, tiles };
}

function fillPool(part, model, pool) {
  put(part.title, pool.name);
  put(part.shape, shapeOf(pool.shape));
  put(part.role, pool.role);
  const serving = pool.replicas.filter((row) => row.share > 0).length;
  const { requests_per_second: each, ttft } = pool.figures;
  put(part.facts, [`${serving} of ${pool.replicas.length} take requests`, each === null ? "" : `${number(each)} requests/s`,
    ttft ? `TTFT ${took(ttft.p50)}, p99 ${took(ttft.p99)}` : ""].filter(Boolean).join(" · "));
  const drained = pool.replicas.some((row) => row.drain && row.drain.target === pool.name);
  put(part.button, drained ? "Resume pool" : "Drain pool");
  part.button.setAttribute("aria-label", `${part.button.textContent} ${pool.name} of ${model.name}`);
  part.button.onclick = () => askDrain(drained ? "resume" : "drain", model.name, pool.name);
  part.tiles.setAttribute("aria-label", `Replicas of ${pool.name}`);
  flag(part.root, "few", pool.replicas.length <= 2);
  sync(part.tiles, pool.replicas, (row) => row.id, makeTile, fillTile);
}

function makeModel() {
  const root = make("div", "model");
  const header = make("header");
  const title = make("h3");
  const facts = make("p", "facts");
  const pools = make("div", "pools");
  header.append(title, facts);
  root.append(header, pools);
  return { root, title, facts, pools };
}

function showFleet(live) {
  const rows = live.models.flatMap((model) => model.pools.flatMap((pool) => pool.replicas));
  const serving = rows.filter((row) => row.share > 0).length;
  put(at("fleet-count"), `${serving} of ${rows.length} replicas take requests`);
  sync(at("fleet"), live.models, (model) => model.name, makeModel, (part, model) => {
    const { requests_per_second: each, tokens_per_second: tokens, ttft, itl } = model.figures;
    put(part.title, model.name);
    put(part.facts, [each === null ? "" : `${number(each)} requests/s`, tokens === null ? "" : `${number(tokens)} tokens/s`,
      ttft ? `TTFT ${took(ttft.p50)}, p99 ${took(ttft.p99)}` : "", itl ? `ITL ${took(itl.p50)}, p99 ${took(itl.p99)}` : "",
      model.queued ? `${count(model.queued)} queued` : ""].filter(Boolean).join(" · "));
    sync(part.pools, model.pools, (pool) => pool.name, makePool, (inner, pool) => fillPool(inner, model, pool));
  });
}

// --- Tenants, errors, routes ----------------------------------------------------------------------------------------

// What stands in the place of an empty list: that there is nothing is told apart from that nobody knows.
function nothing(name, length, known, text) {
  at(`${name}-nothing`).hidden = length > 0;
  put(at(`${name}-nothing`), known === null ? "Not known at the moment." : text);
}

function showTenants(live) {
  const left = live.tenants_left_out;
  put(at("tenants-count"), left ? `the ${live.tenants.length} with the most requests; ${whole.format(left)} more` : "");
  nothing("tenants", live.tenants.length, live.tenants.length, "There are none.");
  sync(at("tenants"), live.tenants, (tenant) => tenant.name, () => {
    const root = make("li");
    const top = make("div", "top");
    const part = { root, name: make("span", "name"), tier: make("span", "tag"), refused: make("span", "refused"), right: make("span", "right"), meters: make("div", "meters") };
    top.append(part.name, part.tier, part.refused, part.right);
    root.append(top, part.meters);
    return part;
  }, (part, tenant) => {
    put(part.name, tenant.name);
    put(part.tier, tenant.tier || "");
    part.tier.hidden = !tenant.tier;
    const trouble = [tenant.refused_per_second ? `${rate(tenant.refused_per_second)} refused` : "", tenant.failed_per_second ? `${rate(tenant.failed_per_second)} failed` : ""];
    put(part.refused, trouble.filter(Boolean).join(", "));
    put(part.right, `${rate(tenant.requests_per_second)} · ${number(tenant.tokens_per_second)} tokens/s`);
    sync(part.meters, tenant.scopes ? tenant.scopes.flatMap(bounds) : [], (bound) => bound.label, (bound) => makeMeter(bound.label),
      (meter, bound) => { fillMeter(meter, bound.share, bound.text); meter.root.title = `${bound.label}: ${bound.text}, ${bound.refused} refused so far`; });
  });
}

// A scope's limits and its budget, as bars.
function bounds(scope) {
  const of = scope.scope === "tenant" ? "" : ` ${scope.scope.replace("model:", "")}`;
  const found = scope.limits.map((limit) => ({ label: `${limit.name}${of}`, share: limit.used / limit.limit, text: `${count(limit.used)} of ${count(limit.limit)}`, refused: limit.refused }));
  if (scope.budget) {
    const { spent_usd: spent, reserved_usd: reserved, limit_usd: limit, period, refused } = scope.budget;
    found.push({ label: `budget/${period.length > 7 ? "day" : "mo"}${of}`, share: (spent + reserved) / limit, text: `${usd(spent)} of ${usd(limit)}`, refused });
  }
  return found;
}

// What tells a kind of failure from others: it stays the same line however often it comes again.
const wayOf = (error) => JSON.stringify([error.outcome, error.code, error.detail, error.tenant, error.model, error.pool, error.replica]);

function showErrors(live) {
  const failures = live.errors.reduce((sum, error) => sum + error.times, 0);
  put(at("errors-count"), failures ? `of the last ${failures} failures` : "");
  nothing("errors", live.errors.length, live.headline.in_flight, "None so far.");
  at("errors").hidden = live.errors.length === 0;
  sync(at("errors"), live.errors, wayOf, () => {
    const root = make("li");
    const top = make("div", "top");
    const part = { root, time: make("time"), outcome: make("span", "outcome"), times: make("span", "tag"), where: make("span"), right: make("span", "right"), detail: make("p", "detail"), about: make("p", "about id") };
    top.append(part.time, part.outcome, part.times, part.where, part.right);
    root.append(top, part.detail, part.about);
    return part;
  }, (part, error) => {
    put(part.time, when(error.time));
    const code = error.code && error.code !== error.outcome ? ` (${error.code})` : "";
    put(part.outcome, error.outcome.replaceAll("_", " ") + code);
    flag(part.outcome, "mild", MILD.has(error.outcome));
    put(part.times, `${error.times} times`);
    part.times.hidden = error.times < 2;
    put(part.where, [error.tenant, error.model, error.replica].filter(Boolean).join(" · "));
    put(part.right, took(error.seconds));
    put(part.detail, error.detail);
    part.detail.hidden = !error.detail;
    put(part.about, error.id);
  });
}

const COLUMNS = [
  ["Time", "", (route) => when(route.time)], ["Replica", "", (route) => route.replica], ["Model", "", (route) => route.model],
  ["Policy", "", (route) => route.policy], ["Why", "why-cell", (route) => route.reason],
  ["Cached / predicted", "number", (route) => `${whole.format(route.cached)} / ${whole.format(route.predicted)}`],
  ["TTFT", "number", (route) => took(route.ttft || null)], ["Whole", "number", (route) => took(route.seconds)], ["Request", "id", (route) => route.id],
];

function showRoutes(live) {
  nothing("routes", live.routes.length, live.headline.in_flight, "None so far.");
  at("routes-scroll").hidden = live.routes.length === 0;
  sync(at("routes"), live.routes, (route) => route.id + route.time, () => {
    const root = make("tr");
    const cells = COLUMNS.map(([label, className]) => {
      const cell = make("td", className);
      const inner = make("div", "cell");
      cell.dataset.label = label;
      cell.append(inner);
      root.append(cell);
      return inner;
    });
    return { root, cells };
  }, (part, route) => COLUMNS.forEach(([, , text], index) => put(part.cells[index], text(route))));
}

function show(live) {
  remember(live);
  sync(at("problems"), live.problems, (problem) => problem, (problem) => ({ root: make("li", "", problem) }), () => {});
  showFigures(live);
  showRollouts(live);
  showShapes(live);
  showScaling(live);
  showFleet(live);
  showTenants(live);
  showErrors(live);
  showRoutes(live);
  showPages(live);
}

// --- Questions ------------------------------------------------------------------------------------------------------

let asked = null;

// Asks before something is done: `path` gets what `body` makes, and `done` says what the answer means.
function ask(question) {
  const dialog = at("ask");
  put(at("ask-title"), question.title);
  put(at("ask-text"), question.text);
  at("ask-grace").hidden = !question.grace;
  at("ask-choice").hidden = !question.choices;
  put(at("ask-answer"), "");
  flag(at("ask-answer"), "bad", false);
  put(at("ask-do"), question.button);
  at("ask-do").hidden = at("ask-do").disabled = false;
  put(at("ask-cancel"), "Cancel");
  at("ask-cancel").onclick = () => dialog.close();
  at("ask-form").onsubmit = (event) => { event.preventDefault(); act(question); };
  asked = question;
  if (question.choices) offer(question);
  dialog.showModal();
}

// Asks what may be chosen: each with its value, a text, and a note that is read once it is chosen.
async function offer(question) {
  at("choice").replaceChildren();
  put(at("choice-note"), "");
  at("ask-do").disabled = true;
  put(at("ask-answer"), "Asking …");
  let found = [], problem = "";
  try {
    found = await question.choices();
  } catch (error) {
    problem = `That failed: ${error.message}`;
  }
  if (asked !== question) return;
  put(at("ask-answer"), problem || (found.length ? "" : question.none));
  flag(at("ask-answer"), "bad", Boolean(problem));
  at("ask-do").disabled = found.length === 0;
  at("choice").append(...found.map(({ value, text }) => Object.assign(make("option", "", text), { value })));
  at("choice").onchange = () => put(at("choice-note"), (found[at("choice").selectedIndex] || { note: "" }).note);
  at("choice").onchange();
}

// The JSON of an answer; what is refused, or no JSON, is an error with the reason.
async function answered(path, options) {
  const response = await fetch(path, { cache: "no-store", ...options, headers: { ...bearer(), ...options.headers } });
  if (!response.ok) throw new Error(await refusalOf(response));
  return response.json();
}

// Of something between the page and the admin API only the status is told.
const refusalOf = (response) => response.json().then((answer) => answer.error.message).catch(() => `the admin API answers ${response.status}`);

async function act(question) {
  at("ask-do").disabled = true;
  put(at("ask-answer"), "Asking …");
  flag(at("ask-answer"), "bad", false);
  try {
    const answer = await answered(question.path, {
      method: "POST", headers: { "content-type": "application/json", "x-penstock-actor": "console" },
      body: JSON.stringify(question.body()), signal: AbortSignal.timeout(30000),
    });
    put(at("ask-answer"), question.done(answer));
    at("ask-do").hidden = true;
    put(at("ask-cancel"), "Close");
    at("ask-cancel").focus();
  } catch (error) {
    put(at("ask-answer"), `That failed: ${error.message}`);
    flag(at("ask-answer"), "bad", true);
    at("ask-do").disabled = false;
  }
}

function askDrain(verb, model, target) {
  const pool = !target.includes("/");
  const drains = verb === "drain";
  const button = drains ? "Drain" : "Resume";
  ask({
    title: `${button} ${pool ? "pool " : ""}${target}?`, button, grace: drains, path: `admin/replicas/${verb}`,
    text: drains
      ? `${pool ? "All of its replicas get" : "It gets"} no more requests for ${model}. What still runs after the grace goes on at other replicas; where there are none, it ends with an error.`
      : `${pool ? "All of its replicas get" : "It gets"} requests for ${model} again.`,
    body: () => (drains ? { model, target, grace_seconds: at("grace").valueAsNumber } : { model, target }),
    done: (answer) => `${drains ? "It is to be drained" : answer.drains.length ? "It is resumed" : "It was not drained"}; workers heed that within a second.`,
  });
}

// --- The connection -------------------------------------------------------------------------------------------------

let reading = null;
let failures = 0;
let heardAt = 0;
let retry = null;

const bearer = () => ({ authorization: `Bearer ${sessionStorage.getItem(KEY)}` });

function link(state, text) {
  at("link").dataset.state = state;
  put(at("link-text"), text);
}

function stale(why) {
  link("stale", heardAt ? `Stale since ${clock.format(new Date(heardAt))}` : "No data");
  put(at("window"), why);
  flag(at("board"), "stale", Boolean(heardAt));
}

function gate(problem) {
  stop();
  heardAt = 0;
  sessionStorage.removeItem(KEY);
  at("gate").hidden = false;
  at("board").hidden = at("forget").hidden = true;
  put(at("gate-problem"), problem);
  put(at("window"), "");
  link("off", "No key");
  if (at("ask").open) at("ask").close();
  at("key").focus();
}

function stop() {
  clearTimeout(retry);
  if (reading) reading.abort();
  reading = null;
}

async function connect() {
  stop();
  const mine = (reading = new AbortController());
  if (!heardAt) link("wait", "Connecting …");
  let why = "the connection has ended";
  try {
    const response = await fetch("admin/live", { headers: bearer(), signal: mine.signal, cache: "no-store" });
    if (response.status === 401) return gate("The admin API does not take this key.");
    if (!response.ok) throw new Error(await refusalOf(response));
    await listen(response.body.getReader(), mine);
  } catch (error) {
    if (error.name !== "AbortError") why = error instanceof TypeError ? "the admin API does not answer" : error.message;
  }
  if (reading !== mine) return undefined;
  const wait = WAITS_MS[Math.min(failures++, WAITS_MS.length - 1)] * (0.75 + Math.random() / 2);
  stale(`${why}; trying again`);
  retry = setTimeout(connect, wait);
  return undefined;
}

async function listen(reader, mine) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done || reading !== mine) return;
    text += decoder.decode(value, { stream: true });
    const events = text.split("\n\n");
    text = events.pop();
    // Of several that came at once only the last is news.
    const data = events.length && events[events.length - 1].split("\n").find((line) => line.startsWith("data: "));
    if (data) hear(JSON.parse(data.slice(6)));
  }
}

function hear(live) {
  failures = 0;
  heardAt = Date.now();
  at("board").hidden = at("forget").hidden = false;
  flag(at("board"), "stale", false);
  link("live", "Live");
  show(live);
  // The field that had the focus goes.
  if (!at("gate").hidden) at("main").focus();
  at("gate").hidden = true;
}

function watch() {
  if (reading && heardAt && Date.now() - heardAt > STALE_MS && at("link").dataset.state === "live") {
    stale("nothing is heard");
    reading.abort();
  }
}

function keepPast() {
  sessionStorage.setItem(PAST, JSON.stringify(past));
}

function begin() {
  try {
    past = JSON.parse(sessionStorage.getItem(PAST)) || [];
  } catch {
    past = [];
  }
  at("gate-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const key = at("key").value.trim();
    at("key").value = "";
    if (!/^[!-~]+$/.test(key)) return put(at("gate-problem"), "A key has no spaces, and only visible ASCII characters.");
    put(at("gate-problem"), "");
    sessionStorage.setItem(KEY, key);
    connect();
    return undefined;
  });
  at("forget").addEventListener("click", () => { past = []; sessionStorage.removeItem(PAST); gate(""); });
  let hiding = null;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiding);
    if (!sessionStorage.getItem(KEY)) return;
    if (document.hidden) hiding = setTimeout(() => { stop(); stale("paused while nobody looks"); }, HIDDEN_MS);
    else if (!reading) connect();
  });
  window.addEventListener("pagehide", keepPast);
  beginRollouts();
  beginPages();
  setInterval(watch, 1000);
  if (sessionStorage.getItem(KEY)) connect();
  else gate("");
}

begin();
