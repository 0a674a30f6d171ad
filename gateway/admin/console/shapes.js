// Shapes: a card for each model whose replicas change theirs, and a page (#shapes/MODEL) with its host groups, what is advised, and what happened.
"use strict";

const MODES = {
  off: ["nothing is decided", "Nothing is decided: the mode is off. Operators can change shapes."],
  advise: ["advised only", "No shape would be changed now."],
  apply: ["changes are made", "No shape would be changed now."],
};
// The steps of a change, and what each waits for.
const CLAIM = ["claim", "the controller of sizes is to heed it"];
const CHANGING = {
  in_place: {
    claimed: CLAIM, preparing: ["prepare", "its replicas get ready"], transforming: ["change", "its replicas change while they serve"],
    aborting: ["go back", "its replicas go back"],
  },
  relaunch: {
    claimed: CLAIM, preparing: ["make room", "what is to go drains and stops"], transforming: ["start", "what comes starts"],
    aborting: ["go back", "what was there is put back"],
  },
};
// Of replicas that take part: how those stand that a phase still waits for.
const UNHEARD = "not heard";
const LATE = {
  preparing: ["serving", "parked", "changing", UNHEARD], transforming: ["prepared", "changing", UNHEARD], aborting: ["prepared", "changing", UNHEARD],
};
const UNHAPPY = ["failed", "refused", "aborting"];
const MOST_STRIPS = 8;
// Replicas of a strip that have room for more than a number.
const MOST_NAMED = 4;
const MANY_GROUPS = 12;
// Changes of one group that are drawn at most, and seconds that are drawn at least.
const MOST_DRAWN = 40;
const LEAST_DRAWN_SECONDS = 60;

let shapeEvents = null;
// How far changes had come when the events were last asked for.
let seenChanges = "";

function shapeName(widths) {
  const runs = [];
  for (const width of widths) {
    if (runs.length && runs[runs.length - 1][0] === width) runs[runs.length - 1][1] += 1;
    else runs.push([width, 1]);
  }
  return runs.map(([width, times]) => (times === 1 ? `TP${width}` : `${times} × TP${width}`)).join(" + ") || "none";
}

const fromTo = (change) => `${shapeName(change.before)} → ${shapeName(change.after)}`;
const isChanging = (group) => Boolean(group.change && group.change.ended === null);
// Whole seconds, or minutes and hours: what lasts is counted on each second.
function lasting(seconds) {
  if (seconds < 100) return `${Math.max(0, Math.round(seconds))}\u00a0s`;
  return seconds < 6000 ? `${Math.round(seconds / 60)}\u00a0min` : `${Math.round(seconds / 3600)}\u00a0h`;
}

const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
// An order's reason names who has given it.
const begunBy = (actor, reason) => (reason.startsWith(actor) ? reason : `by ${actor === "policy" ? "the policy" : actor}: ${reason}`);
const adviceOf = (advice) => `${advice.group} would go ${fromTo(advice)}: ${advice.reason}. It costs ${number(advice.gpu_seconds)} GPU seconds.`;

// How a group stands: a sign, a word and a colour.
function standOf(group) {
  if (group.problem) return ["✕", "something is wrong", "bad"];
  if (isChanging(group)) return ["◐", group.change.phase, group.change.phase === "aborting" ? "bad" : "now"];
  if (group.method === null) return ["▪", "cannot change", ""];
  if (group.held) return ["‖", "not changed now", "warn"];
  if (group.undecided) return ["…", "not decided of", "warn"];
  return group.rests_until === null ? ["●", "may change", "good"] : ["○", "cools down", "good"];
}

function controllerOf(shapes) {
  if (shapes.controller) return "";
  return `No controller acts now: ${shapes.age_seconds === null ? "nothing was told yet" : `this was told ${lasting(shapes.age_seconds)} ago`}. Replicas serve as they are.`;
}

