import contextlib
import dataclasses
import io
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from rich.console import Console

from gateway.cli.main import main
from loadtest.load.breakdown import bar_of
from loadtest.load.client import LoadResult
from loadtest.load.load_reports import print_added, print_breakdown, print_overhead, print_soak
from loadtest.load.overhead import MODES, Cell, added_cost, cell_of, combine, in_turn, overhead
from loadtest.load.processes import BenchError, command_line, process_tree
from loadtest.load.soak import SoakResult
from loadtest.load.stack import Stack, Variant
from loadtest.load.track import Track
from loadtest.reports.console import progress_bar
from loadtest.reports.statistics import Percentiles

LOOP = 5000.0
STACK = Stack(
    port=1,
    keys={"plain": "", "limited": "", "filtered": ""},
    config=Path("penstock.yaml"),
    gateway_pid=10,
    worker_pids=(11,),
    replica_pids=(20,),
    gateway_core=0,
    load_core=1,
)


def result(**more: object) -> LoadResult:
    values: dict[str, object] = {
        "seconds": 2.0,
        "requests": 10,
        "cpu_seconds": {10: 0.1, 11: 1.0, 12: 0.2, 20: 0.5},
        "core_seconds": {0: 1.5, 1: 1.0},
        "client_cpu_seconds": 0.5,
        "e2e_ms": [100.0] * 8,
        **more,
    }
    return LoadResult(**values)  # type: ignore[arg-type]


def shown(print_it: object, *arguments: object, width: int = 120) -> str:
    out = Console(file=io.StringIO(), width=width)
    print_it(*arguments, out)  # type: ignore[operator]
    text = out.file
    assert isinstance(text, io.StringIO)
    return text.getvalue()


def test_all_gateways_of_a_run_have_the_same_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int]] = []

    @contextlib.contextmanager
    def stack(engine: object, *, cores: tuple[int, int], **_: object) -> Iterator[Stack]:
        given.append(cores)
        yield STACK

    monkeypatch.setattr("loadtest.load.overhead.gateway_stack", stack)
    # A stack that is up has this process pinned, and whoever chose then would find one core.
    monkeypatch.setattr("loadtest.load.overhead.choose_cores", lambda: (7, 8) if not given else (8, 8))
    monkeypatch.setattr("loadtest.load.overhead.require_parsed_answers", lambda *_: None)
    monkeypatch.setattr(
        "loadtest.load.overhead._measure", lambda *_: cell_of("unary", 4, result(), STACK, (1.0, 2.0), LOOP)
    )
    overhead([4], ["unary"], beside=["observed", "thinking"], repeat=2)
    assert given == [(7, 8)] * 6


def test_rounds_are_measured_in_turn_with_the_same_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[Variant] = []
    seconds = iter((1.0, 3.0, 4.0, 2.0, 3.0, 9.0))

    def measure(_stack: Stack, _name: str, variant: Variant, *_: object) -> Cell:
        measured.append(variant)
        return unary_cells(variant, next(seconds))[0]

    started: list[None] = []

    @contextlib.contextmanager
    def stack(*_: object, **__: object) -> Iterator[Stack]:
        started.append(None)
        yield STACK

    monkeypatch.setattr("loadtest.load.overhead.gateway_stack", stack)
    monkeypatch.setattr("loadtest.load.overhead._measure", measure)
    parts: list[int] = []
    cells, (cost,) = overhead(
        [4], ["unary"], beside=["limited"], rounds=3, show=lambda _label, _done, total: parts.append(total)
    )
    assert measured == ["plain", "limited", "limited", "plain", "plain", "limited"]
    assert (len(started), {*parts}, len(cells)) == (1, {6}, 2)
    # Differences of 2, 2 and 6 seconds for 10 requests each.
    assert (cost.runs, cost.worker_us_per_request) == (3, 200_000)


