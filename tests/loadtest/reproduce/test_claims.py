"""The claims are checks: tables that bear them out, and tables that do not."""

import msgspec

from loadtest.reproduce import amoeba_14, deepflow_5, deepflow_6, deepflow_8, scalellm_8, scalellm_9
from loadtest.reproduce.concurrency_sweep import Sweep, passes_at
from loadtest.reproduce.deepflow_6 import AUTO, AWARE, BLIND, COMBINED, RR, Point
from loadtest.simulation.heatmap_search import Plan
from loadtest.simulation.reshape.reshape_run import ReshapeResult

SWEEP = Sweep(low=(1, 8), high=(64, 128, 256))


def test_figure_8_as_the_paper_draws_it_and_turned_round() -> None:
    wide = {1: 9.0, 8: 9.0, 64: 9.0, 128: 9.0, 256: 9.0}
    table = {
        c: {scalellm_8.TP8: wide[c], scalellm_8.TP4: 8.0 if c < 64 else 10.0, scalellm_8.TP2: 7.0 if c < 64 else 20.0}
        for c in wide
    }
    assert all(claim.holds for claim in scalellm_8.claims(table, SWEEP))
    turned = {c: {name: 1 / value for name, value in row.items()} for c, row in table.items()}
    assert not any(claim.holds for claim in scalellm_8.claims(turned, SWEEP))


def test_figure_9_as_the_paper_draws_it_and_turned_round() -> None:
    rows = {1: (10.0, 11.0, 9.0), 8: (10.0, 11.0, 9.0), 64: (10.0, 12.0, 11.0), 128: (10.0, 12.0, 11.0)}
    rows[256] = (10.0, 16.0, 12.0)
    table = {
        c: dict(zip((scalellm_9.TP8, scalellm_9.EP2, scalellm_9.EP4), row, strict=True)) for c, row in rows.items()
    }
    assert all(claim.holds for claim in scalellm_9.claims(table, SWEEP))
    turned = {c: {name: 1 / value for name, value in row.items()} for c, row in table.items()}
    assert not any(claim.holds for claim in scalellm_9.claims(turned, SWEEP))


def test_who_passes_whom_and_where() -> None:
    table = {1: {"a": 1.0, "b": 2.0}, 2: {"a": 3.0, "b": 2.0}, 4: {"a": 1.0, "b": 2.0}, 8: {"a": 3.0, "b": 2.0}}
    assert passes_at(table, "a", "b") == 8
    assert passes_at(table, "b", "a") is None


def test_figure_5_as_the_paper_draws_it_and_turned_round() -> None:
    plan = Plan(deepflow_5.MODEL, (1.0, 2.0), (256, 4096), (0.1, 1.0))
    cells = ((-0.02, -0.05), (0.6, 0.2))
    good = deepflow_5.Maps("one", (cells, cells))
    assert all(claim.holds for claim in deepflow_5.claims(plan, [good]))
    turned = tuple(tuple(-cell for cell in row) for row in cells)
    bad = deepflow_5.Maps("one", (turned, turned))
    found = [claim.holds for claim in deepflow_5.claims(plan, [bad])]
    assert found == [False, False, False, False, True]
    fickle = deepflow_5.Maps("one", (cells, turned))
    assert not list(deepflow_5.claims(plan, [fickle]))[-1].holds


def points(*jct: float) -> list[Point]:
    return [Point(value, 0.02, 0.3, in_time) for value, in_time in zip(jct, (1.0, 0.9, 0.5), strict=True)]


def test_figure_6_as_the_paper_draws_it_and_turned_round() -> None:
    rates = (1.0, 10.0, 20.0)
    rr, ours = points(1.0, 2.0, 5.0), points(1.0, 1.5, 4.0)
    good = {RR: rr, BLIND: points(1.0, 1.5, 6.0), AWARE: ours, COMBINED: ours, AUTO: ours}
    assert all(claim.holds for claim in deepflow_6.claims("a load", rates, good))
    late = [Point(point.jct * 1.1, point.tpot, point.on_pair, 0.0) for point in rr]
    bad = {RR: rr, BLIND: points(2.0, 4.0, 5.0), AWARE: late, COMBINED: late, AUTO: late}
    assert not any(claim.holds for claim in deepflow_6.claims("a load", rates, bad))


def test_figures_8_to_10_as_the_paper_draws_them_and_turned_round() -> None:
    found = deepflow_8.reproduce().points
    assert isinstance(found, dict)
    assert all(claim.holds for claim in deepflow_8.claims(found))
    turned = {
        name: msgspec.structs.replace(
            one,
            steps={case: one.steps[deepflow_8.NOTHING] | {"process": 0.1} for case in one.steps},
            loads={"disk": 0.1, "page_cache": 0.2, "fork": 2.0 * one.tp, "slow_fork": 2.0 * one.tp},
            load_of={count: 1.0 * count for count in one.load_of},
            busy=2.5 * one.tp,
            wary=0.3,
        )
        for name, one in found.items()
    }
    assert not any(claim.holds for claim in deepflow_8.claims(turned))


def shaped(rate: float, in_time: float = 1.0, refused: int = 0) -> ReshapeResult:
    return ReshapeResult(rate, 1.0, 2.0, 9.0, 0.05, in_time, in_time, refused, 60.0, [])


def test_figure_14_as_the_paper_draws_it_and_turned_round() -> None:
    good = {name: [shaped(20.0 if name == amoeba_14.OURS else 10.0)] for name in amoeba_14.NAMES}
    found = list(amoeba_14.claims("a load", [4.0], good))
    assert [one.ours for one in found] == [False, False, False, True, True]
    assert all(one.holds for one in found)
    bad = good | {amoeba_14.OURS: [shaped(9.7)]}
    assert not any(one.holds for one in amoeba_14.claims("a load", [4.0], bad))


def test_shapes_that_refuse_requests_are_no_rivals_of_those_that_hold_them_all() -> None:
    fast, all_held, slow = shaped(20.0, refused=3), shaped(10.0, 0.5), shaped(8.0, 0.9)
    assert amoeba_14.serving([fast, all_held, slow]) == [all_held, slow]
    assert amoeba_14.serving([fast]) == [fast]
    assert amoeba_14.best_of([all_held, slow]) is slow