// Where there are more than can be seen at once, those with news come first.
function newsFirst(groups, most) {
  const news = (group) => Number(isChanging(group) || Boolean(group.problem));
  return groups.length > most ? groups.toSorted((one, other) => news(other) - news(one)) : groups;
}

function countsOf({ groups }) {
  const of = (found, text) => {
    const times = groups.filter(found).length;
    return times ? `${times} ${text}` : "";
  };
  return [groups.length === 1 ? "1 host group" : `${groups.length} host groups`, of(isChanging, "changing"),
    of((group) => group.held && !group.problem && !isChanging(group), "not changed now"), of((group) => group.problem, "with a problem")].filter(Boolean).join(" · ");
}

// --- Strips: the GPUs of a group, and whose they are ----------------------------------------------------------------

function makeStrip() {
  const root = make("div", "strip");
  root.setAttribute("role", "img");
  return root;
}

// The replicas of a group by their GPUs, and the GPUs of none where one is not heard; places have no GPUs of their own.
function spansOf(group) {
  let end = 0;
  if (group.method === "relaunch" || !group.members.length) return group.shape.map((width) => ({ width, start: (end += width) - width }));
  const found = [];
  const gap = (until) => { if (until > end) found.push({ start: end, width: until - end, none: true }); };
  for (const { start, width } of group.members.filter((one) => one.leads).sort((one, other) => one.start - other.start)) {
    gap(start);
    found.push({ start, width });
    end = start + width;
  }
  gap(group.gpus);
  return found;
}

function fillStrip(strip, group) {
  const spans = spansOf(group);
  const placed = ({ width, start }) => (group.method === "relaunch" ? "" : width > 1 ? ` on GPUs ${start}–${start + width - 1}` : ` on GPU ${start}`);
  strip.setAttribute("aria-label", spans.map((span) => `${span.none ? "none" : `TP${span.width}`}${placed(span)}`).join(", ") || "no replica");
  flag(strip, "changing", isChanging(group));
  sync(strip, spans, (span) => `${span.start} ${span.width}`, () => ({ root: make("span") }), (part, span) => {
    part.root.style.flexGrow = span.width;
    flag(part.root, "none", span.none);
    put(part.root, span.none ? "–" : spans.length > MOST_NAMED ? String(span.width) : `TP${span.width}`);
  });
}

// --- Cards on the board ---------------------------------------------------------------------------------------------

function makeShapesCard() {
  const root = make("div", "shapes-card");
  const header = make("header");
  const part = { root, title: make("h3"), mode: make("span", "tag"), facts: make("p", "facts"), more: make("a", "more", "Details"), strips: make("ul", "strips"), why: make("p", "why-now") };
  header.append(part.title, part.mode, part.facts, part.more);
  root.append(header, part.strips, part.why);
  return part;
}

function makeStripItem() {
  const root = make("li");
  const top = make("div", "top");
  const part = { root, name: make("span", "name"), state: make("span", "state"), strip: makeStrip() };
  top.append(part.name, part.state);
  root.append(top, part.strip);
  return part;
}

function fillStripItem(part, group) {
  const [sign, word, health] = standOf(group);
  put(part.name, group.group);
  part.name.title = group.group;
  put(part.state, `${sign} ${word}`);
  flag(part.root, "health", health);
  fillStrip(part.strip, group);
}

function fillShapesCard(part, model) {
  put(part.title, model.model);
  put(part.mode, MODES[model.mode][0]);
  put(part.facts, countsOf(model));
  part.more.href = `#shapes/${encodeURIComponent(model.model)}`;
  part.more.setAttribute("aria-label", `Details of the shapes of ${model.model}`);
  const more = model.groups.length - MOST_STRIPS;
  sync(part.strips, newsFirst(model.groups, MOST_STRIPS).slice(0, MOST_STRIPS), (group) => group.group, makeStripItem, fillStripItem);
  put(part.why, [more > 0 ? `${more} more are not shown here.` : "", model.advice ? adviceOf(model.advice) : ""].filter(Boolean).join(" "));
}

