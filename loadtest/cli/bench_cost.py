"""`penstock bench cost`: counts what requests cost, in figures that do not depend on the machine."""

import argparse
from collections.abc import Callable
from pathlib import Path

from loadtest.cli.bench_arguments import output_file

_Guard = Callable[[Callable[[argparse.Namespace], int]], Callable[[argparse.Namespace], int]]
_KINDS = ("bytecodes", "wire", "instructions")


def register(
    benchmarks: "argparse._SubParsersAction[argparse.ArgumentParser]", guarded: _Guard, positive: Callable[[str], int]
) -> None:
    """Add the `cost` benchmark."""
    parser = benchmarks.add_parser(
        "cost", help="what requests cost, in counts and not in times; exits with 1 over the budget"
    )
    parser.add_argument(
        "--scenarios", metavar="NAME,...", help="which requests (default: all; an unknown name lists them)"
    )
    parser.add_argument(
        "--counts",
        type=_kinds,
        default=list(_KINDS),
        metavar="KIND,...",
        help="of bytecodes, wire (bytes, round trips, system calls), instructions (and allocations, by valgrind; "
        "the longest); default: all",
    )
    parser.add_argument("--functions", type=positive, metavar="N", help="also list the N dearest functions of each")
    parser.add_argument("--against", type=Path, metavar="FILE", help="also list what grew since this run's JSON")
    parser.add_argument("--plot", type=output_file, metavar="FILE.png", help="also draw bytecodes by package")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="also write the results as JSON, by function")
    parser.add_argument(
        "--write-budget", action="store_true", help="make these figures the budget instead of comparing"
    )
    parser.set_defaults(run=guarded(_cost))


def _kinds(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in _KINDS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(_KINDS)}")
    return [kind for kind in _KINDS if kind in names]


def _cost(arguments: argparse.Namespace) -> int:
    from loadtest.cost.budget import BUDGET_FILE, overdrafts, python_version, read_budget, write_budget
    from loadtest.cost.cost_plot import draw_cost
    from loadtest.cost.cost_report import print_functions, print_grown, print_overdrafts, print_prices
    from loadtest.cost.earlier_run import read_run
    from loadtest.cost.measure import left_out, measure
    from loadtest.cost.scenarios import named
    from loadtest.load.processes import BenchError
    from loadtest.reports.console import console, progress_bar, write_json

    scenarios = named(arguments.scenarios)
    if arguments.plot and "bytecodes" not in arguments.counts:
        raise BenchError("--plot draws bytecodes, which --counts leaves out")
    earlier = read_run(arguments.against) if arguments.against else None
    with progress_bar() as show:
        found = measure(scenarios, arguments.counts, show)
    out = console()
    print_prices(found, out)
    for why in left_out(arguments.counts):
        out.print(f"Left out: {why}")
    if arguments.functions:
        print_functions(found, arguments.functions, out)
    if earlier is not None:
        print_grown(earlier, found, out)
    if arguments.json:
        write_json(arguments.json, "cost", found, {"scenarios": arguments.scenarios, "counts": arguments.counts})
    if arguments.plot:
        draw_cost(found, arguments.plot)
        out.print(f"Drawn in {arguments.plot}")
    if arguments.write_budget:
        write_budget(found)
        out.print(f"The budget is written: {BUDGET_FILE}")
        return 0
    budget = read_budget()
    if budget.python != python_version():
        out.print(f"Not compared: the budget is of CPython {budget.python}, and this is {python_version()}")
        return 0
    over = overdrafts(budget, found)
    print_overdrafts(over, out)
    return 1 if over else 0
