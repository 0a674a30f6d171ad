// Rollouts: a card each, and a page (#rollout/MODEL) with stages, measures beside the stable version's, and what happened.
"use strict";

const END_STEPS = ["draining", "done"];
const CHARTS = [["ttft", "First token"], ["tpot", "Each token after it"], ["seconds", "Whole answer"], ["errors", "Failed requests"]];
const STANDINGS = {
  better: ["▲", "better", "good"], as_good: ["●", "as good", "good"], leaning: ["◐", "looks worse", "warn"],
  worse: ["✕", "worse", "bad"], too_few: ["…", "too few", ""],
};
const VERDICTS = { better: "better", as_good: "as good", worse: "worse", inconclusive: "not decided" };
// The wish that a button tells the admin API, what it is called, and what it does.
const WISHES = {
  pause: ["Pause", "The shares stay as they are. It is still rolled back if the candidate is worse."],
  resume: ["Resume", "It goes on with its stages."],
  promote: ["Promote", "The candidate becomes the stable version now, whatever the stages and the measures say."],
  abort: ["Abort", "All new requests go to the stable version within a second. Answers under way end where they are."],
};

let series = null;
let events = [];

const percent = (share) => `${number(100 * share).replace(/\.0$/, "")} %`;
const phaseOf = (phase) => phase.replaceAll("_", " ");
const isOver = (rollout) => rollout.phase === "done" || rollout.phase === "rolled_back";
// A shadow that has been reported leaves its candidate as well, and is no rollback.
const isRollback = (event) => event.phase === "rolling_back" && event.cause !== "reported";
const backwards = (rollout) => rollout.phase === "rolling_back" || rollout.phase === "rolled_back";
// Nothing changes its outcome any more.
const isSettled = (rollout) => isOver(rollout) || backwards(rollout) || rollout.phase === "draining";
const stateOf = (view) => (view.rollout.paused !== null ? "paused" : backwards(view.rollout) ? "bad" : view.rollout.phase === "done" ? "good" : "now");

// --- Stages ---------------------------------------------------------------------------------------------------------

// The steps of a rollout's plan, each with the phases and the stage that it stands for.
function stepsOf(rollout, shares) {
  const plan = rollout.settings.plan;
  const found = [{ label: "prepare", phases: ["preparing"] }, { label: "warm up", phases: ["warming"] }];
  if (plan === "gates") {
    found.push({ label: "smoke", phases: ["smoke"] });
    if (rollout.settings.gates.golden) found.push({ label: "golden set", phases: ["golden"] });
  }
  if (plan === "gates" || plan === "shadow") found.push({ label: "shadow", phases: ["shadowing"] });
  shares.forEach((share, stage) => found.push({ label: percent(share), phases: ["shifting", "testing", "holding"], stage }));
  if (plan !== "shadow") found.push({ label: "drain", phases: ["promoting", "draining"] });
  found.push({ label: "done", phases: ["done"] });
  return found;
}

const isAt = (step, event) => step.phases.includes(event.phase) && (step.stage === undefined || step.stage === event.stage);

function stagesOf(rollout, shares) {
  const steps = stepsOf(rollout, shares);
  const forward = rollout.history.filter((event) => !event.phase.startsWith("rol"));
  const last = backwards(rollout) ? forward[forward.length - 1] : rollout;
  const now = last ? steps.findIndex((step) => isAt(step, last)) : -1;
  return steps.map((step, index) => {
    const begun = forward.find((event) => isAt(step, event));
    const state = index < now || rollout.phase === "done" ? "done" : index > now ? "" : backwards(rollout) ? "bad" : rollout.paused !== null ? "paused" : "now";
    return { ...step, state, at: begun ? begun.at : null };
  });
}

// --- Cards on the board ---------------------------------------------------------------------------------------------

