"""`penstock bench prompts`: measures long prompts."""

import argparse
from collections.abc import Callable
from pathlib import Path

_Guard = Callable[[Callable[[argparse.Namespace], int]], Callable[[argparse.Namespace], int]]


def register(
    benchmarks: "argparse._SubParsersAction[argparse.ArgumentParser]",
    guarded: _Guard,
    positive: Callable[[str], int],
    positives: Callable[[str], list[int]],
) -> None:
    """Add the `prompts` benchmark."""
    parser = benchmarks.add_parser(
        "prompts", help="CPU for a long prompt, with shared prefixes and growing conversations, and event-loop lag"
    )
    parser.add_argument("--tokens", type=positive, default=100_000, help="about how long a prompt is (default: 100000)")
    parser.add_argument(
        "--shared",
        type=positives,
        default=positives("4000,90000"),
        metavar="N,...",
        help="about how many first tokens all prompts share (default: 4000,90000)",
    )
    parser.add_argument("--requests", type=positive, default=200, help="in each load with one worker (default: 200)")
    parser.add_argument(
        "--rate",
        type=float,
        default=150.0,
        help="requests of 220 KB that arrive a second at two workers; 0: leave these loads out (default: 150)",
    )
    parser.add_argument("--open-requests", type=positive, default=1_500, help="of that load (default: 1500)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results as JSON")
    parser.set_defaults(run=guarded(_prompts))


def _prompts(arguments: argparse.Namespace) -> int:
    from loadtest.load.load_reports import print_prompts
    from loadtest.load.long_prompts import long_prompts
    from loadtest.reports.console import console, progress_bar, write_json

    with progress_bar() as show:
        results = long_prompts(
            arguments.tokens,
            arguments.shared,
            requests=arguments.requests,
            rate=arguments.rate,
            open_requests=arguments.open_requests,
            show=show,
        )
    print_prompts(results, console())
    if arguments.json:
        names = ("tokens", "shared", "requests", "rate", "open_requests")
        write_json(arguments.json, "prompts", results, {name: getattr(arguments, name) for name in names})
    return 1 if any(result.errors for result in results) else 0
