"""`penstock bench reproduce`: reproduces papers' figures in the simulator and checks their claims."""

import argparse
import sys
from pathlib import Path

from loadtest.cli.bench_outcome import missing_library
from observability.terminal import fail, table

_COMMAND = "bench reproduce"
_FIGURES = ("scalellm-8", "scalellm-9", "deepflow-5", "deepflow-6", "deepflow-8", "amoeba-12", "amoeba-13", "amoeba-14")


def register(benchmarks: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the `reproduce` benchmark."""
    parser = benchmarks.add_parser("reproduce", help="figures of papers, and which of their claims hold here")
    parser.add_argument("figure", choices=_FIGURES, help="paper and number of the figure")
    parser.add_argument("--output", type=Path, metavar="FILE.png", help="draw it here (default: FIGURE.png)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write numbers and claims as JSON")
    parser.add_argument("--markdown", action="store_true", help="print its section of docs/reproductions.md instead")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    try:
        from loadtest.reports.console import progress_bar, write_json
        from loadtest.reproduce.figures import FIGURES
    except ModuleNotFoundError as error:
        return missing_library(error)
    name = arguments.figure
    output: Path = arguments.output or Path(f"{name}.png")
    try:
        with progress_bar() as show:
            found = FIGURES[name](show)
        found.draw(output)
        if arguments.json:
            write_json(arguments.json, name, {"points": found.points, "claims": found.claims}, {"figure": name})
    except ModuleNotFoundError as error:
        return missing_library(error)
    except OSError as error:
        return fail(_COMMAND, str(error))
    if arguments.markdown:
        sys.stdout.write(found.markdown(f"images/{name}.png"))
        return 0
    print(f"{found.title}\n\n{found.setting}\n")
    print("\n".join(table([found.head, *found.rows])), end="\n\n")
    print("\n".join(found.verdicts()), end=f"\n\nDrawn in {output}\n")
    return 0
