"""Rollouts as lines of text."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal

from gateway.rollouts.comparison.difference import GOOD_CALLS
from gateway.rollouts.rollout_registry import ModelVersions, RolloutView
from gateway.rollouts.shadow.shadow_sums import ShadowReport
from observability.terminal import table, wrapped
from routing.rollouts.measures.events import RATES, TIMES
from routing.rollouts.rollout import ENDED, SERVING, Event, Rollout
from routing.rollouts.stages import SETTLED
from routing.rollouts.verdicts.judge import TESTS
from routing.rollouts.verdicts.verdict import Comparison, Verdict

#: Events that the status has.
_LAST = 8
#: Most characters of the bar of shares, and so few that it still tells stages apart.
_BAR = 40
_LEAST_BAR = 20
_WISHES = {"promote": "promoted", "abort": "aborted"}
_STANDINGS = {
    "better": "better",
    "as_good": "as good",
    "leaning": "not sure",
    "worse": "WORSE",
    "too_few": "too few",
}


def model_rows(models: Sequence[ModelVersions]) -> list[Sequence[str]]:
    """Return a table of models, its header first."""
    rows: list[Sequence[str]] = [("MODEL", "STABLE", "CANDIDATE", "PLAN", "PHASE", "SHARE", "VERDICT", "SINCE (UTC)")]
    for model in models:
        view = model.rollout
        if view is None:
            rows.append((model.model, model.stable, *["-"] * 2, "unreadable" if model.unreadable else "-", *["-"] * 3))
            continue
        rollout = view.rollout
        verdict = rollout.verdict or "-"
        share = "-" if rollout.phase in ENDED else f"{100 * rollout.share:g} %"
        plan = _plan(rollout)
        rows.append(
            (
                *(model.model, model.stable, rollout.candidate, plan, phase_of(view), share),
                *(verdict.replace("_", " "), _time(rollout.since)),
            )
        )
    return rows


def phase_of(view: RolloutView) -> str:
    """Return where a rollout is, in a word or two."""
    rollout = view.rollout
    stages = len(rollout.settings.shares)
    phase = f"stage {rollout.stage + 1} of {stages}" if rollout.phase == "shifting" else rollout.phase.replace("_", " ")
    return f"{phase}, paused" if rollout.paused is not None else phase


def status_lines(model: ModelVersions, width: int) -> Iterator[str]:
    """Yield all that is known of a model's rollout."""
    view = model.rollout
    if model.unreadable:
        keys = ", ".join(model.unreadable)
        words = f"{model.model}: this program version cannot read what the store has of it in {keys}; `penstock rollout"
        yield from wrapped(f"{words} abort {model.model}` clears it", width, first="")
    if view is None:
        had = "its rollout is not known" if model.unreadable else "it has had no rollout"
        yield f"{model.model}: {model.stable} is stable; {had}"
        return
    rollout = view.rollout
    began = f"from {rollout.stable} to {rollout.candidate} ({_plan(rollout)})"
    words = f"{model.model}: {began}, since {_time(rollout.started)} UTC by {rollout.actor}"
    yield from wrapped(words, width, first="")
    yield from wrapped(f"{phase_of(view)}: {_decided(rollout)}", width)
    if rollout.phase not in ENDED:
        if rollout.phase in SERVING:
            yield from wrapped(_bar(rollout, width), width)
        # The verdict is told below.
        said = view.verdict.reason if view.verdict is not None and rollout.phase in SERVING else ""
        if problem := rollout.problem.removesuffix(said).removesuffix(": "):
            yield from wrapped(f"waits: {problem}", width)
        if view.wish in _WISHES and rollout.phase not in SETTLED:
            yield f"  an operator wants it {_WISHES[view.wish]}"
        if not view.controller:
            yield "  no controller acts now"
        if view.verdict is not None and rollout.phase in SERVING:
            yield from _verdict(view.verdict, rollout, width)
    if view.shadow is not None:
        yield from _shadow(view.shadow, width)
    totals, back = model.totals, sum(model.totals.rolled_back.values())
    counted = f"{totals.promoted} promoted, {back} rolled back, {totals.reported} reported"
    yield from wrapped(f"{model.stable} is stable; rollouts so far: {counted}", width)
    yield ""
    yield from event_lines(rollout.history[-_LAST:], width, of="one")


def _decided(rollout: Rollout) -> str:
    """Return why it is where it is: of one that has ended what decided it, not that the last requests are over."""
    told = reversed(rollout.history if rollout.phase in ENDED else ())
    return next((event.reason for event in told if event.cause != "drained"), rollout.reason)


def event_lines(events: Sequence[Event], width: int, *, of: Literal["one", "model", "all"]) -> Iterator[str]:
    """Yield a line for each event, wrapped. `of`: one rollout, or more, which are named by candidate and model."""
    for event in events:
        share = f", {100 * event.share:g} %" if event.share else ""
        verdict = f", {event.verdict.replace('_', ' ')}" if event.verdict is not None else ""
        counted = f" ({_requests(event.requests)}{verdict})" if event.requests else ""
        name = {"one": "", "model": f" {event.candidate}", "all": f" {event.model} {event.candidate}"}[of]
        words = f"{_time(event.at)}{name} {_phase_of_event(event)}{share}: {event.reason}{counted}"
        yield from wrapped(words, width, first="")