def test_cpu_of_unary_requests_is_shared_among_those_that_succeeded() -> None:
    cell = cell_of("unary", 4, result(errors={"status 503": 2}), STACK, (100.0, 110.0), LOOP)
    assert cell.worker_us_per_request == 125_000
    assert cell.tree_us_per_request == 162_500
    assert cell.requests_per_s == 4.0
    assert (cell.worker_busy, cell.load_busy) == (0.5, 0.5)
    assert cell.others_busy == 0.1
    assert cell.worker_us_per_token is None
    assert cell.ttft_ms is None


def test_other_processes_are_warned_of() -> None:
    quiet = cell_of("unary", 4, result(), STACK, (100.0, 110.0), LOOP)
    noisy = cell_of("unary", 4, result(core_seconds={0: 1.3, 1: 1.6}), STACK, (100.0, 110.0), LOOP)
    assert noisy.others_busy == 0.3
    assert "WARNING" not in shown(print_overhead, [quiet], 1)
    assert "up to 30% of a core" in shown(print_overhead, [quiet, noisy], 1)
    one_core = dataclasses.replace(STACK, load_core=0)
    assert one_core.others_busy(result(core_seconds={0: 3.3})) == 0.5


def unary_cells(variant: Variant, *worker_seconds: float, loops: Sequence[float] = ()) -> list[Cell]:
    results = [result(cpu_seconds={10: 0.0, 11: each, 12: 0.0, 20: 0.5}) for each in worker_seconds]
    return [
        cell_of("unary", 4, each, STACK, (1.0, 1.0), loop, variant=variant, batches=0.5)
        for each, loop in zip(results, loops or [LOOP] * len(results), strict=True)
    ]


@pytest.mark.parametrize("variant", ["limited", "filtered"])
def test_what_a_variant_adds_is_the_median_of_each_runs_own_difference(variant: Variant) -> None:
    # The runs differ by more than the variant costs: medians of each side alone would give 0.2 s.
    cost = added_cost(unary_cells("plain", 1.0, 2.0, 5.0), unary_cells(variant, 1.1, 2.2, 5.1), LOOP)
    assert (cost.mode, cost.variant, cost.concurrency, cost.runs) == ("unary", variant, 4, 3)
    assert cost.worker_us_per_request == pytest.approx(10_000)
    assert cost.worker_us_per_token is None
    assert cost.batches_per_request == 0.5


def test_runs_in_which_the_core_was_slow_are_left_out_while_there_are_others() -> None:
    plain = unary_cells("plain", 1.0, 1.0, 1.0, 1.0, 1.0, loops=[LOOP, LOOP, 2 * LOOP, LOOP, LOOP])
    filtered = unary_cells("filtered", 1.1, 1.3, 1.1, 1.5, 1.1, loops=[LOOP, LOOP, LOOP, LOOP, 1.5 * LOOP])
    cost = added_cost(plain, filtered, LOOP)
    assert (cost.runs, cost.slow) == (3, 2)
    assert cost.worker_us_per_request == pytest.approx(30_000)
    assert "2 of 5 runs are left out" in shown(print_added, [cost])
    few = added_cost(plain[2:], filtered[2:], LOOP)
    assert (few.runs, few.slow) == (3, 0)
    assert "left out" not in shown(print_added, [few])


def test_one_table_has_what_limits_and_filters_add() -> None:
    limited = added_cost(unary_cells("plain", 1.0), unary_cells("limited", 1.1), LOOP)
    filtered = added_cost(unary_cells("plain", 1.0), unary_cells("filtered", 1.2), LOOP)
    text = shown(print_added, [limited, filtered], width=80)
    rows = [line.split() for line in text.splitlines() if line.strip().startswith(("limits ", "filters "))]
    assert [(row[0], row[-3]) for row in rows] == [("limits", "10000/10000"), ("filters", "20000/20000")]
    assert "\nLimits: " in text
    assert "a blocklist of 10,000 terms" in " ".join(text.split())
    assert "\nFilters: " not in shown(print_added, [limited])
    assert "\nLimits: " not in shown(print_added, [filtered])


