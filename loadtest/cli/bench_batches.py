"""`penstock bench batches`: measures a batch beside an interactive client."""

import argparse
from collections.abc import Callable
from pathlib import Path

_Guard = Callable[[Callable[[argparse.Namespace], int]], Callable[[argparse.Namespace], int]]


def register(
    benchmarks: "argparse._SubParsersAction[argparse.ArgumentParser]", guarded: _Guard, positive: Callable[[str], int]
) -> None:
    """Add the `batches` benchmark."""
    parser = benchmarks.add_parser(
        "batches", help="how fast a batch drains in what an interactive client leaves, and what that client notices"
    )
    parser.add_argument("--clients", type=positive, default=8, help="each with one chat at a time (default: 8)")
    parser.add_argument("--requests", type=positive, default=500, help="chats in each measurement (default: 500)")
    parser.add_argument("--repeat", type=positive, default=3, metavar="K", help="measure K times, give medians")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results as JSON")
    parser.set_defaults(run=guarded(_batches))


def _batches(arguments: argparse.Namespace) -> int:
    from loadtest.load.batch_drain import drain
    from loadtest.load.load_reports import print_drain
    from loadtest.reports.console import console, progress_bar, write_json

    with progress_bar() as show:
        result = drain(arguments.clients, requests=arguments.requests, repeat=arguments.repeat, show=show)
    print_drain(result, console())
    if arguments.json:
        settings = {name: getattr(arguments, name) for name in ("clients", "requests", "repeat")}
        write_json(arguments.json, "batches", result, settings)
    return 1 if result.errors else 0