function showShapes(live) {
  const known = live.shapes ? live.shapes.models : [];
  at("shapes").hidden = known.length === 0;
  put(at("shapes-state"), live.shapes ? controllerOf(live.shapes) : "");
  sync(at("shapes-cards"), known, (model) => model.model, makeShapesCard, fillShapesCard);
}

// --- What happened: the events of one change are one line -----------------------------------------------------------

function changesOf(events) {
  const found = new Map();
  for (const event of events) {
    const key = event.change ? `${event.group} ${event.change}` : `${event.group} ${event.at} ${event.phase}`;
    const one = found.get(key) || { key, group: event.group, number: event.change, began: event.at - (event.seconds || 0), reason: event.reason, phases: {} };
    one.phases[event.phase] = event.at;
    one.last = event;
    found.set(key, one);
  }
  return [...found.values()];
}

function fillChange(part, { began, group, reason, last }) {
  put(part.time, dayAndTime(began));
  put(part.phase, `${group}: ${fromTo(last)}`);
  put(part.verdict, last.phase);
  flag(part.root, "bad", UNHAPPY.includes(last.phase));
  put(part.right, last.seconds === null ? "" : took(last.seconds));
  put(part.reason, begunBy(last.actor, reason) + (last.reason === reason ? "" : `; ${last.phase}: ${last.reason}`));
}

// --- Host groups ----------------------------------------------------------------------------------------------------

function makeGroup(group) {
  const root = make("li", "group");
  const top = make("div", "top");
  const part = {
    root, name: make("h4", "", group.group), state: make("span", "state"), shape: make("p", "shape"), strip: makeStrip(), facts: make("p"), steps: make("ol", "stages"),
    change: make("p"), failure: make("p", "failure"), waits: make("p"), button: make("button", "", "Change shape"), chart: makeTimeline(),
  };
  part.button.type = "button";
  part.steps.setAttribute("aria-label", `Steps of the change of ${group.group}`);
  part.button.setAttribute("aria-label", `Change the shape of ${group.group}`);
  part.button.addEventListener("click", () => askShape(opened.model, group.group));
  top.append(part.name, part.state);
  root.append(top, part.shape, part.strip, part.facts, part.steps, part.change, part.failure, part.waits, part.chart.root, part.button);
  return part;
}

function stepsOfChange(change, phases) {
  const words = CHANGING[change.method];
  const begun = (phase) => (change.phase === phase ? change.since : phases[phase] ?? null);
  const forward = ["claimed", "preparing", "transforming"].filter((phase) => phase !== "claimed" || begun(phase) !== null);
  const back = change.phase === "aborting";
  const now = back ? Math.max(0, forward.findLastIndex((phase) => begun(phase) !== null)) : forward.indexOf(change.phase);
  const steps = forward.map((phase, index) => ({ label: words[phase][0], at: begun(phase), state: index < now ? "done" : index > now ? "" : back ? "bad" : "now" }));
  return [...steps, back ? { label: words.aborting[0], at: change.since, state: "now" } : { label: "done", at: null, state: "" }];
}

// The replicas that a phase waits for, the first few by address.
function lateOf({ change, members }) {
  if (change.phase === "claimed") return "";
  const states = new Map(members.map((one) => [one.address, one.state]));
  const stands = change.participants.map(({ address }) => [address, states.get(address) || UNHEARD]);
  const late = stands.filter(([, state]) => LATE[change.phase].includes(state)).map(([address, state]) => `${address} (${state})`);
  return late.length > 3 ? `${late.slice(0, 3).join(", ")} and ${late.length - 3} more` : late.join(", ");
}