def _phase_of_event(event: Event) -> str:
    if event.phase == "shifting":
        return f"stage {event.stage + 1}"
    # A shadow that was reported leaves its candidate as well.
    return "reported" if event.cause == "reported" else event.phase.replace("_", " ")


def _bar(rollout: Rollout, width: int) -> str:
    """Draw the candidate's share, with the stages that are still to come."""
    words = f"{100 * rollout.share:g} % to {rollout.candidate}, {_requests(rollout.requests)} in this stage"
    # Brackets, a space and the indentation take the rest; where names are long, the words have a line of their own.
    beside = max(width, 40) - len(words) - 5
    cells = min(_BAR, beside if beside >= _LEAST_BAR else max(width, 40) - 10)
    filled = round(cells * rollout.share)
    marks = {min(round(cells * share), cells - 1) for share in rollout.settings.shares if share > rollout.share}
    drawn = "".join("#" if place < filled else "|" if place in marks else "." for place in range(cells))
    return f"[{drawn}] {words}"


def _verdict(verdict: Verdict, rollout: Rollout, width: int) -> Iterator[str]:
    yield from wrapped(f"{verdict.kind.replace('_', ' ')}: {verdict.reason}", width)
    # What neither version has had once tells nothing.
    shown = [
        one
        for one in verdict.comparisons
        if one.stratum is None and one.standing != "too_few" and (one.baseline or one.candidate)
    ]
    if not shown:
        return
    lines = _compared(rollout.stable, rollout.candidate, shown)
    if max(map(len, lines)) + 2 > width:
        lines = _compared("STABLE", "CANDIDATE", shown)
    yield from (f"  {line}" for line in lines)
    sure = 100 * (1 - rollout.settings.bounds.false_rollbacks / TESTS)
    words = (
        f"RATIO: how many times {rollout.stable}'s the value of {rollout.candidate} is. Times are compared on like "
        "prompts in the same ten seconds and at the same load of each replica, so that their ratio is not that of the "
        f"columns beside it, which are of all requests. INTERVAL: has the true ratio with {sure:.2f} %, at every look."
    )
    yield from wrapped(words, width)


def _compared(stable: str, candidate: str, shown: Sequence[Comparison]) -> list[str]:
    return list(table([("MEASURE", stable, candidate, "RATIO", "INTERVAL", "STANDING"), *map(_row, shown)]))


def _shadow(report: ShadowReport, width: int) -> Iterator[str]:
    """Say what copies of requests have shown."""
    found, (baseline, candidate) = report.differences, report.seconds
    words = f"copies: {found.compared} compared, {found.alike:.1%} alike, {found.same:.1%} the same"
    if found.greedy_same is not None:
        words += f", of {found.greedy} without randomness {found.greedy_same:.1%} the same"
    words += f"; similarity {found.similarity:.2f}, length x{found.length_ratio:.2f}"
    told = [("candidate failed", found.candidate_failed), ("broken JSON or calls", found.broken)]
    told += [(f"calls {name}", count) for name, count in found.calls.items() if name not in GOOD_CALLS]
    told += [(f"finish {name}", count) for name, count in found.finishes.items()]
    told += [(f"left out ({name})", count) for name, count in report.left_out.items()]
    words += "".join(f"; {count} {name}" for name, count in told if count)
    if found.compared:
        words += f"; {baseline:.2f} s and {candidate:.2f} s for an answer"
    yield from wrapped(words, width)


def _row(one: Comparison) -> tuple[str, ...]:
    return (
        one.measure,
        _value(one, one.baseline),
        _value(one, one.candidate),
        "-" if one.ratio is None else f"x{one.ratio:.2f}",
        _interval(one),
        _STANDINGS[one.standing],
    )


def _interval(one: Comparison) -> str:
    if one.high is not None:
        return f"x{one.low:.2f} to x{one.high:.2f}"
    return f"x{one.low:.2f} or more" if one.low else "-"


def _value(one: Comparison, value: float) -> str:
    """Return a value with its unit; of a trend, what times are multiplied by in a minute."""
    if one.measure.endswith("_trend"):
        return f"x{value:.3g}/min"
    if one.measure in RATES or one.measure == "error_rate":
        return f"{100 * value:.3g} %"
    if one.measure.removesuffix("_p99") in TIMES:
        return f"{1000 * value:.3g} ms" if value < 1 else f"{value:.3g} s"
    return f"{value:.4g}"


def _plan(rollout: Rollout) -> str:
    """Return the plan as `--plan` takes it."""
    return rollout.settings.plan.replace("_", "-")


def _requests(count: int) -> str:
    return f"{count} request" if count == 1 else f"{count} requests"


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"
