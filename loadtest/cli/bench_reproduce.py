"""`penstock bench reproduce`: reproduces papers' figures in the simulator and checks their claims."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from loadtest.cli.bench_arguments import count
from loadtest.cli.bench_outcome import missing_library
from observability.terminal import fail, table

if TYPE_CHECKING:
    from loadtest.reproduce.reproduction import Reproduction, Show

_COMMAND = "bench reproduce"
_FIGURES = ("scalellm-8", "scalellm-9", "deepflow-5", "deepflow-6", "deepflow-8", "amoeba-12", "amoeba-13", "amoeba-14")
#: What a result is of.
_OPTIONS = ("figure", "code_trace", "conversation_trace", "skip")


def register(benchmarks: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the `reproduce` benchmark."""
    parser = benchmarks.add_parser("reproduce", help="figures of papers, and which of their claims hold here")
    parser.add_argument("figure", choices=_FIGURES, help="paper and number of the figure")
    load = parser.add_mutually_exclusive_group()
    load.add_argument(
        "--code-trace",
        type=Path,
        metavar="FILE",
        help="draw Amoeba's figures with these requests, 1 %% of them made long",
    )
    load.add_argument(
        "--conversation-trace", type=Path, metavar="FILE", help="draw them with these requests, which have a long tail"
    )
    parser.add_argument(
        "--skip", type=count, metavar="N", help="leave out the trace's first N requests (default: none)"
    )
    parser.add_argument("--output", type=Path, metavar="FILE.png", help="draw it here (default: FIGURE.png)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write numbers and claims as JSON")
    parser.add_argument("--markdown", action="store_true", help="print its section of docs/reproductions.md instead")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    try:
        from loadtest.reports.console import progress_bar, write_json
    except ModuleNotFoundError as error:
        return missing_library(error)
    name = arguments.figure
    output: Path = arguments.output or Path(f"{name}.png")
    try:
        draw = _figure(arguments)
    except ModuleNotFoundError as error:
        return missing_library(error)
    except ValueError as error:
        return fail(_COMMAND, str(error))
    try:
        with progress_bar() as show:
            found = draw(show)
        found.draw(output)
        if arguments.json:
            options = {key: str(value) for key in _OPTIONS if (value := getattr(arguments, key)) is not None}
            write_json(arguments.json, name, {"points": found.points, "claims": found.claims}, options)
    except ModuleNotFoundError as error:
        return missing_library(error)
    except OSError as error:
        return fail(_COMMAND, str(error))
    if arguments.markdown:
        sys.stdout.write(found.markdown(f"images/{output.name}"))
        return 0
    print(f"{found.title}\n\n{found.setting}\n")
    print("\n".join(table([found.head, *found.rows])), end="\n\n")
    print("\n".join(found.verdicts()), end=f"\n\nDrawn in {output}\n")
    return 0


def _figure(arguments: argparse.Namespace) -> "Callable[[Show], Reproduction]":
    """Return what draws the figure, with the trace read. Raises ValueError with a line for the user."""
    from loadtest.reproduce import amoeba_traces
    from loadtest.reproduce.figures import FIGURES, RECORDED

    name, path, skip = arguments.figure, arguments.code_trace or arguments.conversation_trace, arguments.skip or 0
    if path is None:
        if skip:
            raise ValueError("--skip needs a trace")
        return FIGURES[name]
    if name not in RECORDED:
        raise ValueError(f"{name} is drawn without a trace; with one there are {', '.join(RECORDED)}")
    recorded = (amoeba_traces.code if arguments.code_trace else amoeba_traces.conversations)(path, skip)
    return lambda show: RECORDED[name](recorded, show)
