"""The results of a study of rollouts as a table."""

from collections.abc import Sequence

from loadtest.simulation.rollouts.rollout_study import ScenarioResult

HEADER = (
    "candidate",
    "runs",
    "rolled back",
    "(at most)",
    "promoted",
    "still held",
    "its requests until then: median, p95",
    "seconds: median, p95",
    "found by",
)


def rows(results: Sequence[ScenarioResult]) -> list[tuple[str, ...]]:
    """Return a row for each scenario."""
    return [
        (
            each.scenario,
            f"{each.runs:,}",
            _percent(each.rolled_back),
            f"({_percent(each.rolled_back_most)})" if each.good else "",
            _percent(each.promoted),
            _percent(each.waiting),
            _pair(each.requests),
            _pair(each.seconds),
            ", ".join(f"{cause} {_percent(count / each.runs)}" for cause, count in list(each.reasons.items())[:3]),
        )
        for each in results
    ]


def markdown(results: Sequence[ScenarioResult]) -> str:
    """Return the table as Markdown."""
    lines = [HEADER, ("---",) * len(HEADER), *rows(results)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.4g} %"


def _pair(values: tuple[int, int] | None) -> str:
    return "" if values is None else f"{values[0]:,}, {values[1]:,}"
