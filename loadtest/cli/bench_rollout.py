"""`penstock bench rollout`: how soon bad candidates are rolled back, and how often good ones, in virtual time."""

import argparse
import os
import sys

from loadtest.cli.bench_arguments import count, names, number, output_file
from loadtest.cli.bench_outcome import missing_library, options_as_json
from observability.terminal import fail

_COMMAND = "bench rollout"


def register(benchmarks: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the `rollout` benchmark."""
    parser = benchmarks.add_parser("rollout", help="verdicts on candidates that are good and bad, in virtual time")
    parser.add_argument("--runs", type=count, default=200, metavar="N", help="of each scenario (default: 200)")
    parser.add_argument("--scenarios", type=names, metavar="N,...", help="numbers of scenarios, from 1 (default: all)")
    parser.add_argument("--rate", type=number, default=10.0, metavar="N", help="requests in a second (default: 10)")
    parser.add_argument("--hold", type=number, default=60.0, metavar="N", help="seconds of a stage (default: 60)")
    parser.add_argument("--limit", type=count, default=1200, metavar="N", help="seconds of a run (default: 1200)")
    parser.add_argument("--seed", type=int, default=20261129, metavar="N", help="default: 20261129")
    parser.add_argument("--processes", type=count, metavar="N", help="default: as many as there are cores")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="also write the results as JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    try:
        from loadtest.reports.console import console, new_table, progress_bar, write_json
    except ModuleNotFoundError as error:
        return missing_library(error)
    from loadtest.simulation.rollouts.rollout_report import HEADER, markdown, rows
    from loadtest.simulation.rollouts.rollout_study import Conditions, study
    from loadtest.simulation.rollouts.scenario import SCENARIOS

    if arguments.rate <= 0 or arguments.hold < 0:
        return fail(_COMMAND, "--rate and --hold: expected positive numbers")
    chosen = arguments.scenarios or tuple(str(place) for place in range(1, len(SCENARIOS) + 1))
    if not all(each.isdecimal() and 1 <= int(each) <= len(SCENARIOS) for each in chosen):
        return fail(_COMMAND, f"--scenarios: expected numbers from 1 to {len(SCENARIOS)}")
    conditions = Conditions(rate=arguments.rate, hold=arguments.hold, limit=arguments.limit, seed=arguments.seed)
    processes = arguments.processes or len(os.sched_getaffinity(0))
    scenarios = [SCENARIOS[int(each) - 1] for each in chosen]
    with progress_bar() as show:
        results = list(study(scenarios, arguments.runs, conditions, processes, show))
    if arguments.markdown:
        sys.stdout.write(markdown(results))
    else:
        table = new_table("Rollouts", *HEADER)
        for row in rows(results):
            table.add_row(*row)
        console().print(table)
    if arguments.json:
        try:
            write_json(arguments.json, "rollout", results, options_as_json(arguments))
        except OSError as error:
            return fail(_COMMAND, f"{arguments.json}: {error.strerror}")
    return 0
