// Pools that scale: what is wanted and what runs over the last minutes, replicas on their way, and the cost.
"use strict";

const STEPS = ["allocate", "process", "load", "warm_up"];
const LINES = [["needed", "needed by the load"], ["wanted", "wanted"], ["ready", "ready"]];

const total = (model, of) => model.pools.reduce((sum, pool) => sum + of(pool), 0);
const sizes = (model) => ({
  needed: total(model, (pool) => pool.needed), wanted: total(model, (pool) => pool.wanted), ready: total(model, (pool) => pool.ready),
});
const dollars = (value) => `$${value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
const stepOf = (step) => step.replaceAll("_", " ");

// What is remembered of a look: the sizes by model; nothing of a controller that says nothing.
function sizesNow(live) {
  const known = live.scaling && live.scaling.fresh ? live.scaling.models : [];
  return Object.fromEntries(known.map((model) => [model.model, sizes(model)]));
}

// A line of steps through the last minutes; what is not known is a gap.
function steps(model, name, most, now) {
  const x = (t) => (100 * (1 - (now - t) / PAST_SECONDS)).toFixed(2);
  const y = (value) => (39 - (37 * value) / most).toFixed(2);
  let line = "", before = null;
  for (const point of past) {
    const value = point.scaling && point.scaling[model] ? point.scaling[model][name] : null;
    if (value === null) { before = null; continue; }
    line += before !== null && point.t - before <= 5 ? `H${x(point.t)}V${y(value)}` : `M${x(point.t)} ${y(value)}`;
    before = point.t;
  }
  return line;
}

function makeStart() {
  const root = make("li", "start");
  const name = make("span", "name");
  const track = make("span", "steps");
  track.setAttribute("aria-hidden", "true");
  const marks = STEPS.map(() => make("i"));
  track.append(...marks);
  const step = make("span", "step");
  const why = make("span", "why");
  root.append(name, track, step, why);
  return { root, name, marks, step, why };
}

function fillStart(part, replica, now) {
  const place = STEPS.indexOf(replica.step);
  put(part.name, replica.id);
  part.name.title = replica.address;
  part.marks.forEach((mark, index) => flag(mark, "at", place < 0 ? false : index < place ? "done" : index === place ? "now" : false));
  flag(part.root, "step", replica.step);
  const since = `${whole.format(Math.max(0, now - replica.since))} s`;
  put(part.step, `${stepOf(replica.step)}${replica.spot ? ", spot" : ""} · ${since}`);
  put(part.why, replica.problem);
}

function makeScaledPool() {
  const root = make("li", "scaled-pool");
  const top = make("div", "top");
  const part = { root, name: make("h4"), launcher: make("span", "tag"), pinned: make("span", "tag"), facts: make("p", "facts"), why: make("p", "facts"), problem: make("p", "refused"), starts: make("ul", "starts") };
  top.append(part.name, part.launcher, part.pinned, part.facts);
  root.append(top, part.why, part.problem, part.starts);
  return part;
}

function fillScaledPool(part, pool, now) {
  put(part.name, pool.name);
  put(part.launcher, `${pool.launcher}, ${pool.shape}`);
  put(part.pinned, pool.pinned === null ? "" : `set to ${pool.pinned}`);
  part.pinned.hidden = pool.pinned === null;
  const spot = pool.spot_ready ? ` (${pool.spot_ready} spot)` : "";
  put(part.facts, [`${pool.ready} ready${spot} of ${pool.wanted} wanted`, `min ${pool.min}, max ${pool.max}`,
    pool.price_per_hour === null ? "" : `${dollars(pool.price_per_hour)}/h each`,
    pool.startup_seconds === null ? "" : `starts in ${took(pool.startup_seconds)}`].filter(Boolean).join(" · "));
  put(part.why, pool.reason);
  part.why.hidden = !pool.reason;
  put(part.problem, pool.problem);
  part.problem.hidden = !pool.problem;
  const underWay = [...pool.starting, ...pool.stopping, ...pool.failed];
  sync(part.starts, underWay, (replica) => replica.id, makeStart, (start, replica) => fillStart(start, replica, now));
}

function makeScaled() {
  const root = make("div", "scaled");
  const header = make("header");
  const part = { root, title: make("h3"), mode: make("span", "tag"), facts: make("p", "facts"), cost: make("p", "cost"), most: make("span", "most"), lines: {}, keys: {}, warnings: make("p", "refused"), pools: make("ul", "scaled-pools") };
  header.append(part.title, part.mode, part.facts, part.cost);
  const chart = make("figure", "sizes");
  const svg = drawn("svg", { viewBox: "0 0 100 40", preserveAspectRatio: "none", "aria-hidden": "true" });
  const legend = make("figcaption");
  for (const [name, text] of LINES) {
    part.lines[name] = drawn("path", { class: `size-${name}` });
    svg.append(part.lines[name]);
    const key = make("span", `key key-${name}`, `${text} `);
    part.keys[name] = make("b");
    key.append(part.keys[name]);
    legend.append(key);
  }
  chart.append(part.most, svg, legend);
  root.append(header, chart, part.warnings, part.pools);
  return part;
}

function fillScaled(part, model, live) {
  const now = sizes(model);
  const starting = total(model, (pool) => pool.starting.length);
  const stopping = total(model, (pool) => pool.stopping.length);
  put(part.title, model.model);
  put(part.mode, model.paused ? "paused" : model.mode === "advise" ? "advised only" : "");
  part.mode.hidden = !model.paused && model.mode !== "advise";
  const fixed = Object.values(model.fixed).reduce((sum, ready) => sum + ready, 0);
  const demand = model.demand;
  put(part.facts, [now.wanted === 0 && now.ready === 0 && !fixed ? "at zero" : "", fixed ? `${fixed} more without a launcher` : "", starting ? `${starting} starting` : "", stopping ? `${stopping} stopping` : "",
    demand ? `${number(demand.requests_per_second)} requests/s` : "", demand && demand.waiting ? `${count(demand.waiting)} waiting` : ""].filter(Boolean).join(" · "));
  const budget = model.budget_per_hour === null ? "" : ` of ${dollars(model.budget_per_hour)}`;
  put(part.cost, model.cost_per_hour === null ? "" : `${dollars(model.cost_per_hour)}${budget} an hour`);
  const known = past.map((point) => point.scaling && point.scaling[model.model]).filter(Boolean);
  const most = Math.max(1, ...known.flatMap((point) => Object.values(point)));
  put(part.most, String(most));
  for (const [name] of LINES) {
    part.lines[name].setAttribute("d", steps(model.model, name, most, live.time));
    put(part.keys[name], String(now[name]));
  }
  const last = model.decisions.length ? model.decisions[model.decisions.length - 1] : null;
  const warnings = [...model.warnings, ...(last ? last.warnings : [])];
  put(part.warnings, [...new Set(warnings)].join(" · "));
  part.warnings.hidden = warnings.length === 0;
  sync(part.pools, model.pools, (pool) => pool.name, makeScaledPool, (inner, pool) => fillScaledPool(inner, pool, live.scaling.at));
}

function showScaling(live) {
  const scaling = live.scaling;
  at("scaling").hidden = !scaling;
  if (!scaling) return;
  put(at("scaling-state"), scaling.fresh ? "replicas of the last 5 minutes"
    : scaling.at === null ? "no controller has told anything yet" : `no controller: nothing is started or stopped since ${when(scaling.at)}`);
  flag(at("scaling"), "old", !scaling.fresh);
  sync(at("scaled"), scaling.models, (model) => model.model, makeScaled, (part, model) => fillScaled(part, model, live));
}