function makeRolloutCard() {
  const root = make("div", "rollout-card");
  const header = make("header");
  const part = { root, title: make("h3"), versions: make("span", "versions"), state: make("span", "tag"), facts: make("p", "facts"), more: make("a", "more"), stages: make("ol", "stages"), why: make("p", "why-now") };
  header.append(part.title, part.versions, part.state, part.facts, part.more);
  root.append(header, part.stages, part.why);
  return part;
}

function fillRolloutCard(part, one) {
  const { model, stable, rollout: view } = one.versions;
  put(part.title, model);
  part.more.href = `#rollout/${encodeURIComponent(model)}`;
  put(part.more, view ? "Details" : "");
  part.more.setAttribute("aria-label", `Details of the rollout of ${model}`);
  part.more.hidden = part.state.hidden = part.stages.hidden = !view;
  if (!view) {
    put(part.versions, stable);
    put(part.facts, "the stable version; no rollout so far");
    put(part.why, "");
    return;
  }
  const rollout = view.rollout;
  flag(part.root, "state", stateOf(view));
  put(part.versions, `${rollout.stable} → ${rollout.candidate}`);
  put(part.state, statusWord(view));
  put(part.facts, factsOf(view).join(" · "));
  fillSteps(part.stages, stagesOf(rollout, one.shares));
  put(part.why, standingOf(rollout));
}

// Why it is where it is. That the last requests are over is no news: what decided it is.
function standingOf(rollout) {
  const turned = rollout.history.findLast((event) => event.phase === "rolling_back");
  if (turned) return turned.reason;
  const decided = isOver(rollout) && rollout.history.findLast((event) => event.cause !== "drained");
  if (decided) return decided.reason;
  return rollout.problem ? `Waits: ${rollout.problem}` : rollout.reason;
}

function statusWord(view) {
  const rollout = view.rollout;
  const word = rollout.phase === "shifting" || rollout.phase === "testing" ? `at ${percent(rollout.share)}` : phaseOf(rollout.phase);
  return rollout.paused !== null ? `paused, ${word}` : word;
}

function factsOf(view) {
  const rollout = view.rollout;
  const verdict = view.verdict ? view.verdict.kind : rollout.verdict;
  return [phaseOf(rollout.settings.plan), isOver(rollout) ? `ended ${dayAndTime(rollout.ended)}` : `since ${dayAndTime(rollout.started)}`,
    rollout.requests && !isOver(rollout) ? `${count(rollout.requests)} requests in this stage` : "",
    verdict && !isOver(rollout) ? `candidate ${VERDICTS[verdict]}` : "", view.taken ? "" : "no controller has begun with it"].filter(Boolean);
}

// --- Charts over time -----------------------------------------------------------------------------------------------

function spanOf(rollout, now) {
  const until = rollout.ended || now;
  return { from: rollout.started, until: Math.max(until, rollout.started + 10) };
}

function makeChart(name, title) {
  const root = make("figure", "chart");
  const caption = make("figcaption");
  const svg = drawn("svg", { viewBox: "0 0 100 60", preserveAspectRatio: "none", "aria-hidden": "true" });
  const part = { root, name, text: make("span", "chart-title", title), most: make("span", "most"), said: make("p", "chart-said"), marks: drawn("g", {}), paths: {}, ends: [make("span"), make("span")] };
  caption.append(part.text);
  svg.append(part.marks);
  for (const kind of ["stable-band", "candidate-band", "stable", "candidate", "share"]) {
    part.paths[kind] = drawn("path", { class: `line-${kind}` });
    svg.append(part.paths[kind]);
  }
  const axis = make("p", "axis");
  axis.append(...part.ends);
  root.append(caption, part.most, svg, axis, part.said);
  return part;
}

function fillAxis(part, span, rollout) {
  put(part.ends[0], dayAndTime(span.from));
  put(part.ends[1], rollout.ended ? dayAndTime(span.until) : "now");
  const marks = rollout.history.filter((event) => event.at >= span.from);
  part.marks.replaceChildren(...marks.map((event) => drawn("path", { d: `M${xOf(span, event.at)} 0V60`, class: isRollback(event) ? "mark-bad" : "mark" })));
}

