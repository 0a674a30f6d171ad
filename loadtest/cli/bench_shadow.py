"""`penstock bench shadow`: measures what clients notice of copies of their requests."""

import argparse
from collections.abc import Callable
from pathlib import Path

_Guard = Callable[[Callable[[argparse.Namespace], int]], Callable[[argparse.Namespace], int]]


def register(
    benchmarks: "argparse._SubParsersAction[argparse.ArgumentParser]", guarded: _Guard, positive: Callable[[str], int]
) -> None:
    """Add the `shadow` benchmark."""
    parser = benchmarks.add_parser(
        "shadow", help="latencies of clients with copies of all their requests at a candidate, and without"
    )
    parser.add_argument("--clients", type=positive, default=8, help="each with one chat at a time (default: 8)")
    parser.add_argument("--requests", type=positive, default=1000, help="chats in each measurement (default: 1000)")
    parser.add_argument("--repeat", type=positive, default=3, metavar="K", help="measure K times, give medians")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results as JSON")
    parser.set_defaults(run=guarded(_shadow))


def _shadow(arguments: argparse.Namespace) -> int:
    from loadtest.load.rollouts.shadow_load import shadow_load
    from loadtest.reports.console import console, new_table, progress_bar, write_json

    with progress_bar() as show:
        result = shadow_load(arguments.clients, requests=arguments.requests, repeat=arguments.repeat, show=show)
    table = new_table(
        f"{result.clients} clients, and copies of all their requests, medians of {result.runs} runs",
        *("ms: p50/p90/p99", "without", "with", "p99 ratio"),
    )
    for name, without, beside, ratio in (
        ("first token", result.first_without_ms, result.first_with_ms, result.first_ratio),
        ("whole answer", result.whole_without_ms, result.whole_with_ms, result.ratio),
    ):
        shown = [f"{each.p50:.1f}/{each.p90:.1f}/{each.p99:.1f}" for each in (without, beside)]
        table.add_row(name, *shown, f"{ratio:.4f}")
    console().print(table)
    console().print(f"{result.compared} copies were answered, {result.left_out} left out; {result.errors} errors.")
    if arguments.json:
        settings = {name: getattr(arguments, name) for name in ("clients", "requests", "repeat")}
        write_json(arguments.json, "shadow", result, settings)
    return 1 if result.errors else 0