function underWay(group, now) {
  const { change } = group;
  const late = lateOf(group);
  return [`Change ${change.id}, ${fromTo(change)}, ${begunBy(change.actor, change.reason)}.`,
    `${capital(CHANGING[change.method][change.phase][1])} for ${lasting(now - change.since)}${change.since > change.started ? `, ${lasting(now - change.started)} in all` : ""}.`,
    late ? `It waits for ${late}.` : "", change.goal.length ? `It goes on to ${shapeName(change.goal)}.` : ""].filter(Boolean).join(" ");
}

function waitsOf(group, now) {
  const rests = group.rests_until;
  return [group.held && group.held !== group.problem && !isChanging(group) ? `Not changed now: ${group.held}.` : "",
    group.undecided ? `Nothing is decided of it: ${group.undecided}.` : "",
    rests === null ? "" : `Cools down until ${when(rests)}, for ${lasting(rests - now)}: till then only a request that no replica holds makes it wider.`].filter(Boolean).join(" ");
}

function failureOf({ change, problem, held }) {
  const how = { failed: "failed", aborting: "is taken back" };
  // A group that is held for it says so itself.
  const failed = change && change.failure && !held.endsWith(change.failure) ? `Change ${change.id} ${how[change.phase] || "was not gone on with"}${change.ended === null ? "" : ` at ${dayAndTime(change.ended)}`}: ${change.failure}.` : "";
  return [problem ? `${capital(problem)}.` : "", failed].filter(Boolean).join(" ");
}

function fillGroup(part, group, now, drawing) {
  const [sign, word, health] = standOf(group);
  flag(part.root, "health", health);
  put(part.state, `${sign} ${word}`);
  put(part.shape, shapeName(group.shape));
  fillStrip(part.strip, group);
  const holds = group.widths.map((one) => `TP${one.width} ${one.kv_tokens ? count(one.kv_tokens) : "?"}`).join("; ");
  const how = { in_place: "changes in place", relaunch: "changes by other replicas" };
  put(part.facts, [group.gpus === 1 ? "1 GPU" : `${group.gpus} GPUs`, how[group.method] || "its engines cannot change", holds ? `KV tokens: ${holds}` : ""].filter(Boolean).join(" · "));
  const own = drawing.changes.filter((one) => one.group === group.group);
  const changing = isChanging(group);
  const known = changing && own.find((one) => one.number === group.change.id);
  fillSteps(part.steps, changing ? stepsOfChange(group.change, known ? known.phases : {}) : []);
  put(part.change, changing ? underWay(group, now) : "");
  put(part.failure, failureOf(group));
  put(part.waits, waitsOf(group, now));
  part.button.hidden = group.method === null;
  fillTimeline(part.chart, group, own, drawing);
}

// --- Shapes over time -----------------------------------------------------------------------------------------------

// What all groups are drawn by: one span of time, the widths there are, and how dark each is.
function drawingOf(groups, changes, now) {
  const made = changes.filter((one) => one.number);
  const latest = now - LEAST_DRAWN_SECONDS;
  const times = {};
  let from = Math.min(latest, ...made.map((one) => one.began));
  for (const { group, began } of made.toReversed()) {
    times[group] = (times[group] || 0) + 1;
    if (times[group] === MOST_DRAWN) from = Math.max(from, Math.min(began, latest));
  }
  const found = [...groups.flatMap((group) => [...group.shape, ...group.widths.map((one) => one.width)]), ...made.flatMap((one) => [...one.last.before, ...one.last.after])];
  const widths = [...new Set(found)].sort((one, other) => one - other);
  const shade = (width) => (0.3 + (0.7 * widths.indexOf(width)) / Math.max(1, widths.length - 1)).toFixed(2);
  return { changes: made, span: { from, until: now }, widths, shade };
}