// Once it is promoted it has no share any more, but everything.
const shareAt = (rollout, event) => (rollout.promoted && END_STEPS.includes(event.phase) ? 1 : event.share);

function fillShare(part, rollout, span) {
  fillAxis(part, span, rollout);
  const shares = rollout.history.map((event) => shareAt(rollout, event));
  const steps = rollout.history.map((event, index) => [xOf(span, event.at), (58 - 56 * shares[index]).toFixed(2)]);
  const line = steps.map(([x, y], index) => (index ? `H${x}V${y}` : `M${x} ${y}`)).join("");
  part.paths.share.setAttribute("d", line && `${line}H${xOf(span, span.until)}`);
  put(part.most, "0 to 100 %");
  const changes = rollout.history.filter((_, index) => shares[index] !== (index ? shares[index - 1] : 0));
  put(part.said, changes.map((event) => `${when(event.at)} ${percent(shareAt(rollout, event))}`).slice(-6).join(" · "));
}

// A line of each version's values, and the band of their intervals; spans without values are gaps.
function fillSeries(part, name, rollout, span, known) {
  fillAxis(part, span, rollout);
  const spans = known.spans.filter((one) => one.stable[name] || one.candidate[name]);
  const tops = spans.flatMap((one) => [one.stable[name], one.candidate[name]].filter(Boolean).map((value) => Math.min(value.high, 3 * value.value || value.high)));
  const most = Math.max(...tops, 1e-9);
  const y = (value) => Math.max(0, 58 - (56 * value) / most).toFixed(2);
  for (const side of ["stable", "candidate"]) {
    let line = "", band = "", run = [];
    const close = () => {
      // A value without neighbours is a point, which needs a length to be seen.
      if (run.length === 1) {
        run.push([Number(run[0][0]) + 1.5, run[0][1]]);
        line += "h1.5";
      }
      if (run.length) band += `M${run.map(([x, value]) => `${x} ${y(value.high)}`).join("L")}L${run.toReversed().map(([x, value]) => `${x} ${y(value.low)}`).join("L")}Z`;
      run = [];
    };
    let before = null;
    for (const one of known.spans) {
      const value = one[side][name];
      if (!value || (before !== null && one.at - before > 2 * known.span_seconds)) close();
      if (!value) continue;
      const x = xOf(span, one.at + known.span_seconds / 2);
      line += `${run.length ? "L" : "M"}${x} ${y(value.value)}`;
      run.push([x, value]);
      before = one.at;
    }
    close();
    part.paths[side].setAttribute("d", line);
    part.paths[`${side}-band`].setAttribute("d", band);
  }
  const word = (value) => (!value ? "–" : name === "errors" ? percent(value.value) : took(value.value));
  put(part.most, spans.length ? `0 to ${word({ value: most })}` : "");
  const newest = spans[spans.length - 1];
  put(part.said, newest ? `last: stable ${word(newest.stable[name])}, candidate ${word(newest.candidate[name])}` : "nothing measured");
}

// --- Measures beside the stable version's ---------------------------------------------------------------------------

const STRATA = ["up to 256", "256 to 1,024", "1,024 to 4,096", "4,096 to 16,384", "over 16,384"];
const isTime = (measure) => /^(ttft|tpot|seconds)/.test(measure) && !measure.endsWith("_trend");
function measureName(one) {
  const names = { ttft: "first token", tpot: "token pace", seconds: "whole answer", error_rate: "errors", output_tokens: "answer’s tokens" };
  const [, base, tail] = /^(.*?)(_p99|_trend)?$/.exec(one.measure);
  const name = (names[base] || base.replaceAll("_", " ")) + (tail === "_p99" ? ", p99" : tail === "_trend" ? ", growth a minute" : "");
  return one.stratum === null ? name : `${name}, prompts ${STRATA[one.stratum] || ""}`;
}
const measured = (one, value) => (isTime(one.measure) ? took(value) : ["output_tokens", "cost"].includes(one.measure) || one.measure.endsWith("_trend") ? number(value) : percent(value));
// Ratios from a half to twice, 1 in the middle.
const place = (ratio) => Math.min(100, Math.max(0, 50 + (50 * Math.log2(Math.max(ratio, 1e-6)))));