def test_each_variant_comes_first_in_turn() -> None:
    variants: tuple[Variant, ...] = ("plain", "limited", "filtered")
    assert [in_turn(variants, turn) for turn in range(4)] == [
        ("plain", "limited", "filtered"),
        ("limited", "filtered", "plain"),
        ("filtered", "plain", "limited"),
        ("plain", "limited", "filtered"),
    ]
    assert in_turn(("plain",), 5) == ("plain",)


def test_cpu_of_streams_is_shared_among_tokens_that_arrived() -> None:
    # 1000 events came in the window; answers that ended in it had 10 tokens in 20 events.
    loaded = result(events=1000, output_tokens=10, answer_events=20, ttft_ms=[30.0, 50.0])
    cell = cell_of("paced", 4, loaded, STACK, (100.0, 110.0), LOOP)
    assert cell.tokens_per_s == 250.0
    assert cell.worker_us_per_token == 2000
    assert cell.tree_us_per_token == 2600
    assert cell.worker_us_per_request is None
    assert cell.added_ttft_most_ms == Percentiles(20.0, 28.0, 29.8)
    assert cell.added_ttft_least_ms == Percentiles(5.0, 9.0, 9.9)


def test_a_cell_without_any_success_has_no_costs() -> None:
    cell = cell_of("stream", 4, result(errors={"no [DONE]": 10}, e2e_ms=[]), STACK, (1.0, 1.0), LOOP)
    assert cell.worker_us_per_token is None
    assert cell.e2e_ms is None
    assert "10 no [DONE]" in shown(print_overhead, [cell], 1)


def test_repeats_become_medians() -> None:
    cells = [
        cell_of("unary", 4, result(seconds=seconds, errors={"status 503": 1}), STACK, (100.0, peak), LOOP)
        for seconds, peak in ((1.0, 130.0), (2.0, 120.0), (4.0, 110.0))
    ]
    cell = combine(cells)
    assert cell.seconds == 2.0
    assert cell.requests == 30
    assert cell.errors == {"status 503": 3}
    assert cell.worker_peak_mb == 130.0
    assert cell.e2e_ms == Percentiles(100.0, 100.0, 100.0)


def test_windows_and_ramps_fit_their_modes() -> None:
    assert MODES["unary"].requests(1) == 400
    assert MODES["unary"].requests(64) == 6000
    assert MODES["paced"].requests(1024) == 3072
    assert MODES["paced"].ramp_seconds == pytest.approx(2.56)
    assert MODES["stream"].ramp_seconds == 0


def test_tables_keep_a_row_on_a_line_of_80_columns() -> None:
    loaded = result(requests=6000, events=1000, output_tokens=10, answer_events=20, ttft_ms=[30.0, 50.0])
    cell = cell_of("paced", 1024, loaded, STACK, (100.0, 110.0), LOOP, variant="filtered")
    text = shown(print_overhead, [cell], 3, width=80)
    assert "medians of 3 runs" in text
    rows = [line.split() for line in text.splitlines() if line.strip().startswith("filters")]
    assert [(row[1], row[-1]) for row in rows] == [("1,024", "0"), ("1,024", "100/100/100")]


def test_the_gateways_latency_is_what_the_engine_did_not_take() -> None:
    loaded = result(requests=2, e2e_ms=[100.0, 110.0], engine_ms=[90.0, 90.0], queue_ms=[4.0, 6.0], output_tokens=40)
    bar = bar_of(2, loaded, STACK)
    assert (bar.gateway_ms, bar.queue_ms, bar.engine_ms, bar.total_ms) == (10.0, 5.0, 90.0, 105.0)
    assert bar.output_tokens == 20
    assert bar.load_busy == 0.5
    assert "9.52%" in shown(print_breakdown, [bar])


def test_a_breakdown_needs_the_engines_times() -> None:
    with pytest.raises(BenchError, match="x-penstock-engine-ms"):
        bar_of(2, result(), STACK)
    with pytest.raises(BenchError, match="no request succeeded"):
        bar_of(2, result(e2e_ms=[], errors={"status 500": 10}), STACK)