function makeTimeline() {
  const root = make("figure", "chart");
  const svg = drawn("svg", { viewBox: "0 0 100 60", preserveAspectRatio: "none", "aria-hidden": "true" });
  const part = { root, areas: drawn("g", {}), marks: drawn("g", {}), ends: [make("span"), make("span", "", "now")], said: make("p", "chart-said") };
  svg.append(part.areas, part.marks);
  const axis = make("p", "axis");
  axis.append(...part.ends);
  root.append(svg, axis, part.said);
  return part;
}

// The shapes that a group has had, each with when it began.
function shapesOf(group, changes, from) {
  const found = [{ from, shape: changes.length ? changes[0].last.before : group.shape }];
  for (const { last } of changes) if (last.phase === "done") found.push({ from: last.at, shape: last.after });
  const [now, last] = [found[found.length - 1], changes.length ? changes[changes.length - 1].last : null];
  if (isChanging(group) || String(now.shape) === String(group.shape)) return found;
  // A replica that is lost takes others along, which is no change; when, nobody tells unless a change has failed of it.
  if (last && last.phase === "failed") found.push({ from: last.at, shape: group.shape });
  else now.shape = group.shape;
  return found;
}

function fillTimeline(part, group, changes, { span, widths, shade }) {
  const shapes = shapesOf(group, changes, span.from);
  const y = (gpu) => ((60 * gpu) / Math.max(1, group.gpus)).toFixed(2);
  const areas = new Map();
  shapes.forEach(({ from, shape }, index) => {
    const until = index + 1 < shapes.length ? shapes[index + 1].from : span.until;
    if (until <= span.from) return;
    let gpu = 0;
    for (const width of shape) {
      areas.set(width, `${areas.get(width) || ""}M${xOf(span, from)} ${y(gpu)}H${xOf(span, until)}V${y(gpu + width)}H${xOf(span, from)}Z`);
      gpu += width;
    }
  });
  part.areas.replaceChildren(...widths.filter((width) => areas.has(width)).map((width) => drawn("path", { class: "shape-area", "fill-opacity": shade(width), d: areas.get(width) })));
  const failed = changes.map((one) => one.last).filter((last) => last.phase === "failed" && last.at >= span.from);
  part.marks.replaceChildren(...failed.map((last) => drawn("path", { class: "mark-bad", d: `M${xOf(span, last.at)} 0V60` })));
  put(part.ends[0], dayAndTime(span.from));
  const told = [...shapes.slice(1).map((one) => [one.from, shapeName(one.shape)]), ...failed.map((last) => [last.at, `change ${last.change} failed`])];
  told.sort((one, other) => one[0] - other[0]);
  put(part.said, told.slice(-4).map(([from, text]) => `${dayAndTime(from)} ${text}`).join(" · ") || `${shapeName(group.shape)} all the time`);
}

// --- The page -------------------------------------------------------------------------------------------------------

function demandOf(demand) {
  if (!demand) return "No worker reports the demand of this model.";
  const waiting = demand.waiting ? `Long requests that wait: ${count(demand.waiting)}, the first for ${lasting(demand.oldest_wait)}; the longest needs ${count(demand.longest)} KV tokens.` : "No long request waits.";
  return `${waiting} Short requests: ${rate(demand.short_rate)}, long ones: ${rate(demand.long_rate)}.`;
}

function makeWidthKey(width) {
  const part = { root: make("span"), swatch: make("span", "swatch") };
  part.root.append(part.swatch, `TP${width}`);
  return part;
}

function showGroups(model, changes, now) {
  const many = model.groups.length > MANY_GROUPS;
  const list = at("shapes-groups");
  const drawing = drawingOf(model.groups, changes, now);
  put(at("shapes-count"), countsOf(model));
  sync(at("shapes-keys"), drawing.widths, (width) => width, makeWidthKey, (part, width) => { part.swatch.style.opacity = drawing.shade(width); });
  flag(list, "many", many);
  // What scrolls is reached with the keyboard.
  if (many) list.setAttribute("tabindex", "0");
  else list.removeAttribute("tabindex");
  sync(list, newsFirst(model.groups, MANY_GROUPS), (group) => `${model.model} ${group.group}`, makeGroup, (part, group) => fillGroup(part, group, now, drawing));
}