function makeMeasure() {
  const root = make("tr");
  const cells = ["Measure", "Stable", "Candidate", "Ratio", "½ to 2 times", "Samples", "Verdict"].map((label, index) => {
    const cell = make("td", [1, 2, 3, 5].includes(index) ? "number" : "");
    cell.dataset.label = label;
    root.append(cell);
    return cell;
  });
  const bar = make("span", "interval");
  bar.setAttribute("aria-hidden", "true");
  const range = make("i", "range"), dot = make("i", "dot");
  bar.append(range, dot);
  cells[4].className = "interval-cell";
  cells[4].append(bar);
  return { root, cells, bar, range, dot };
}

function fillMeasure(part, one) {
  const [sign, word, health] = STANDINGS[one.standing];
  const open = one.low === 0 && one.high === null;
  // A bound is compared with the ratio itself.
  const interval = !open ? ` (${one.low.toFixed(2)} to ${one.high === null ? "?" : one.high.toFixed(2)})` : one.bound === null ? " (not bounded yet)" : "";
  const ratio = one.ratio === null ? "–" : one.ratio.toFixed(2) + interval;
  const bound = one.bound === null ? "" : `, bound ${one.measure === "error_rate" ? percent(one.bound) : `${number(one.bound)} ×`}`;
  const texts = [measureName(one) + bound, measured(one, one.baseline), measured(one, one.candidate), ratio, null, one.baseline_samples + one.candidate_samples ? `${count(one.baseline_samples)} / ${count(one.candidate_samples)}` : "–", `${sign} ${word}`];
  texts.forEach((text, index) => { if (text !== null) put(part.cells[index], text); });
  flag(part.root, "health", health);
  part.bar.hidden = one.ratio === null;
  flag(part.cells[4], "none", one.ratio === null);
  part.range.hidden = open;
  const low = place(one.low), high = one.high === null ? 100 : place(one.high);
  part.range.style.left = `${low}%`;
  part.range.style.width = `${Math.max(1, high - low)}%`;
  part.dot.style.left = `${place(one.ratio || 1)}%`;
}

// --- What happened --------------------------------------------------------------------------------------------------

function fillEvent(part, event) {
  put(part.time, dayAndTime(event.at));
  put(part.phase, `${event.cause === "reported" ? "reported" : phaseOf(event.phase)}${event.share ? `, ${percent(event.share)}` : ""}`);
  flag(part.root, "bad", isRollback(event));
  put(part.verdict, event.verdict ? VERDICTS[event.verdict] : "");
  part.verdict.hidden = !event.verdict;
  put(part.right, event.requests ? `${count(event.requests)} requests` : "");
  put(part.reason, event.reason);
}

// One line for each earlier rollout of the model: its last event, with the reason of the one that decided it.
function earlier(model, rollout) {
  const found = new Map();
  for (const event of events) {
    if (event.model !== model || event.rollout === rollout.id) continue;
    const before = found.get(event.rollout);
    found.set(event.rollout, event.cause === "drained" && before ? { ...event, reason: before.reason } : event);
  }
  return [...found.values()].reverse();
}

// --- The page -------------------------------------------------------------------------------------------------------

const charts = {};
function chart(name, title) {
  if (!charts[name]) {
    charts[name] = makeChart(name, title);
    at("rollout-charts").append(charts[name].root);
  }
  return charts[name];
}

