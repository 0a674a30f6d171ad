"""`python -m tools.dashboards`: write Grafana's dashboards and Prometheus' rules from the declared metrics."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.dashboards.dashboard_files import files
from tools.dashboards.metric_table import metric_table
from tools.dashboards.objectives import Objectives
from tools.dashboards.runbook import runbook

_OUT = Path("deploy/observability")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.dashboards", description="Write Grafana's dashboards and Prometheus' rules."
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=_OUT,
        metavar="FOLDER",
        help=f"where grafana/dashboards and prometheus/rules are written (default: {_OUT})",
    )
    parser.add_argument(
        "--availability",
        type=_percentage,
        default=0.999,
        metavar="PERCENT",
        help="objective: requests that are not failed by the service (default: 99.9)",
    )
    parser.add_argument(
        "--first-token",
        type=float,
        default=2.5,
        metavar="SECONDS",
        help="objective: streams begin within this time; the bound of one of the histogram's buckets (default: 2.5)",
    )
    parser.add_argument(
        "--first-token-share",
        type=_percentage,
        default=0.95,
        metavar="PERCENT",
        help="objective: so many streams do (default: 95)",
    )
    printed = parser.add_mutually_exclusive_group()
    printed.add_argument("--runbook", action="store_true", help="print what each alert means, in Markdown, instead")
    printed.add_argument("--metrics", action="store_true", help="print every metric, as a table in Markdown, instead")
    return parser


def _percentage(text: str) -> float:
    value = float(text)
    if not 0 < value < 100:
        raise argparse.ArgumentTypeError("must be above 0 and below 100")
    return round(value / 100, 9)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the files, or print what the options ask for; returns the exit status."""
    arguments = _parser().parse_args(argv)
    if arguments.metrics:
        print(metric_table(), end="")
        return 0
    objectives = Objectives(arguments.availability, arguments.first_token, arguments.first_token_share)
    try:
        if arguments.runbook:
            print(runbook(objectives), end="")
            return 0
        made = files(objectives)
        for name, text in made.items():
            path: Path = arguments.out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except ValueError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}")
    print(f"{len(made)} files written to {arguments.out}")
    return 0


def _fail(problem: str) -> int:
    print(f"tools.dashboards: {problem}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
