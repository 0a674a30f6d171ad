"""`penstock bench cost`: counts what requests cost, in figures that do not depend on the machine."""

import argparse
from collections.abc import Callable

from loadtest.cli.bench_arguments import output_file

_Guard = Callable[[Callable[[argparse.Namespace], int]], Callable[[argparse.Namespace], int]]


def register(
    benchmarks: "argparse._SubParsersAction[argparse.ArgumentParser]", guarded: _Guard, positive: Callable[[str], int]
) -> None:
    """Add the `cost` benchmark."""
    parser = benchmarks.add_parser("cost", help="what requests cost in bytecodes, by package: counts, no times")
    parser.add_argument("--scenarios", metavar="NAME,...", help="which requests (default: all)")
    parser.add_argument("--functions", type=positive, metavar="N", help="also list the N dearest functions of each")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="also write the results as JSON, by function")
    parser.set_defaults(run=guarded(_cost))


def _cost(arguments: argparse.Namespace) -> int:
    from loadtest.cost.cost_report import print_functions, print_packages
    from loadtest.cost.measure import measure
    from loadtest.cost.scenarios import named
    from loadtest.reports.console import console, progress_bar, write_json

    scenarios = named(arguments.scenarios)
    with progress_bar() as show:
        found = measure(scenarios, show)
    out = console()
    print_packages(found, out)
    if arguments.functions:
        print_functions(found, arguments.functions, out)
    if arguments.json:
        write_json(arguments.json, "cost", found, {"scenarios": arguments.scenarios})
    return 0