function showRolloutPage(live, model) {
  const one = (live.rollouts || []).find((each) => each.versions.model === model);
  const view = one && one.versions.rollout;
  at("rollout-none").hidden = Boolean(view);
  at("rollout-body").hidden = !view;
  put(at("rollout-title"), model);
  if (!view) {
    // Of the model that was looked at before.
    for (const part of ["versions", "state", "facts"]) put(at(`rollout-${part}`), "");
    flag(at("rollout-page"), "state", false);
    put(at("rollout-none"), live.rollouts === null ? "Not known at the moment." : "This model has had no rollout.");
    return;
  }
  const rollout = view.rollout;
  flag(at("rollout-page"), "state", stateOf(view));
  put(at("rollout-versions"), `${rollout.stable} → ${rollout.candidate}`);
  put(at("rollout-state"), statusWord(view));
  put(at("rollout-facts"), [...factsOf(view), `by ${rollout.actor}`, view.controller || isOver(rollout) ? "" : "no controller acts now"].filter(Boolean).join(" · "));
  fillSteps(at("rollout-stages"), stagesOf(rollout, one.shares));
  const turned = rollout.history.findLast(isRollback);
  const ending = turned ? `Rolled back at ${dayAndTime(turned.at)}: ${turned.reason}` : standingOf(rollout);
  put(at("rollout-why"), ending);
  flag(at("rollout-why"), "bad", Boolean(turned));
  at("rollout-why").hidden = !ending;
  for (const name of Object.keys(WISHES)) at(`rollout-${name}`).hidden = isSettled(rollout) || (name === "pause" && rollout.paused !== null) || (name === "resume" && rollout.paused === null);
  const span = spanOf(rollout, live.time);
  fillShare(chart("share", "Candidate’s share"), rollout, span);
  const known = series && series.rollout === rollout.id ? series : null;
  for (const [name, title] of CHARTS) fillSeries(chart(name, title), name, rollout, span, known || { spans: [], span_seconds: 0 });
  // When it has ended nobody tells a verdict any more: what was measured is compared once more.
  const verdict = view.verdict || (known && known.verdict);
  put(at("rollout-verdict"), verdict ? `${VERDICTS[verdict.kind]}: ${verdict.reason}` : "Nothing has been compared.");
  const compared = verdict ? [...(verdict.goal ? [verdict.goal] : []), ...verdict.comparisons] : [];
  at("rollout-measures-scroll").hidden = at("rollout-measures-note").hidden = compared.length === 0;
  sync(at("rollout-measures"), compared, (each) => `${each.measure} ${each.stratum} ${each.bound}`, makeMeasure, fillMeasure);
  sync(at("rollout-events"), rollout.history.toReversed(), (event) => `${event.rollout} ${event.number}`, makeEvent, fillEvent);
  const past = earlier(model, rollout);
  nothing("rollout-past", past.length, past, "None so far.");
  sync(at("rollout-past"), past, (event) => event.rollout, makeEvent, (part, event) => {
    fillEvent(part, event);
    put(part.phase, `${event.candidate}: ${phaseOf(event.phase)}`);
  });
}

function showRollouts(live) {
  const known = live.rollouts || [];
  at("rollouts").hidden = known.length === 0;
  sync(at("rollout-cards"), known, (one) => one.versions.model, makeRolloutCard, fillRolloutCard);
}

// Measures over time and earlier rollouts are asked for while the page is looked at.
PAGES.rollout = {
  show: showRolloutPage,
  paths: (model) => [`admin/rollouts/series?model=${model}`, `admin/rollouts/history?model=${model}&limit=500`],
  take: (found, told) => {
    series = found && found.series[0];
    events = told ? told.events : [];
  },
  forget: () => { [series, events] = [null, []]; },
};

function beginRollouts() {
  for (const [name, [title, text]] of Object.entries(WISHES)) {
    at(`rollout-${name}`).addEventListener("click", () => {
      const model = opened.model;
      ask({ title: `${title} the rollout of ${model}?`, text, button: title, path: `admin/rollouts/${name}`, body: () => ({ model }), done: () => "It is ordered; the controller follows within a second." });
    });
  }
}