function showShapesPage(live, name) {
  const { shapes } = live;
  const model = shapes && shapes.models.find((one) => one.model === name);
  at("shapes-none").hidden = Boolean(model);
  at("shapes-body").hidden = at("shapes-mode").hidden = !model;
  put(at("shapes-title"), name);
  if (!model) {
    put(at("shapes-facts"), "");
    put(at("shapes-none"), shapes === null ? "Not known at the moment." : "The shapes of no such model change.");
    return;
  }
  const [mode, idle] = MODES[model.mode];
  put(at("shapes-mode"), mode);
  put(at("shapes-facts"), shapes.controller ? `${shapes.controller} decides` : "");
  put(at("shapes-controller"), controllerOf(shapes));
  at("shapes-controller").hidden = Boolean(shapes.controller);
  put(at("shapes-advice"), model.advice ? adviceOf(model.advice) : idle);
  put(at("shapes-demand"), demandOf(model.demand));
  at("shapes-follow").hidden = !model.advice;
  at("shapes-follow").onclick = () => askAdvised(model.model, model.advice);
  const seen = model.groups.map(({ change }) => (change ? `${change.group} ${change.id} ${change.phase}` : "")).join();
  const news = seenChanges && seen !== seenChanges;
  seenChanges = seen;
  if (news) readPage();
  const changes = changesOf(shapeEvents || []);
  showGroups(model, changes, live.time);
  nothing("shapes-groups", model.groups.length, shapes.age_seconds, "No replica of it is in a host group, as far as is known.");
  put(at("shapes-totals"), `changes so far: ${count(model.totals.done)} done, ${count(model.totals.failed)} failed; orders refused: ${count(model.totals.refused)}`);
  nothing("shapes-events", changes.length, shapeEvents, "No shape has been changed yet.");
  sync(at("shapes-events"), changes.toReversed(), (change) => change.key, makeEvent, fillChange);
}

PAGES.shapes = {
  show: showShapesPage,
  paths: (model) => [`admin/reshape/history?model=${model}&limit=500`],
  take: (told) => { if (told) shapeEvents = told.events; },
  forget: () => { [shapeEvents, seenChanges] = [null, ""]; },
};

// --- Orders ---------------------------------------------------------------------------------------------------------

const ordered = (order) => (order.controller ? "It is ordered; “What happened” says what becomes of it." : "It is ordered, but no controller acts now: it begins if one does within 30 s.");

function noteOf(plan) {
  if (plan.refused) return `It would be refused now: ${plan.refused}.`;
  return plan.gpu_seconds === null ? "What it costs is not known." : `It costs ${number(plan.gpu_seconds)} GPU seconds.`;
}

async function choicesOf(model, group) {
  const { plans } = await answered(`admin/reshape/choices?${new URLSearchParams({ model, group })}`, { signal: AbortSignal.timeout(10000) });
  return plans.map((plan) => ({ value: JSON.stringify(plan.after), text: `${shapeName(plan.after)}${plan.refused ? ", refused now" : ""}`, note: noteOf(plan) }));
}

function askShape(model, group) {
  ask({
    title: `Change the shape of ${group}?`, button: "Change", path: "admin/reshape/apply", none: "It can have no other shape.",
    text: `Replicas of ${model} become other ones on the same GPUs. Requests under way go on.`,
    choices: () => choicesOf(model, group), body: () => ({ model, group, shape: JSON.parse(at("choice").value) }), done: ordered,
  });
}

function askAdvised(model, advice) {
  ask({
    title: `Change the shape of ${advice.group}?`, button: "Change", path: "admin/reshape/apply", text: adviceOf(advice),
    body: () => ({ model, group: advice.group, shape: advice.after }), done: ordered,
  });
}