def soaked(series: list[tuple[int, float]], **more: object) -> SoakResult:
    values: dict[str, object] = {"requests": 100_000, "warmup": 10, "errors": {}, "seconds": 10.0, "bound_mb": 5.0}
    return SoakResult(series=series, **{**values, **more})  # type: ignore[arg-type]


def test_a_soak_judges_growth() -> None:
    leak = soaked([(n * 1000, 100 + n * 0.1) for n in range(101)])
    assert leak.growth_mb == pytest.approx(9.8)
    assert leak.mb_per_100k == pytest.approx(10.0)
    assert not leak.passed
    assert "NOT flat" in shown(print_soak, leak)
    assert soaked([(0, 100.0), (1000, 101.0)]).passed
    assert not soaked([(0, 100.0), (1000, 101.0)], errors={"status 500": 1}).passed
    assert not soaked([]).passed


def test_progress_counts_parts() -> None:
    seen: list[tuple[str, float, int]] = []
    track = Track(2, lambda *call: seen.append(call))
    track.at("a", 0.5)
    track.part_done()
    track.at("b", 7.0)
    assert seen == [("a", 0.5, 2), ("b", 2.0, 2)]
    Track(1).at("nobody looks")


def test_without_a_terminal_there_is_no_progress_bar() -> None:
    with progress_bar() as show:
        assert show is None


def test_the_overhead_command_runs_and_leaves_no_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    children = set(process_tree(os.getpid()))
    output = tmp_path / "overhead.json"
    arguments = ["bench", "overhead", "--concurrency", "1", "--modes", "stream", "--requests", "2", "--parsing"]
    assert main([*arguments, "--json", str(output)]) == 0
    assert "stream, thinking" in capsys.readouterr().out
    document = json.loads(output.read_bytes())
    cells = document["results"]["loads"]
    assert [cell["variant"] for cell in cells] == ["plain", "parsed", "thinking", "calling"]
    for cell in cells:
        assert (cell["mode"], cell["concurrency"], cell["requests"]) == ("stream", 1, 2)
        assert (cell["errors"], cell["statuses"]) == ({}, {"200": 2})
        assert cell["tokens_per_s"] > 0
        assert cell["worker_peak_mb"] > 10
    assert [cost["variant"] for cost in document["results"]["added"]] == ["parsed", "thinking", "calling"]
    assert document["settings"]["requests"] == 2
    left = set(process_tree(os.getpid())) - children
    assert not [command_line(pid) for pid in left if "gateway.cli.main" in command_line(pid)]


def test_limits_and_filters_are_measured_beside_the_plain_load(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "overhead.json"
    arguments = ["--concurrency", "2", "--modes", "unary", "--requests", "20", "--limits", "--filters"]
    assert main(["bench", "overhead", *arguments, "--json", str(output)]) == 0
    assert "unary, filters" in capsys.readouterr().out
    results = json.loads(output.read_bytes())["results"]
    assert [cell["variant"] for cell in results["loads"]] == ["plain", "limited", "filtered"]
    assert [cell["statuses"] for cell in results["loads"]] == [{"200": 20}] * 3
    assert [(cost["variant"], cost["runs"]) for cost in results["added"]] == [("limited", 1), ("filtered", 1)]


def test_there_is_nothing_to_take_apart_of_an_upstreams_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "overhead", "--engine", "openai", "--parsing"]) == 1
    assert "nothing to take apart" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        (["--modes", "fast"], "'fast' is none of unary, paced, stream"),
        (["--modes", "unary,paced,unary"], "unary is given twice"),
        (["--concurrency", "0"], "must be at least 1"),
        (["--concurrency", "x"], "'x'"),
        (["--concurrency", "64,64"], "64 is given twice"),
    ],
)
def test_bad_options_are_refused(option: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "overhead", *option])
    said = capsys.readouterr().err
    assert f"argument {option[0]}: " in said
    assert problem in said
